// The C ABI: the collectives that aren't in c_api_team.cpp, and the non-blocking collectives.
#include "capi/c_api.hpp"

using namespace hmc::c_api;  // NOLINT: the functions below are C's

namespace {

using Counts = hmc::Team::Counts;

// hmc_dtype has the size of an int, and hmc::DType has 8 bits, so a C function can't be called as a ReduceFunction.
void call_user(void* accumulated, const void* next, std::size_t count, hmc::DType type, void* context) {
  const auto& user = *static_cast<const hmc_user_function*>(context);
  user.function(accumulated, next, count, static_cast<hmc_dtype>(type), user.context);
}

hmc::DType dtype_of(hmc_dtype type, const char* operation) {
  return enum_of<hmc::DType>(type, hmc::dtype_count, operation, "element type");
}

/// The team stores each pair of function and context once, so its address stays valid during non-blocking calls.
hmc::Reduction reduction_of(hmc_team_t team, const hmc_reduction* given, const char* operation) {
  const hmc_reduction how = copy_in(given, operation);
  hmc::Reduction reduction = enum_of<hmc::Op>(how.op, hmc::op_count, operation, "operation");
  if (how.function != nullptr) {
    auto& known = team->functions;
    const auto same = [&](const hmc_user_function& each) {
      return each.function == how.function && each.context == how.context;
    };
    auto found = std::find_if(known.begin(), known.end(), same);
    if (found == known.end()) found = known.insert(known.end(), {how.function, how.context});
    reduction = hmc::Reduction(call_user, &*found, how.commutative != 0);
  }
  reduction.deterministic = how.deterministic != 0;
  return reduction;
}

/// One count per rank; empty if `counts` is null and may be.
Counts counts_of(hmc::Team& team, const size_t* counts, const char* operation, bool may_be_null = false) {
  if (counts == nullptr && may_be_null) return {};
  return {&required(counts, operation, "the array of counts"), static_cast<std::size_t>(team.size())};
}

}  // namespace

hmc_code hmc_gather(hmc_team_t team, const void* in, void* out, size_t bytes, int root) {
  constexpr const char* name = "gather";
  return guarded(name, [&] {
    hmc::Team& t = team_of(team, name);
    t.gather(in, out, bytes, root);
  });
}

hmc_code hmc_gatherv(hmc_team_t team, const void* in, void* out, const size_t* counts, const size_t* displacements,
                     int root, size_t element) {
  constexpr const char* name = "gatherv";
  return guarded(name, [&] {
    hmc::Team& t = team_of(team, name);
    t.gatherv(in, out, counts_of(t, counts, name), counts_of(t, displacements, name, true), root, element);
  });
}

hmc_code hmc_scatter(hmc_team_t team, const void* in, void* out, size_t bytes, int root) {
  constexpr const char* name = "scatter";
  return guarded(name, [&] {
    hmc::Team& t = team_of(team, name);
    t.scatter(in, out, bytes, root);
  });
}

hmc_code hmc_scatterv(hmc_team_t team, const void* in, void* out, const size_t* counts, const size_t* displacements,
                      int root, size_t element) {
  constexpr const char* name = "scatterv";
  return guarded(name, [&] {
    hmc::Team& t = team_of(team, name);
    t.scatterv(in, out, counts_of(t, counts, name), counts_of(t, displacements, name, true), root, element);
  });
}

hmc_code hmc_allgatherv(hmc_team_t team, const void* in, void* out, const size_t* counts, const size_t* displacements,
                        size_t element) {
  constexpr const char* name = "allgatherv";
  return guarded(name, [&] {
    hmc::Team& t = team_of(team, name);
    t.allgatherv(in, out, counts_of(t, counts, name), counts_of(t, displacements, name, true), element);
  });
}

hmc_code hmc_alltoall(hmc_team_t team, const void* in, void* out, size_t bytes) {
  constexpr const char* name = "alltoall";
  return guarded(name, [&] {
    hmc::Team& t = team_of(team, name);
    t.alltoall(in, out, bytes);
  });
}

hmc_code hmc_alltoallv(hmc_team_t team, const void* in, const size_t* counts, const size_t* displacements, void* out,
                       const size_t* receive_counts, const size_t* receive_displacements, size_t element) {
  constexpr const char* name = "alltoallv";
  return guarded(name, [&] {
    hmc::Team& t = team_of(team, name);
    t.alltoallv(in, counts_of(t, counts, name), counts_of(t, displacements, name, true), out,
                counts_of(t, receive_counts, name), counts_of(t, receive_displacements, name, true), element);
  });
}

hmc_code hmc_reduce(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type, const hmc_reduction* how,
                    int root) {
  constexpr const char* name = "reduce";
  return guarded(name, [&] {
    hmc::Team& t = team_of(team, name);
    t.reduce(in, out, count, dtype_of(type, name), reduction_of(team, how, name), root);
  });
}

hmc_code hmc_reduce_scatter(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type,
                            const hmc_reduction* how) {
  constexpr const char* name = "reduce_scatter";
  return guarded(name, [&] {
    hmc::Team& t = team_of(team, name);
    t.reduce_scatter(in, out, count, dtype_of(type, name), reduction_of(team, how, name));
  });
}

hmc_code hmc_reduce_scatterv(hmc_team_t team, const void* in, void* out, const size_t* counts, hmc_dtype type,
                             const hmc_reduction* how) {
  constexpr const char* name = "reduce_scatterv";
  return guarded(name, [&] {
    hmc::Team& t = team_of(team, name);
    t.reduce_scatterv(in, out, counts_of(t, counts, name), dtype_of(type, name), reduction_of(team, how, name));
  });
}

hmc_code hmc_scan(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type, const hmc_reduction* how) {
  constexpr const char* name = "scan";
  return guarded(name, [&] {
    hmc::Team& t = team_of(team, name);
    t.scan(in, out, count, dtype_of(type, name), reduction_of(team, how, name));
  });
}

hmc_code hmc_exscan(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type,
                    const hmc_reduction* how) {
  constexpr const char* name = "exscan";
  return guarded(name, [&] {
    hmc::Team& t = team_of(team, name);
    t.exscan(in, out, count, dtype_of(type, name), reduction_of(team, how, name));
  });
}

hmc_code hmc_ibarrier(hmc_team_t team, hmc_request_t* request) {
  constexpr const char* name = "ibarrier";
  return guarded(name, [&] {
    hmc_request_t& out_request = required(request, name, "the place for the request");
    hmc::Team& t = team_of(team, name);
    to_c(t.ibarrier(), out_request);
  });
}

hmc_code hmc_ibroadcast(hmc_team_t team, void* data, size_t bytes, int root, hmc_request_t* request) {
  constexpr const char* name = "ibroadcast";
  return guarded(name, [&] {
    hmc_request_t& out_request = required(request, name, "the place for the request");
    hmc::Team& t = team_of(team, name);
    to_c(t.ibroadcast(data, bytes, root), out_request);
  });
}

hmc_code hmc_iallgather(hmc_team_t team, const void* in, void* out, size_t bytes, hmc_request_t* request) {
  constexpr const char* name = "iallgather";
  return guarded(name, [&] {
    hmc_request_t& out_request = required(request, name, "the place for the request");
    hmc::Team& t = team_of(team, name);
    to_c(t.iallgather(in, out, bytes), out_request);
  });
}

hmc_code hmc_iallreduce(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type,
                        const hmc_reduction* how, hmc_request_t* request) {
  constexpr const char* name = "iallreduce";
  return guarded(name, [&] {
    hmc_request_t& out_request = required(request, name, "the place for the request");
    hmc::Team& t = team_of(team, name);
    to_c(t.iallreduce(in, out, count, dtype_of(type, name), reduction_of(team, how, name)), out_request);
  });
}

hmc_code hmc_igather(hmc_team_t team, const void* in, void* out, size_t bytes, int root, hmc_request_t* request) {
  constexpr const char* name = "igather";
  return guarded(name, [&] {
    hmc_request_t& out_request = required(request, name, "the place for the request");
    hmc::Team& t = team_of(team, name);
    to_c(t.igather(in, out, bytes, root), out_request);
  });
}

hmc_code hmc_igatherv(hmc_team_t team, const void* in, void* out, const size_t* counts, const size_t* displacements,
                      int root, size_t element, hmc_request_t* request) {
  constexpr const char* name = "igatherv";
  return guarded(name, [&] {
    hmc_request_t& out_request = required(request, name, "the place for the request");
    hmc::Team& t = team_of(team, name);
    to_c(t.igatherv(in, out, counts_of(t, counts, name), counts_of(t, displacements, name, true), root, element),
         out_request);
  });
}

hmc_code hmc_iscatter(hmc_team_t team, const void* in, void* out, size_t bytes, int root, hmc_request_t* request) {
  constexpr const char* name = "iscatter";
  return guarded(name, [&] {
    hmc_request_t& out_request = required(request, name, "the place for the request");
    hmc::Team& t = team_of(team, name);
    to_c(t.iscatter(in, out, bytes, root), out_request);
  });
}

hmc_code hmc_iscatterv(hmc_team_t team, const void* in, void* out, const size_t* counts, const size_t* displacements,
                       int root, size_t element, hmc_request_t* request) {
  constexpr const char* name = "iscatterv";
  return guarded(name, [&] {
    hmc_request_t& out_request = required(request, name, "the place for the request");
    hmc::Team& t = team_of(team, name);
    to_c(t.iscatterv(in, out, counts_of(t, counts, name), counts_of(t, displacements, name, true), root, element),
         out_request);
  });
}

hmc_code hmc_iallgatherv(hmc_team_t team, const void* in, void* out, const size_t* counts, const size_t* displacements,
                         size_t element, hmc_request_t* request) {
  constexpr const char* name = "iallgatherv";
  return guarded(name, [&] {
    hmc_request_t& out_request = required(request, name, "the place for the request");
    hmc::Team& t = team_of(team, name);
    to_c(t.iallgatherv(in, out, counts_of(t, counts, name), counts_of(t, displacements, name, true), element),
         out_request);
  });
}

hmc_code hmc_ialltoall(hmc_team_t team, const void* in, void* out, size_t bytes, hmc_request_t* request) {
  constexpr const char* name = "ialltoall";
  return guarded(name, [&] {
    hmc_request_t& out_request = required(request, name, "the place for the request");
    hmc::Team& t = team_of(team, name);
    to_c(t.ialltoall(in, out, bytes), out_request);
  });
}

hmc_code hmc_ialltoallv(hmc_team_t team, const void* in, const size_t* counts, const size_t* displacements, void* out,
                        const size_t* receive_counts, const size_t* receive_displacements, size_t largest,
                        size_t element, hmc_request_t* request) {
  constexpr const char* name = "ialltoallv";
  return guarded(name, [&] {
    hmc_request_t& out_request = required(request, name, "the place for the request");
    hmc::Team& t = team_of(team, name);
    to_c(t.ialltoallv(in, counts_of(t, counts, name), counts_of(t, displacements, name, true), out,
                      counts_of(t, receive_counts, name), counts_of(t, receive_displacements, name, true), largest,
                      element),
         out_request);
  });
}

hmc_code hmc_ireduce(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type, const hmc_reduction* how,
                     int root, hmc_request_t* request) {
  constexpr const char* name = "ireduce";
  return guarded(name, [&] {
    hmc_request_t& out_request = required(request, name, "the place for the request");
    hmc::Team& t = team_of(team, name);
    to_c(t.ireduce(in, out, count, dtype_of(type, name), reduction_of(team, how, name), root), out_request);
  });
}

hmc_code hmc_ireduce_scatter(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type,
                             const hmc_reduction* how, hmc_request_t* request) {
  constexpr const char* name = "ireduce_scatter";
  return guarded(name, [&] {
    hmc_request_t& out_request = required(request, name, "the place for the request");
    hmc::Team& t = team_of(team, name);
    to_c(t.ireduce_scatter(in, out, count, dtype_of(type, name), reduction_of(team, how, name)), out_request);
  });
}

hmc_code hmc_ireduce_scatterv(hmc_team_t team, const void* in, void* out, const size_t* counts, hmc_dtype type,
                              const hmc_reduction* how, hmc_request_t* request) {
  constexpr const char* name = "ireduce_scatterv";
  return guarded(name, [&] {
    hmc_request_t& out_request = required(request, name, "the place for the request");
    hmc::Team& t = team_of(team, name);
    to_c(t.ireduce_scatterv(in, out, counts_of(t, counts, name), dtype_of(type, name), reduction_of(team, how, name)),
         out_request);
  });
}

hmc_code hmc_iscan(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type, const hmc_reduction* how,
                   hmc_request_t* request) {
  constexpr const char* name = "iscan";
  return guarded(name, [&] {
    hmc_request_t& out_request = required(request, name, "the place for the request");
    hmc::Team& t = team_of(team, name);
    to_c(t.iscan(in, out, count, dtype_of(type, name), reduction_of(team, how, name)), out_request);
  });
}

hmc_code hmc_iexscan(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type, const hmc_reduction* how,
                     hmc_request_t* request) {
  constexpr const char* name = "iexscan";
  return guarded(name, [&] {
    hmc_request_t& out_request = required(request, name, "the place for the request");
    hmc::Team& t = team_of(team, name);
    to_c(t.iexscan(in, out, count, dtype_of(type, name), reduction_of(team, how, name)), out_request);
  });
}
