#include "runtime/transport/ucx/ucx_wire.hpp"

#include <fmt/format.h>

#include <hmc/error.hpp>

#include "runtime/transport/ucx/engine.hpp"
#include "runtime/transport/ucx/library.hpp"
#include "runtime/transport/ucx/ucx_channel.hpp"

namespace hmc::transport {

UcxWire::UcxWire(const ucx::Options& options) : engine_(std::make_unique<ucx::Engine>(options)) {}
UcxWire::~UcxWire() = default;

std::unique_ptr<Wire> make_ucx_wire(const WireContext& context) {
  ucx::Options options;
  options.rank = context.rank;
  options.size = context.size;
  options.waiter = context.waiter;
  if (context.log != nullptr) options.log = *context.log;
  if (context.one_machine) options.transports = "^sm";
  return std::make_unique<UcxWire>(options);
}

std::string ucx_description() { return ucx::Library::describe(); }

Capabilities UcxWire::capabilities() const noexcept {
  return {.direct = false, .needs_target = true, .put_inline_max = ucx::inline_bytes};
}

base::Bytes UcxWire::address() { return engine_->address(); }
void UcxWire::know_peers(std::vector<base::Bytes> addresses) { engine_->know_peers(std::move(addresses)); }

Reach UcxWire::reaches(int peer) const {
  const ucx::Peer* const known = engine_->peer(peer);
  if (known == nullptr || known->address.empty()) return {false, "that rank has no UCX"};
  return {true, fmt::format("messages by UCX {} (transports {})", ucx::Library::get().ucp_get_version_string(),
                            engine_->transports())};
}

base::Bytes UcxWire::expose(const Region& mine) {
  if (mine.type != MemoryType::CPU && mine.type != MemoryType::DEFAULT)
    throw Error(Code::unsupported, "ucx", "this wire reaches host memory only");
  const ucx::Regions::Key region = engine_->expose(mine.base, mine.bytes);
  base::ByteWriter key;
  key.number(region.index).number(region.nonce);
  return key.take();
}

std::vector<std::unique_ptr<Channel>> UcxWire::connect(const Region&, std::span<const base::Bytes> keys,
                                                       std::span<const int> peers, base::Deadline) {
  std::vector<std::unique_ptr<Channel>> channels;
  for (const int peer : peers) {
    const base::Bytes& key = keys[static_cast<std::size_t>(peer)];
    base::ByteReader in(key);
    ucx::Regions::Key region;
    region.index = in.number<std::uint64_t>();
    region.nonce = in.number<std::uint64_t>();
    if (!in.complete())
      throw Error(Code::refused, "ucx", fmt::format("rank {} sent a memory key of {} bytes", peer, key.size()));
    channels.push_back(std::make_unique<UcxChannel>(*engine_, peer, region));
  }
  return channels;
}

void UcxWire::conceal(const Region& mine) noexcept { engine_->conceal(mine.base, mine.bytes); }
int UcxWire::progress() noexcept { return engine_->progress(); }

void UcxWire::all_left() noexcept { engine_->all_left(); }
base::Status UcxWire::test(Ticket ticket) noexcept { return engine_->test(ticket); }
void UcxWire::abandon(Ticket ticket) noexcept { engine_->abandon(ticket); }
base::Status UcxWire::flush(int peer, Ticket& ticket) noexcept { return engine_->flush(peer, ticket); }

}  // namespace hmc::transport
