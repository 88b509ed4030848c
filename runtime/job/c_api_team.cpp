// The C ABI: collectives.
#include "runtime/job/c_api.hpp"

using namespace hmc::c_api;  // NOLINT: the functions below are C's

namespace {

hmc::DType dtype_of(hmc_dtype type) { return enum_of<hmc::DType>(type, hmc::dtype_count, "allreduce", "element type"); }

// C's enum and C++'s are passed differently, so a C function can't be called as a ReduceFunction.
struct UserFunction {
  hmc_reduce_function function;
  void* context;
};
void call_user(void* accumulated, const void* next, std::size_t count, hmc::DType type, void* context) {
  const auto& user = *static_cast<const UserFunction*>(context);
  user.function(accumulated, next, count, static_cast<hmc_dtype>(type), user.context);
}

}  // namespace

int hmc_team_rank(hmc_team_t team) { return team == nullptr ? -1 : team->team->rank(); }
int hmc_team_size(hmc_team_t team) { return team == nullptr ? -1 : team->team->size(); }

hmc_code hmc_barrier(hmc_team_t team) {
  return guarded("barrier", [&] { team_of(team, "barrier").barrier(); });
}

hmc_code hmc_broadcast(hmc_team_t team, void* data, std::size_t bytes, int root) {
  return guarded("broadcast", [&] { team_of(team, "broadcast").broadcast(data, bytes, root); });
}

hmc_code hmc_allgather(hmc_team_t team, const void* in, void* out, std::size_t bytes) {
  return guarded("allgather", [&] { team_of(team, "allgather").allgather(in, out, bytes); });
}

hmc_code hmc_allreduce(hmc_team_t team, const void* in, void* out, std::size_t count, hmc_dtype type, hmc_op op) {
  return guarded("allreduce", [&] {
    const auto how = enum_of<hmc::Op>(op, hmc::op_count, "allreduce", "operation");
    team_of(team, "allreduce").allreduce(in, out, count, dtype_of(type), how);
  });
}

hmc_code hmc_allreduce_user(hmc_team_t team, const void* in, void* out, std::size_t count, hmc_dtype type,
                            hmc_reduce_function function, void* context) {
  return guarded("allreduce", [&] {
    if (function == nullptr) throw hmc::Error(hmc::Code::invalid_argument, "allreduce", "the function is null");
    UserFunction user{function, context};
    team_of(team, "allreduce").allreduce(in, out, count, dtype_of(type), call_user, &user);
  });
}
