// Team: an ordered set of ranks, and the collectives on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <ranges>
#include <span>
#include <string_view>
#include <type_traits>

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

namespace detail {

/// A contiguous range of values: a vector, array or span.
template <typename R>
concept Values = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
    std::is_trivially_copyable_v<std::ranges::range_value_t<R>>;
template <typename R>
concept WritableValues = Values<R> && !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>>;
/// Not a C array: see Team::send.
template <typename R>
concept MessageValues = Values<R> && !std::is_array_v<std::remove_reference_t<R>>;
template <typename R>
concept WritableMessageValues = WritableValues<R> && !std::is_array_v<std::remove_reference_t<R>>;
template <typename R, typename I>
concept ResultsOf = WritableValues<R> && std::is_same_v<std::ranges::range_value_t<R>, std::ranges::range_value_t<I>>;
/// Of non-blocking calls: the values stay when the call returns. R is an lvalue, or doesn't own its values, such as a
/// temporary span. A temporary vector or array would end before the operation.
template <typename R>
concept LastingValues = Values<R> && std::ranges::borrowed_range<R>;
template <typename R>
concept LastingWritableValues = WritableValues<R> && std::ranges::borrowed_range<R>;
template <typename R>
concept LastingMessage = MessageValues<R> && std::ranges::borrowed_range<R>;
template <typename R>
concept LastingWritableMessage = WritableMessageValues<R> && std::ranges::borrowed_range<R>;
template <typename R, typename I>
concept LastingResultsOf = ResultsOf<R, I> && std::ranges::borrowed_range<R>;

template <Values R> inline constexpr std::size_t value_bytes = sizeof(std::ranges::range_value_t<R>);
template <Values R> inline constexpr DType type_of = dtype_of<std::ranges::range_value_t<R>>();

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
  explicit operator bool() const noexcept { return core_ != nullptr; }

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

  // ---- collectives: blocking
  /// Returns when all ranks have entered, and this rank's earlier puts and atomics are complete at their targets.
  void barrier();
  /// Copies `bytes` bytes from `data` of the root to `data` of the other ranks.
  void broadcast(void* data, std::size_t bytes, int root);
  /// Each rank sends `bytes` bytes. The root's `out` receives size() * bytes.
  void gather(const void* in, void* out, std::size_t bytes, int root);
  void gatherv(const void* in, void* out, const Counts& counts, const Counts& displacements, int root,
               std::size_t element = 1);
  /// Each rank receives `bytes` bytes. The root's `in` holds size() * bytes.
  void scatter(const void* in, void* out, std::size_t bytes, int root);
  void scatterv(const void* in, void* out, const Counts& counts, const Counts& displacements, int root,
                std::size_t element = 1);
  /// Each rank sends `bytes` bytes to all. `out` receives size() * bytes.
  void allgather(const void* in, void* out, std::size_t bytes);
  void allgatherv(const void* in, void* out, const Counts& counts, const Counts& displacements = {},
                  std::size_t element = 1);
  /// Each rank sends `bytes` bytes to each rank. `in` and `out` hold size() * bytes.
  void alltoall(const void* in, void* out, std::size_t bytes);
  void alltoallv(const void* in, const Counts& counts, const Counts& displacements, void* out,
                 const Counts& receive_counts, const Counts& receive_displacements, std::size_t element = 1);

  /// Combines `count` elements of all ranks into the root's `out`.
  void reduce(const void* in, void* out, std::size_t count, DType type, const Reduction& how, int root);
  /// Combines `count` elements of all ranks into `out` of every rank.
  void allreduce(const void* in, void* out, std::size_t count, DType type, const Reduction& how);
  /// Combines `in` of all ranks, size() * count elements. `out` receives this rank's `count` elements of the result.
  /// (MPI_Reduce_scatter_block. The v-form is MPI_Reduce_scatter.)
  void reduce_scatter(const void* in, void* out, std::size_t count, DType type, const Reduction& how);
  void reduce_scatterv(const void* in, void* out, const Counts& counts, DType type, const Reduction& how);
  /// Inclusive prefix: combines the elements of ranks 0 to rank().
  void scan(const void* in, void* out, std::size_t count, DType type, const Reduction& how);
  /// Exclusive prefix: combines the elements of ranks 0 to rank() - 1. Doesn't write rank 0's `out`.
  void exscan(const void* in, void* out, std::size_t count, DType type, const Reduction& how);

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
  Request ibarrier();
  Request ibroadcast(void* data, std::size_t bytes, int root);
  Request igather(const void* in, void* out, std::size_t bytes, int root);
  Request igatherv(const void* in, void* out, const Counts& counts, const Counts& displacements, int root,
                   std::size_t element = 1);
  Request iscatter(const void* in, void* out, std::size_t bytes, int root);
  Request iscatterv(const void* in, void* out, const Counts& counts, const Counts& displacements, int root,
                    std::size_t element = 1);
  Request iallgather(const void* in, void* out, std::size_t bytes);
  Request iallgatherv(const void* in, void* out, const Counts& counts, const Counts& displacements = {},
                      std::size_t element = 1);
  Request ialltoall(const void* in, void* out, std::size_t bytes);
  Request ialltoallv(const void* in, const Counts& counts, const Counts& displacements, void* out,
                     const Counts& receive_counts, const Counts& receive_displacements, std::size_t largest,
                     std::size_t element = 1);
  Request ireduce(const void* in, void* out, std::size_t count, DType type, const Reduction& how, int root);
  Request iallreduce(const void* in, void* out, std::size_t count, DType type, const Reduction& how);
  Request ireduce_scatter(const void* in, void* out, std::size_t count, DType type, const Reduction& how);
  Request ireduce_scatterv(const void* in, void* out, const Counts& counts, DType type, const Reduction& how);
  Request iscan(const void* in, void* out, std::size_t count, DType type, const Reduction& how);
  Request iexscan(const void* in, void* out, std::size_t count, DType type, const Reduction& how);

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
  void allreduce_on(void* stream, const void* in, void* out, std::size_t count, DType type, Op op);
  /// A barrier of the ranks' streams: work queued after it runs after all work queued before it on every rank's stream.
  /// `buffer` is any buffer on the stream's device.
  void barrier_on(void* stream, const void* buffer);

  // ---- persistent collectives: see Plan
  Plan plan_barrier();
  Plan plan_broadcast(void* data, std::size_t bytes, int root);
  Plan plan_gather(const void* in, void* out, std::size_t bytes, int root);
  Plan plan_gatherv(const void* in, void* out, const Counts& counts, const Counts& displacements, int root,
                    std::size_t element = 1);
  Plan plan_scatter(const void* in, void* out, std::size_t bytes, int root);
  Plan plan_scatterv(const void* in, void* out, const Counts& counts, const Counts& displacements, int root,
                     std::size_t element = 1);
  Plan plan_allgather(const void* in, void* out, std::size_t bytes);
  Plan plan_allgatherv(const void* in, void* out, const Counts& counts, const Counts& displacements = {},
                       std::size_t element = 1);
  Plan plan_alltoall(const void* in, void* out, std::size_t bytes);
  Plan plan_alltoallv(const void* in, const Counts& counts, const Counts& displacements, void* out,
                      const Counts& receive_counts, const Counts& receive_displacements, std::size_t largest,
                      std::size_t element = 1);
  Plan plan_reduce(const void* in, void* out, std::size_t count, DType type, const Reduction& how, int root);
  Plan plan_allreduce(const void* in, void* out, std::size_t count, DType type, const Reduction& how);
  Plan plan_reduce_scatter(const void* in, void* out, std::size_t count, DType type, const Reduction& how);
  Plan plan_reduce_scatterv(const void* in, void* out, const Counts& counts, DType type, const Reduction& how);
  Plan plan_scan(const void* in, void* out, std::size_t count, DType type, const Reduction& how);
  Plan plan_exscan(const void* in, void* out, std::size_t count, DType type, const Reduction& how);

  // ---- collectives over ranges: vectors, arrays, spans. Blocking, non-blocking and persistent, as above.
  // Sizes and element types are those of the ranges. `in` and `out` must have the same element type.
  //  - Non-blocking calls take no temporary that owns its values, such as a vector: it would end before the operation.
  //  - Error{invalid_argument} on a rank if its ranges have wrong sizes.
  //  - v-forms: counts and displacements are in elements. The ranges may be longer than needed.
  template <detail::WritableValues D> void broadcast(D&& data, int root) {
    broadcast(std::ranges::data(data), std::ranges::size(data) * detail::value_bytes<D>, root);
  }
  template <detail::Values I, detail::ResultsOf<I> O> void gather(const I& in, O&& out, int root) {
    fit_blocks("gather", std::ranges::size(in), std::ranges::size(out), root);
    gather(std::ranges::data(in), std::ranges::data(out), std::ranges::size(in) * detail::value_bytes<I>, root);
  }
  template <detail::Values I, detail::ResultsOf<I> O>
  void gatherv(const I& in, O&& out, const Counts& counts, const Counts& displacements, int root) {
    fit_uneven("gatherv", std::ranges::size(in), std::ranges::size(out), counts, displacements, root);
    gatherv(std::ranges::data(in), std::ranges::data(out), counts, displacements, root, detail::value_bytes<I>);
  }
  template <detail::Values I, detail::ResultsOf<I> O> void scatter(const I& in, O&& out, int root) {
    fit_blocks("scatter", std::ranges::size(out), std::ranges::size(in), root);
    scatter(std::ranges::data(in), std::ranges::data(out), std::ranges::size(out) * detail::value_bytes<I>, root);
  }
  template <detail::Values I, detail::ResultsOf<I> O>
  void scatterv(const I& in, O&& out, const Counts& counts, const Counts& displacements, int root) {
    fit_uneven("scatterv", std::ranges::size(out), std::ranges::size(in), counts, displacements, root);
    scatterv(std::ranges::data(in), std::ranges::data(out), counts, displacements, root, detail::value_bytes<I>);
  }
  template <detail::Values I, detail::ResultsOf<I> O> void allgather(const I& in, O&& out) {
    fit_blocks("allgather", std::ranges::size(in), std::ranges::size(out));
    allgather(std::ranges::data(in), std::ranges::data(out), std::ranges::size(in) * detail::value_bytes<I>);
  }
  template <detail::Values I, detail::ResultsOf<I> O>
  void allgatherv(const I& in, O&& out, const Counts& counts, const Counts& displacements = {}) {
    fit_uneven("allgatherv", std::ranges::size(in), std::ranges::size(out), counts, displacements);
    allgatherv(std::ranges::data(in), std::ranges::data(out), counts, displacements, detail::value_bytes<I>);
  }
  template <detail::Values I, detail::ResultsOf<I> O> void alltoall(const I& in, O&& out) {
    const std::size_t block = fit_all_blocks("alltoall", std::ranges::size(in), std::ranges::size(out));
    alltoall(std::ranges::data(in), std::ranges::data(out), block * detail::value_bytes<I>);
  }
  template <detail::Values I, detail::ResultsOf<I> O>
  void alltoallv(const I& in, const Counts& counts, const Counts& displacements, O&& out, const Counts& receive_counts,
                 const Counts& receive_displacements) {
    fit_reach("alltoallv", std::ranges::size(in), counts, displacements);
    fit_reach("alltoallv", std::ranges::size(out), receive_counts, receive_displacements);
    alltoallv(std::ranges::data(in), counts, displacements, std::ranges::data(out), receive_counts,
              receive_displacements, detail::value_bytes<I>);
  }
  template <detail::Values I, detail::ResultsOf<I> O>
  void reduce(const I& in, O&& out, const Reduction& how, int root) {
    fit_equal("reduce", std::ranges::size(in), std::ranges::size(out), root);
    reduce(std::ranges::data(in), std::ranges::data(out), std::ranges::size(in), detail::type_of<I>, how, root);
  }
  template <detail::Values I, detail::ResultsOf<I> O> void allreduce(const I& in, O&& out, const Reduction& how) {
    fit_equal("allreduce", std::ranges::size(in), std::ranges::size(out));
    allreduce(std::ranges::data(in), std::ranges::data(out), std::ranges::size(in), detail::type_of<I>, how);
  }
  template <detail::Values I, detail::ResultsOf<I> O> void reduce_scatter(const I& in, O&& out, const Reduction& how) {
    fit_blocks("reduce_scatter", std::ranges::size(out), std::ranges::size(in));
    reduce_scatter(std::ranges::data(in), std::ranges::data(out), std::ranges::size(out), detail::type_of<I>, how);
  }
  template <detail::Values I, detail::ResultsOf<I> O>
  void reduce_scatterv(const I& in, O&& out, const Counts& counts, const Reduction& how) {
    fit_uneven("reduce_scatterv", std::ranges::size(out), std::ranges::size(in), counts, {});
    reduce_scatterv(std::ranges::data(in), std::ranges::data(out), counts, detail::type_of<I>, how);
  }
  template <detail::Values I, detail::ResultsOf<I> O> void scan(const I& in, O&& out, const Reduction& how) {
    fit_equal("scan", std::ranges::size(in), std::ranges::size(out));
    scan(std::ranges::data(in), std::ranges::data(out), std::ranges::size(in), detail::type_of<I>, how);
  }
  template <detail::Values I, detail::ResultsOf<I> O> void exscan(const I& in, O&& out, const Reduction& how) {
    fit_equal("exscan", std::ranges::size(in), std::ranges::size(out));
    exscan(std::ranges::data(in), std::ranges::data(out), std::ranges::size(in), detail::type_of<I>, how);
  }
  template <detail::LastingWritableValues D> Request ibroadcast(D&& data, int root) {
    return ibroadcast(std::ranges::data(data), std::ranges::size(data) * detail::value_bytes<D>, root);
  }
  template <detail::LastingValues I, detail::LastingResultsOf<I> O> Request igather(I&& in, O&& out, int root) {
    fit_blocks("igather", std::ranges::size(in), std::ranges::size(out), root);
    return igather(std::ranges::data(in), std::ranges::data(out), std::ranges::size(in) * detail::value_bytes<I>, root);
  }
  template <detail::LastingValues I, detail::LastingResultsOf<I> O>
  Request igatherv(I&& in, O&& out, const Counts& counts, const Counts& displacements, int root) {
    fit_uneven("igatherv", std::ranges::size(in), std::ranges::size(out), counts, displacements, root);
    return igatherv(std::ranges::data(in), std::ranges::data(out), counts, displacements, root, detail::value_bytes<I>);
  }
  template <detail::LastingValues I, detail::LastingResultsOf<I> O> Request iscatter(I&& in, O&& out, int root) {
    fit_blocks("iscatter", std::ranges::size(out), std::ranges::size(in), root);
    return iscatter(std::ranges::data(in), std::ranges::data(out), std::ranges::size(out) * detail::value_bytes<I>,
                    root);
  }
  template <detail::LastingValues I, detail::LastingResultsOf<I> O>
  Request iscatterv(I&& in, O&& out, const Counts& counts, const Counts& displacements, int root) {
    fit_uneven("iscatterv", std::ranges::size(out), std::ranges::size(in), counts, displacements, root);
    return iscatterv(std::ranges::data(in), std::ranges::data(out), counts, displacements, root,
                     detail::value_bytes<I>);
  }
  template <detail::LastingValues I, detail::LastingResultsOf<I> O> Request iallgather(I&& in, O&& out) {
    fit_blocks("iallgather", std::ranges::size(in), std::ranges::size(out));
    return iallgather(std::ranges::data(in), std::ranges::data(out), std::ranges::size(in) * detail::value_bytes<I>);
  }
  template <detail::LastingValues I, detail::LastingResultsOf<I> O>
  Request iallgatherv(I&& in, O&& out, const Counts& counts, const Counts& displacements = {}) {
    fit_uneven("iallgatherv", std::ranges::size(in), std::ranges::size(out), counts, displacements);
    return iallgatherv(std::ranges::data(in), std::ranges::data(out), counts, displacements, detail::value_bytes<I>);
  }
  template <detail::LastingValues I, detail::LastingResultsOf<I> O> Request ialltoall(I&& in, O&& out) {
    const std::size_t block = fit_all_blocks("ialltoall", std::ranges::size(in), std::ranges::size(out));
    return ialltoall(std::ranges::data(in), std::ranges::data(out), block * detail::value_bytes<I>);
  }
  template <detail::LastingValues I, detail::LastingResultsOf<I> O>
  Request ialltoallv(I&& in, const Counts& counts, const Counts& displacements, O&& out, const Counts& receive_counts,
                     const Counts& receive_displacements, std::size_t largest) {
    fit_reach("ialltoallv", std::ranges::size(in), counts, displacements);
    fit_reach("ialltoallv", std::ranges::size(out), receive_counts, receive_displacements);
    return ialltoallv(std::ranges::data(in), counts, displacements, std::ranges::data(out), receive_counts,
                      receive_displacements, largest, detail::value_bytes<I>);
  }
  template <detail::LastingValues I, detail::LastingResultsOf<I> O>
  Request ireduce(I&& in, O&& out, const Reduction& how, int root) {
    fit_equal("ireduce", std::ranges::size(in), std::ranges::size(out), root);
    return ireduce(std::ranges::data(in), std::ranges::data(out), std::ranges::size(in), detail::type_of<I>, how, root);
  }
  template <detail::LastingValues I, detail::LastingResultsOf<I> O>
  Request iallreduce(I&& in, O&& out, const Reduction& how) {
    fit_equal("iallreduce", std::ranges::size(in), std::ranges::size(out));
    return iallreduce(std::ranges::data(in), std::ranges::data(out), std::ranges::size(in), detail::type_of<I>, how);
  }
  template <detail::LastingValues I, detail::LastingResultsOf<I> O>
  Request ireduce_scatter(I&& in, O&& out, const Reduction& how) {
    fit_blocks("ireduce_scatter", std::ranges::size(out), std::ranges::size(in));
    return ireduce_scatter(std::ranges::data(in), std::ranges::data(out), std::ranges::size(out), detail::type_of<I>,
                           how);
  }
  template <detail::LastingValues I, detail::LastingResultsOf<I> O>
  Request ireduce_scatterv(I&& in, O&& out, const Counts& counts, const Reduction& how) {
    fit_uneven("ireduce_scatterv", std::ranges::size(out), std::ranges::size(in), counts, {});
    return ireduce_scatterv(std::ranges::data(in), std::ranges::data(out), counts, detail::type_of<I>, how);
  }
  template <detail::LastingValues I, detail::LastingResultsOf<I> O>
  Request iscan(I&& in, O&& out, const Reduction& how) {
    fit_equal("iscan", std::ranges::size(in), std::ranges::size(out));
    return iscan(std::ranges::data(in), std::ranges::data(out), std::ranges::size(in), detail::type_of<I>, how);
  }
  template <detail::LastingValues I, detail::LastingResultsOf<I> O>
  Request iexscan(I&& in, O&& out, const Reduction& how) {
    fit_equal("iexscan", std::ranges::size(in), std::ranges::size(out));
    return iexscan(std::ranges::data(in), std::ranges::data(out), std::ranges::size(in), detail::type_of<I>, how);
  }
  template <detail::WritableValues D> Plan plan_broadcast(D&& data, int root) {
    return plan_broadcast(std::ranges::data(data), std::ranges::size(data) * detail::value_bytes<D>, root);
  }
  template <detail::Values I, detail::ResultsOf<I> O> Plan plan_gather(const I& in, O&& out, int root) {
    fit_blocks("plan_gather", std::ranges::size(in), std::ranges::size(out), root);
    return plan_gather(std::ranges::data(in), std::ranges::data(out), std::ranges::size(in) * detail::value_bytes<I>,
                       root);
  }
  template <detail::Values I, detail::ResultsOf<I> O>
  Plan plan_gatherv(const I& in, O&& out, const Counts& counts, const Counts& displacements, int root) {
    fit_uneven("plan_gatherv", std::ranges::size(in), std::ranges::size(out), counts, displacements, root);
    return plan_gatherv(std::ranges::data(in), std::ranges::data(out), counts, displacements, root,
                        detail::value_bytes<I>);
  }
  template <detail::Values I, detail::ResultsOf<I> O> Plan plan_scatter(const I& in, O&& out, int root) {
    fit_blocks("plan_scatter", std::ranges::size(out), std::ranges::size(in), root);
    return plan_scatter(std::ranges::data(in), std::ranges::data(out), std::ranges::size(out) * detail::value_bytes<I>,
                        root);
  }
  template <detail::Values I, detail::ResultsOf<I> O>
  Plan plan_scatterv(const I& in, O&& out, const Counts& counts, const Counts& displacements, int root) {
    fit_uneven("plan_scatterv", std::ranges::size(out), std::ranges::size(in), counts, displacements, root);
    return plan_scatterv(std::ranges::data(in), std::ranges::data(out), counts, displacements, root,
                         detail::value_bytes<I>);
  }
  template <detail::Values I, detail::ResultsOf<I> O> Plan plan_allgather(const I& in, O&& out) {
    fit_blocks("plan_allgather", std::ranges::size(in), std::ranges::size(out));
    return plan_allgather(std::ranges::data(in), std::ranges::data(out),
                          std::ranges::size(in) * detail::value_bytes<I>);
  }
  template <detail::Values I, detail::ResultsOf<I> O>
  Plan plan_allgatherv(const I& in, O&& out, const Counts& counts, const Counts& displacements = {}) {
    fit_uneven("plan_allgatherv", std::ranges::size(in), std::ranges::size(out), counts, displacements);
    return plan_allgatherv(std::ranges::data(in), std::ranges::data(out), counts, displacements,
                           detail::value_bytes<I>);
  }
  template <detail::Values I, detail::ResultsOf<I> O> Plan plan_alltoall(const I& in, O&& out) {
    const std::size_t block = fit_all_blocks("plan_alltoall", std::ranges::size(in), std::ranges::size(out));
    return plan_alltoall(std::ranges::data(in), std::ranges::data(out), block * detail::value_bytes<I>);
  }
  template <detail::Values I, detail::ResultsOf<I> O>
  Plan plan_alltoallv(const I& in, const Counts& counts, const Counts& displacements, O&& out,
                      const Counts& receive_counts, const Counts& receive_displacements, std::size_t largest) {
    fit_reach("plan_alltoallv", std::ranges::size(in), counts, displacements);
    fit_reach("plan_alltoallv", std::ranges::size(out), receive_counts, receive_displacements);
    return plan_alltoallv(std::ranges::data(in), counts, displacements, std::ranges::data(out), receive_counts,
                          receive_displacements, largest, detail::value_bytes<I>);
  }
  template <detail::Values I, detail::ResultsOf<I> O>
  Plan plan_reduce(const I& in, O&& out, const Reduction& how, int root) {
    fit_equal("plan_reduce", std::ranges::size(in), std::ranges::size(out), root);
    return plan_reduce(std::ranges::data(in), std::ranges::data(out), std::ranges::size(in), detail::type_of<I>, how,
                       root);
  }
  template <detail::Values I, detail::ResultsOf<I> O> Plan plan_allreduce(const I& in, O&& out, const Reduction& how) {
    fit_equal("plan_allreduce", std::ranges::size(in), std::ranges::size(out));
    return plan_allreduce(std::ranges::data(in), std::ranges::data(out), std::ranges::size(in), detail::type_of<I>,
                          how);
  }
  template <detail::Values I, detail::ResultsOf<I> O>
  Plan plan_reduce_scatter(const I& in, O&& out, const Reduction& how) {
    fit_blocks("plan_reduce_scatter", std::ranges::size(out), std::ranges::size(in));
    return plan_reduce_scatter(std::ranges::data(in), std::ranges::data(out), std::ranges::size(out),
                               detail::type_of<I>, how);
  }
  template <detail::Values I, detail::ResultsOf<I> O>
  Plan plan_reduce_scatterv(const I& in, O&& out, const Counts& counts, const Reduction& how) {
    fit_uneven("plan_reduce_scatterv", std::ranges::size(out), std::ranges::size(in), counts, {});
    return plan_reduce_scatterv(std::ranges::data(in), std::ranges::data(out), counts, detail::type_of<I>, how);
  }
  template <detail::Values I, detail::ResultsOf<I> O> Plan plan_scan(const I& in, O&& out, const Reduction& how) {
    fit_equal("plan_scan", std::ranges::size(in), std::ranges::size(out));
    return plan_scan(std::ranges::data(in), std::ranges::data(out), std::ranges::size(in), detail::type_of<I>, how);
  }
  template <detail::Values I, detail::ResultsOf<I> O> Plan plan_exscan(const I& in, O&& out, const Reduction& how) {
    fit_equal("plan_exscan", std::ranges::size(in), std::ranges::size(out));
    return plan_exscan(std::ranges::data(in), std::ranges::data(out), std::ranges::size(in), detail::type_of<I>, how);
  }

  /// The number of calls of a collective ("allreduce") that used an algorithm ("ring"); 0 for unknown names. The
  /// algorithm "direct" is load and store on one node.
  std::uint64_t calls_by_algorithm(std::string_view collective, std::string_view algorithm) const;

  /// For HMC's own use.
  const std::shared_ptr<rma::TeamCore>& core() const noexcept { return core_; }
  explicit Team(std::shared_ptr<rma::TeamCore> core) noexcept : core_(std::move(core)) {}

 private:
  template <detail::Values R> static std::size_t bytes_of(const R& range) noexcept {
    return std::ranges::size(range) * detail::value_bytes<R>;
  }
  // Check the sizes of ranges, in elements. If `root` isn't -1, only the root checks the range that only it uses.
  void fit_equal(const char* operation, std::size_t in, std::size_t out, int root = -1) const;
  void fit_blocks(const char* operation, std::size_t block, std::size_t all, int root = -1) const;
  std::size_t fit_all_blocks(const char* operation, std::size_t in, std::size_t out) const;
  void fit_uneven(const char* operation, std::size_t block, std::size_t all, const Counts& counts,
                  const Counts& displacements, int root = -1) const;
  static void fit_reach(const char* operation, std::size_t all, const Counts& counts, const Counts& displacements);
  std::shared_ptr<rma::TeamCore> core_;
};

}  // namespace hmc
