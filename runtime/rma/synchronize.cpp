// Signals, atomics, fence and flush.
#include "runtime/base/fences.hpp"
#include "runtime/rma/device_access.hpp"
#include "runtime/rma/window_core.hpp"
#include "runtime/transport/load_store.hpp"

namespace hmc::rma {

using transport::load_signal;
using transport::Ticket;

void WindowCore::put_signal(int rank, std::uint64_t offset, const void* source, std::size_t bytes,
                            std::uint64_t signal_offset, std::uint64_t value) {
  const WindowPeer& peer = check("put_signal", rank, offset, source, bytes);
  check_word("put_signal", rank, signal_offset, 8);
  if (peer.direct != nullptr) [[likely]] {
    store("put_signal", peer, offset, source, bytes);
    transport::store_signal(peer.direct + signal_offset, value);
    note_put(peer);
    return;
  }
  if (bytes > 0 && must_stage("put_signal", peer, source)) {
    devices().put_staged("put_signal", rank, offset, source, bytes);
    fence();
    return put_signal(rank, 0, nullptr, 0, signal_offset, value);
  }
  const CallSite call{"put_signal", peer.world, offset, bytes, true};
  Ticket ticket = transport::done;
  require(*fabric_, peer.channel->put_signal(offset, source, bytes, signal_offset, value, ticket), call);
  ++fabric_->counters.puts_wire;
  wait_ticket(peer, ticket, call, base::Activity::put);
}

std::uint64_t WindowCore::wait_until(std::uint64_t offset, Cmp compare, std::uint64_t value, Timeout timeout) {
  check_word("wait_until", rank_, offset, 8);
  require_comparison("wait_until", offset, compare);
  if (on_device_) [[unlikely]]
    return devices_->wait_until(offset, compare, value, timeout);
  std::byte* const word = region_.base + offset;
  std::uint64_t seen = 0;
  const auto ready = [&]() noexcept {
    seen = load_signal(word);
    return holds(seen, compare, value);
  };
  const base::Status status = fabric_->waiter.until({base::Activity::wait_until}, ready, fabric_->resolve(timeout));
  if (!status.ok()) [[unlikely]]
    throw_wait(status, offset, compare, value, seen);
  return seen;
}

bool WindowCore::test_until(std::uint64_t offset, Cmp compare, std::uint64_t value) {
  check_word("test_until", rank_, offset, 8);
  if (on_device_) [[unlikely]] {
    require_comparison("test_until", offset, compare);
    return devices_->test_until(offset, compare, value);
  }
  if (holds(load_signal(region_.base + offset), compare, value)) return true;
  require_comparison("test_until", offset, compare);  // checked only here: an invalid comparison is never true above
  drive_wires();
  if (holds(load_signal(region_.base + offset), compare, value)) return true;
  // Report a rank's failure or an abort to a caller that polls and never waits.
  require(*fabric_, fabric_->waiter.page().aborted(), {"test_until", -1, offset, 8, true});
  return false;
}

std::uint64_t WindowCore::atomic(const char* operation, const transport::Atomic& atomic, int rank,
                                 std::uint64_t offset) {
  const WindowPeer& peer = check_word(operation, rank, offset, atomic.width);
  if (peer.direct != nullptr) [[likely]] {
    const std::uint64_t old = transport::apply_atomic(atomic, peer.direct + offset);
    fabric_->waiter.ring(peer.local_index);
    return old;
  }
  const CallSite call{operation, peer.world, offset, atomic.width, true};
  Ticket ticket = transport::done;
  std::uint64_t result = 0;
  ++fabric_->to_flush.atomics;
  require(*fabric_, peer.channel->atomic(atomic, offset, &result, ticket), call);
  wait_ticket(peer, ticket, call, base::Activity::atomic);
  return result;
}

void WindowCore::fence() {
  if (!is_open()) [[unlikely]]
    refuse_closed("fence");
  base::store_fence();
  for (const int wire : wires_in_use_)
    require(*fabric_, fabric_->wires[static_cast<std::size_t>(wire)]->fence(), {"fence"});
  if (has_devices_) [[unlikely]]
    devices_->flush("fence", -1, job_timeout);  // a device's later copies aren't ordered after them
}

void WindowCore::flush(int rank, Timeout timeout) {
  const WindowPeer& target = peer("flush", rank);
  if (target.direct != nullptr) {
    base::full_fence();
    return;
  }
  if (!is_open()) [[unlikely]]
    refuse_closed("flush");
  if (has_devices_) [[unlikely]]
    devices_->flush("flush", rank, timeout);
  flush_wire(target.wire, target.world, timeout);
}

void WindowCore::flush_all(Timeout timeout) {
  if (!is_open()) [[unlikely]]
    refuse_closed("flush");
  base::full_fence();
  if (has_devices_) [[unlikely]]
    devices_->flush("flush", -1, timeout);
  for (const int wire : wires_in_use_) flush_wire(wire, -1, timeout);
}

void WindowCore::flush_wire(int wire_index, int world, Timeout timeout) {
  transport::Wire& wire = *fabric_->wires[static_cast<std::size_t>(wire_index)];
  Ticket ticket = transport::done;
  require(*fabric_, wire.flush(world, ticket), {"flush", world});
  require(*fabric_,
          fabric_->tickets.finish(wire_index, ticket, {base::Activity::flush, world}, fabric_->resolve(timeout)),
          {"flush", world});
}

void WindowCore::wait_ticket(const WindowPeer& peer, Ticket ticket, const CallSite& call, base::Activity activity) {
  require(*fabric_, fabric_->tickets.finish(peer.wire, ticket, {activity, call.peer}, fabric_->timeout), call);
}

}  // namespace hmc::rma
