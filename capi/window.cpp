// The C ABI: creation of windows, ordering, signals and symmetric allocation.
#include "capi/c_api.hpp"

using namespace hmc::c_api;  // NOLINT: the functions below are C's

namespace {

// Shared by all functions that create a window.
template <typename Make> hmc_code create(hmc_team_t team, hmc_window_t* window, Make&& make) {
  constexpr const char* operation = "Window::create";
  return guarded(operation, [&] {
    hmc_window_t& out = required(window, operation, "the place for the result");
    out = new hmc_window{make(team_of(team, operation))};
  });
}

}  // namespace

hmc_code hmc_window_create(hmc_team_t team, std::size_t bytes, hmc_window_t* window) {
  return create(team, window, [&](hmc::Team& of) { return hmc::Window::create(of, bytes); });
}

hmc_code hmc_window_create_over_buffer(hmc_team_t team, hmc_buffer_t buffer, hmc_window_t* window) {
  return create(team, window, [&](hmc::Team& of) {
    return hmc::Window::create(of, required(buffer, "Window::create", "the buffer").buffer);
  });
}

hmc_code hmc_window_create_over_memfd(hmc_team_t team, int memfd, std::size_t bytes, std::uint64_t file_offset,
                                      hmc_window_t* window) {
  return create(team, window,
                [&](hmc::Team& of) { return hmc::Window::create_over_memfd(of, memfd, bytes, file_offset); });
}

hmc_code hmc_window_close(hmc_window_t window) {
  return guarded("Window::close", [&] { window_of(window, "Window::close").close(); });
}

void hmc_window_destroy(hmc_window_t window) { delete window; }
int hmc_window_is_open(hmc_window_t window) { return window != nullptr && window->window.is_open() ? 1 : 0; }

hmc_code hmc_window_bytes(hmc_window_t window, int rank, std::size_t* bytes) {
  return guarded("Window::bytes", [&] {
    const hmc::Window& of = window_of(window, "Window::bytes");
    required(bytes, "Window::bytes", "the place for the result") = rank < 0 ? of.bytes() : of.bytes(rank);
  });
}

hmc_code hmc_window_path(hmc_window_t window, int rank, hmc_path* path) {
  return guarded("Window::path",
                 [&] { copy_out(path_of(window_of(window, "Window::path").path(rank)), path, "Window::path"); });
}

hmc_code hmc_window_data(hmc_window_t window, void** data) {
  return guarded("Window::data", [&] {
    required(data, "Window::data", "the place for the result") = window_of(window, "Window::data").data();
  });
}

hmc_code hmc_window_ptr(hmc_window_t window, int rank, std::uint64_t offset, void** pointer) {
  return guarded("Window::ptr", [&] {
    required(pointer, "Window::ptr", "the place for the result") = window_of(window, "Window::ptr").ptr(rank, offset);
  });
}

hmc_code hmc_window_alloc(hmc_window_t window, std::size_t bytes, std::size_t align, std::uint64_t* offset) {
  return guarded("Window::alloc", [&] {
    std::uint64_t& out = required(offset, "Window::alloc", "the place for the result");
    out = window_of(window, "Window::alloc").alloc(bytes, align);
  });
}

hmc_code hmc_window_free(hmc_window_t window, std::uint64_t offset) {
  return guarded("Window::free", [&] { window_of(window, "Window::free").free(offset); });
}

// ---- signals
hmc_code hmc_put_signal(hmc_window_t window, int rank, std::uint64_t offset, const void* source, std::size_t bytes,
                        std::uint64_t signal_offset, std::uint64_t value) {
  return guarded("put_signal", [&] {
    window_of(window, "put_signal").put_signal(rank, offset, source, bytes, signal_offset, value);
  });
}

hmc_code hmc_wait_until(hmc_window_t window, std::uint64_t offset, hmc_cmp compare, std::uint64_t value,
                        std::int64_t timeout_ns, std::uint64_t* seen) {
  return guarded("wait_until", [&] {
    const auto how = enum_of<hmc::Cmp>(compare, HMC_GE + 1, "wait_until", "comparison");
    const std::uint64_t found = window_of(window, "wait_until").wait_until(offset, how, value, timeout_of(timeout_ns));
    if (seen != nullptr) *seen = found;
  });
}

hmc_code hmc_test_until(hmc_window_t window, std::uint64_t offset, hmc_cmp compare, std::uint64_t value, int* holds) {
  return guarded("test_until", [&] {
    int& out = required(holds, "test_until", "the place for the result");
    const auto how = enum_of<hmc::Cmp>(compare, HMC_GE + 1, "test_until", "comparison");
    out = window_of(window, "test_until").test_until(offset, how, value) ? 1 : 0;
  });
}

// ---- order
hmc_code hmc_fence(hmc_window_t window) {
  return guarded("fence", [&] { window_of(window, "fence").fence(); });
}

hmc_code hmc_flush(hmc_window_t window, int rank, std::int64_t timeout_ns) {
  return guarded("flush", [&] { window_of(window, "flush").flush(rank, timeout_of(timeout_ns)); });
}

hmc_code hmc_flush_all(hmc_window_t window, std::int64_t timeout_ns) {
  return guarded("flush", [&] { window_of(window, "flush").flush(timeout_of(timeout_ns)); });
}
