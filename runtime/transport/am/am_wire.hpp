// AmWire: a wire whose every verb is a message, over whatever link carries them.
#pragma once

#include <memory>
#include <string>

#include "runtime/transport/am/link.hpp"
#include "runtime/transport/wire.hpp"

namespace hmc::transport {

namespace am {
class Engine;
struct Options;
}  // namespace am

/// The target's CPU carries every verb out, by the progress thread that starts with the first register_region(), or by
/// the rank itself while it waits. Connects on first use. README.md says what holds.
class AmWire final : public Wire {
 public:
  AmWire(const am::Options& options, std::unique_ptr<am::Link> link);
  /// Closes its connections; bounded by two seconds if peers are gone.
  ~AmWire() override;

  std::string_view name() const noexcept override { return name_; }
  Capabilities capabilities() const noexcept override;
  base::Bytes address() override;
  void know_peers(std::vector<base::Bytes> addresses) override;
  Reach reaches(int peer) const override;
  base::Bytes register_region(const Region& mine) override;
  std::vector<std::unique_ptr<Channel>> connect(const Region& mine, std::span<const base::Bytes> keys,
                                                std::span<const int> peers, base::Deadline deadline) override;
  void deregister_region(const Region& mine) noexcept override;

  bool receive_into(const Region& mine, DirectReceive& receive) noexcept override;
  void end_receive_into(const Region& mine, DirectReceive& receive) noexcept override;
  int progress() noexcept override;
  base::Status test(Ticket ticket) noexcept override;
  /// Waits for the peer to take what the link holds of a put, a second at most; then cuts it off.
  void abandon(Ticket ticket) noexcept override;
  /// Messages to one peer are carried out in the order in which they were sent, so nothing is to do.
  base::Status fence() noexcept override { return {}; }
  base::Status flush(int peer, Ticket& ticket) noexcept override;
  void all_left() noexcept override;
  am::Engine& engine() noexcept { return *engine_; }  ///< for tests of what lies below

 private:
  std::string name_;
  std::unique_ptr<am::Engine> engine_;
};

}  // namespace hmc::transport
