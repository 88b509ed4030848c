// The public Window, and Buffers in a window's symmetric heap.
#include <hmc/window.hpp>

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <type_traits>
#include <utility>

#include <hmc/buffer.hpp>
#include <hmc/team.hpp>

#include "runtime/rma/device_access.hpp"
#include "runtime/rma/operation_scope.hpp"
#include "runtime/rma/window_core.hpp"

namespace hmc {

using rma::WindowCore;
using transport::Atomic;
using transport::AtomicOp;

namespace {

rma::TeamCore& open_team(Team& team, const char* operation) {
  rma::TeamCore* const core = team.core();
  if (core == nullptr) throw Error(Code::closed, operation, "the team is empty: this rank isn't a member");
  if (core->fabric().closed()) rma::throw_closed_runtime(core->fabric(), operation);
  if (core->closed) throw Error(Code::closed, operation, "the team is closed");
  return *core;
}

// Not inline, so that the fast paths don't save registers for it.
[[noreturn, gnu::noinline]] void throw_never_created(const char* operation) {
  throw Error(Code::closed, operation, "the window was never created, or was moved from");
}

[[gnu::always_inline]] inline WindowCore& open_core(const std::shared_ptr<WindowCore>& core, const char* operation) {
  if (core == nullptr) [[unlikely]]
    throw_never_created(operation);
  return *core;
}

/// For calls that check no peer: throws in a child of fork(). Verbs detect the fork by their peer check.
WindowCore& core_here(const std::shared_ptr<WindowCore>& core, const char* operation) {
  WindowCore& here = open_core(core, operation);
  if (here.fabric().is_forked()) base::throw_forked(operation, here.fabric().rank);
  return here;
}

rma::DeviceAccess& devices_of(const std::shared_ptr<WindowCore>& core, const char* operation) {
  WindowCore& here = open_core(core, operation);
  if (!here.is_open()) here.refuse_closed(operation);
  return here.devices();
}

std::uint64_t allocate_in(WindowCore& core, std::size_t bytes, std::size_t align) {
  rma::SymmetricAllocator& allocator = core.allocator("Window::alloc");
  if (bytes == 0 || align == 0 || (align & (align - 1)) != 0) {
    throw Error(
        Code::invalid_argument, "Window::alloc",
        fmt::format("{} bytes aligned to {}: the size must not be 0, the alignment a power of two", bytes, align));
  }
  if (const auto offset = allocator.allocate(bytes, align)) return *offset;
  throw Error(Code::out_of_memory, "Window::alloc",
              fmt::format("{} bytes aligned to {} don't fit; the largest free range has {}", bytes, align,
                          allocator.largest_free()),
              "create a larger window, or free what isn't used");
}

/// Operands are sent as 64 bits. The target uses the low `width` bytes.
template <typename T> std::uint64_t widen(T value) noexcept {
  return static_cast<std::uint64_t>(static_cast<std::make_unsigned_t<T>>(value));
}

template <typename T>
T run_atomic(const std::shared_ptr<rma::WindowCore>& core, const char* operation, AtomicOp op, int rank,
             std::uint64_t offset, T operand, T compare = 0) {
  const Atomic atomic{op, sizeof(T), widen(operand), widen(compare)};
  return static_cast<T>(open_core(core, operation).atomic(operation, atomic, rank, offset));
}

template <typename T>
Request start_atomic(const std::shared_ptr<rma::WindowCore>& core, const char* operation, AtomicOp op, int rank,
                     std::uint64_t offset, T* old, T operand, T compare = 0) {
  const Atomic atomic{op, sizeof(T), widen(operand), widen(compare)};
  return open_core(core, operation).atomic_nb(operation, atomic, rank, offset, old);
}

/// The Allocator that describes this rank's part.
Allocator kind_of(const memory::Owner& owner) {
  using memory::PointerKind;
  const MemoryType type = owner.provider->type();
  const bool amd = type == MemoryType::AMD_GPU;
  switch (owner.info.kind) {
    case PointerKind::unknown: return Allocator::host_malloc;
    case PointerKind::device: return detail::allocator_for(type);
    case PointerKind::managed: return amd ? Allocator::hip_managed : Allocator::cuda_managed;
    case PointerKind::pinned: break;
  }
  if (amd) return Allocator::hip_pinned;
  return type == MemoryType::NVIDIA_GPU ? Allocator::cuda_pinned : Allocator::host_malloc;
}

}  // namespace

// ---- creation and properties

Window Window::create(Team& team, std::size_t bytes) {
  return Window(rma::create_window(open_team(team, "Window::create"), bytes, WindowCore::Role::user));
}

Window Window::create(Team& team, const ConnBuffer& buffer) {
  std::exception_ptr failure;
  if (buffer.allocation() == nullptr)
    failure = std::make_exception_ptr(Error(Code::invalid_argument, "Window::create", "the ConnBuffer was moved from"));
  return Window(
      rma::create_window_over(open_team(team, "Window::create"), buffer.allocation(), failure, WindowCore::Role::user));
}

Window Window::create_over_memfd(Team& team, int memfd, std::size_t bytes, std::uint64_t file_offset) {
  std::exception_ptr failure;
  std::shared_ptr<memory::Allocation> allocation;
  try {
    base::UniqueFd own(::fcntl(memfd, F_DUPFD_CLOEXEC, 0));
    if (!own)
      throw Error(Code::invalid_argument, "Window::create_over_memfd",
                  fmt::format("descriptor {}: {}", memfd, std::strerror(errno)));
    if (bytes == 0) throw Error(Code::invalid_argument, "Window::create_over_memfd", "a mapping has at least one byte");
    auto segment = base::Segment::map(std::move(own), bytes, file_offset);
    segment->populate(0, bytes);  // a file may have holes: report a lack of memory here, not by SIGBUS
    allocation = memory::adopt_segment(std::move(segment), 0, bytes);
  } catch (...) {
    failure = std::current_exception();
  }
  return Window(rma::create_window_over(open_team(team, "Window::create_over_memfd"), std::move(allocation), failure,
                                        WindowCore::Role::user));
}

Window::Window(Window&&) noexcept = default;
Window& Window::operator=(Window&&) noexcept = default;
Window::~Window() = default;

// ---- user context and device handles

void Window::open_context(Team& team) {
  rma::TeamCore& over = open_team(team, "Window::open_context");
  devices_of(core_, "Window::open_context").open_context(over);
}
void Window::set_context(std::uint64_t offset, const void* source, std::size_t bytes) {
  WindowCore& context = devices_of(core_, "Window::set_context").context("Window::set_context");
  context.put(context.rank(), offset, source, bytes);
}
void Window::get_context(int rank, std::uint64_t offset, void* destination, std::size_t bytes) const {
  devices_of(core_, "Window::get_context").context("Window::get_context").get(rank, offset, destination, bytes);
}
DeviceHandle Window::device_handle(MemoryType type, int device) {
  return devices_of(core_, "Window::device_handle").device_handle(type, device);
}

void Window::close() { open_core(core_, "Window::close").close(); }
void Window::rebind(Team& team) {
  WindowCore& old = core_here(core_, "Window::rebind");
  rma::TeamCore& over = open_team(team, "Window::rebind");
  const rma::OperationScope user(over.fabric(), "Window::rebind", base::SetupCall::window_over);
  std::shared_ptr<WindowCore> fresh =
      rma::create_window_over(over, old.retire(), nullptr, WindowCore::Role::user, old.lineage());
  fresh->take_allocations(old);
  core_ = std::move(fresh);
}
bool Window::is_open() const noexcept { return core_ != nullptr && core_->is_open(); }

std::size_t Window::bytes() const { return core_here(core_, "Window::bytes").bytes(); }
std::size_t Window::bytes(int rank) const {
  return core_here(core_, "Window::bytes").peer("Window::bytes", rank).bytes;
}
std::byte* Window::data() const { return core_here(core_, "Window::data").data(); }

std::byte* Window::ptr(int rank, std::uint64_t offset) const {
  const rma::WindowPeer& peer = core_here(core_, "Window::ptr").peer("Window::ptr", rank);
  return peer.direct != nullptr && offset <= peer.bytes ? peer.direct + offset : nullptr;
}

std::shared_ptr<std::byte> Window::share(int rank) const {
  const rma::WindowCore& core = core_here(core_, "Window::share");
  const rma::WindowPeer& peer = core.peer("Window::share", rank);
  if (peer.direct == nullptr) return nullptr;
  const std::shared_ptr<void> mapping = core.mapping_of(peer);
  return mapping == nullptr ? nullptr : std::shared_ptr<std::byte>(mapping, peer.direct);
}

Path Window::path(int rank) const { return core_here(core_, "Window::path").path(rank); }

// ---- transfers, signals, order

void Window::put(int rank, std::uint64_t offset, const void* source, std::size_t bytes) {
  open_core(core_, "put").put(rank, offset, source, bytes);
}
void Window::get(int rank, std::uint64_t offset, void* destination, std::size_t bytes) {
  open_core(core_, "get").get(rank, offset, destination, bytes);
}
Request Window::put_nb(int rank, std::uint64_t offset, const void* source, std::size_t bytes) {
  return open_core(core_, "put_nb").put_nb(rank, offset, source, bytes);
}
Request Window::get_nb(int rank, std::uint64_t offset, void* destination, std::size_t bytes) {
  return open_core(core_, "get_nb").get_nb(rank, offset, destination, bytes);
}
void Window::put_strided(int rank, std::uint64_t offset, const void* source, const Strides& strides) {
  open_core(core_, "put_strided").put_strided(rank, offset, source, strides);
}
void Window::get_strided(int rank, std::uint64_t offset, void* destination, const Strides& strides) {
  open_core(core_, "get_strided").get_strided(rank, offset, destination, strides);
}
void Window::put_batch(int rank, std::span<const Put> puts) { open_core(core_, "put_batch").put_batch(rank, puts); }
void Window::get_batch(int rank, std::span<const Get> gets) { open_core(core_, "get_batch").get_batch(rank, gets); }

void Window::put_on(void* stream, int rank, std::uint64_t offset, const void* source, std::size_t bytes) {
  WindowCore& core = open_core(core_, "put_on");
  core.check("put_on", rank, offset, source, bytes);
  core.devices().put_on(stream, rank, offset, source, bytes);
}

void Window::put_signal(int rank, std::uint64_t offset, const void* source, std::size_t bytes,
                        std::uint64_t signal_offset, std::uint64_t value) {
  open_core(core_, "put_signal").put_signal(rank, offset, source, bytes, signal_offset, value);
}
std::uint64_t Window::wait_until(std::uint64_t offset, Cmp compare, std::uint64_t value, Timeout timeout) {
  return open_core(core_, "wait_until").wait_until(offset, compare, value, timeout);
}
bool Window::test_until(std::uint64_t offset, Cmp compare, std::uint64_t value) {
  return open_core(core_, "test_until").test_until(offset, compare, value);
}

void Window::fence() { open_core(core_, "fence").fence(); }
void Window::flush(int rank, Timeout timeout) { open_core(core_, "flush").flush(rank, timeout); }
void Window::flush(Timeout timeout) { open_core(core_, "flush").flush_all(timeout); }

// ---- atomics

template <typename T> T Window::fetch_add(int rank, std::uint64_t offset, Word<T> value) {
  return run_atomic(core_, "fetch_add", AtomicOp::fetch_add, rank, offset, value);
}
template <typename T> T Window::swap(int rank, std::uint64_t offset, Word<T> value) {
  return run_atomic(core_, "swap", AtomicOp::swap, rank, offset, value);
}
template <typename T> T Window::compare_swap(int rank, std::uint64_t offset, Word<T> expected, Word<T> desired) {
  return run_atomic(core_, "compare_swap", AtomicOp::compare_swap, rank, offset, desired, expected);
}
template <typename T> Window::Word<T> Window::fetch(int rank, std::uint64_t offset) {
  return run_atomic(core_, "fetch", AtomicOp::fetch, rank, offset, T{0});
}
template <typename T> T Window::fetch_and(int rank, std::uint64_t offset, Word<T> value) {
  return run_atomic(core_, "fetch_and", AtomicOp::fetch_and, rank, offset, value);
}
template <typename T> T Window::fetch_or(int rank, std::uint64_t offset, Word<T> value) {
  return run_atomic(core_, "fetch_or", AtomicOp::fetch_or, rank, offset, value);
}
template <typename T> T Window::fetch_xor(int rank, std::uint64_t offset, Word<T> value) {
  return run_atomic(core_, "fetch_xor", AtomicOp::fetch_xor, rank, offset, value);
}
template <typename T> Request Window::fetch_add_nb(int rank, std::uint64_t offset, Word<T> value, T* old) {
  return start_atomic(core_, "fetch_add_nb", AtomicOp::fetch_add, rank, offset, old, value);
}
template <typename T> Request Window::swap_nb(int rank, std::uint64_t offset, Word<T> value, T* old) {
  return start_atomic(core_, "swap_nb", AtomicOp::swap, rank, offset, old, value);
}
template <typename T>
Request Window::compare_swap_nb(int rank, std::uint64_t offset, Word<T> expected, Word<T> desired, T* old) {
  return start_atomic(core_, "compare_swap_nb", AtomicOp::compare_swap, rank, offset, old, desired, expected);
}
template <typename T> Request Window::fetch_nb(int rank, std::uint64_t offset, T* value) {
  return start_atomic(core_, "fetch_nb", AtomicOp::fetch, rank, offset, value, T{0});
}
template <typename T> void Window::add(int rank, std::uint64_t offset, Word<T> value) {
  run_atomic(core_, "add", AtomicOp::add, rank, offset, value);
}
template <typename T> void Window::set(int rank, std::uint64_t offset, Word<T> value) {
  run_atomic(core_, "set", AtomicOp::set, rank, offset, value);
}
template <typename T> void Window::atomic_and(int rank, std::uint64_t offset, Word<T> value) {
  run_atomic(core_, "atomic_and", AtomicOp::band, rank, offset, value);
}
template <typename T> void Window::atomic_or(int rank, std::uint64_t offset, Word<T> value) {
  run_atomic(core_, "atomic_or", AtomicOp::bor, rank, offset, value);
}
template <typename T> void Window::atomic_xor(int rank, std::uint64_t offset, Word<T> value) {
  run_atomic(core_, "atomic_xor", AtomicOp::bxor, rank, offset, value);
}

#define HMC_ATOMICS(T)                                                               \
  template HMC_API T Window::fetch_add<T>(int, std::uint64_t, T);                    \
  template HMC_API T Window::swap<T>(int, std::uint64_t, T);                         \
  template HMC_API T Window::compare_swap<T>(int, std::uint64_t, T, T);              \
  template HMC_API T Window::fetch<T>(int, std::uint64_t);                           \
  template HMC_API T Window::fetch_and<T>(int, std::uint64_t, T);                    \
  template HMC_API T Window::fetch_or<T>(int, std::uint64_t, T);                     \
  template HMC_API T Window::fetch_xor<T>(int, std::uint64_t, T);                    \
  template HMC_API Request Window::fetch_add_nb<T>(int, std::uint64_t, T, T*);       \
  template HMC_API Request Window::swap_nb<T>(int, std::uint64_t, T, T*);            \
  template HMC_API Request Window::compare_swap_nb<T>(int, std::uint64_t, T, T, T*); \
  template HMC_API Request Window::fetch_nb<T>(int, std::uint64_t, T*);              \
  template HMC_API void Window::add<T>(int, std::uint64_t, T);                       \
  template HMC_API void Window::set<T>(int, std::uint64_t, T);                       \
  template HMC_API void Window::atomic_and<T>(int, std::uint64_t, T);                \
  template HMC_API void Window::atomic_or<T>(int, std::uint64_t, T);                 \
  template HMC_API void Window::atomic_xor<T>(int, std::uint64_t, T);
HMC_ATOMICS(int)
HMC_ATOMICS(unsigned)
HMC_ATOMICS(long)
HMC_ATOMICS(unsigned long)
HMC_ATOMICS(long long)
HMC_ATOMICS(unsigned long long)
#undef HMC_ATOMICS

// ---- symmetric allocation, and Buffers in a window

std::uint64_t Window::alloc(std::size_t bytes, std::size_t align) {
  return allocate_in(open_core(core_, "Window::alloc"), bytes, align);
}
void Window::free(std::uint64_t offset) {
  if (!open_core(core_, "Window::free").allocator("Window::free").release(offset))
    throw Error(Code::invalid_argument, "Window::free",
                fmt::format("offset {} isn't the start of an allocation", offset));
}

Place::Place(const Window& window) : Place(Allocator::window) {
  if (!window.is_open()) throw Error(Code::invalid_argument, "Buffer", "the window isn't open");
  heap = window.core();
  const memory::Owner owner = memory::owner_of(heap->data());
  part = kind_of(owner);
  device = owner.info.device < 0 ? 0 : owner.info.device;
}

namespace detail {

std::shared_ptr<std::byte> allocate_in_window(const Place& place, std::size_t bytes) {
  const std::uint64_t offset = allocate_in(*place.heap, bytes, 64);
  return {place.heap->data() + offset, [core = place.heap, offset](std::byte*) {
            if (core->is_open()) core->allocator("Window::free").release(offset);
          }};
}

std::uint64_t offset_in_window(const Place& place, const std::byte* address) {
  if (place.heap == nullptr) throw Error(Code::invalid_argument, "Buffer::offset", "this Buffer isn't in a window");
  return address == nullptr ? 0 : static_cast<std::uint64_t>(address - place.heap->data());
}

}  // namespace detail

}  // namespace hmc
