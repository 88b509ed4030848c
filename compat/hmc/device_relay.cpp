#include "compat/hmc/device_relay.hpp"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <new>
#include <set>

#include <hmc/error.hpp>

#include "runtime/control/service_thread.hpp"

namespace hmc::compat {

using base::Deadline;
using base::Status;
using rma::Endpoint;

namespace {

/// Longer than a copy of one piece takes.
constexpr auto slot_rest = std::chrono::seconds(1);

/// The wait after `idle` polls that found nothing.
void rest(unsigned idle) noexcept {
  constexpr unsigned quick_polls = 2000, short_naps = 4000;
  if (idle < quick_polls) {
    ::sched_yield();
    return;
  }
  const timespec nap{0, idle < short_naps ? 50'000 : 1'000'000};
  ::nanosleep(&nap, nullptr);
}

}  // namespace

DeviceRelay::DeviceRelay(Peers& peers) : peers_(peers), endpoint_(peers.endpoint()) {
  for (std::uint64_t slot = 0; slot < RelayLayout::slots; ++slot) free_slots_.push_back({slot, Deadline::after({})});
  thread_ = control::service_thread("hmc-relay", [this] { run(); });
}

DeviceRelay::~DeviceRelay() {
  stopping_.store(true, std::memory_order_relaxed);
  thread_.join();
}

void DeviceRelay::run() noexcept {
  for (unsigned idle = 0; !stopping_.load(std::memory_order_relaxed); ++idle) {
    try {
      if (serve_all()) idle = 0;
    } catch (const std::bad_alloc&) {  // tried again after the pause
    }
    rest(idle);
  }
}

bool DeviceRelay::serve_all() {
  const auto connected = peers_.connected();
  bool happened = false;
  for (const auto& peer : connected) happened = serve(*peer, callers_[peer]) || happened;
  if (callers_.size() == connected.size()) return happened;
  const std::set<std::shared_ptr<Peer>> present(connected.begin(), connected.end());
  std::erase_if(callers_, [&](const auto& each) {
    if (present.contains(each.first)) return false;
    if (each.second.active) free_slots_.push_back({each.second.slot, Deadline::after(slot_rest)});
    return true;
  });
  return happened;
}

/// Returns true if something happened.
bool DeviceRelay::serve(const Peer& peer, Caller& caller) {
  if (!caller.storing.is_complete()) {
    if (endpoint_.test(caller.storing).code == Code::in_progress) return false;
    return true;  // on failure the peer's connection has failed
  }
  if (!caller.active) return accept(peer, caller);
  const std::uint64_t pieces = RelayLayout::pieces_of(caller.size);
  const std::uint64_t moved = endpoint_.word(peer.number, relay_pieces);
  const auto has_moved = [&](std::uint64_t count) { return moved >= relay_count(caller.call.number, count); };
  const bool is_over = caller.done == pieces && (!caller.call.is_get || has_moved(pieces));
  if (endpoint_.word(peer.number, relay_end) >= caller.call.number || (is_over && !caller.failed)) {
    free_slots_.push_back({caller.slot, Deadline::after({})});
    caller.active = false;
    return true;
  }
  if (caller.failed || caller.done == pieces) return false;
  const bool ready = caller.call.is_get ? caller.done < 2 || has_moved(caller.done - 1) : has_moved(caller.done + 1);
  if (!ready) return false;
  if (const Status status = copy(caller); !status.ok()) {
    caller.failed = true;
    store(peer, caller, relay_grant, RelayGrant{caller.call.number, RelayGrant::failed}.word());
    return true;
  }
  store(peer, caller, relay_done, relay_count(caller.call.number, ++caller.done));
  return true;
}

std::optional<std::uint64_t> DeviceRelay::take_slot() {
  const auto found =
      std::find_if(free_slots_.begin(), free_slots_.end(), [](const FreeSlot& each) { return each.usable.expired(); });
  if (found == free_slots_.end()) return std::nullopt;
  const std::uint64_t slot = found->number;
  free_slots_.erase(found);
  return slot;
}

/// Begins the peer's next call, if there is one and a slot is free.
bool DeviceRelay::accept(const Peer& peer, Caller& caller) {
  const RelayCall call = RelayCall::of(endpoint_.word(peer.number, relay_call));
  if (call.number == caller.call.number) return false;
  const std::uint64_t offset = endpoint_.word(peer.number, relay_offset);
  const std::uint64_t size = endpoint_.word(peer.number, relay_size);
  const std::size_t whole = endpoint_.buffer().bytes;
  if (endpoint_.word(peer.number, relay_end) >= call.number) {
    caller.call = call;
    return true;
  }
  if (size > whole || offset > whole - size) {
    caller.call = call;
    store(peer, caller, relay_grant, RelayGrant{call.number, RelayGrant::out_of_range}.word());
    return true;
  }
  const auto slot = take_slot();
  if (!slot) return false;
  caller.call = call;
  caller.offset = offset;
  caller.size = size;
  caller.slot = *slot;
  caller.done = 0;
  caller.failed = false;
  caller.active = true;
  store(peer, caller, relay_grant, RelayGrant{call.number, caller.slot}.word());
  return true;
}

/// Copies piece `done` between the slot and the device.
Status DeviceRelay::copy(const Caller& caller) noexcept {
  const std::uint64_t piece = caller.done;
  const std::size_t at = piece * RelayLayout::piece_bytes;
  const std::size_t size = std::min(RelayLayout::piece_bytes, caller.size - at);
  const memory::Allocation& buffer = endpoint_.buffer();
  std::byte* const device = buffer.address + caller.offset + at;
  std::byte* const host = endpoint_.exposed().address + RelayLayout::place_of(caller.slot, piece);
  return caller.call.is_get ? buffer.provider->copy_to_host(host, device, size)
                            : buffer.provider->copy_from_host(device, host, size);
}

/// Starts the store; serve() waits for it. On failure the peer's connection has failed.
void DeviceRelay::store(const Peer& peer, Caller& caller, std::size_t word, std::uint64_t value) noexcept {
  (void)endpoint_.put_signal(peer.number, 0, nullptr, 0, word, std::span(&value, 1), caller.storing);
}

}  // namespace hmc::compat
