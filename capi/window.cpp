// The C ABI: windows, transfers and requests, signals, order and atomics.
#include <array>
#include <type_traits>
#include <vector>

#include "capi/c_api.hpp"

using namespace hmc::c_api;  // NOLINT: the functions below are C's

namespace {

// Shared by all functions that create a window.
template <typename Make> hmc_code create(hmc_team_t team, hmc_window_t* window, Make&& make) {
  return query(team, "Window::create", window, [&](hmc::Team& t) { return new hmc_window{make(t)}; });
}

// ---- requests are plain bytes in C; all zeros is an empty request
using Raw = hmc::Request::Raw;
static_assert(std::is_trivially_copyable_v<Raw> && sizeof(Raw) <= sizeof(hmc_request_t::opaque));

// Converts the requests, runs a call on them, and writes their new state back, even if the call throws.
template <typename Call>
void with_requests(hmc_request_t* requests, std::size_t count, const char* operation, Call&& call) {
  if (count != 0) required(requests, operation, "the array of requests");
  std::vector<hmc::Request> inner(count);
  for (std::size_t i = 0; i < count; ++i) {
    Raw raw{};
    if (requests[i].struct_size != 0) std::memcpy(&raw, requests[i].opaque, sizeof raw);
    inner[i] = hmc::Request::from_raw(raw);
  }
  const auto hand_back = [&] {
    for (std::size_t i = 0; i < count; ++i) requests[i] = to_c(std::move(inner[i]));
  };
  try {
    call(std::span<hmc::Request>(inner));
  } catch (...) {
    hand_back();
    throw;
  }
  hand_back();
}

// ---- batches
/// Batches up to this length are converted without allocation.
constexpr std::size_t short_batch = 64;

/// Converts the items and passes them to C++ in one call, so an invalid batch is rejected before any transfer.
template <typename To, typename Item, typename Translate, typename Send>
void as_batch(const Item* items, std::size_t count, const char* operation, Translate&& translate, Send&& send) {
  if (count == 0) return;
  const std::size_t stride = required(items, operation, "the array of items").struct_size;
  if (stride < sizeof(std::size_t)) throw hmc::Error(hmc::Code::invalid_argument, operation, "struct_size isn't set");
  const auto* at = reinterpret_cast<const std::byte*>(items);  // the caller's struct may be larger than Item
  std::array<To, short_batch> few;
  std::vector<To> many(count > short_batch ? count : 0);
  const std::span<To> all(many.empty() ? few.data() : many.data(), count);
  for (To& to : all) {
    Item item{};
    std::memcpy(&item, at, std::min(stride, sizeof item));
    to = translate(item);
    at += stride;
  }
  send(std::span<const To>(all));
}

template <typename T, typename Call>
hmc_code fetching(hmc_window_t window, const char* operation, T* old, Call&& call) {
  return with(window, operation, [&](hmc::Window& w) {
    const T before = call(w);
    if (old != nullptr) *old = before;
  });
}

hmc::Strides strides_of(const hmc_strides* strides, const char* operation) {
  const hmc_strides from = copy_in(strides, operation);
  return {from.rows, from.row_bytes, from.local_pitch, from.remote_pitch};
}

hmc::Cmp cmp_of(const hmc_cmp& compare, const char* operation) {
  return enum_of<hmc::Cmp>(compare, HMC_GE + 1, operation, "comparison");
}

static_assert(HMC_CONTEXT_BYTES == hmc::Window::context_bytes);

}  // namespace

hmc_request_t hmc::c_api::to_c(hmc::Request request) {
  hmc_request_t to{};
  to.struct_size = sizeof(hmc_request_t);
  const Raw raw = request.release();
  std::memcpy(to.opaque, &raw, sizeof raw);
  return to;
}

// ---- creation and properties
hmc_code hmc_registration_create(hmc_team_t team, void* address, std::size_t bytes, hmc_registration_t* registration) {
  return query(team, "Registration::create", registration,
               [&](hmc::Team& t) { return new hmc_registration{hmc::Registration::create(t, address, bytes)}; });
}
void hmc_registration_destroy(hmc_registration_t registration) { delete registration; }
int hmc_registration_is_used(hmc_registration_t registration) {
  return registration != nullptr && registration->object.is_used() ? 1 : 0;
}

hmc_code hmc_window_create(hmc_team_t team, std::size_t bytes, hmc_window_t* window) {
  return create(team, window, [&](hmc::Team& t) { return hmc::Window::create(t, bytes); });
}
hmc_code hmc_window_create_over_buffer(hmc_team_t team, hmc_buffer_t buffer, hmc_window_t* window) {
  return create(team, window,
                [&](hmc::Team& t) { return hmc::Window::create(t, object_of(buffer, "Window::create")); });
}
hmc_code hmc_window_create_over_memfd(hmc_team_t team, int memfd, std::size_t bytes, std::uint64_t file_offset,
                                      hmc_window_t* window) {
  return create(team, window,
                [&](hmc::Team& t) { return hmc::Window::create_over_memfd(t, memfd, bytes, file_offset); });
}
hmc_code hmc_window_close(hmc_window_t window) {
  return with(window, "Window::close", [](hmc::Window& w) { w.close(); });
}
hmc_code hmc_window_rebind(hmc_window_t window, hmc_team_t team) {
  return with(window, "Window::rebind",
              [&](hmc::Window& w) { w.rebind(required(team, "Window::rebind", "the team").object); });
}
void hmc_window_destroy(hmc_window_t window) { delete window; }
int hmc_window_is_open(hmc_window_t window) { return window != nullptr && window->object.is_open() ? 1 : 0; }

hmc_code hmc_window_bytes(hmc_window_t window, int rank, std::size_t* bytes) {
  return query(window, "Window::bytes", bytes, [&](hmc::Window& w) { return rank < 0 ? w.bytes() : w.bytes(rank); });
}
hmc_code hmc_window_path(hmc_window_t window, int rank, hmc_path* path) {
  constexpr const char* name = "Window::path";
  return with(window, name, [&](hmc::Window& w) { copy_out(path_of(w.path(rank)), path, name); });
}
hmc_code hmc_window_data(hmc_window_t window, void** data) {
  return query(window, "Window::data", data, [](hmc::Window& w) { return w.data(); });
}
hmc_code hmc_window_ptr(hmc_window_t window, int rank, std::uint64_t offset, void** pointer) {
  return query(window, "Window::ptr", pointer, [&](hmc::Window& w) { return w.ptr(rank, offset); });
}
hmc_code hmc_window_alloc(hmc_window_t window, std::size_t bytes, std::size_t align, std::uint64_t* offset) {
  return query(window, "Window::alloc", offset, [&](hmc::Window& w) { return w.alloc(bytes, align); });
}
hmc_code hmc_window_free(hmc_window_t window, std::uint64_t offset) {
  return with(window, "Window::free", [&](hmc::Window& w) { w.free(offset); });
}

// ---- user context
hmc_code hmc_window_open_context(hmc_window_t window, hmc_team_t team) {
  constexpr const char* name = "Window::open_context";
  return with(window, name, [&](hmc::Window& w) { w.open_context(object_of(team, name)); });
}
hmc_code hmc_window_set_context(hmc_window_t window, std::uint64_t offset, const void* source, std::size_t bytes) {
  return with(window, "Window::set_context", [&](hmc::Window& w) { w.set_context(offset, source, bytes); });
}
hmc_code hmc_window_get_context(hmc_window_t window, int rank, std::uint64_t offset, void* destination,
                                std::size_t bytes) {
  return with(window, "Window::get_context", [&](hmc::Window& w) { w.get_context(rank, offset, destination, bytes); });
}

// ---- transfers
hmc_code hmc_put(hmc_window_t window, int rank, std::uint64_t offset, const void* source, std::size_t bytes) {
  return with(window, "put", [&](hmc::Window& w) { w.put(rank, offset, source, bytes); });
}
hmc_code hmc_get(hmc_window_t window, int rank, std::uint64_t offset, void* destination, std::size_t bytes) {
  return with(window, "get", [&](hmc::Window& w) { w.get(rank, offset, destination, bytes); });
}
hmc_code hmc_put_nb(hmc_window_t window, int rank, std::uint64_t offset, const void* source, std::size_t bytes,
                    hmc_request_t* request) {
  return query(window, "put_nb", request, [&](hmc::Window& w) { return to_c(w.put_nb(rank, offset, source, bytes)); });
}
hmc_code hmc_get_nb(hmc_window_t window, int rank, std::uint64_t offset, void* destination, std::size_t bytes,
                    hmc_request_t* request) {
  return query(window, "get_nb", request,
               [&](hmc::Window& w) { return to_c(w.get_nb(rank, offset, destination, bytes)); });
}
hmc_code hmc_put_strided(hmc_window_t window, int rank, std::uint64_t offset, const void* source,
                         const hmc_strides* strides) {
  constexpr const char* name = "put_strided";
  return with(window, name, [&](hmc::Window& w) { w.put_strided(rank, offset, source, strides_of(strides, name)); });
}
hmc_code hmc_get_strided(hmc_window_t window, int rank, std::uint64_t offset, void* destination,
                         const hmc_strides* strides) {
  constexpr const char* name = "get_strided";
  return with(window, name,
              [&](hmc::Window& w) { w.get_strided(rank, offset, destination, strides_of(strides, name)); });
}
hmc_code hmc_put_batch(hmc_window_t window, int rank, const hmc_put_item* items, std::size_t count) {
  return with(window, "put_batch", [&](hmc::Window& w) {
    as_batch<hmc::Put>(
        items, count, "put_batch",
        [](const hmc_put_item& item) {
          return hmc::Put{item.offset, item.source, item.bytes};
        },
        [&](std::span<const hmc::Put> all) { w.put_batch(rank, all); });
  });
}
hmc_code hmc_get_batch(hmc_window_t window, int rank, const hmc_get_item* items, std::size_t count) {
  return with(window, "get_batch", [&](hmc::Window& w) {
    as_batch<hmc::Get>(
        items, count, "get_batch",
        [](const hmc_get_item& item) {
          return hmc::Get{item.offset, item.destination, item.bytes};
        },
        [&](std::span<const hmc::Get> all) { w.get_batch(rank, all); });
  });
}

// ---- signals and order
hmc_code hmc_put_signal(hmc_window_t window, int rank, std::uint64_t offset, const void* source, std::size_t bytes,
                        std::uint64_t signal_offset, std::uint64_t value) {
  return with(window, "put_signal",
              [&](hmc::Window& w) { w.put_signal(rank, offset, source, bytes, signal_offset, value); });
}
hmc_code hmc_wait_until(hmc_window_t window, std::uint64_t offset, hmc_cmp compare, std::uint64_t value,
                        std::int64_t timeout_ns, std::uint64_t* seen) {
  return fetching(window, "wait_until", seen, [&](hmc::Window& w) {
    return w.wait_until(offset, cmp_of(compare, "wait_until"), value, timeout_of(timeout_ns));
  });
}
hmc_code hmc_test_until(hmc_window_t window, std::uint64_t offset, hmc_cmp compare, std::uint64_t value, int* holds) {
  return query(window, "test_until", holds,
               [&](hmc::Window& w) { return w.test_until(offset, cmp_of(compare, "test_until"), value) ? 1 : 0; });
}
hmc_code hmc_fence(hmc_window_t window) {
  return with(window, "fence", [](hmc::Window& w) { w.fence(); });
}
hmc_code hmc_flush(hmc_window_t window, int rank, std::int64_t timeout_ns) {
  return with(window, "flush", [&](hmc::Window& w) { w.flush(rank, timeout_of(timeout_ns)); });
}
hmc_code hmc_flush_all(hmc_window_t window, std::int64_t timeout_ns) {
  return with(window, "flush", [&](hmc::Window& w) { w.flush(timeout_of(timeout_ns)); });
}

// ---- requests
hmc_code hmc_request_test(hmc_request_t* request, int* done) {
  return guarded("Request::test", [&] {
    int& out = required(done, "Request::test", "the place for the result");
    with_requests(request, 1, "Request::test", [&](std::span<hmc::Request> one) { out = one[0].test() ? 1 : 0; });
  });
}

hmc_code hmc_request_wait(hmc_request_t* request, std::int64_t timeout_ns) {
  return hmc_request_wait_all(request, 1, timeout_ns);
}

hmc_code hmc_request_abandon(hmc_request_t* request) {
  return guarded("Request::abandon", [&] {
    with_requests(request, 1, "Request::abandon", [](std::span<hmc::Request> one) { one[0].abandon(); });
  });
}

hmc_code hmc_request_wait_all(hmc_request_t* requests, std::size_t count, std::int64_t timeout_ns) {
  return guarded("Request::wait", [&] {
    with_requests(requests, count, "Request::wait",
                  [&](std::span<hmc::Request> all) { hmc::Request::wait_all(all, timeout_of(timeout_ns)); });
  });
}

hmc_code hmc_request_wait_any(hmc_request_t* requests, std::size_t count, std::int64_t timeout_ns, std::size_t* index) {
  return guarded("Request::wait", [&] {
    std::size_t& out = required(index, "Request::wait", "the place for the result");
    with_requests(requests, count, "Request::wait",
                  [&](std::span<hmc::Request> all) { out = hmc::Request::wait_any(all, timeout_of(timeout_ns)); });
  });
}

// ---- atomics. Signed and unsigned words have the same representation, so one function per width is enough.
// Sixteen operations in two widths. The header declares them without macros, because binding generators read it.
#define HMC_FETCHING(name, verb, width, word)                                                                 \
  hmc_code hmc_##name##_##width(hmc_window_t window, int rank, std::uint64_t offset, word value, word* old) { \
    return fetching(window, #verb, old, [&](hmc::Window& w) { return w.verb<word>(rank, offset, value); });   \
  }
#define HMC_POSTING(name, verb, width, word)                                                       \
  hmc_code hmc_##name##_##width(hmc_window_t window, int rank, std::uint64_t offset, word value) { \
    return with(window, #verb, [&](hmc::Window& w) { w.verb<word>(rank, offset, value); });        \
  }
#define HMC_ATOMICS(width, word)                                                                                      \
  HMC_FETCHING(fetch_add, fetch_add, width, word)                                                                     \
  HMC_FETCHING(fetch_and, fetch_and, width, word)                                                                     \
  HMC_FETCHING(fetch_or, fetch_or, width, word)                                                                       \
  HMC_FETCHING(fetch_xor, fetch_xor, width, word)                                                                     \
  HMC_FETCHING(swap, swap, width, word)                                                                               \
  HMC_POSTING(add, add, width, word)                                                                                  \
  HMC_POSTING(set, set, width, word)                                                                                  \
  HMC_POSTING(and, atomic_and, width, word)                                                                           \
  HMC_POSTING(or, atomic_or, width, word)                                                                             \
  HMC_POSTING(xor, atomic_xor, width, word)                                                                           \
  hmc_code hmc_compare_swap_##width(hmc_window_t window, int rank, std::uint64_t offset, word expected, word desired, \
                                    word* old) {                                                                      \
    return fetching(window, "compare_swap", old,                                                                      \
                    [&](hmc::Window& w) { return w.compare_swap<word>(rank, offset, expected, desired); });           \
  }                                                                                                                   \
  hmc_code hmc_fetch_##width(hmc_window_t window, int rank, std::uint64_t offset, word* value) {                      \
    return fetching(window, "fetch", value, [&](hmc::Window& w) { return w.fetch<word>(rank, offset); });             \
  }                                                                                                                   \
  hmc_code hmc_fetch_add_nb_##width(hmc_window_t window, int rank, std::uint64_t offset, word value, word* old,       \
                                    hmc_request_t* request) {                                                         \
    return query(window, "fetch_add_nb", request,                                                                     \
                 [&](hmc::Window& w) { return to_c(w.fetch_add_nb(rank, offset, value, old)); });                     \
  }                                                                                                                   \
  hmc_code hmc_swap_nb_##width(hmc_window_t window, int rank, std::uint64_t offset, word value, word* old,            \
                               hmc_request_t* request) {                                                              \
    return query(window, "swap_nb", request,                                                                          \
                 [&](hmc::Window& w) { return to_c(w.swap_nb(rank, offset, value, old)); });                          \
  }                                                                                                                   \
  hmc_code hmc_compare_swap_nb_##width(hmc_window_t window, int rank, std::uint64_t offset, word expected,            \
                                       word desired, word* old, hmc_request_t* request) {                             \
    return query(window, "compare_swap_nb", request,                                                                  \
                 [&](hmc::Window& w) { return to_c(w.compare_swap_nb(rank, offset, expected, desired, old)); });      \
  }                                                                                                                   \
  hmc_code hmc_fetch_nb_##width(hmc_window_t window, int rank, std::uint64_t offset, word* value,                     \
                                hmc_request_t* request) {                                                             \
    return query(window, "fetch_nb", request, [&](hmc::Window& w) { return to_c(w.fetch_nb(rank, offset, value)); }); \
  }

HMC_ATOMICS(32, std::uint32_t)
HMC_ATOMICS(64, std::uint64_t)
