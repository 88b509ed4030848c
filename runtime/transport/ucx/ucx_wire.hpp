// The ucx wire: between nodes, by UCX's active messages over whatever network it finds.
#pragma once

#include <memory>
#include <string>

#include "runtime/transport/wire.hpp"
#include "runtime/transport/wires.hpp"

namespace hmc::transport {

namespace ucx {
class Engine;
struct Options;
}  // namespace ucx

/// Every verb is a message that the target's CPU carries out, by the progress thread that starts with
/// the first expose(), or by the rank itself while it waits. Connects on first use; no listener.
/// README.md says why messages and not UCX's own put and get.
class UcxWire final : public Wire {
 public:
  /// Loads UCX. Throws Error{unavailable} where it can't be had or finds no network.
  explicit UcxWire(const ucx::Options& options);
  /// Closes its connections; bounded by two seconds if peers are gone.
  ~UcxWire() override;

  std::string_view name() const noexcept override { return "ucx"; }
  Capabilities capabilities() const noexcept override;
  base::Bytes address() override;
  void know_peers(std::vector<base::Bytes> addresses) override;
  Reach reaches(int peer) const override;
  base::Bytes expose(const Region& mine) override;
  std::vector<std::unique_ptr<Channel>> connect(const Region& mine, std::span<const base::Bytes> keys,
                                                std::span<const int> peers, base::Deadline deadline) override;
  void conceal(const Region& mine) noexcept override;

  int progress() noexcept override;
  base::Status test(Ticket ticket) noexcept override;
  /// Waits for the peer to take what the network holds of a put, a second at most; then cuts it off.
  void abandon(Ticket ticket) noexcept override;
  /// Messages to one peer are carried out in the order in which they were sent, so nothing is to do.
  base::Status fence() noexcept override { return {}; }
  base::Status flush(int peer, Ticket& ticket) noexcept override;
  void all_left() noexcept override;
  ucx::Engine& engine() noexcept { return *engine_; }  ///< for tests of what lies below

 private:
  std::unique_ptr<ucx::Engine> engine_;
};

/// As the job needs it: ranks of one machine don't take UCX's shared memory for a network.
std::unique_ptr<Wire> make_ucx_wire(const WireContext& context);
/// The version found, or why there is none; loads UCX.
std::string ucx_description();

}  // namespace hmc::transport
