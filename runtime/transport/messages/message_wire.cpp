#include "runtime/transport/messages/message_wire.hpp"

#include <fmt/format.h>

#include <hmc/error.hpp>

#include "runtime/transport/messages/engine.hpp"
#include "runtime/transport/messages/message_channel.hpp"

namespace hmc::transport {

MessageWire::MessageWire(const messages::Options& options, std::unique_ptr<messages::Link> link)
    : name_(link->traits().name), engine_(std::make_unique<messages::Engine>(options, std::move(link))) {}
MessageWire::~MessageWire() = default;

Capabilities MessageWire::capabilities() const noexcept {
  return {.direct = false, .needs_target = true, .put_inline_max = messages::inline_bytes};
}

base::Bytes MessageWire::address() { return engine_->address(); }
void MessageWire::know_peers(std::vector<base::Bytes> addresses) { engine_->know_peers(std::move(addresses)); }

Reach MessageWire::reaches(int peer) const {
  const messages::Peer* const known = engine_->peer(peer);
  if (known == nullptr || known->address.empty()) return {false, fmt::format("that rank has no {} wire", name_)};
  return {true, engine_->link().describe()};
}

base::Bytes MessageWire::expose(const Region& mine) {
  if (mine.type != MemoryType::CPU && mine.type != MemoryType::DEFAULT)
    throw Error(Code::unsupported, name_, "this wire reaches host memory only");
  const messages::Regions::Key region = engine_->expose(mine.base, mine.bytes);
  base::ByteWriter key;
  key.number(region.index).number(region.nonce);
  return key.take();
}

std::vector<std::unique_ptr<Channel>> MessageWire::connect(const Region&, std::span<const base::Bytes> keys,
                                                           std::span<const int> peers, base::Deadline) {
  std::vector<std::unique_ptr<Channel>> channels;
  for (const int peer : peers) {
    const base::Bytes& key = keys[static_cast<std::size_t>(peer)];
    base::ByteReader in(key);
    messages::Regions::Key region;
    region.index = in.number<std::uint64_t>();
    region.nonce = in.number<std::uint64_t>();
    if (!in.complete())
      throw Error(Code::refused, name_, fmt::format("rank {} sent a memory key of {} bytes", peer, key.size()));
    channels.push_back(std::make_unique<messages::MessageChannel>(*engine_, peer, region));
  }
  return channels;
}

void MessageWire::conceal(const Region& mine) noexcept { engine_->conceal(mine.base, mine.bytes); }
bool MessageWire::land(const Region& mine, Landing& landing) noexcept {
  return engine_->land(mine.base, mine.bytes, landing);
}
void MessageWire::unland(const Region& mine, Landing& landing) noexcept {
  engine_->unland(mine.base, mine.bytes, landing);
}
int MessageWire::progress() noexcept { return engine_->progress(); }

void MessageWire::all_left() noexcept { engine_->all_left(); }
base::Status MessageWire::test(Ticket ticket) noexcept { return engine_->test(ticket); }
void MessageWire::abandon(Ticket ticket) noexcept { engine_->abandon(ticket); }
base::Status MessageWire::flush(int peer, Ticket& ticket) noexcept { return engine_->flush(peer, ticket); }

}  // namespace hmc::transport
