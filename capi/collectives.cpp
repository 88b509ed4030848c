// The C ABI: collectives, in three forms. Each form translates the same arguments in the same way.
#include "capi/c_api.hpp"

using namespace hmc::c_api;  // NOLINT: the functions below are C's

namespace {

using Numbers = std::span<const std::size_t>;

// hmc_dtype has the size of an int, and hmc::DType has 8 bits, so a C function can't be called as a ReduceFunction.
void call_user(void* accumulated, const void* next, std::size_t count, hmc::DType type, void* context) {
  const auto& user = *static_cast<const hmc_user_function*>(context);
  user.function(accumulated, next, count, static_cast<hmc_dtype>(type), user.context);
}

hmc::DType dtype_of(hmc_dtype type, const char* operation) {
  return enum_of<hmc::DType>(type, hmc::dtype_count, operation, "element type");
}

/// Gives the address under which call_user finds the function during the call.
template <typename Keep> hmc::Reduction reduction_of(const hmc_reduction* given, Keep&& keep, const char* operation) {
  if (given == nullptr) return hmc::sum;
  const hmc_reduction how = copy_in(given, operation);
  hmc::Reduction reduction = enum_of<hmc::Op>(how.op, hmc::op_count, operation, "operation");
  if (how.function != nullptr) reduction = {call_user, keep({how.function, how.context}), how.commutative != 0};
  reduction.deterministic = how.deterministic != 0;
  return reduction;
}

/// One count per rank.
Numbers counts_of(hmc::Team& team, const size_t* counts, const char* operation) {
  return {&required(counts, operation, "the array of counts"), static_cast<std::size_t>(team.size())};
}
/// Empty if null: the blocks are contiguous.
Numbers displacements_of(hmc::Team& team, const size_t* displacements) {
  return displacements == nullptr ? Numbers{} : Numbers{displacements, static_cast<std::size_t>(team.size())};
}

// ---- the three forms. `call` gets the team, and a function that keeps a user function as long as the call needs it.

template <typename Call> hmc_code blocking(const char* name, hmc_team_t team, Call&& call) {
  return guarded(name, [&] {
    hmc_user_function kept{};
    call(team_of(team, name), [&](hmc_user_function user) {
      kept = user;
      return &kept;
    });
  });
}

/// The team keeps each function of its non-blocking calls, without duplicates.
template <typename Call> hmc_code started(const char* name, hmc_team_t team, hmc_request_t* request, Call&& call) {
  return guarded(name, [&] {
    hmc_request_t& out_request = required(request, name, "the place for the request");
    const auto keep = [&](hmc_user_function user) {
      for (hmc_user_function& known : team->functions)
        if (known.function == user.function && known.context == user.context) return &known;
      return &team->functions.emplace_back(user);
    };
    to_c(call(team_of(team, name), keep), out_request);
  });
}

template <typename Call> hmc_code planned(const char* name, hmc_team_t team, hmc_plan_t* plan, Call&& call) {
  return guarded(name, [&] {
    hmc_plan_t& out_plan = required(plan, name, "the place for the plan");
    auto made = std::make_unique<hmc_plan>();
    made->plan = call(team_of(team, name), [&](hmc_user_function user) {
      made->user = user;
      return &made->user;
    });
    out_plan = made.release();
  });
}

}  // namespace

// ---- blocking

hmc_code hmc_barrier(hmc_team_t team) {
  return blocking("barrier", team, [&](hmc::Team& t, auto&&) { t.barrier(); });
}
hmc_code hmc_broadcast(hmc_team_t team, void* data, size_t bytes, int root) {
  return blocking("broadcast", team, [&](hmc::Team& t, auto&&) { t.broadcast(data, bytes, root); });
}
hmc_code hmc_gather(hmc_team_t team, const void* in, void* out, size_t bytes, int root) {
  return blocking("gather", team, [&](hmc::Team& t, auto&&) { t.gather(in, out, bytes, root); });
}
hmc_code hmc_gatherv(hmc_team_t team, const void* in, void* out, const size_t* counts, const size_t* displacements,
                     int root, size_t element) {
  constexpr const char* name = "gatherv";
  return blocking(name, team, [&](hmc::Team& t, auto&&) {
    t.gatherv(in, out, counts_of(t, counts, name), displacements_of(t, displacements), root, element);
  });
}
hmc_code hmc_scatter(hmc_team_t team, const void* in, void* out, size_t bytes, int root) {
  return blocking("scatter", team, [&](hmc::Team& t, auto&&) { t.scatter(in, out, bytes, root); });
}
hmc_code hmc_scatterv(hmc_team_t team, const void* in, void* out, const size_t* counts, const size_t* displacements,
                      int root, size_t element) {
  constexpr const char* name = "scatterv";
  return blocking(name, team, [&](hmc::Team& t, auto&&) {
    t.scatterv(in, out, counts_of(t, counts, name), displacements_of(t, displacements), root, element);
  });
}
hmc_code hmc_allgather(hmc_team_t team, const void* in, void* out, size_t bytes) {
  return blocking("allgather", team, [&](hmc::Team& t, auto&&) { t.allgather(in, out, bytes); });
}
hmc_code hmc_allgatherv(hmc_team_t team, const void* in, void* out, const size_t* counts, const size_t* displacements,
                        size_t element) {
  constexpr const char* name = "allgatherv";
  return blocking(name, team, [&](hmc::Team& t, auto&&) {
    t.allgatherv(in, out, counts_of(t, counts, name), displacements_of(t, displacements), element);
  });
}
hmc_code hmc_alltoall(hmc_team_t team, const void* in, void* out, size_t bytes) {
  return blocking("alltoall", team, [&](hmc::Team& t, auto&&) { t.alltoall(in, out, bytes); });
}
hmc_code hmc_alltoallv(hmc_team_t team, const void* in, const size_t* counts, const size_t* displacements, void* out,
                       const size_t* receive_counts, const size_t* receive_displacements, size_t element) {
  constexpr const char* name = "alltoallv";
  return blocking(name, team, [&](hmc::Team& t, auto&&) {
    t.alltoallv(in, counts_of(t, counts, name), displacements_of(t, displacements), out,
                counts_of(t, receive_counts, name), displacements_of(t, receive_displacements), element);
  });
}
hmc_code hmc_reduce(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type, const hmc_reduction* how,
                    int root) {
  constexpr const char* name = "reduce";
  return blocking(name, team, [&](hmc::Team& t, auto&& user) {
    t.reduce(in, out, count, dtype_of(type, name), reduction_of(how, user, name), root);
  });
}
hmc_code hmc_allreduce(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type,
                       const hmc_reduction* how) {
  constexpr const char* name = "allreduce";
  return blocking(name, team, [&](hmc::Team& t, auto&& user) {
    t.allreduce(in, out, count, dtype_of(type, name), reduction_of(how, user, name));
  });
}
hmc_code hmc_reduce_scatter(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type,
                            const hmc_reduction* how) {
  constexpr const char* name = "reduce_scatter";
  return blocking(name, team, [&](hmc::Team& t, auto&& user) {
    t.reduce_scatter(in, out, count, dtype_of(type, name), reduction_of(how, user, name));
  });
}
hmc_code hmc_reduce_scatterv(hmc_team_t team, const void* in, void* out, const size_t* counts, hmc_dtype type,
                             const hmc_reduction* how) {
  constexpr const char* name = "reduce_scatterv";
  return blocking(name, team, [&](hmc::Team& t, auto&& user) {
    t.reduce_scatterv(in, out, counts_of(t, counts, name), dtype_of(type, name), reduction_of(how, user, name));
  });
}
hmc_code hmc_scan(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type, const hmc_reduction* how) {
  constexpr const char* name = "scan";
  return blocking(name, team, [&](hmc::Team& t, auto&& user) {
    t.scan(in, out, count, dtype_of(type, name), reduction_of(how, user, name));
  });
}
hmc_code hmc_exscan(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type,
                    const hmc_reduction* how) {
  constexpr const char* name = "exscan";
  return blocking(name, team, [&](hmc::Team& t, auto&& user) {
    t.exscan(in, out, count, dtype_of(type, name), reduction_of(how, user, name));
  });
}

// ---- non-blocking

hmc_code hmc_ibarrier(hmc_team_t team, hmc_request_t* request) {
  return started("ibarrier", team, request, [&](hmc::Team& t, auto&&) { return t.ibarrier(); });
}
hmc_code hmc_ibroadcast(hmc_team_t team, void* data, size_t bytes, int root, hmc_request_t* request) {
  return started("ibroadcast", team, request, [&](hmc::Team& t, auto&&) { return t.ibroadcast(data, bytes, root); });
}
hmc_code hmc_igather(hmc_team_t team, const void* in, void* out, size_t bytes, int root, hmc_request_t* request) {
  return started("igather", team, request, [&](hmc::Team& t, auto&&) { return t.igather(in, out, bytes, root); });
}
hmc_code hmc_igatherv(hmc_team_t team, const void* in, void* out, const size_t* counts, const size_t* displacements,
                      int root, size_t element, hmc_request_t* request) {
  constexpr const char* name = "igatherv";
  return started(name, team, request, [&](hmc::Team& t, auto&&) {
    return t.igatherv(in, out, counts_of(t, counts, name), displacements_of(t, displacements), root, element);
  });
}
hmc_code hmc_iscatter(hmc_team_t team, const void* in, void* out, size_t bytes, int root, hmc_request_t* request) {
  return started("iscatter", team, request, [&](hmc::Team& t, auto&&) { return t.iscatter(in, out, bytes, root); });
}
hmc_code hmc_iscatterv(hmc_team_t team, const void* in, void* out, const size_t* counts, const size_t* displacements,
                       int root, size_t element, hmc_request_t* request) {
  constexpr const char* name = "iscatterv";
  return started(name, team, request, [&](hmc::Team& t, auto&&) {
    return t.iscatterv(in, out, counts_of(t, counts, name), displacements_of(t, displacements), root, element);
  });
}
hmc_code hmc_iallgather(hmc_team_t team, const void* in, void* out, size_t bytes, hmc_request_t* request) {
  return started("iallgather", team, request, [&](hmc::Team& t, auto&&) { return t.iallgather(in, out, bytes); });
}
hmc_code hmc_iallgatherv(hmc_team_t team, const void* in, void* out, const size_t* counts, const size_t* displacements,
                         size_t element, hmc_request_t* request) {
  constexpr const char* name = "iallgatherv";
  return started(name, team, request, [&](hmc::Team& t, auto&&) {
    return t.iallgatherv(in, out, counts_of(t, counts, name), displacements_of(t, displacements), element);
  });
}
hmc_code hmc_ialltoall(hmc_team_t team, const void* in, void* out, size_t bytes, hmc_request_t* request) {
  return started("ialltoall", team, request, [&](hmc::Team& t, auto&&) { return t.ialltoall(in, out, bytes); });
}
hmc_code hmc_ialltoallv(hmc_team_t team, const void* in, const size_t* counts, const size_t* displacements, void* out,
                        const size_t* receive_counts, const size_t* receive_displacements, size_t largest,
                        size_t element, hmc_request_t* request) {
  constexpr const char* name = "ialltoallv";
  return started(name, team, request, [&](hmc::Team& t, auto&&) {
    return t.ialltoallv(in, counts_of(t, counts, name), displacements_of(t, displacements), out,
                        counts_of(t, receive_counts, name), displacements_of(t, receive_displacements), largest,
                        element);
  });
}
hmc_code hmc_ireduce(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type, const hmc_reduction* how,
                     int root, hmc_request_t* request) {
  constexpr const char* name = "ireduce";
  return started(name, team, request, [&](hmc::Team& t, auto&& user) {
    return t.ireduce(in, out, count, dtype_of(type, name), reduction_of(how, user, name), root);
  });
}
hmc_code hmc_iallreduce(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type,
                        const hmc_reduction* how, hmc_request_t* request) {
  constexpr const char* name = "iallreduce";
  return started(name, team, request, [&](hmc::Team& t, auto&& user) {
    return t.iallreduce(in, out, count, dtype_of(type, name), reduction_of(how, user, name));
  });
}
hmc_code hmc_ireduce_scatter(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type,
                             const hmc_reduction* how, hmc_request_t* request) {
  constexpr const char* name = "ireduce_scatter";
  return started(name, team, request, [&](hmc::Team& t, auto&& user) {
    return t.ireduce_scatter(in, out, count, dtype_of(type, name), reduction_of(how, user, name));
  });
}
hmc_code hmc_ireduce_scatterv(hmc_team_t team, const void* in, void* out, const size_t* counts, hmc_dtype type,
                              const hmc_reduction* how, hmc_request_t* request) {
  constexpr const char* name = "ireduce_scatterv";
  return started(name, team, request, [&](hmc::Team& t, auto&& user) {
    return t.ireduce_scatterv(in, out, counts_of(t, counts, name), dtype_of(type, name), reduction_of(how, user, name));
  });
}
hmc_code hmc_iscan(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type, const hmc_reduction* how,
                   hmc_request_t* request) {
  constexpr const char* name = "iscan";
  return started(name, team, request, [&](hmc::Team& t, auto&& user) {
    return t.iscan(in, out, count, dtype_of(type, name), reduction_of(how, user, name));
  });
}
hmc_code hmc_iexscan(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type, const hmc_reduction* how,
                     hmc_request_t* request) {
  constexpr const char* name = "iexscan";
  return started(name, team, request, [&](hmc::Team& t, auto&& user) {
    return t.iexscan(in, out, count, dtype_of(type, name), reduction_of(how, user, name));
  });
}

// ---- persistent

hmc_code hmc_plan_barrier(hmc_team_t team, hmc_plan_t* plan) {
  return planned("plan_barrier", team, plan, [&](hmc::Team& t, auto&&) { return t.plan_barrier(); });
}
hmc_code hmc_plan_broadcast(hmc_team_t team, void* data, size_t bytes, int root, hmc_plan_t* plan) {
  return planned("plan_broadcast", team, plan,
                 [&](hmc::Team& t, auto&&) { return t.plan_broadcast(data, bytes, root); });
}
hmc_code hmc_plan_gather(hmc_team_t team, const void* in, void* out, size_t bytes, int root, hmc_plan_t* plan) {
  return planned("plan_gather", team, plan, [&](hmc::Team& t, auto&&) { return t.plan_gather(in, out, bytes, root); });
}
hmc_code hmc_plan_gatherv(hmc_team_t team, const void* in, void* out, const size_t* counts, const size_t* displacements,
                          int root, size_t element, hmc_plan_t* plan) {
  constexpr const char* name = "plan_gatherv";
  return planned(name, team, plan, [&](hmc::Team& t, auto&&) {
    return t.plan_gatherv(in, out, counts_of(t, counts, name), displacements_of(t, displacements), root, element);
  });
}
hmc_code hmc_plan_scatter(hmc_team_t team, const void* in, void* out, size_t bytes, int root, hmc_plan_t* plan) {
  return planned("plan_scatter", team, plan,
                 [&](hmc::Team& t, auto&&) { return t.plan_scatter(in, out, bytes, root); });
}
hmc_code hmc_plan_scatterv(hmc_team_t team, const void* in, void* out, const size_t* counts,
                           const size_t* displacements, int root, size_t element, hmc_plan_t* plan) {
  constexpr const char* name = "plan_scatterv";
  return planned(name, team, plan, [&](hmc::Team& t, auto&&) {
    return t.plan_scatterv(in, out, counts_of(t, counts, name), displacements_of(t, displacements), root, element);
  });
}
hmc_code hmc_plan_allgather(hmc_team_t team, const void* in, void* out, size_t bytes, hmc_plan_t* plan) {
  return planned("plan_allgather", team, plan, [&](hmc::Team& t, auto&&) { return t.plan_allgather(in, out, bytes); });
}
hmc_code hmc_plan_allgatherv(hmc_team_t team, const void* in, void* out, const size_t* counts,
                             const size_t* displacements, size_t element, hmc_plan_t* plan) {
  constexpr const char* name = "plan_allgatherv";
  return planned(name, team, plan, [&](hmc::Team& t, auto&&) {
    return t.plan_allgatherv(in, out, counts_of(t, counts, name), displacements_of(t, displacements), element);
  });
}
hmc_code hmc_plan_alltoall(hmc_team_t team, const void* in, void* out, size_t bytes, hmc_plan_t* plan) {
  return planned("plan_alltoall", team, plan, [&](hmc::Team& t, auto&&) { return t.plan_alltoall(in, out, bytes); });
}
hmc_code hmc_plan_alltoallv(hmc_team_t team, const void* in, const size_t* counts, const size_t* displacements,
                            void* out, const size_t* receive_counts, const size_t* receive_displacements,
                            size_t largest, size_t element, hmc_plan_t* plan) {
  constexpr const char* name = "plan_alltoallv";
  return planned(name, team, plan, [&](hmc::Team& t, auto&&) {
    return t.plan_alltoallv(in, counts_of(t, counts, name), displacements_of(t, displacements), out,
                            counts_of(t, receive_counts, name), displacements_of(t, receive_displacements), largest,
                            element);
  });
}
hmc_code hmc_plan_reduce(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type,
                         const hmc_reduction* how, int root, hmc_plan_t* plan) {
  constexpr const char* name = "plan_reduce";
  return planned(name, team, plan, [&](hmc::Team& t, auto&& user) {
    return t.plan_reduce(in, out, count, dtype_of(type, name), reduction_of(how, user, name), root);
  });
}
hmc_code hmc_plan_allreduce(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type,
                            const hmc_reduction* how, hmc_plan_t* plan) {
  constexpr const char* name = "plan_allreduce";
  return planned(name, team, plan, [&](hmc::Team& t, auto&& user) {
    return t.plan_allreduce(in, out, count, dtype_of(type, name), reduction_of(how, user, name));
  });
}
hmc_code hmc_plan_reduce_scatter(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type,
                                 const hmc_reduction* how, hmc_plan_t* plan) {
  constexpr const char* name = "plan_reduce_scatter";
  return planned(name, team, plan, [&](hmc::Team& t, auto&& user) {
    return t.plan_reduce_scatter(in, out, count, dtype_of(type, name), reduction_of(how, user, name));
  });
}
hmc_code hmc_plan_reduce_scatterv(hmc_team_t team, const void* in, void* out, const size_t* counts, hmc_dtype type,
                                  const hmc_reduction* how, hmc_plan_t* plan) {
  constexpr const char* name = "plan_reduce_scatterv";
  return planned(name, team, plan, [&](hmc::Team& t, auto&& user) {
    return t.plan_reduce_scatterv(in, out, counts_of(t, counts, name), dtype_of(type, name),
                                  reduction_of(how, user, name));
  });
}
hmc_code hmc_plan_scan(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type,
                       const hmc_reduction* how, hmc_plan_t* plan) {
  constexpr const char* name = "plan_scan";
  return planned(name, team, plan, [&](hmc::Team& t, auto&& user) {
    return t.plan_scan(in, out, count, dtype_of(type, name), reduction_of(how, user, name));
  });
}
hmc_code hmc_plan_exscan(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type,
                         const hmc_reduction* how, hmc_plan_t* plan) {
  constexpr const char* name = "plan_exscan";
  return planned(name, team, plan, [&](hmc::Team& t, auto&& user) {
    return t.plan_exscan(in, out, count, dtype_of(type, name), reduction_of(how, user, name));
  });
}

hmc_code hmc_plan_start(hmc_plan_t plan) {
  return guarded("Plan::start", [&] { required(plan, "Plan::start", "the plan").plan.start(); });
}
hmc_code hmc_plan_test(hmc_plan_t plan, int* done) {
  return guarded("Plan::test", [&] {
    int& out = required(done, "Plan::test", "the place for the result");
    out = required(plan, "Plan::test", "the plan").plan.test() ? 1 : 0;
  });
}
hmc_code hmc_plan_wait(hmc_plan_t plan, int64_t timeout_ns) {
  return guarded("Plan::wait", [&] { required(plan, "Plan::wait", "the plan").plan.wait(timeout_of(timeout_ns)); });
}
void hmc_plan_destroy(hmc_plan_t plan) { delete plan; }
