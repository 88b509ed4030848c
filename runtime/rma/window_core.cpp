// The verbs of a window, its close, and the error texts of invalid arguments.
#include "runtime/rma/window_core.hpp"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>

#include "runtime/base/fences.hpp"
#include "runtime/rma/device_access.hpp"
#include "runtime/rma/operation_scope.hpp"

namespace hmc::rma {

using transport::load_signal;
using transport::Ticket;

namespace {

/// Executes many transfers on one wire, with a bounded number in flight. If one fails, the transfers in flight are
/// abandoned.
class Pipeline {
 public:
  Pipeline(transport::Wire& wire) noexcept : wire_(wire) {}
  ~Pipeline() {
    for (; begin_ < end_; ++begin_) wire_.abandon(flight_[begin_ % flight_.size()]);
  }
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  template <typename Issue, typename Wait> void run(std::size_t count, Issue&& issue, Wait&& wait) {
    while (end_ < count) {
      if (end_ - begin_ == flight_.size()) wait_first(wait);
      const Ticket ticket = issue(end_);
      flight_[end_++ % flight_.size()] = ticket;
    }
    while (begin_ < end_) wait_first(wait);
  }

 private:
  template <typename Wait> void wait_first(Wait& wait) {
    const Ticket first = flight_[begin_++ % flight_.size()];  // a failed wait abandons it
    wait(first);
  }

  transport::Wire& wire_;
  std::array<Ticket, 64> flight_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

const void* local_of(const Put& put) noexcept { return put.source; }
void* local_of(const Get& get) noexcept { return get.destination; }

/// An invalid argument of a verb.
Error argument_error(const Reach& reach, Code code, const char* operation, int rank, std::uint64_t offset,
                     std::uint64_t bytes, std::string message) {
  ErrorDetail detail;
  detail.code = code;
  detail.operation = operation;
  detail.rank = reach.rank;
  detail.peer = rank;
  detail.offset = offset;
  detail.size = bytes;
  detail.has_extent = true;
  detail.message = std::move(message);
  return Error(std::move(detail));
}

}  // namespace

WindowResources::WindowResources(std::shared_ptr<Fabric> of) noexcept : fabric(std::move(of)) {}

WindowResources::~WindowResources() {
  retire_part();
  release_part();
}

void WindowResources::retire_part() noexcept {
  disconnect();
  // Without close() the peers may still access the part.
  for (; registered > 0; --registered) fabric->wires[registered - 1]->retire_region(registered_region);
}

void WindowResources::disconnect() noexcept {
  peers.clear();
  if (devices != nullptr) {
    devices->drop_handles();
    devices->unmap();
  }
  channels.clear();
}

void WindowResources::release_part() noexcept {
  on_device = has_devices = false;
  devices.reset();
  for (; registered > 0; --registered) fabric->wires[registered - 1]->deregister_region(registered_region);
  region = registered_region = {};
  allocation.reset();
}

WindowCore::WindowCore(TeamCore& team, Role role)
    : own_(team.shared_fabric()),
      abort_word_(own_.fabric->waiter.page().abort_word()),
      team_(team.is_world() ? nullptr : &team),
      rank_(team.rank()),
      role_(role) {
  if (team_ != nullptr && role == Role::user) keeps_team_ = team.shared_from_this();
}

WindowCore::~WindowCore() {
  if (open_ && keeps_team_ != nullptr) --keeps_team_->open_windows;
  fabric().windows.remove(*this);
}

void WindowCore::close() {
  if (!is_open()) refuse_closed("Window::close");
  const OperationScope user(fabric(), "Window::close", base::SetupCall::window_close, id_);
  flush_all(job_timeout);
  if (own_.devices != nullptr) {
    own_.devices->drop_handles();
    own_.devices->close_context();
  }
  std::exception_ptr unheard;
  if (!fabric().closed())
    unheard = barrier_before_close(fabric(), exchange());  // afterwards no peer accesses this part
  // After a failure the barrier used the control plane. In this case has_failed() is true on all ranks, including those
  // that had reported the failure before.
  if (role_ == Role::user && !fabric().closed() && unheard == nullptr && !exchange().has_failed())
    unheard = allocator_.compare(fabric(), exchange(), team_, id_);
  // The barrier itself may have put into this window. These puts must complete before the channels are destroyed.
  if (team_ != nullptr) flush_all(job_timeout);
  open_ = false;
  if (keeps_team_ != nullptr) --keeps_team_->open_windows;
  own_.disconnect();
  fabric().windows.remove(*this);
  // Device memory may be freed only after all peers have unmapped it.
  if (own_.has_devices && !fabric().closed()) unheard = barrier_before_close(fabric(), exchange(), std::move(unheard));
  own_.release_part();
  if (unheard != nullptr) std::rethrow_exception(unheard);
}

std::shared_ptr<memory::Allocation> WindowCore::retire() {
  if (std::exchange(open_, false) && keeps_team_ != nullptr) --keeps_team_->open_windows;
  own_.retire_part();
  own_.devices.reset();
  fabric().windows.remove(*this);
  return own_.allocation;
}

DeviceAccess& WindowCore::devices() {
  if (own_.devices == nullptr) {
    if (fabric().devices == nullptr)
      throw Error(Code::unsupported, fabric().operation.name(), "this job has no access to device memory");
    own_.devices = fabric().devices->access(*this);
  }
  return *own_.devices;
}

Path WindowCore::path(int rank) {
  const WindowPeer& to = peer("Window::path", rank);
  return own_.has_devices ? own_.devices->path(rank) : fabric().peer(to.world).path;
}

// ---- transfers

template <WindowCore::Direction direction>
void WindowCore::copy_with_devices(const char* operation, const WindowPeer& peer, std::uint64_t offset,
                                   Local<direction> local, std::size_t bytes) {
  const bool by_host = memory::is_host_accessible(local);
  if constexpr (direction == Direction::put) {
    if (by_host) return transport::store_bytes(peer.direct + offset, local, bytes);
    devices().copy_in(operation, peer, offset, local, bytes);
  } else {
    if (by_host) return transport::load_bytes(local, peer.direct + offset, bytes);
    devices().copy_out(operation, peer, offset, local, bytes);
  }
}

template <WindowCore::Direction direction>
void WindowCore::stage(const char* operation, int rank, std::uint64_t offset, Local<direction> local,
                       std::size_t bytes) {
  if constexpr (direction == Direction::put)
    devices().put_staged(operation, rank, offset, local, bytes);
  else
    devices().get_staged(operation, rank, offset, local, bytes);
}

template <WindowCore::Direction direction>
Ticket WindowCore::start(const WindowPeer& peer, Local<direction> local, const CallSite& call) {
  Ticket ticket = transport::done;
  if constexpr (direction == Direction::put)
    require(fabric(), peer.channel->put(call.offset, local, call.size, ticket), call);
  else
    require(fabric(), peer.channel->get(call.offset, local, call.size, ticket), call);
  return ticket;
}

template <WindowCore::Direction direction>
void WindowCore::transfer_far(const WindowPeer& peer, int rank, std::uint64_t offset, Local<direction> local,
                              std::size_t bytes) {
  constexpr bool puts = direction == Direction::put;
  const CallSite call{puts ? "put" : "get", peer.world, offset, bytes, true};
  if (must_stage(call.operation, peer, local)) return stage<direction>(call.operation, rank, offset, local, bytes);
  const Ticket ticket = start<direction>(peer, local, call);
  if (puts) fabric().note_wire_put();
  wait_ticket(peer, ticket, call, puts ? base::Activity::put : base::Activity::get);
}

template void WindowCore::transfer_far<WindowCore::Direction::put>(const WindowPeer&, int, std::uint64_t, const void*,
                                                                   std::size_t);
template void WindowCore::transfer_far<WindowCore::Direction::get>(const WindowPeer&, int, std::uint64_t, void*,
                                                                   std::size_t);
template void WindowCore::copy_with_devices<WindowCore::Direction::put>(const char*, const WindowPeer&, std::uint64_t,
                                                                        const void*, std::size_t);
template void WindowCore::copy_with_devices<WindowCore::Direction::get>(const char*, const WindowPeer&, std::uint64_t,
                                                                        void*, std::size_t);

template <WindowCore::Direction direction>
Request WindowCore::transfer_nb(const char* operation, int rank, std::uint64_t offset, Local<direction> local,
                                std::size_t bytes) {
  constexpr bool puts = direction == Direction::put;
  const WindowPeer& peer = check(operation, rank, offset, local, bytes);
  if (peer.direct != nullptr) [[likely]] {
    copy<direction>(operation, peer, offset, local, bytes);
    if (puts) note_direct_put(peer);
    return Request(operation, peer.world);
  }
  if (must_stage(operation, peer, local)) {
    stage<direction>(operation, rank, offset, local, bytes);
    return Request(operation, peer.world);
  }
  if (peer.on_device) {
    if constexpr (puts)
      return own_.devices->put_nb(rank, offset, local, bytes);
    else
      return own_.devices->get_nb(rank, offset, local, bytes);
  }
  const Ticket ticket = start<direction>(peer, local, {operation, peer.world, offset, bytes, true});
  if (puts) fabric().note_wire_put();
  if (ticket == transport::done) return Request(operation, peer.world);
  return Request(weak_from_this(), peer.wire, ticket, operation, peer.world);
}

Request WindowCore::put_nb(int rank, std::uint64_t offset, const void* source, std::size_t bytes) {
  return transfer_nb<Direction::put>("put_nb", rank, offset, source, bytes);
}

Request WindowCore::get_nb(int rank, std::uint64_t offset, void* destination, std::size_t bytes) {
  return transfer_nb<Direction::get>("get_nb", rank, offset, destination, bytes);
}

/// Transfers `count` pieces. `one_buffer`: the local sides of all pieces are in the same memory.
template <WindowCore::Direction direction, typename PieceAt>
void WindowCore::transfer_pieces(const char* operation, const WindowPeer& peer, int rank, std::size_t count,
                                 bool one_buffer, PieceAt piece_at) {
  constexpr bool puts = direction == Direction::put;
  if (peer.direct != nullptr) {
    for (std::size_t i = 0; i < count; ++i) {
      const auto piece = piece_at(i);
      copy<direction>(operation, peer, piece.offset, local_of(piece), piece.bytes);
    }
    if (puts) note_direct_put(peer);
    return;
  }
  if (peer.channel == nullptr) [[unlikely]]
    refuse(operation, rank_, 0, nullptr, 0);  // no pieces, in a child of fork()
  bool stages = false;
  if (puts) fabric().note_wire_put();
  Pipeline(*fabric().wires[static_cast<std::size_t>(peer.wire)])
      .run(
          count,
          [&](std::size_t i) -> Ticket {
            const auto piece = piece_at(i);
            if (i == 0 || !one_buffer) stages = must_stage(operation, peer, local_of(piece));
            if (!stages)
              return start<direction>(peer, local_of(piece), {operation, peer.world, piece.offset, piece.bytes, true});
            stage<direction>(operation, rank, piece.offset, local_of(piece), piece.bytes);
            return transport::done;
          },
          [&](Ticket ticket) {
            wait_ticket(peer, ticket, {operation, peer.world}, puts ? base::Activity::put : base::Activity::get);
          });
}

const WindowPeer& WindowCore::check_strided(const char* operation, int rank, std::uint64_t offset, const void* local,
                                            const Strides& strides) const {
  if (strides.rows == 0 || strides.row_bytes == 0) return check(operation, rank, offset, local, 0);
  if (strides.local_pitch < strides.row_bytes || strides.remote_pitch < strides.row_bytes) {
    throw argument_error(fabric(), Code::invalid_argument, operation, peer(operation, rank).world, offset,
                         strides.row_bytes,
                         fmt::format("a pitch ({} local, {} remote) is shorter than a row of {} bytes",
                                     strides.local_pitch, strides.remote_pitch, strides.row_bytes));
  }
  std::size_t extent = 0;
  const bool wraps = __builtin_mul_overflow(strides.rows - 1, strides.remote_pitch, &extent) ||
                     __builtin_add_overflow(extent, strides.row_bytes, &extent);
  return check(operation, rank, offset, local, wraps ? SIZE_MAX : extent);
}

void WindowCore::put_strided(int rank, std::uint64_t offset, const void* source, const Strides& strides) {
  const WindowPeer& peer = check_strided("put_strided", rank, offset, source, strides);
  if (strides.rows == 0 || strides.row_bytes == 0) return;
  if (peer.on_device) return own_.devices->put_strided(rank, offset, source, strides);
  const auto* const local = static_cast<const std::byte*>(source);
  transfer_pieces<Direction::put>("put_strided", peer, rank, strides.rows, true, [=](std::size_t row) {
    return Put{offset + row * strides.remote_pitch, local + row * strides.local_pitch, strides.row_bytes};
  });
}

void WindowCore::get_strided(int rank, std::uint64_t offset, void* destination, const Strides& strides) {
  const WindowPeer& peer = check_strided("get_strided", rank, offset, destination, strides);
  if (strides.rows == 0 || strides.row_bytes == 0) return;
  if (peer.on_device) return own_.devices->get_strided(rank, offset, destination, strides);
  auto* const local = static_cast<std::byte*>(destination);
  transfer_pieces<Direction::get>("get_strided", peer, rank, strides.rows, true, [=](std::size_t row) {
    return Get{offset + row * strides.remote_pitch, local + row * strides.local_pitch, strides.row_bytes};
  });
}

void WindowCore::put_batch(int rank, std::span<const Put> puts) {
  // Check all entries before any transfer, so that an invalid batch has no effect.
  for (const Put& put : puts) check("put_batch", rank, put.offset, put.source, put.bytes);
  const WindowPeer& peer = check("put_batch", rank, 0, nullptr, 0);
  transfer_pieces<Direction::put>("put_batch", peer, rank, puts.size(), false,
                                  [puts](std::size_t i) { return puts[i]; });
}

void WindowCore::get_batch(int rank, std::span<const Get> gets) {
  for (const Get& get : gets) check("get_batch", rank, get.offset, get.destination, get.bytes);
  const WindowPeer& peer = check("get_batch", rank, 0, nullptr, 0);
  transfer_pieces<Direction::get>("get_batch", peer, rank, gets.size(), false,
                                  [gets](std::size_t i) { return gets[i]; });
}

// ---- signals, atomics, fence and flush

void WindowCore::put_signal(int rank, std::uint64_t offset, const void* source, std::size_t bytes,
                            std::uint64_t signal_offset, std::uint64_t value) {
  const WindowPeer& peer = check("put_signal", rank, offset, source, bytes);
  if (!contains(peer, signal_offset, 8) || signal_offset % 8 != 0) [[unlikely]]
    refuse("put_signal", rank, signal_offset, this, 8);
  if (peer.direct != nullptr) [[likely]] {
    copy<Direction::put>("put_signal", peer, offset, source, bytes);
    transport::store_signal(peer.direct + signal_offset, value);
    note_direct_put(peer);
    return;
  }
  if (bytes > 0 && must_stage("put_signal", peer, source)) {
    stage<Direction::put>("put_signal", rank, offset, source, bytes);
    fence();
    bytes = 0;  // only the signal is left
  }
  const CallSite call{"put_signal", peer.world, offset, bytes, true};
  Ticket ticket = transport::done;
  require(fabric(), peer.channel->put_signal(offset, source, bytes, signal_offset, value, ticket), call);
  fabric().note_wire_put();
  wait_ticket(peer, ticket, call, base::Activity::put);
}

std::uint64_t WindowCore::wait_until(std::uint64_t offset, Cmp compare, std::uint64_t value, Timeout timeout) {
  base::require_timeout(timeout, "wait_until");
  check_word("wait_until", rank_, offset, 8);
  check_comparison("wait_until", offset, compare);
  if (own_.on_device) [[unlikely]]
    return own_.devices->wait_until(offset, compare, value, timeout);
  std::byte* const word = own_.region.base + offset;
  std::uint64_t seen = 0;
  const auto ready = [&]() noexcept {
    seen = load_signal(word);
    return holds(seen, compare, value);
  };
  const base::Status status = fabric().waiter.until({base::Activity::wait_until}, ready, fabric().resolve(timeout));
  if (!status.ok()) [[unlikely]]
    throw_wait(status, offset, compare, value, seen);
  return seen;
}

bool WindowCore::test_until(std::uint64_t offset, Cmp compare, std::uint64_t value) {
  check_word("test_until", rank_, offset, 8);
  if (own_.on_device) [[unlikely]] {
    check_comparison("test_until", offset, compare);
    return own_.devices->test_until(offset, compare, value);
  }
  if (holds(load_signal(own_.region.base + offset), compare, value)) return true;
  check_comparison("test_until", offset, compare);  // checked only here: an invalid comparison is never true above
  drive_wires();
  if (holds(load_signal(own_.region.base + offset), compare, value)) return true;
  // Report a rank's failure or an abort to a caller that polls and never waits.
  require(fabric(), fabric().waiter.page().aborted(), {"test_until", -1, offset, 8, true});
  return false;
}

std::uint64_t WindowCore::atomic(const char* operation, const transport::Atomic& atomic, int rank,
                                 std::uint64_t offset) {
  const WindowPeer& peer = check_word(operation, rank, offset, atomic.width);
  if (peer.direct != nullptr && !peer.has_device_atomics) [[likely]] {
    const std::uint64_t old = transport::apply_atomic(atomic, peer.direct + offset);
    fabric().waiter.ring(peer.local_index);
    return old;
  }
  const CallSite call{operation, peer.world, offset, atomic.width, true};
  Ticket ticket = transport::done;
  std::uint64_t result = 0;
  fabric().note_unflushed();
  require(fabric(), peer.channel->atomic(atomic, offset, &result, ticket), call);
  wait_ticket(peer, ticket, call, base::Activity::atomic);
  // Stores to the mapped part follow at once, without the wire's order.
  if (peer.direct != nullptr) {
    if (ticket == transport::done) flush_wire(peer.wire, peer.world, job_timeout);
    fabric().waiter.ring(peer.local_index);
  }
  return result;
}

Request WindowCore::atomic_nb(const char* operation, const transport::Atomic& atomic, int rank, std::uint64_t offset,
                              void* old) {
  const WindowPeer& peer = check_word(operation, rank, offset, atomic.width);
  if (old == nullptr) [[unlikely]]
    refuse(operation, rank, offset, nullptr, atomic.width);
  if (peer.direct != nullptr) [[likely]] {
    static_assert(std::endian::native == std::endian::little);
    const std::uint64_t value = this->atomic(operation, atomic, rank, offset);
    std::memcpy(old, &value, atomic.width);
    return Request(operation, peer.world);
  }
  Ticket ticket = transport::done;
  fabric().note_unflushed();
  require(fabric(), peer.channel->atomic(atomic, offset, old, ticket),
          {operation, peer.world, offset, atomic.width, true});
  if (ticket == transport::done) return Request(operation, peer.world);
  return Request(weak_from_this(), peer.wire, ticket, operation, peer.world);
}

void WindowCore::fence() {
  if (!is_open()) [[unlikely]]
    refuse_closed("fence");
  base::store_fence();
  for (const int wire : own_.wires)
    require(fabric(), fabric().wires[static_cast<std::size_t>(wire)]->fence(), {"fence"});
  if (own_.has_devices) [[unlikely]]
    own_.devices->flush("fence", -1, job_timeout);  // a device's later copies aren't ordered after them
}

void WindowCore::flush(int rank, Timeout timeout) {
  base::require_timeout(timeout, "flush");
  const WindowPeer& target = peer("flush", rank);
  if (target.direct != nullptr) {
    base::full_fence();
    return;
  }
  if (!is_open()) [[unlikely]]
    refuse_closed("flush");  // in a child of fork()
  if (own_.has_devices) [[unlikely]]
    own_.devices->flush("flush", rank, timeout);
  flush_wire(target.wire, target.world, timeout);
}

void WindowCore::flush_all(Timeout timeout) {
  base::require_timeout(timeout, "flush");
  if (!is_open()) [[unlikely]]
    refuse_closed("flush");
  base::full_fence();
  if (own_.has_devices) [[unlikely]]
    own_.devices->flush("flush", -1, timeout);
  for (const int wire : own_.wires) flush_wire(wire, -1, timeout);
}

void WindowCore::flush_wire(int wire_index, int world, Timeout timeout) {
  transport::Wire& wire = *fabric().wires[static_cast<std::size_t>(wire_index)];
  Ticket ticket = transport::done;
  require(fabric(), wire.flush(world, ticket), {"flush", world});
  require(fabric(),
          fabric().tickets.finish(wire_index, ticket, {base::Activity::flush, world}, fabric().resolve(timeout)),
          {"flush", world});
}

void WindowCore::wait_ticket(const WindowPeer& peer, Ticket ticket, const CallSite& call, base::Activity activity) {
  require(fabric(),
          fabric().tickets.finish(peer.wire, ticket, {activity, call.peer, 0, nullptr, call.size}, fabric().timeout),
          call);
}

// ---- errors

void WindowCore::throw_wait(const base::Status& status, std::uint64_t offset, Cmp compare, std::uint64_t value,
                            std::uint64_t seen) const {
  const CallSite call{"wait_until", -1, offset, 8, true};
  if (status.code != Code::timeout) throw_status(fabric(), status, call);
  static constexpr std::array<const char*, 6> signs{"==", "!=", "<", "<=", ">", ">="};  // by Cmp
  const std::string text = fmt::format(
      "the deadline passed: waited until the word at offset {} of window {} is {} {}; the last value seen is {}",
      offset, id_, signs[static_cast<std::size_t>(compare)], value, seen);
  base::Status timeout = status;
  timeout.what = text.c_str();
  throw_status(fabric(), timeout, call);
}

void WindowCore::refuse_closed(const char* operation) const {
  if (fabric().is_forked()) base::throw_forked(operation, fabric().rank);
  ErrorDetail detail;
  detail.code = Code::closed;
  detail.operation = operation;
  detail.rank = fabric().rank;
  detail.message = "the window is closed";
  throw Error(std::move(detail));
}

void WindowCore::refuse_comparison(const char* operation, std::uint64_t offset, Cmp compare) const {
  throw argument_error(fabric(), Code::invalid_argument, operation, -1, offset, 8,
                       fmt::format("there is no comparison {}", static_cast<int>(compare)));
}

void WindowCore::refuse(const char* operation, int rank, std::uint64_t offset, const void* local,
                        std::size_t bytes) const {
  if (fabric().is_forked()) base::throw_forked(operation, fabric().rank);
  const auto error = [&](Code code, int peer, std::string message) {
    return argument_error(fabric(), code, operation, peer, offset, bytes, std::move(message));
  };
  if (!open_) throw error(Code::closed, rank, "the window is closed");
  if (static_cast<std::size_t>(rank) >= own_.peers.size())
    throw error(Code::bad_rank, rank, fmt::format("there is no rank {} in a team of {}", rank, own_.peers.size()));
  const WindowPeer& peer = own_.peers[static_cast<std::size_t>(rank)];
  if (!contains(peer, offset, bytes)) {
    const std::string name =
        team_ == nullptr ? fmt::format("rank {}", rank) : fmt::format("team rank {} (world rank {})", rank, peer.world);
    throw error(Code::out_of_range, peer.world,
                fmt::format("offset + size lies beyond the {} bytes of {}'s window", peer.bytes, name));
  }
  if (local == nullptr && bytes > 0)
    throw error(Code::invalid_argument, peer.world, "the local pointer is null, and the size isn't 0");
  require(fabric(), fabric().waiter.page().aborted(), {operation, peer.world, offset, bytes, true});
  throw error(Code::misaligned, peer.world,
              fmt::format("a word of {} bytes must lie at a multiple of {}", bytes, bytes));
}

}  // namespace hmc::rma
