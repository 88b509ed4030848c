// The public Window: forwards to its WindowCore.
#include <hmc/window.hpp>

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include <hmc/team.hpp>

#include "runtime/rma/device_access.hpp"
#include "runtime/rma/window_core.hpp"

namespace hmc {

using rma::WindowCore;

namespace {

rma::TeamCore& open_team(Team& team, const char* operation) {
  rma::TeamCore* const core = team.core().get();
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

ErrorDetail no_failure() {
  ErrorDetail detail;
  detail.code = Code::success;
  return detail;
}

}  // namespace

Window Window::create(Team& team, std::size_t bytes) {
  return Window(WindowCore::create(open_team(team, "Window::create"), bytes, WindowCore::Role::user));
}

Window Window::create(Team& team, const ConnBuffer& buffer) {
  ErrorDetail failure = no_failure();
  if (buffer.allocation() == nullptr) {
    failure.code = Code::invalid_argument;
    failure.message = "the ConnBuffer was moved from";
  }
  auto allocation = failure.code == Code::success ? buffer.allocation() : nullptr;
  return Window(
      WindowCore::open(open_team(team, "Window::create"), std::move(allocation), failure, WindowCore::Role::user));
}

Window Window::create_over_memfd(Team& team, int memfd, std::size_t bytes, std::uint64_t file_offset) {
  ErrorDetail failure = no_failure();
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
  } catch (const Error& error) {
    failure = error.detail();
  } catch (const std::exception& error) {
    failure.code = Code::error;
    failure.message = error.what();
  }
  return Window(WindowCore::open(open_team(team, "Window::create_over_memfd"), std::move(allocation), failure,
                                 WindowCore::Role::user));
}

Window::Window(Window&&) noexcept = default;
Window& Window::operator=(Window&&) noexcept = default;
Window::~Window() = default;

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

Path Window::path(int rank) const { return core_here(core_, "Window::path").path(rank); }

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

std::uint64_t Window::alloc(std::size_t bytes, std::size_t align) {
  return open_core(core_, "Window::alloc").alloc(bytes, align);
}
void Window::free(std::uint64_t offset) { open_core(core_, "Window::free").free(offset); }

}  // namespace hmc
