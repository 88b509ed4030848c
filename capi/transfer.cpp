// The C ABI: transfers and requests.
#include <array>
#include <type_traits>
#include <vector>

#include "capi/c_api.hpp"

using namespace hmc::c_api;  // NOLINT: the functions below are C's

namespace {

// ---- requests are plain bytes in C; all zeros is an empty request
using Raw = hmc::Request::Raw;
static_assert(std::is_trivially_copyable_v<Raw> && sizeof(Raw) <= sizeof(hmc_request_t::opaque));

hmc::Request from_c(const hmc_request_t& from) {
  Raw raw{};
  if (from.struct_size != 0) std::memcpy(&raw, from.opaque, sizeof raw);
  return hmc::Request::from_raw(raw);
}

// Converts the requests, runs a call on them, and writes their new state back, even if the call throws.
template <typename Call>
void with_requests(hmc_request_t* requests, std::size_t count, const char* operation, Call&& call) {
  if (count != 0) required(requests, operation, "the array of requests");
  std::vector<hmc::Request> inner(count);
  for (std::size_t i = 0; i < count; ++i) inner[i] = from_c(requests[i]);
  const auto hand_back = [&] {
    for (std::size_t i = 0; i < count; ++i) to_c(inner[i], requests[i]);
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

hmc::Strides strides_of(const hmc_strides* strides, const char* operation) {
  const hmc_strides from = copy_in(strides, operation);
  return {from.rows, from.row_bytes, from.local_pitch, from.remote_pitch};
}

}  // namespace

void hmc::c_api::to_c(const hmc::Request& from, hmc_request_t& to) {
  to = {};
  to.struct_size = sizeof(hmc_request_t);
  const Raw raw = from.raw();
  std::memcpy(to.opaque, &raw, sizeof raw);
}

hmc_code hmc_put(hmc_window_t window, int rank, std::uint64_t offset, const void* source, std::size_t bytes) {
  return guarded("put", [&] { window_of(window, "put").put(rank, offset, source, bytes); });
}

hmc_code hmc_get(hmc_window_t window, int rank, std::uint64_t offset, void* destination, std::size_t bytes) {
  return guarded("get", [&] { window_of(window, "get").get(rank, offset, destination, bytes); });
}

hmc_code hmc_put_nb(hmc_window_t window, int rank, std::uint64_t offset, const void* source, std::size_t bytes,
                    hmc_request_t* request) {
  return guarded("put_nb", [&] {
    hmc_request_t& out = required(request, "put_nb", "the place for the request");
    to_c(window_of(window, "put_nb").put_nb(rank, offset, source, bytes), out);
  });
}

hmc_code hmc_get_nb(hmc_window_t window, int rank, std::uint64_t offset, void* destination, std::size_t bytes,
                    hmc_request_t* request) {
  return guarded("get_nb", [&] {
    hmc_request_t& out = required(request, "get_nb", "the place for the request");
    to_c(window_of(window, "get_nb").get_nb(rank, offset, destination, bytes), out);
  });
}

hmc_code hmc_put_strided(hmc_window_t window, int rank, std::uint64_t offset, const void* source,
                         const hmc_strides* strides) {
  return guarded("put_strided", [&] {
    window_of(window, "put_strided").put_strided(rank, offset, source, strides_of(strides, "put_strided"));
  });
}

hmc_code hmc_get_strided(hmc_window_t window, int rank, std::uint64_t offset, void* destination,
                         const hmc_strides* strides) {
  return guarded("get_strided", [&] {
    window_of(window, "get_strided").get_strided(rank, offset, destination, strides_of(strides, "get_strided"));
  });
}

hmc_code hmc_put_batch(hmc_window_t window, int rank, const hmc_put_item* items, std::size_t count) {
  return guarded("put_batch", [&] {
    hmc::Window& to = window_of(window, "put_batch");
    as_batch<hmc::Put>(
        items, count, "put_batch",
        [](const hmc_put_item& item) {
          return hmc::Put{item.offset, item.source, item.bytes};
        },
        [&](std::span<const hmc::Put> all) { to.put_batch(rank, all); });
  });
}

hmc_code hmc_get_batch(hmc_window_t window, int rank, const hmc_get_item* items, std::size_t count) {
  return guarded("get_batch", [&] {
    hmc::Window& from = window_of(window, "get_batch");
    as_batch<hmc::Get>(
        items, count, "get_batch",
        [](const hmc_get_item& item) {
          return hmc::Get{item.offset, item.destination, item.bytes};
        },
        [&](std::span<const hmc::Get> all) { from.get_batch(rank, all); });
  });
}

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
    std::size_t& out = required(index, "Request::wait", "the place for the index");
    with_requests(requests, count, "Request::wait",
                  [&](std::span<hmc::Request> all) { out = hmc::Request::wait_any(all, timeout_of(timeout_ns)); });
  });
}
