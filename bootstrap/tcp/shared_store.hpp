// SharedStore: the server of <hmc/store.hpp> on the connections of a PeerLoop. The job's StoreServer has one, and so
// has each hmc::StoreService.
#pragma once

#include <map>
#include <string>

#include "bootstrap/tcp/shared_groups.hpp"
#include "bootstrap/tcp/shared_rounds.hpp"
#include "bootstrap/tcp/shared_values.hpp"
#include "runtime/control/peer_loop.hpp"

namespace hmc::bootstrap {

/// The values stay until the destructor; everything else of a client ends with its connection. Only the loop's thread.
class SharedStore final : private StoreSink {
 public:
  explicit SharedStore(control::PeerLoop& loop);
  /// True if the frame is a client's.
  static bool serves(MessageType type) noexcept { return type == MessageType::store_call; }
  void on_frame(control::Peer& from, const control::Frame& frame);
  /// As PeerLoop::Handler::on_turn.
  int on_turn();
  /// Does nothing if the peer isn't a client.
  void on_end(control::Peer& peer);
  bool has(const control::Peer& peer) const noexcept { return owners_.contains(&peer); }

  /// A client that reads nothing for a time is disconnected if it leaves more than this unread, or if large answers to
  /// others wait for its.
  static constexpr std::size_t most_unread_bytes = std::size_t{256} << 20;
  static constexpr std::chrono::seconds reads_within{10};

 private:
  void handle(StoreOwner owner, const StoreCall& call);
  void answer(StoreOwner to, const StoreAnswer& answer) override { send(to, answer); }
  void event(StoreOwner to, const StoreEvent& event) override { send(to, event); }
  template <typename Message> void send(StoreOwner to, const Message& message);

  control::PeerLoop& loop_;
  int lost_host_s_;
  StoreOwner last_owner_ = 0;
  std::map<const control::Peer*, StoreOwner> owners_;
  struct Client {
    control::Peer* peer = nullptr;
    std::uint64_t sent_bytes = 0;  ///< when it was seen to read last
    base::Deadline reads_by = base::Deadline::after(reads_within);
  };
  std::map<StoreOwner, Client> clients_;
  SharedValues values_;
  SharedRounds rounds_;
  SharedRanks ranks_;
  SharedGroups groups_;
};

}  // namespace hmc::bootstrap
