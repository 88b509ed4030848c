#include "compat/hmc/device_relay.hpp"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <new>
#include <numeric>

#include <hmc/error.hpp>

#include "bootstrap/tcp/service_thread.hpp"

namespace hmc::compat {

using base::Deadline;
using base::Status;
using rma::Endpoint;

namespace {

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

DeviceRelay::DeviceRelay(Peers& peers) : peers_(peers), endpoint_(peers.endpoint()), free_slots_(RelayLayout::slots) {
  std::iota(free_slots_.begin(), free_slots_.end(), std::uint64_t{0});
  thread_ = bootstrap::service_thread("hmc-relay", [this] { run(); });
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
  // A peer that has ended never uses its slot again: its Endpoint number is gone.
  for (auto each = callers_.begin(); each != callers_.end();) {
    if (std::find(connected.begin(), connected.end(), each->first) != connected.end()) {
      ++each;
      continue;
    }
    if (each->second.active) free_slot(each->second.slot);
    each = callers_.erase(each);
  }
  bool happened = false;
  for (const auto& peer : connected) happened = serve(*peer, callers_[peer]) || happened;
  return happened;
}

/// Returns true if something happened.
bool DeviceRelay::serve(const Peer& peer, Caller& caller) {
  if (!caller.active && !accept(peer, caller)) return false;
  bool happened = false;
  const std::uint64_t pieces = endpoint_.word(peer.number, relay_pieces);
  while (caller.done < caller.end) {
    const bool ready = caller.call.is_get ? caller.done < std::max(pieces, caller.begin) + 2 : caller.done < pieces;
    if (!ready) break;
    if (const Status status = copy(caller); !status.ok()) {
      // The peer may still put into its slot, so the slot is freed only when the peer disconnects.
      store(peer, relay_grant, RelayGrant{caller.call.number, RelayGrant::failed}.word());
      caller.end = caller.done;
      return true;
    }
    store(peer, relay_done, ++caller.done);
    happened = true;
  }
  const bool failed = caller.end - caller.begin != RelayLayout::pieces_of(caller.size);
  if (caller.done == caller.end && !failed && (!caller.call.is_get || pieces >= caller.end)) {
    free_slot(caller.slot);
    caller.active = false;
    happened = true;
  }
  return happened;
}

/// Begins the peer's next call, if there is one and a slot is free.
bool DeviceRelay::accept(const Peer& peer, Caller& caller) {
  const RelayCall call = RelayCall::of(endpoint_.word(peer.number, relay_call));
  if (call.number == caller.call.number) return false;
  const std::uint64_t offset = endpoint_.word(peer.number, relay_offset);
  const std::uint64_t size = endpoint_.word(peer.number, relay_size);
  const std::size_t whole = endpoint_.buffer().bytes;
  if (size > whole || offset > whole - size) {
    caller.call = call;
    store(peer, relay_grant, RelayGrant{call.number, RelayGrant::out_of_range}.word());
    return false;
  }
  if (free_slots_.empty()) return false;
  caller.call = call;
  caller.offset = offset;
  caller.size = size;
  caller.slot = free_slots_.front();
  free_slots_.erase(free_slots_.begin());
  caller.active = true;
  caller.begin = caller.end;
  caller.end = caller.begin + RelayLayout::pieces_of(size);
  store(peer, relay_grant, RelayGrant{call.number, caller.slot}.word());
  return true;
}

/// Copies piece `done` between the slot and the device.
Status DeviceRelay::copy(const Caller& caller) noexcept {
  const std::uint64_t piece = caller.done - caller.begin;
  const std::size_t at = piece * RelayLayout::piece_bytes;
  const std::size_t size = std::min(RelayLayout::piece_bytes, caller.size - at);
  const memory::Allocation& buffer = endpoint_.buffer();
  std::byte* const device = buffer.address + caller.offset + at;
  std::byte* const host = endpoint_.exposed().address + RelayLayout::place_of(caller.slot, piece);
  return caller.call.is_get ? buffer.provider->copy_to_host(host, device, size)
                            : buffer.provider->copy_from_host(device, host, size);
}

void DeviceRelay::store(const Peer& peer, std::size_t word, std::uint64_t value) noexcept {
  Endpoint::Transfer transfer;
  const Status status = endpoint_.put_signal(peer.number, 0, nullptr, 0, word, std::span(&value, 1), transfer);
  // On failure the peer has ended, and the next turn forgets it.
  if (status.ok() && !endpoint_.wait(transfer, Deadline::after(std::chrono::seconds(10))).ok())
    endpoint_.abandon(transfer);
}

}  // namespace hmc::compat
