// The C ABI: atomics. Signed and unsigned words have the same representation, so one function per width is enough.
#include "capi/c_api.hpp"

using namespace hmc::c_api;  // NOLINT: the functions below are C's

namespace {

template <typename T, typename Call>
hmc_code fetching(hmc_window_t window, const char* operation, T* old, Call&& call) {
  return guarded(operation, [&] {
    const T before = call(window_of(window, operation));
    if (old != nullptr) *old = before;
  });
}

template <typename Call> hmc_code posting(hmc_window_t window, const char* operation, Call&& call) {
  return guarded(operation, [&] { call(window_of(window, operation)); });
}

}  // namespace

// Twelve operations in two widths. The header declares them without macros, because binding generators read it.
#define HMC_FETCHING(name, verb, width, word)                                                                 \
  hmc_code hmc_##name##_##width(hmc_window_t window, int rank, std::uint64_t offset, word value, word* old) { \
    return fetching(window, #verb, old, [&](hmc::Window& of) { return of.verb<word>(rank, offset, value); }); \
  }
#define HMC_POSTING(name, verb, width, word)                                                       \
  hmc_code hmc_##name##_##width(hmc_window_t window, int rank, std::uint64_t offset, word value) { \
    return posting(window, #verb, [&](hmc::Window& of) { of.verb<word>(rank, offset, value); });   \
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
                    [&](hmc::Window& of) { return of.compare_swap<word>(rank, offset, expected, desired); });         \
  }                                                                                                                   \
  hmc_code hmc_fetch_##width(hmc_window_t window, int rank, std::uint64_t offset, word* value) {                      \
    return fetching(window, "fetch", value, [&](hmc::Window& of) { return of.fetch<word>(rank, offset); });           \
  }

HMC_ATOMICS(32, std::uint32_t)
HMC_ATOMICS(64, std::uint64_t)
