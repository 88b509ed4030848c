#include "bootstrap/tcp/shared_store.hpp"

#include <utility>

#include <hmc/error.hpp>

#include "runtime/base/env.hpp"
#include "runtime/base/outage.hpp"

namespace hmc::bootstrap {

SharedStore::SharedStore(control::PeerLoop& loop)
    : loop_(loop),
      lost_host_s_(base::Env::lost_host_s()),
      values_(*this, {}),
      rounds_(*this),
      ranks_(*this),
      groups_(*this) {}

template <typename Message> void SharedStore::send(StoreOwner to, const Message& message) {
  const auto found = clients_.find(to);
  if (found == clients_.end() || found->second.peer->dropped) return;
  Client& client = found->second;
  client.peer->connection.send(message);
  const bool is_behind = client.peer->connection.unsent_bytes() > most_unread_bytes;
  const std::uint64_t sent = client.peer->connection.sent_bytes();
  if (!is_behind || sent != std::exchange(client.sent_bytes, sent))
    client.reads_by = base::Deadline::after(reads_within);
  if (client.reads_by.expired()) loop_.drop(*client.peer);
}

void SharedStore::on_frame(control::Peer& from, const control::Frame& frame) {
  const auto call = decode<StoreCall>(frame);
  const auto known = owners_.find(&from);
  if (!call || (known == owners_.end()) != (call->op == StoreOp::hello)) return loop_.drop(from);
  if (known != owners_.end()) return handle(known->second, *call);
  base::detect_lost_host(from.connection.fd(), lost_host_s_);
  owners_[&from] = ++last_owner_;
  clients_[last_owner_].peer = &from;
  ok(last_owner_, call->id);
}

void SharedStore::handle(StoreOwner owner, const StoreCall& call) {
  if (call.op == StoreOp::cancel) {
    const auto id = static_cast<std::uint64_t>(call.number);
    if (!values_.cancel(owner, id)) (void)rounds_.cancel(owner, id);
    return;
  }
  if (call.op == StoreOp::unwatch) ranks_.unwatch(owner, static_cast<std::uint64_t>(call.number));
  const bool known = values_.handle(owner, call) || rounds_.handle(owner, call) || ranks_.handle(owner, call) ||
                     groups_.handle(owner, call);
  if (!known) fail(owner, call.id, Code::invalid_argument, "unknown call");
}

/// Large answers follow one another, so that few of them are in memory at once.
int SharedStore::on_turn() {
  const auto unsent_bytes = [&] {
    std::size_t sum = 0;
    for (const auto& [owner, client] : clients_)
      if (!client.peer->dropped) sum += client.peer->connection.unsent_bytes();
    return sum;
  };
  while (rounds_.owes() && unsent_bytes() < SharedRounds::most_at_once) rounds_.deliver();
  if (!rounds_.owes()) return -1;
  for (auto& [owner, client] : clients_) {  // one that reads nothing delays the others
    const control::Connection& connection = client.peer->connection;
    const std::uint64_t sent = std::exchange(client.sent_bytes, connection.sent_bytes());
    if (connection.unsent_bytes() == 0 || sent != client.sent_bytes)
      client.reads_by = base::Deadline::after(reads_within);
    else if (client.reads_by.expired() && !client.peer->dropped)
      loop_.drop(*client.peer);
  }
  return 100;
}

void SharedStore::on_end(control::Peer& peer) {
  const auto known = owners_.find(&peer);
  if (known == owners_.end()) return;
  const StoreOwner owner = known->second;
  owners_.erase(known);
  clients_.erase(owner);
  values_.forget(owner);
  rounds_.forget(owner);
  ranks_.forget(owner);
  groups_.forget(owner);
}

}  // namespace hmc::bootstrap
