// Team: an ordered set of ranks, and the collectives on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <ranges>
#include <span>
#include <string_view>
#include <type_traits>

#include <hmc/collective.hpp>
#include <hmc/counts.hpp>
#include <hmc/error.hpp>
#include <hmc/message.hpp>
#include <hmc/plan.hpp>
#include <hmc/reduction.hpp>
#include <hmc/request.hpp>
#include <hmc/types.hpp>

namespace hmc {

namespace rma {
class TeamCore;
}
namespace collectives {
class TeamObject;
}

namespace detail {

/// Not a C array: see Team::send.
template <typename R>
concept MessageValues = Values<R> && !std::is_array_v<std::remove_reference_t<R>>;
template <typename R>
concept WritableMessageValues = WritableValues<R> && !std::is_array_v<std::remove_reference_t<R>>;
template <typename R>
concept LastingMessage = MessageValues<R> && std::ranges::borrowed_range<R>;
template <typename R>
concept LastingWritableMessage = WritableMessageValues<R> && std::ranges::borrowed_range<R>;

}  // namespace detail

/// An ordered set of ranks (MPI: a communicator), with the collectives on it. The world is a Team.
///
/// CALLS. Every rank of the team calls the same collectives in the same order with matching arguments. Creation and
/// close of windows and teams are collective calls too. Runtime::close is a collective call of the world.
///  - The ranks compare the collective, its form (blocking, non-blocking, persistent), root, counts, element sizes,
///    types, operation, and the options of a Reduction.
///  - These may differ: buffers, in place, displacements, host or device memory, types in calls that move bytes.
///  - User functions must match, but can't be compared.
///
/// COMPLETION. A blocking collective returns when it is complete on this rank: the output is valid, and the input may
/// be reused. Only barrier, and collectives whose result needs all ranks, imply that all ranks have entered the call.
///
/// ERRORS
///  - mismatch: ranks called different collectives, or passed different arguments. Every rank throws it within
///    milliseconds after all ranks have entered a call; the error names the ranks and their calls. The team has failed.
///    Exception: alltoallv compares the counts before data moves, so the team stays usable after wrong counts.
///  - timeout: the deadline (HMC_TIMEOUT_S) has passed. The error names the missing ranks. The team has failed.
///  - peer_failed, aborted: a rank has died, or the job was aborted.
///  - invalid_argument, bad_rank: this rank's arguments are wrong.
///
/// A rank that only sends (in broadcast, scatter, gather, reduce, scan and exscan) may return before a mismatch is
/// detected. It throws the error in its next call that waits, at most 30 calls later.
///
/// BUFFERS. Any memory may be passed:
///  - A buffer in a window is used without staging. Any other buffer is staged, or the peers read it directly.
///  - In place means `in == out` (gather, allgather, scatter: see BLOCKS). Any other overlap of input and output is
///    Error{invalid_argument} on that rank.
///  - Device memory is staged through host memory. Exception: the devices compute a large blocking reduction if the
///    team is on one node and all buffers are in windows over device memory. In place they compute only allreduce and
///    reduce.
///  - Device work that writes a buffer must be complete before the call.
///
/// RESULTS. All ranks get bit-identical results. 16-bit and 8-bit floats accumulate in 32 bits and are rounded once.
///
/// BLOCKS. If a buffer holds one block per rank, the blocks are in rank order. In place:
///  - gather on the root, and allgather: `in` is the address of this rank's block in `out`
///  - scatter on the root: `out` is the address of the root's block in `in`
///
/// The v-forms (gatherv, scatterv, allgatherv, alltoallv) take:
///  - a count per rank; except in alltoallv, every rank passes the same counts
///  - optional displacements: the start of each block; without displacements the blocks are contiguous
///  - `element`: the size in bytes of one element; counts and displacements are in elements
///
/// reduce_scatterv takes only counts, in elements of its type.
///
/// TEAMS OF A TEAM. A collective call over the parent creates a team. A team has its own ranks, 0 to size() - 1; errors
/// name world ranks. The parent may be closed first. Teams may overlap. A rank in several teams must order its blocking
/// calls so that no circular wait is possible.
///
/// THREADS. One thread at a time per Runtime. A Team is a handle: copies refer to the same team.
class HMC_API Team {
 public:
  /// The empty team: rank() is -1, size() is 0. Team creation returns it on ranks that aren't members of the new team.
  Team() = default;
  explicit operator bool() const noexcept { return object_ != nullptr; }

  int rank() const noexcept;
  int size() const noexcept;
  /// The world rank of a rank of this team.
  int world_rank(int rank) const;

  // ---- creation of teams: collective over this team. A rank that is a member of no new team gets the empty team.
  /// One team per colour. Its ranks are ordered by key, then by rank in this team. A rank with a negative colour is a
  /// member of no new team (MPI_UNDEFINED).
  Team split(int colour, int key = 0);
  /// A team of these ranks in this order. Every rank of this team passes the same list, members or not.
  Team subset(std::span<const int> ranks);
  /// A team of the same ranks.
  Team duplicate();
  /// The ranks on this rank's node.
  Team node_team();
  /// The first rank of each node.
  Team leaders();
  // ---- after the end of a rank: collective over the remaining ranks of the world (Runtime::world)
  /// Returns a team of the remaining ranks, which becomes Runtime::world(). Their new numbers are in the old order, and
  /// later errors use them. All other teams are closed; the caller splits the new world again. Window::rebind keeps
  /// windows.
  ///  - If another rank hasn't noticed a failure, its current or next call throws Error{peer_failed}. It calls shrink()
  ///    too. So the ranks may be one call apart: after shrink() they agree where to go on (examples/08_lost_rank.cpp).
  ///  - A rank that ends during the call isn't in the new team.
  ///  - Error{unavailable}: the process that runs the job's store or this node's agent has ended. Under hmcrun that is
  ///    hmcrun. Otherwise it is rank 0, or the rank of this node that joined first.
  Team shrink();
  /// Waits until each rank that has ended is replaced: by `hmcrun --respawn`, or by a process with that rank's
  /// environment. Returns a team with the original ranks, which becomes Runtime::world(). In a replacement,
  /// Runtime::init returns at the same time, with this world.
  ///  - Error{timeout}: some ranks weren't replaced. This team stays usable.
  ///  - Error{unavailable}, at once: no process will come. Under hmcrun: no --respawn, or its limit is reached. Under
  ///    torchrun, PMIx, PMI-1 and Slurm: always. This team stays usable.
  ///  - Error{peer_failed}: another rank has ended. Call shrink().
  Team grow(Timeout timeout = job_timeout);

  /// Collective: completes operations in flight and frees the team's memory. The caller waits for the team's requests
  /// first: after close() they are invalid. Error{invalid_argument} on every rank if a rank has a window of the team
  /// open. Runtime::close closes the world.
  ///
  /// Without close(), the destructor of the last handle frees the memory. The destructor is local and never blocks. No
  /// peer may be in a call of the team when it runs.
  void close();

  // ---- two-sided messages. A message has a source and a destination (ranks of this team), a tag (0 or greater), and
  // 0 or more bytes. Messages of different teams never match.
  //
  // Matching, as in MPI: a receive takes the first message of its source with its tag. Messages from one rank to
  // another on one team are received in the order of the sends. any_source and any_tag match any rank and any tag. A
  // rank may send to itself.
  //
  // Completion. A send is complete when its buffer may be reused:
  //  - eager: up to 15.8 KiB (less in a job of many ranks), while the receiver has room for them: without the receiver
  //  - rendezvous, above that: when the bytes are copied; on a node up to 256 KiB of them (less in a job of
  //    many ranks) without a receive, while the receiver has room and makes calls, the rest when a receive has matched
  //  - flow control: if the receiver doesn't receive, small messages become rendezvous messages too, and a send that
  //    finds no room waits. isend never waits, and stays in flight.
  //
  // Progress: as for non-blocking collectives (see Request).
  //
  // Errors
  //  - truncation: a message is longer than the buffer of the receive that it matches. The receive throws
  //    Error{mismatch}, which names both ranks and both sizes; the message is dropped, the buffer unchanged. The send
  //    succeeds, and the team stays usable.
  //  - timeout: the deadline (HMC_TIMEOUT_S) has passed, without progress of a message in pieces. A receive is
  //    cancelled. A rendezvous send may be in progress at the receiver: further sends to this rank, and its receives
  //    from this rank, throw Error{error}.
  //  - peer_failed, aborted: a rank has died, or the job was aborted. All messages of this rank in flight end.
  //  - mismatch: the awaited rank on this node has been in Runtime::close for 1 s.
  //  - mismatch: a blocking call waits for this rank itself (a recv or probe of its own message, a rendezvous send to
  //    itself), and no earlier call can end the wait. One thread at a time calls a Runtime, so no later call can
  //    either. With set_wait_yield other threads may call, and the wait goes on.
  //  - The errors of a timeout and of a close name the messages that have arrived and that no receive has matched.
  //  - Runtime::close warns of messages that this rank hasn't received, unless the job has failed. Ranks that wait for
  //    each other's messages in a circle are called a deadlock in the warning about long waits (HMC_REPORT_S).
  //
  // Buffers: any memory, as for collectives. Device memory is staged through host memory.
  //
  // A message's values are a range: a vector, a std::array, a span. Sizes are those of the ranges; the status counts
  // bytes. Bytes are a std::span<const std::byte>, or a pointer and a length (send_bytes).
  // C arrays and pointers don't compile: in send(array, 1, 2) the 1 could be a length, a rank or a tag.
  template <detail::MessageValues I> void send(const I& in, int destination, int tag = 0) {
    send_bytes(std::ranges::data(in), bytes_of(in), destination, tag);
  }
  /// Receives a message of up to the range's bytes. The status has its length.
  template <detail::WritableMessageValues O> MessageStatus recv(O&& out, int source = any_source, int tag = any_tag) {
    return recv_bytes(std::ranges::data(out), bytes_of(out), source, tag);
  }
  /// The buffer stays in use until the request is complete. Request::abandon doesn't cancel a send.
  template <detail::LastingMessage I> Request isend(I&& in, int destination, int tag = 0) {
    return isend_bytes(std::ranges::data(in), bytes_of(in), destination, tag);
  }
  /// `status`, if not null, is written before the request is complete, also after a truncation, and stays in use until
  /// then.
  /// Request::abandon cancels a receive that no message has matched. Else the buffer stays in use until it is complete.
  template <detail::LastingWritableMessage O>
  Request irecv(O&& out, int source = any_source, int tag = any_tag, MessageStatus* status = nullptr) {
    return irecv_bytes(std::ranges::data(out), bytes_of(out), source, tag, status);
  }
  /// A send and a receive at the same time. The buffers must not overlap. On return, also by an exception, neither is
  /// in use: after a truncation the send is completed, after any other error it is ended as at a timeout.
  template <detail::MessageValues I, detail::WritableMessageValues O>
  MessageStatus sendrecv(const I& in, int destination, int send_tag, O&& out, int source = any_source,
                         int recv_tag = any_tag) {
    return sendrecv_bytes(std::ranges::data(in), bytes_of(in), destination, send_tag, std::ranges::data(out),
                          bytes_of(out), source, recv_tag);
  }
  /// Waits for a message that a receive with these arguments would take. It isn't received.
  MessageStatus probe(int source = any_source, int tag = any_tag);
  /// As probe, without waiting: false if there is no such message. Makes progress.
  bool iprobe(int source = any_source, int tag = any_tag, MessageStatus* status = nullptr);

  // The same calls for a pointer and a number of bytes.
  void send_bytes(const void* data, std::size_t bytes, int destination, int tag = 0);
  MessageStatus recv_bytes(void* data, std::size_t capacity, int source = any_source, int tag = any_tag);
  Request isend_bytes(const void* data, std::size_t bytes, int destination, int tag = 0);
  Request irecv_bytes(void* data, std::size_t capacity, int source = any_source, int tag = any_tag,
                      MessageStatus* status = nullptr);
  MessageStatus sendrecv_bytes(const void* out, std::size_t bytes, int destination, int send_tag, void* in,
                               std::size_t capacity, int source = any_source, int recv_tag = any_tag);
  // Not with pointers and C arrays. The compiler shows these lines: bytes go by send_bytes, recv_bytes, isend_bytes,
  // irecv_bytes, sendrecv_bytes, the elements of a C array by std::span(array).
  template <typename... Rest> void send(const void*, Rest...) = delete;               // use send_bytes or a std::span
  template <typename... Rest> MessageStatus recv(void*, Rest...) = delete;            // use recv_bytes or a std::span
  template <typename... Rest> Request isend(const void*, Rest...) = delete;           // use isend_bytes or a std::span
  template <typename... Rest> Request irecv(void*, Rest...) = delete;                 // use irecv_bytes or a std::span
  template <typename... Rest> MessageStatus sendrecv(const void*, Rest...) = delete;  // use sendrecv_bytes or spans

  // ---- collectives. A call is described once, as a value (<hmc/collective.hpp>), and run, started or planned. The
  // named forms below do this for each collective: team.allreduce(in, out, sum) is team.run(describe::allreduce(in,
  // out, sum)). Four of them (barrier,
  // broadcast, allgather, allreduce) are functions of their own, which takes less time.
  void run(const Collective& call);
  Request start(const Collective& call);
  Plan plan(const Collective& call);
  /// On a device stream: see allreduce_on. Error{unsupported} unless the call is an allreduce with an Op, or a barrier.
  void run_on(void* stream, const Collective& call);

  // ---- blocking collectives
  /// Returns when all ranks have entered, and this rank's earlier puts and atomics are complete at their targets.
  void barrier();
  /// Copies `bytes` bytes from `data` of the root to `data` of the other ranks.
  void broadcast(void* data, std::size_t bytes, int root);
  /// Each rank sends `bytes` bytes. The root's `out` receives size() * bytes.
  void gather(const void* in, void* out, std::size_t bytes, int root) { run(describe::gather(in, out, bytes, root)); }
  void gatherv(const void* in, void* out, const Counts& counts, const Counts& displacements, int root,
               std::size_t element = 1) {
    run(describe::gatherv(in, out, counts, displacements, root, element));
  }
  /// Each rank receives `bytes` bytes. The root's `in` holds size() * bytes.
  void scatter(const void* in, void* out, std::size_t bytes, int root) { run(describe::scatter(in, out, bytes, root)); }
  void scatterv(const void* in, void* out, const Counts& counts, const Counts& displacements, int root,
                std::size_t element = 1) {
    run(describe::scatterv(in, out, counts, displacements, root, element));
  }
  /// Each rank sends `bytes` bytes to all. `out` receives size() * bytes.
  void allgather(const void* in, void* out, std::size_t bytes);
  void allgatherv(const void* in, void* out, const Counts& counts, const Counts& displacements = {},
                  std::size_t element = 1) {
    run(describe::allgatherv(in, out, counts, displacements, element));
  }
  /// Each rank sends `bytes` bytes to each rank. `in` and `out` hold size() * bytes.
  void alltoall(const void* in, void* out, std::size_t bytes) { run(describe::alltoall(in, out, bytes)); }
  void alltoallv(const void* in, const Counts& counts, const Counts& displacements, void* out,
                 const Counts& receive_counts, const Counts& receive_displacements, std::size_t element = 1) {
    run(describe::alltoallv(in, counts, displacements, out, receive_counts, receive_displacements, element));
  }

  /// Combines `count` elements of all ranks into the root's `out`.
  void reduce(const void* in, void* out, std::size_t count, DType type, const Reduction& how, int root) {
    run(describe::reduce(in, out, count, type, how, root));
  }
  /// Combines `count` elements of all ranks into `out` of every rank.
  void allreduce(const void* in, void* out, std::size_t count, DType type, const Reduction& how);
  /// Combines `in` of all ranks, size() * count elements. `out` receives this rank's `count` elements of the result.
  /// (MPI_Reduce_scatter_block. The v-form is MPI_Reduce_scatter.)
  void reduce_scatter(const void* in, void* out, std::size_t count, DType type, const Reduction& how) {
    run(describe::reduce_scatter(in, out, count, type, how));
  }
  void reduce_scatterv(const void* in, void* out, const Counts& counts, DType type, const Reduction& how) {
    run(describe::reduce_scatterv(in, out, counts, type, how));
  }
  /// Inclusive prefix: combines the elements of ranks 0 to rank().
  void scan(const void* in, void* out, std::size_t count, DType type, const Reduction& how) {
    run(describe::scan(in, out, count, type, how));
  }
  /// Exclusive prefix: combines the elements of ranks 0 to rank() - 1. Doesn't write rank 0's `out`.
  void exscan(const void* in, void* out, std::size_t count, DType type, const Reduction& how) {
    run(describe::exscan(in, out, count, type, how));
  }

  // ---- non-blocking collectives: the call starts the collective, and the request reports completion (see Request).
  //  - Buffers stay in use until completion. Counts and displacements may be reused when the call returns.
  //  - The calls of a team match in the order of their starts. HMC can't detect that ranks start two calls with equal
  //    arguments in different orders: use two teams. Plans are compared by their numbers (see Plan).
  //  - A non-blocking call doesn't match a blocking one: Error{mismatch}.
  //  - Unlike barrier, ibarrier doesn't complete earlier puts: call flush first.
  //  - ialltoallv: `largest` is the largest count that any two ranks exchange, the same on every rank. Its request (of
  //    plan_alltoallv: each run) throws on every rank, names the right value, and moves nothing if `largest` is too
  //    small (invalid_argument) or differs between ranks (mismatch). The team stays usable, unless the values differ by
  //    so much that the ranks would cut the call into different numbers of pieces.
  //
  // Device memory is staged through host memory:
  //  - The input is copied before the call (for a plan: start) returns. If the copy fails, the call fails on all ranks.
  //  - The output is copied to the device before the request completes, by this rank's thread or the progress thread.
  //    A test() that reports completion may take as long as that copy. If the copy fails, only this rank's request
  //    fails, and the team stays usable.
  Request ibarrier() { return start(describe::barrier()); }
  Request ibroadcast(void* data, std::size_t bytes, int root) { return start(describe::broadcast(data, bytes, root)); }
  Request igather(const void* in, void* out, std::size_t bytes, int root) {
    return start(describe::gather(in, out, bytes, root));
  }
  Request igatherv(const void* in, void* out, const Counts& counts, const Counts& displacements, int root,
                   std::size_t element = 1) {
    return start(describe::gatherv(in, out, counts, displacements, root, element));
  }
  Request iscatter(const void* in, void* out, std::size_t bytes, int root) {
    return start(describe::scatter(in, out, bytes, root));
  }
  Request iscatterv(const void* in, void* out, const Counts& counts, const Counts& displacements, int root,
                    std::size_t element = 1) {
    return start(describe::scatterv(in, out, counts, displacements, root, element));
  }
  Request iallgather(const void* in, void* out, std::size_t bytes) {
    return start(describe::allgather(in, out, bytes));
  }
  Request iallgatherv(const void* in, void* out, const Counts& counts, const Counts& displacements = {},
                      std::size_t element = 1) {
    return start(describe::allgatherv(in, out, counts, displacements, element));
  }
  Request ialltoall(const void* in, void* out, std::size_t bytes) { return start(describe::alltoall(in, out, bytes)); }
  Request ialltoallv(const void* in, const Counts& counts, const Counts& displacements, void* out,
                     const Counts& receive_counts, const Counts& receive_displacements, std::size_t largest,
                     std::size_t element = 1) {
    return start(describe::with_largest(
        describe::alltoallv(in, counts, displacements, out, receive_counts, receive_displacements, element), largest));
  }
  Request ireduce(const void* in, void* out, std::size_t count, DType type, const Reduction& how, int root) {
    return start(describe::reduce(in, out, count, type, how, root));
  }
  Request iallreduce(const void* in, void* out, std::size_t count, DType type, const Reduction& how) {
    return start(describe::allreduce(in, out, count, type, how));
  }
  Request ireduce_scatter(const void* in, void* out, std::size_t count, DType type, const Reduction& how) {
    return start(describe::reduce_scatter(in, out, count, type, how));
  }
  Request ireduce_scatterv(const void* in, void* out, const Counts& counts, DType type, const Reduction& how) {
    return start(describe::reduce_scatterv(in, out, counts, type, how));
  }
  Request iscan(const void* in, void* out, std::size_t count, DType type, const Reduction& how) {
    return start(describe::scan(in, out, count, type, how));
  }
  Request iexscan(const void* in, void* out, std::size_t count, DType type, const Reduction& how) {
    return start(describe::exscan(in, out, count, type, how));
  }

  // ---- collectives on a device stream: queued on `stream` (the vendor's handle), in the order of the stream.
  //  - The host doesn't wait, except in the team's first stream call, which allocates resources.
  //  - At least one buffer is on the stream's device. A buffer in host memory must be pinned.
  //  - Both buffers stay in use until the stream has executed the collective.
  //  - Every rank makes a team's stream calls in the same order, even if they use several streams. This order is
  //    independent of the order of the other collectives.
  //  - A stream call doesn't match a call of the host. HMC can't detect that one rank makes the one and another rank
  //    makes the other: both wait, until the deadline. Exception: the team's first stream call is compared.
  //
  // Implementation, chosen by the first call:
  //  - By the devices only: on one node, if the devices can map each other's memory and their streams can wait for
  //    words in shared memory (CUDA).
  //  - Else by the progress thread in host memory, while the stream is blocked: any vendor, several nodes. Not
  //    possible with HMC_PROGRESS=caller, or if the driver lets a blocked stream block other streams.
  //  - If neither is possible, or all buffers are in host memory, the first call throws Error{unsupported} on every
  //    rank.
  //
  // Errors:
  //  - No deadline applies. If a peer never makes the call, the stream waits until the team is closed or destroyed.
  //  - Error{mismatch}: on ranks that call later, or at the latest in close() of the team or the Runtime.
  //  - If a call fails on a rank, it throws Error there. Later calls on that rank throw Error{closed}.
  //  - After a mismatch or a failure all streams continue, and the results are undefined.
  //
  // Deadlock: a stream that waits blocks other streams in its hardware queue (CUDA_DEVICE_MAX_CONNECTIONS is the number
  // of queues), and calls that wait for the whole device, such as cudaMalloc and cudaFree. Don't make such calls before
  // the streams have executed the collective.
  void allreduce_on(void* stream, const void* in, void* out, std::size_t count, DType type, Op op) {
    run_on(stream, describe::allreduce(in, out, count, type, op));
  }
  /// A barrier of the ranks' streams: work queued after it runs after all work queued before it on every rank's stream.
  /// `buffer` is any buffer on the stream's device.
  void barrier_on(void* stream, const void* buffer) { run_on(stream, describe::barrier(buffer)); }

  // ---- persistent collectives: see Plan
  Plan plan_barrier() { return plan(describe::barrier()); }
  Plan plan_broadcast(void* data, std::size_t bytes, int root) { return plan(describe::broadcast(data, bytes, root)); }
  Plan plan_gather(const void* in, void* out, std::size_t bytes, int root) {
    return plan(describe::gather(in, out, bytes, root));
  }
  Plan plan_gatherv(const void* in, void* out, const Counts& counts, const Counts& displacements, int root,
                    std::size_t element = 1) {
    return plan(describe::gatherv(in, out, counts, displacements, root, element));
  }
  Plan plan_scatter(const void* in, void* out, std::size_t bytes, int root) {
    return plan(describe::scatter(in, out, bytes, root));
  }
  Plan plan_scatterv(const void* in, void* out, const Counts& counts, const Counts& displacements, int root,
                     std::size_t element = 1) {
    return plan(describe::scatterv(in, out, counts, displacements, root, element));
  }
  Plan plan_allgather(const void* in, void* out, std::size_t bytes) {
    return plan(describe::allgather(in, out, bytes));
  }
  Plan plan_allgatherv(const void* in, void* out, const Counts& counts, const Counts& displacements = {},
                       std::size_t element = 1) {
    return plan(describe::allgatherv(in, out, counts, displacements, element));
  }
  Plan plan_alltoall(const void* in, void* out, std::size_t bytes) { return plan(describe::alltoall(in, out, bytes)); }
  Plan plan_alltoallv(const void* in, const Counts& counts, const Counts& displacements, void* out,
                      const Counts& receive_counts, const Counts& receive_displacements, std::size_t largest,
                      std::size_t element = 1) {
    return plan(describe::with_largest(
        describe::alltoallv(in, counts, displacements, out, receive_counts, receive_displacements, element), largest));
  }
  Plan plan_reduce(const void* in, void* out, std::size_t count, DType type, const Reduction& how, int root) {
    return plan(describe::reduce(in, out, count, type, how, root));
  }
  Plan plan_allreduce(const void* in, void* out, std::size_t count, DType type, const Reduction& how) {
    return plan(describe::allreduce(in, out, count, type, how));
  }
  Plan plan_reduce_scatter(const void* in, void* out, std::size_t count, DType type, const Reduction& how) {
    return plan(describe::reduce_scatter(in, out, count, type, how));
  }
  Plan plan_reduce_scatterv(const void* in, void* out, const Counts& counts, DType type, const Reduction& how) {
    return plan(describe::reduce_scatterv(in, out, counts, type, how));
  }
  Plan plan_scan(const void* in, void* out, std::size_t count, DType type, const Reduction& how) {
    return plan(describe::scan(in, out, count, type, how));
  }
  Plan plan_exscan(const void* in, void* out, std::size_t count, DType type, const Reduction& how) {
    return plan(describe::exscan(in, out, count, type, how));
  }

  // ---- collectives over ranges: vectors, arrays, spans. Blocking, non-blocking and persistent, as above.
  // Sizes and element types are those of the ranges. `in` and `out` must have the same element type.
  //  - Non-blocking calls take no temporary that owns its values, such as a vector: it would end before the operation.
  //  - Error{invalid_argument} on a rank if its ranges have wrong sizes.
  //  - v-forms: counts and displacements are in elements. The ranges may be longer than needed.
  template <detail::WritableValues D> void broadcast(D&& data, int root) {
    broadcast(std::ranges::data(data), bytes_of(data), root);
  }
  template <detail::Values I, detail::ResultsOf<I> O> void gather(const I& in, O&& out, int root) {
    run(describe::gather(in, out, root));
  }
  template <detail::Values I, detail::ResultsOf<I> O>
  void gatherv(const I& in, O&& out, const Counts& counts, const Counts& displacements, int root) {
    run(describe::gatherv(in, out, counts, displacements, root));
  }
  template <detail::Values I, detail::ResultsOf<I> O> void scatter(const I& in, O&& out, int root) {
    run(describe::scatter(in, out, root));
  }
  template <detail::Values I, detail::ResultsOf<I> O>
  void scatterv(const I& in, O&& out, const Counts& counts, const Counts& displacements, int root) {
    run(describe::scatterv(in, out, counts, displacements, root));
  }
  template <detail::Values I, detail::ResultsOf<I> O> void allgather(const I& in, O&& out) {
    const bool fits = std::ranges::size(out) == std::ranges::size(in) * static_cast<std::size_t>(size());
    fits ? allgather(std::ranges::data(in), std::ranges::data(out), bytes_of(in)) : run(describe::allgather(in, out));
  }
  template <detail::Values I, detail::ResultsOf<I> O>
  void allgatherv(const I& in, O&& out, const Counts& counts, const Counts& displacements = {}) {
    run(describe::allgatherv(in, out, counts, displacements));
  }
  template <detail::Values I, detail::ResultsOf<I> O> void alltoall(const I& in, O&& out) {
    run(describe::alltoall(in, out));
  }
  template <detail::Values I, detail::ResultsOf<I> O>
  void alltoallv(const I& in, const Counts& counts, const Counts& displacements, O&& out, const Counts& receive_counts,
                 const Counts& receive_displacements) {
    run(describe::alltoallv(in, counts, displacements, out, receive_counts, receive_displacements));
  }
  template <detail::Values I, detail::ResultsOf<I> O>
  void reduce(const I& in, O&& out, const Reduction& how, int root) {
    run(describe::reduce(in, out, how, root));
  }
  template <detail::Values I, detail::ResultsOf<I> O> void allreduce(const I& in, O&& out, const Reduction& how) {
    if (std::ranges::size(out) != std::ranges::size(in)) return run(describe::allreduce(in, out, how));  // throws
    allreduce(std::ranges::data(in), std::ranges::data(out), std::ranges::size(in), detail::type_of<I>, how);
  }
  template <detail::Values I, detail::ResultsOf<I> O> void reduce_scatter(const I& in, O&& out, const Reduction& how) {
    run(describe::reduce_scatter(in, out, how));
  }
  template <detail::Values I, detail::ResultsOf<I> O>
  void reduce_scatterv(const I& in, O&& out, const Counts& counts, const Reduction& how) {
    run(describe::reduce_scatterv(in, out, counts, how));
  }
  template <detail::Values I, detail::ResultsOf<I> O> void scan(const I& in, O&& out, const Reduction& how) {
    run(describe::scan(in, out, how));
  }
  template <detail::Values I, detail::ResultsOf<I> O> void exscan(const I& in, O&& out, const Reduction& how) {
    run(describe::exscan(in, out, how));
  }
  template <detail::LastingWritableValues D> Request ibroadcast(D&& data, int root) {
    return start(describe::broadcast(data, root));
  }
  template <detail::LastingValues I, detail::LastingResultsOf<I> O> Request igather(I&& in, O&& out, int root) {
    return start(describe::gather(in, out, root));
  }
  template <detail::LastingValues I, detail::LastingResultsOf<I> O>
  Request igatherv(I&& in, O&& out, const Counts& counts, const Counts& displacements, int root) {
    return start(describe::gatherv(in, out, counts, displacements, root));
  }
  template <detail::LastingValues I, detail::LastingResultsOf<I> O> Request iscatter(I&& in, O&& out, int root) {
    return start(describe::scatter(in, out, root));
  }
  template <detail::LastingValues I, detail::LastingResultsOf<I> O>
  Request iscatterv(I&& in, O&& out, const Counts& counts, const Counts& displacements, int root) {
    return start(describe::scatterv(in, out, counts, displacements, root));
  }
  template <detail::LastingValues I, detail::LastingResultsOf<I> O> Request iallgather(I&& in, O&& out) {
    return start(describe::allgather(in, out));
  }
  template <detail::LastingValues I, detail::LastingResultsOf<I> O>
  Request iallgatherv(I&& in, O&& out, const Counts& counts, const Counts& displacements = {}) {
    return start(describe::allgatherv(in, out, counts, displacements));
  }
  template <detail::LastingValues I, detail::LastingResultsOf<I> O> Request ialltoall(I&& in, O&& out) {
    return start(describe::alltoall(in, out));
  }
  template <detail::LastingValues I, detail::LastingResultsOf<I> O>
  Request ialltoallv(I&& in, const Counts& counts, const Counts& displacements, O&& out, const Counts& receive_counts,
                     const Counts& receive_displacements, std::size_t largest) {
    return start(describe::with_largest(
        describe::alltoallv(in, counts, displacements, out, receive_counts, receive_displacements), largest));
  }
  template <detail::LastingValues I, detail::LastingResultsOf<I> O>
  Request ireduce(I&& in, O&& out, const Reduction& how, int root) {
    return start(describe::reduce(in, out, how, root));
  }
  template <detail::LastingValues I, detail::LastingResultsOf<I> O>
  Request iallreduce(I&& in, O&& out, const Reduction& how) {
    return start(describe::allreduce(in, out, how));
  }
  template <detail::LastingValues I, detail::LastingResultsOf<I> O>
  Request ireduce_scatter(I&& in, O&& out, const Reduction& how) {
    return start(describe::reduce_scatter(in, out, how));
  }
  template <detail::LastingValues I, detail::LastingResultsOf<I> O>
  Request ireduce_scatterv(I&& in, O&& out, const Counts& counts, const Reduction& how) {
    return start(describe::reduce_scatterv(in, out, counts, how));
  }
  template <detail::LastingValues I, detail::LastingResultsOf<I> O>
  Request iscan(I&& in, O&& out, const Reduction& how) {
    return start(describe::scan(in, out, how));
  }
  template <detail::LastingValues I, detail::LastingResultsOf<I> O>
  Request iexscan(I&& in, O&& out, const Reduction& how) {
    return start(describe::exscan(in, out, how));
  }
  template <detail::WritableValues D> Plan plan_broadcast(D&& data, int root) {
    return plan(describe::broadcast(data, root));
  }
  template <detail::Values I, detail::ResultsOf<I> O> Plan plan_gather(const I& in, O&& out, int root) {
    return plan(describe::gather(in, out, root));
  }
  template <detail::Values I, detail::ResultsOf<I> O>
  Plan plan_gatherv(const I& in, O&& out, const Counts& counts, const Counts& displacements, int root) {
    return plan(describe::gatherv(in, out, counts, displacements, root));
  }
  template <detail::Values I, detail::ResultsOf<I> O> Plan plan_scatter(const I& in, O&& out, int root) {
    return plan(describe::scatter(in, out, root));
  }
  template <detail::Values I, detail::ResultsOf<I> O>
  Plan plan_scatterv(const I& in, O&& out, const Counts& counts, const Counts& displacements, int root) {
    return plan(describe::scatterv(in, out, counts, displacements, root));
  }
  template <detail::Values I, detail::ResultsOf<I> O> Plan plan_allgather(const I& in, O&& out) {
    return plan(describe::allgather(in, out));
  }
  template <detail::Values I, detail::ResultsOf<I> O>
  Plan plan_allgatherv(const I& in, O&& out, const Counts& counts, const Counts& displacements = {}) {
    return plan(describe::allgatherv(in, out, counts, displacements));
  }
  template <detail::Values I, detail::ResultsOf<I> O> Plan plan_alltoall(const I& in, O&& out) {
    return plan(describe::alltoall(in, out));
  }
  template <detail::Values I, detail::ResultsOf<I> O>
  Plan plan_alltoallv(const I& in, const Counts& counts, const Counts& displacements, O&& out,
                      const Counts& receive_counts, const Counts& receive_displacements, std::size_t largest) {
    return plan(describe::with_largest(
        describe::alltoallv(in, counts, displacements, out, receive_counts, receive_displacements), largest));
  }
  template <detail::Values I, detail::ResultsOf<I> O>
  Plan plan_reduce(const I& in, O&& out, const Reduction& how, int root) {
    return plan(describe::reduce(in, out, how, root));
  }
  template <detail::Values I, detail::ResultsOf<I> O> Plan plan_allreduce(const I& in, O&& out, const Reduction& how) {
    return plan(describe::allreduce(in, out, how));
  }
  template <detail::Values I, detail::ResultsOf<I> O>
  Plan plan_reduce_scatter(const I& in, O&& out, const Reduction& how) {
    return plan(describe::reduce_scatter(in, out, how));
  }
  template <detail::Values I, detail::ResultsOf<I> O>
  Plan plan_reduce_scatterv(const I& in, O&& out, const Counts& counts, const Reduction& how) {
    return plan(describe::reduce_scatterv(in, out, counts, how));
  }
  template <detail::Values I, detail::ResultsOf<I> O> Plan plan_scan(const I& in, O&& out, const Reduction& how) {
    return plan(describe::scan(in, out, how));
  }
  template <detail::Values I, detail::ResultsOf<I> O> Plan plan_exscan(const I& in, O&& out, const Reduction& how) {
    return plan(describe::exscan(in, out, how));
  }

  /// The number of calls of a collective ("allreduce") that used an algorithm ("ring"); 0 for unknown names. The
  /// algorithm "direct" is load and store on one node.
  std::uint64_t calls_by_algorithm(std::string_view collective, std::string_view algorithm) const;

  /// For HMC's own use.
  const std::shared_ptr<collectives::TeamObject>& object() const noexcept { return object_; }
  [[gnu::visibility("hidden")]] rma::TeamCore* core() const noexcept;
  explicit Team(std::shared_ptr<collectives::TeamObject> object) noexcept : object_(std::move(object)) {}

 private:
  template <detail::Values R> static std::size_t bytes_of(const R& range) noexcept {
    return std::ranges::size(range) * detail::value_bytes<R>;
  }
  std::shared_ptr<collectives::TeamObject> object_;
};

}  // namespace hmc
