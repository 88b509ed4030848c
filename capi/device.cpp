// The C ABI: collectives on streams, and the user context.
#include "capi/c_api.hpp"

using namespace hmc::c_api;  // NOLINT: the functions below are C's

hmc_code hmc_allreduce_on(hmc_team_t team, void* stream, const void* in, void* out, std::size_t count, hmc_dtype type,
                          hmc_op op) {
  return guarded("allreduce_on", [&] {
    const auto how = enum_of<hmc::Op>(op, hmc::op_count, "allreduce_on", "operation");
    const auto element = enum_of<hmc::DType>(type, hmc::dtype_count, "allreduce_on", "element type");
    team_of(team, "allreduce_on").allreduce_on(stream, in, out, count, element, how);
  });
}

hmc_code hmc_barrier_on(hmc_team_t team, void* stream, const void* buffer) {
  return guarded("barrier_on", [&] { team_of(team, "barrier_on").barrier_on(stream, buffer); });
}

static_assert(HMC_CONTEXT_BYTES == hmc::Window::context_bytes);

hmc_code hmc_window_open_context(hmc_window_t window, hmc_team_t team) {
  constexpr const char* name = "Window::open_context";
  return guarded(name, [&] { window_of(window, name).open_context(team_of(team, name)); });
}
hmc_code hmc_window_set_context(hmc_window_t window, std::uint64_t offset, const void* source, std::size_t bytes) {
  constexpr const char* name = "Window::set_context";
  return guarded(name, [&] { window_of(window, name).set_context(offset, source, bytes); });
}
hmc_code hmc_window_get_context(hmc_window_t window, int rank, std::uint64_t offset, void* destination,
                                std::size_t bytes) {
  constexpr const char* name = "Window::get_context";
  return guarded(name, [&] { window_of(window, name).get_context(rank, offset, destination, bytes); });
}
