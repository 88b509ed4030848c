// MessageWire: a wire whose every verb is a message, over whatever link carries them.
#pragma once

#include <memory>
#include <string>

#include "runtime/transport/messages/link.hpp"
#include "runtime/transport/wire.hpp"

namespace hmc::transport {

namespace messages {
class Engine;
struct Options;
}  // namespace messages

/// The target's CPU carries every verb out, by the progress thread that starts with the first expose(), or by the rank
/// itself while it waits. Connects on first use. README.md says what holds.
class MessageWire final : public Wire {
 public:
  MessageWire(const messages::Options& options, std::unique_ptr<messages::Link> link);
  /// Closes its connections; bounded by two seconds if peers are gone.
  ~MessageWire() override;

  std::string_view name() const noexcept override { return name_; }
  Capabilities capabilities() const noexcept override;
  base::Bytes address() override;
  void know_peers(std::vector<base::Bytes> addresses) override;
  Reach reaches(int peer) const override;
  base::Bytes expose(const Region& mine) override;
  std::vector<std::unique_ptr<Channel>> connect(const Region& mine, std::span<const base::Bytes> keys,
                                                std::span<const int> peers, base::Deadline deadline) override;
  void conceal(const Region& mine) noexcept override;

  bool land(const Region& mine, Landing& landing) noexcept override;
  void unland(const Region& mine, Landing& landing) noexcept override;
  int progress() noexcept override;
  base::Status test(Ticket ticket) noexcept override;
  /// Waits for the peer to take what the link holds of a put, a second at most; then cuts it off.
  void abandon(Ticket ticket) noexcept override;
  /// Messages to one peer are carried out in the order in which they were sent, so nothing is to do.
  base::Status fence() noexcept override { return {}; }
  base::Status flush(int peer, Ticket& ticket) noexcept override;
  void all_left() noexcept override;
  messages::Engine& engine() noexcept { return *engine_; }  ///< for tests of what lies below

 private:
  std::string name_;
  std::unique_ptr<messages::Engine> engine_;
};

}  // namespace hmc::transport
