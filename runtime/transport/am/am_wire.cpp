#include "runtime/transport/am/am_wire.hpp"

#include <fmt/format.h>

#include <hmc/error.hpp>

#include "runtime/transport/am/am_channel.hpp"
#include "runtime/transport/am/engine.hpp"

namespace hmc::transport {

AmWire::AmWire(const am::Options& options, std::unique_ptr<am::Link> link)
    : name_(link->traits().name), engine_(std::make_unique<am::Engine>(options, std::move(link))) {}
AmWire::~AmWire() = default;

Capabilities AmWire::capabilities() const noexcept {
  return {.direct = false, .needs_target = true, .put_inline_max = am::inline_bytes};
}

base::Bytes AmWire::address() { return engine_->address(); }
void AmWire::know_peers(std::vector<base::Bytes> addresses) { engine_->know_peers(std::move(addresses)); }

Reach AmWire::reaches(int peer) const {
  const am::Peer* const known = engine_->peer(peer);
  if (known == nullptr || known->address.empty()) return {false, fmt::format("that rank has no {} wire", name_)};
  return {true, engine_->link().describe()};
}

base::Bytes AmWire::register_region(const Region& mine) {
  if (mine.type != MemoryType::CPU && mine.type != MemoryType::DEFAULT)
    throw Error(Code::unsupported, name_, "this wire reaches host memory only");
  const am::Regions::Key region = engine_->register_region(mine.base, mine.bytes);
  base::ByteWriter key;
  key.number(region.index).number(region.nonce);
  return key.take();
}

std::vector<std::unique_ptr<Channel>> AmWire::connect(const Region&, std::span<const base::Bytes> keys,
                                                      std::span<const int> peers, base::Deadline) {
  std::vector<std::unique_ptr<Channel>> channels;
  for (const int peer : peers) {
    const base::Bytes& key = keys[static_cast<std::size_t>(peer)];
    base::ByteReader in(key);
    am::Regions::Key region;
    region.index = in.number<std::uint64_t>();
    region.nonce = in.number<std::uint64_t>();
    if (!in.complete())
      throw Error(Code::refused, name_, fmt::format("rank {} sent a memory key of {} bytes", peer, key.size()));
    channels.push_back(std::make_unique<am::AmChannel>(*engine_, peer, region));
  }
  return channels;
}

void AmWire::deregister_region(const Region& mine) noexcept { engine_->deregister_region(mine.base, mine.bytes); }
bool AmWire::receive_into(const Region& mine, DirectReceive& receive) noexcept {
  return engine_->receive_into(mine.base, mine.bytes, receive);
}
void AmWire::end_receive_into(const Region& mine, DirectReceive& receive) noexcept {
  engine_->end_receive_into(mine.base, mine.bytes, receive);
}
int AmWire::progress() noexcept { return engine_->progress(); }

void AmWire::all_left() noexcept { engine_->all_left(); }
base::Status AmWire::test(Ticket ticket) noexcept { return engine_->test(ticket); }
void AmWire::abandon(Ticket ticket) noexcept { engine_->abandon(ticket); }
base::Status AmWire::flush(int peer, Ticket& ticket) noexcept { return engine_->flush(peer, ticket); }

}  // namespace hmc::transport
