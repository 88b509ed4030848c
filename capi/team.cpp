// The C ABI: teams, and collectives in their three forms.
#include "capi/c_api.hpp"

#include <utility>

using namespace hmc::c_api;  // NOLINT: the functions below are C's

namespace {

// Creates a team. *result is null on ranks that aren't members of it.
template <typename Make> hmc_code derive(const char* operation, hmc_team_t parent, hmc_team_t* result, Make&& make) {
  return query(parent, operation, result, [&](hmc::Team& t) -> hmc_team_t {
    hmc::Team made = make(t);
    return made ? new hmc_team{std::move(made)} : nullptr;
  });
}

using Numbers = std::span<const std::size_t>;

// hmc_dtype has the size of an int, and hmc::DType has 8 bits, so a C function can't be called as a ReduceFunction.
void call_user(void* accumulated, const void* next, std::size_t count, hmc::DType type, void* context) {
  const auto& user = *static_cast<const hmc_user_function*>(context);
  user.function(accumulated, next, count, static_cast<hmc_dtype>(type), user.context);
}

/// Gives the address under which call_user finds the function during the call.
template <typename Keep> hmc::Reduction reduction_of(const hmc_reduction* given, Keep&& keep, const char* operation) {
  if (given == nullptr) return hmc::sum;
  const hmc_reduction how = copy_in(given, operation);
  hmc::Reduction reduction = op_of(how.op, operation);
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

// ---- the three forms. `call` gets the team, the name for errors, and a function that keeps a user function as long as
// the form needs it.

template <typename Call> hmc_code blocking(const char* name, hmc_team_t team, Call&& call) {
  return with(team, name, [&](hmc::Team& t) {
    hmc_user_function kept{};
    call(t, name, [&](hmc_user_function user) {
      kept = user;
      return &kept;
    });
  });
}

/// The team keeps each function of its non-blocking calls, without duplicates.
template <typename Call> hmc_code started(const char* name, hmc_team_t team, hmc_request_t* request, Call&& call) {
  return query(team, name, request, [&](hmc::Team& t) {
    return to_c(call(t, name, [&](hmc_user_function user) {
      for (hmc_user_function& known : team->functions)
        if (known.function == user.function && known.context == user.context) return &known;
      return &team->functions.emplace_back(user);
    }));
  });
}

template <typename Call> hmc_code planned(const char* name, hmc_team_t team, hmc_plan_t* plan, Call&& call) {
  return query(team, name, plan, [&](hmc::Team& t) {
    auto made = std::make_unique<hmc_plan>();
    made->object = call(t, name, [&](hmc_user_function user) {
      made->user = user;
      return &made->user;
    });
    return made.release();
  });
}

}  // namespace

// ---- teams
int hmc_team_rank(hmc_team_t team) { return team == nullptr ? -1 : team->object.rank(); }
int hmc_team_size(hmc_team_t team) { return team == nullptr ? -1 : team->object.size(); }
int hmc_team_world_rank(hmc_team_t team, int rank) {
  int world = -1;
  (void)with(team, "Team::world_rank", [&](hmc::Team& t) { world = t.world_rank(rank); });
  return world;
}

hmc_code hmc_team_split(hmc_team_t team, int colour, int key, hmc_team_t* result) {
  return derive("split", team, result, [&](hmc::Team& t) { return t.split(colour, key); });
}
hmc_code hmc_team_subset(hmc_team_t team, const int* ranks, std::size_t count, hmc_team_t* result) {
  return derive("subset", team, result, [&](hmc::Team& t) {
    if (count > 0) (void)required(ranks, "subset", "the list of ranks");
    return t.subset({ranks, count});
  });
}
hmc_code hmc_team_duplicate(hmc_team_t team, hmc_team_t* result) {
  return derive("duplicate", team, result, [](hmc::Team& t) { return t.duplicate(); });
}
hmc_code hmc_team_node(hmc_team_t team, hmc_team_t* result) {
  return derive("node_team", team, result, [](hmc::Team& t) { return t.node_team(); });
}
hmc_code hmc_team_leaders(hmc_team_t team, hmc_team_t* result) {
  return derive("leaders", team, result, [](hmc::Team& t) { return t.leaders(); });
}
hmc_code hmc_team_shrink(hmc_team_t world) {
  return with(world, "shrink", [](hmc::Team& t) { t = t.shrink(); });
}
hmc_code hmc_team_grow(hmc_team_t world, std::int64_t timeout_ns) {
  return with(world, "grow", [&](hmc::Team& t) { t = t.grow(timeout_of(timeout_ns)); });
}
hmc_code hmc_team_close(hmc_team_t team) {
  return with(team, "Team::close", [](hmc::Team& t) { t.close(); });
}
void hmc_team_destroy(hmc_team_t team) {
  if (team != nullptr && !team->is_world) delete team;
}

// ---- collectives. The three forms of a collective convert the same arguments in the same way, so each collective is
// written once: its name, the parameters after the team, and the arguments of the C++ function. The header declares the
// functions without macros, because binding generators read it.
#define HMC_MORE(...) __VA_OPT__(, ) __VA_ARGS__
#define HMC_CALL(call) \
  [&](hmc::Team& t, [[maybe_unused]] const char* name, [[maybe_unused]] auto&& user) { return t.call; }
#define HMC_BLOCKING(function, parameters, arguments)               \
  hmc_code hmc_##function(hmc_team_t team HMC_MORE parameters) {    \
    return blocking(#function, team, HMC_CALL(function arguments)); \
  }
#define HMC_STARTED(function, parameters, arguments)                                      \
  hmc_code hmc_i##function(hmc_team_t team HMC_MORE parameters, hmc_request_t* request) { \
    return started("i" #function, team, request, HMC_CALL(i##function arguments));        \
  }                                                                                       \
  hmc_code hmc_plan_##function(hmc_team_t team HMC_MORE parameters, hmc_plan_t* plan) {   \
    return planned("plan_" #function, team, plan, HMC_CALL(plan_##function arguments));   \
  }
#define HMC_COLLECTIVE(function, parameters, arguments) \
  HMC_BLOCKING(function, parameters, arguments)         \
  HMC_STARTED(function, parameters, arguments)

HMC_COLLECTIVE(barrier, (), ())
HMC_COLLECTIVE(broadcast, (void* data, size_t bytes, int root), (data, bytes, root))
HMC_COLLECTIVE(gather, (const void* in, void* out, size_t bytes, int root), (in, out, bytes, root))
HMC_COLLECTIVE(gatherv,
               (const void* in, void* out, const size_t* counts, const size_t* displacements, int root, size_t element),
               (in, out, counts_of(t, counts, name), displacements_of(t, displacements), root, element))
HMC_COLLECTIVE(scatter, (const void* in, void* out, size_t bytes, int root), (in, out, bytes, root))
HMC_COLLECTIVE(scatterv,
               (const void* in, void* out, const size_t* counts, const size_t* displacements, int root, size_t element),
               (in, out, counts_of(t, counts, name), displacements_of(t, displacements), root, element))
HMC_COLLECTIVE(allgather, (const void* in, void* out, size_t bytes), (in, out, bytes))
HMC_COLLECTIVE(allgatherv,
               (const void* in, void* out, const size_t* counts, const size_t* displacements, size_t element),
               (in, out, counts_of(t, counts, name), displacements_of(t, displacements), element))
HMC_COLLECTIVE(alltoall, (const void* in, void* out, size_t bytes), (in, out, bytes))
HMC_BLOCKING(alltoallv,
             (const void* in, const size_t* counts, const size_t* displacements, void* out,
              const size_t* receive_counts, const size_t* receive_displacements, size_t element),
             (in, counts_of(t, counts, name), displacements_of(t, displacements), out,
              counts_of(t, receive_counts, name), displacements_of(t, receive_displacements), element))
HMC_STARTED(alltoallv,
            (const void* in, const size_t* counts, const size_t* displacements, void* out, const size_t* receive_counts,
             const size_t* receive_displacements, size_t largest, size_t element),
            (in, counts_of(t, counts, name), displacements_of(t, displacements), out,
             counts_of(t, receive_counts, name), displacements_of(t, receive_displacements), largest, element))
HMC_COLLECTIVE(reduce, (const void* in, void* out, size_t count, hmc_dtype type, const hmc_reduction* how, int root),
               (in, out, count, dtype_of(type, name), reduction_of(how, user, name), root))
HMC_COLLECTIVE(allreduce, (const void* in, void* out, size_t count, hmc_dtype type, const hmc_reduction* how),
               (in, out, count, dtype_of(type, name), reduction_of(how, user, name)))
HMC_COLLECTIVE(reduce_scatter, (const void* in, void* out, size_t count, hmc_dtype type, const hmc_reduction* how),
               (in, out, count, dtype_of(type, name), reduction_of(how, user, name)))
HMC_COLLECTIVE(reduce_scatterv,
               (const void* in, void* out, const size_t* counts, hmc_dtype type, const hmc_reduction* how),
               (in, out, counts_of(t, counts, name), dtype_of(type, name), reduction_of(how, user, name)))
HMC_COLLECTIVE(scan, (const void* in, void* out, size_t count, hmc_dtype type, const hmc_reduction* how),
               (in, out, count, dtype_of(type, name), reduction_of(how, user, name)))
HMC_COLLECTIVE(exscan, (const void* in, void* out, size_t count, hmc_dtype type, const hmc_reduction* how),
               (in, out, count, dtype_of(type, name), reduction_of(how, user, name)))

hmc_code hmc_plan_start(hmc_plan_t plan) {
  return with(plan, "Plan::start", [](hmc::Plan& p) { p.start(); });
}
hmc_code hmc_plan_test(hmc_plan_t plan, int* done) {
  return query(plan, "Plan::test", done, [](hmc::Plan& p) { return p.test() ? 1 : 0; });
}
hmc_code hmc_plan_wait(hmc_plan_t plan, int64_t timeout_ns) {
  return with(plan, "Plan::wait", [&](hmc::Plan& p) { p.wait(timeout_of(timeout_ns)); });
}
void hmc_plan_destroy(hmc_plan_t plan) { delete plan; }

// ---- collectives on streams
hmc_code hmc_allreduce_on(hmc_team_t team, void* stream, const void* in, void* out, std::size_t count, hmc_dtype type,
                          hmc_op op) {
  constexpr const char* name = "allreduce_on";
  return with(team, name,
              [&](hmc::Team& t) { t.allreduce_on(stream, in, out, count, dtype_of(type, name), op_of(op, name)); });
}
hmc_code hmc_barrier_on(hmc_team_t team, void* stream, const void* buffer) {
  return with(team, "barrier_on", [&](hmc::Team& t) { t.barrier_on(stream, buffer); });
}
