// Team: an ordered set of ranks, and the collectives on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include <hmc/error.hpp>
#include <hmc/plan.hpp>
#include <hmc/reduction.hpp>
#include <hmc/request.hpp>
#include <hmc/types.hpp>

namespace hmc {

namespace window {
class TeamCore;
}

/// Collectives are called by every rank of the team, in the same order, with matching arguments; what doesn't match is
/// Error{mismatch} on every rank, within milliseconds of all being in a call, and names who called what. It ends the
/// team, as a deadline does (but for alltoallv, whose counts are compared before anything moves). Making and closing
/// windows and teams are such calls, and Runtime::close is one of the world's. A rank that waits for nobody in a call
/// (it only gives, in broadcast, scatter, gather, reduce, scan, exscan) may return from it, and learns of it in the
/// next one in which it waits: within some thirty such calls it does. Any memory may be given: a buffer that lies in a
/// window is used in place, another is staged; a device's memory is staged through the host's, but for large blocking
/// reductions all of whose buffers lie in devices' windows on one node, which the devices do (in place: allreduce and
/// reduce). What fills a device's buffer must be done before. Input and output may be the same buffer; any
/// other overlap is Error{invalid_argument} on that rank. All ranks get bit-identical results; floats of 16 and
/// 8 bits are combined in 32 bits and rounded once. Deadlines: the runtime's (HMC_TIMEOUT_S); Error{timeout} names who
/// is missing. Threads: one at a time per Runtime. A Team is a handle: copies mean the same team.
///
/// Teams are made of others by calls that are collective over the parent. Each has its own ranks, 0 to size() - 1;
/// errors name world ranks. A team doesn't need its parent afterwards. Teams may overlap: as ever, ranks that are in
/// several call their blocking collectives and constructions in an order that can't wait in a circle.
///
/// Blocks: where a buffer holds a block per rank, they lie in rank order. In place means that gather and
/// allgather find the caller's block where it belongs in `out`, and scatter leaves the root's in `in`.
/// A v-form takes a count per rank, the same on every rank (alltoallv: each rank's own), and optionally
/// where each block begins; counts and displacements are in elements of `element` bytes.
class HMC_API Team {
 public:
  using Counts = std::span<const std::size_t>;

  /// The empty team, which a rank has of a team that it isn't in: rank() -1 of size() 0.
  Team() = default;
  explicit operator bool() const noexcept { return core_ != nullptr; }

  int rank() const noexcept;
  int size() const noexcept;
  /// In the runtime's world, of a rank of this team.
  int world_rank(int rank) const;

  // ---- teams of this one's ranks; each rank gets the one that it is in, or the empty team
  /// Those of one colour, by key and then by rank here. A negative colour: in none.
  Team split(int colour, int key = 0);
  /// These ranks, in this order. The same list on every rank, also of those who aren't in it.
  Team subset(std::span<const int> ranks);
  Team duplicate();
  /// Those on this rank's node.
  Team node_team();
  /// The first of each node.
  Team leaders();
  /// Collective: completes what is under way and gives back the team's memory. Wait for requests before, since they
  /// go with it. Error{invalid_argument} on every rank if one has windows of the team open. The world is closed by
  /// Runtime::close. The last handle's destructor without this is local and never blocks; then peers must not be in
  /// a call of the team any more.
  void close();

  void barrier();
  void broadcast(void* data, std::size_t bytes, int root);
  /// `bytes` from each rank; `out` holds size() * bytes, on the root.
  void gather(const void* in, void* out, std::size_t bytes, int root);
  void gatherv(const void* in, void* out, Counts counts, Counts displacements, int root, std::size_t element = 1);
  /// `bytes` to each rank; `in` holds size() * bytes, on the root.
  void scatter(const void* in, void* out, std::size_t bytes, int root);
  void scatterv(const void* in, void* out, Counts counts, Counts displacements, int root, std::size_t element = 1);
  /// `bytes` from each rank; `out` holds size() * bytes in rank order.
  void allgather(const void* in, void* out, std::size_t bytes);
  void allgatherv(const void* in, void* out, Counts counts, Counts displacements = {}, std::size_t element = 1);
  /// `bytes` from each rank to each; `in` and `out` hold size() * bytes.
  void alltoall(const void* in, void* out, std::size_t bytes);
  void alltoallv(const void* in, Counts counts, Counts displacements, void* out, Counts receive_counts,
                 Counts receive_displacements, std::size_t element = 1);

  void reduce(const void* in, void* out, std::size_t count, DType type, const Reduction& how, int root);
  void allreduce(const void* in, void* out, std::size_t count, DType type, Op op);
  void allreduce(const void* in, void* out, std::size_t count, DType type, ReduceFunction function, void* context);
  void allreduce(const void* in, void* out, std::size_t count, DType type, const Reduction& how);
  /// `in` holds size() * count elements; `out` gets this rank's `count` of the result.
  void reduce_scatter(const void* in, void* out, std::size_t count, DType type, const Reduction& how);
  void reduce_scatterv(const void* in, void* out, Counts counts, DType type, const Reduction& how);
  /// Of ranks 0 to this one.
  void scan(const void* in, void* out, std::size_t count, DType type, const Reduction& how);
  /// Of the ranks before this one; rank 0's `out` isn't touched.
  void exscan(const void* in, void* out, std::size_t count, DType type, const Reduction& how);

  // ---- the same over spans
  template <typename T> void broadcast(std::span<T> data, int root) {
    broadcast(static_cast<void*>(data.data()), data.size_bytes(), root);
  }
  template <typename T> void gather(std::span<const T> in, std::span<T> out, int root) {
    if (rank() == root) require_equal("gather", in.size() * static_cast<std::size_t>(size()), out.size());
    gather(static_cast<const void*>(in.data()), static_cast<void*>(out.data()), in.size_bytes(), root);
  }
  template <typename T> void scatter(std::span<const T> in, std::span<T> out, int root) {
    if (rank() == root) require_equal("scatter", in.size(), out.size() * static_cast<std::size_t>(size()));
    scatter(static_cast<const void*>(in.data()), static_cast<void*>(out.data()), out.size_bytes(), root);
  }
  template <typename T> void allgather(std::span<const T> in, std::span<T> out) {
    require_equal("allgather", in.size() * static_cast<std::size_t>(size()), out.size());
    allgather(static_cast<const void*>(in.data()), static_cast<void*>(out.data()), in.size_bytes());
  }
  template <typename T> void alltoall(std::span<const T> in, std::span<T> out) {
    require_equal("alltoall", in.size(), out.size());
    require_equal("alltoall", in.size() / static_cast<std::size_t>(size()) * static_cast<std::size_t>(size()),
                  in.size());
    alltoall(static_cast<const void*>(in.data()), static_cast<void*>(out.data()),
             in.size_bytes() / static_cast<std::size_t>(size()));
  }
  template <typename T> void reduce(std::span<const T> in, std::span<T> out, const Reduction& how, int root) {
    if (rank() == root) require_equal("reduce", in.size(), out.size());
    reduce(static_cast<const void*>(in.data()), static_cast<void*>(out.data()), in.size(), dtype_of<T>(), how, root);
  }
  template <typename T> void allreduce(std::span<const T> in, std::span<T> out, Op op) {
    require_equal("allreduce", in.size(), out.size());
    allreduce(static_cast<const void*>(in.data()), static_cast<void*>(out.data()), in.size(), dtype_of<T>(), op);
  }
  template <typename T> void reduce_scatter(std::span<const T> in, std::span<T> out, const Reduction& how) {
    require_equal("reduce_scatter", in.size(), out.size() * static_cast<std::size_t>(size()));
    reduce_scatter(static_cast<const void*>(in.data()), static_cast<void*>(out.data()), out.size(), dtype_of<T>(), how);
  }
  template <typename T> void scan(std::span<const T> in, std::span<T> out, const Reduction& how) {
    require_equal("scan", in.size(), out.size());
    scan(static_cast<const void*>(in.data()), static_cast<void*>(out.data()), in.size(), dtype_of<T>(), how);
  }
  template <typename T> void exscan(std::span<const T> in, std::span<T> out, const Reduction& how) {
    require_equal("exscan", in.size(), out.size());
    exscan(static_cast<const void*>(in.data()), static_cast<void*>(out.data()), in.size(), dtype_of<T>(), how);
  }

  // ---- non-blocking: begun here, over when the request is. Buffers stay in use until then; counts may go. It goes on
  // while the rank computes, but for what calls a user's function: see Request. ibarrier doesn't complete earlier puts,
  // as barrier does: flush before. alltoallv: `largest` is the largest count that any two ranks exchange, the same on
  // every rank. A device's memory is staged: what is read there is copied before the call (of a plan: its start)
  // returns, and the output is written there when all else is done and before the request is over, by this rank's
  // thread or the Runtime's own; a test() that finds the end may take as long as that copy. If it fails, this rank's
  // request alone says so, and the team goes on; an input that can't be copied ends the call on every rank.
  Request ibarrier();
  Request ibroadcast(void* data, std::size_t bytes, int root);
  Request igather(const void* in, void* out, std::size_t bytes, int root);
  Request igatherv(const void* in, void* out, Counts counts, Counts displacements, int root, std::size_t element = 1);
  Request iscatter(const void* in, void* out, std::size_t bytes, int root);
  Request iscatterv(const void* in, void* out, Counts counts, Counts displacements, int root, std::size_t element = 1);
  Request iallgather(const void* in, void* out, std::size_t bytes);
  Request iallgatherv(const void* in, void* out, Counts counts, Counts displacements = {}, std::size_t element = 1);
  Request ialltoall(const void* in, void* out, std::size_t bytes);
  Request ialltoallv(const void* in, Counts counts, Counts displacements, void* out, Counts receive_counts,
                     Counts receive_displacements, std::size_t largest, std::size_t element = 1);
  Request ireduce(const void* in, void* out, std::size_t count, DType type, const Reduction& how, int root);
  Request iallreduce(const void* in, void* out, std::size_t count, DType type, const Reduction& how);
  Request ireduce_scatter(const void* in, void* out, std::size_t count, DType type, const Reduction& how);
  Request ireduce_scatterv(const void* in, void* out, Counts counts, DType type, const Reduction& how);
  Request iscan(const void* in, void* out, std::size_t count, DType type, const Reduction& how);
  Request iexscan(const void* in, void* out, std::size_t count, DType type, const Reduction& how);

  // ---- on a device's stream (its vendor's own handle): carried out in the stream's order, after what it holds, and
  // what is put in later comes after. The host waits for nothing, but in a team's first such call, which makes what
  // they need. One buffer at least lies on the stream's device, one in host memory is pinned; both stay in use until
  // the stream has come past. On one node, where devices map each other's memory and streams wait for words that
  // processes share (CUDA), devices do it all. Else, for any vendors' devices and several nodes, the background thread
  // does it in host memory while the stream is stopped. Where neither can be (host memory; HMC_PROGRESS=caller; a
  // driver whose stopped streams hold up others) it is Error{unsupported} on every rank, out of the first call. A
  // deadline doesn't hold here: a stream whose peer never comes waits for it, until the team is closed or goes. What
  // doesn't match is Error{mismatch} for who calls later, or at the latest when the team or the Runtime is closed; what
  // fails amid a call is an Error for its rank, and Error{closed} for all later calls. All streams go on then, and what
  // comes of either is undefined. These calls have an order of their own, whichever streams they are on. A stream that
  // waits holds up others in its hardware queue (there are CUDA_DEVICE_MAX_CONNECTIONS of those). It also holds up what
  // waits for the whole device, such as cudaMalloc and cudaFree: none before the streams have come past.
  void allreduce_on(void* stream, const void* in, void* out, std::size_t count, DType type, Op op);
  /// What all ranks' streams held comes before what they get later. `buffer`: any on the stream's device.
  void barrier_on(void* stream, const void* buffer);

  // ---- persistent: see Plan
  Plan plan_barrier();
  Plan plan_broadcast(void* data, std::size_t bytes, int root);
  Plan plan_gather(const void* in, void* out, std::size_t bytes, int root);
  Plan plan_gatherv(const void* in, void* out, Counts counts, Counts displacements, int root, std::size_t element = 1);
  Plan plan_scatter(const void* in, void* out, std::size_t bytes, int root);
  Plan plan_scatterv(const void* in, void* out, Counts counts, Counts displacements, int root, std::size_t element = 1);
  Plan plan_allgather(const void* in, void* out, std::size_t bytes);
  Plan plan_allgatherv(const void* in, void* out, Counts counts, Counts displacements = {}, std::size_t element = 1);
  Plan plan_alltoall(const void* in, void* out, std::size_t bytes);
  Plan plan_alltoallv(const void* in, Counts counts, Counts displacements, void* out, Counts receive_counts,
                      Counts receive_displacements, std::size_t largest, std::size_t element = 1);
  Plan plan_reduce(const void* in, void* out, std::size_t count, DType type, const Reduction& how, int root);
  Plan plan_allreduce(const void* in, void* out, std::size_t count, DType type, const Reduction& how);
  Plan plan_reduce_scatter(const void* in, void* out, std::size_t count, DType type, const Reduction& how);
  Plan plan_reduce_scatterv(const void* in, void* out, Counts counts, DType type, const Reduction& how);
  Plan plan_scan(const void* in, void* out, std::size_t count, DType type, const Reduction& how);
  Plan plan_exscan(const void* in, void* out, std::size_t count, DType type, const Reduction& how);

  /// How many calls (of "allreduce") an algorithm ("ring") has carried out; 0 of an unknown one. "direct": by load and
  /// store, on one node.
  std::uint64_t carried_out(std::string_view collective, std::string_view algorithm) const;

  const std::shared_ptr<window::TeamCore>& core() const noexcept { return core_; }
  explicit Team(std::shared_ptr<window::TeamCore> core) noexcept : core_(std::move(core)) {}

 private:
  static void require_equal(const char* operation, std::size_t expected, std::size_t got);
  std::shared_ptr<window::TeamCore> core_;
};

}  // namespace hmc
