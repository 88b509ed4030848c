// Pool: memory of many processes in one address space, with members that join and leave at any time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <hmc/error.hpp>
#include <hmc/memory_type.hpp>
#include <hmc/request.hpp>
#include <hmc/store.hpp>

namespace hmc {

/// A member has a part of each kind; either may be empty.
enum class PoolPart : std::uint8_t { host, device };
HMC_API const char* name_of(PoolPart part) noexcept;

/// The kinds of destination and source of a copy. `host` and `device` are memory of this process outside the pool's
/// addresses; `global_...` are addresses of the pool, of any member. If the value isn't `automatic`, other
/// kinds are Error{invalid_argument}. A copy from local to local memory is always Error{invalid_argument}.
enum class PoolDirection : std::uint8_t {
  automatic,
  host_to_global_host,
  host_to_global_device,
  device_to_global_host,
  device_to_global_device,
  global_host_to_host,
  global_host_to_device,
  global_device_to_host,
  global_device_to_device,
  global_host_to_global_host,
  global_host_to_global_device,
  global_device_to_global_host,
  global_device_to_global_device,
  global_to_global,  ///< any of the last four
};
HMC_API const char* name_of(PoolDirection direction) noexcept;

struct PoolOptions {
  std::string name = "pool";   ///< of the pool in the store
  int most_members = 64;       ///< ranks are 0..most_members-1; at most 1,024; the same in all members
  int rank = -1;               ///< the wanted rank; -1: the pool assigns the lowest free one
  std::size_t host_bytes = 0;  ///< this member's parts
  std::size_t device_bytes = 0;
  /// The strides of the address space: the same in all members; 0: this member's part. Rounded up to 2 MiB.
  std::size_t host_stride = 0;
  std::size_t device_stride = 0;
  MemoryType device_type = MemoryType::DEFAULT;  ///< of the device part
  int device = 0;
  /// Not -1: the host part is the first host_bytes bytes of this shared memory (memfd or shm_open), which other
  /// processes may have mapped. The pool duplicates the descriptor. Its size must not shrink.
  int host_fd = -1;
  std::string tag;  ///< of this member, for the rules; up to 30 letters, digits and `_`
  /// "tagA:way:tagB,...": the way between members with these tags, in both directions; "*" matches any tag. The first
  /// rule that matches is tried first, then the other ways. Ways: see PoolWay. The same in all members.
  std::string rules;
};

/// The ways to a member's part, in the order in which they are tried.
enum class PoolWay : std::uint8_t {
  none,
  own,           ///< this member's own part
  load_store,    ///< host memory, mapped here: "shm"
  process_copy,  ///< host memory, copied by the kernel (process_vm_readv): "process"
  mapped,        ///< device memory, mapped here; the device copies: "device"
  verbs,         ///< RDMA: "verbs". By this way and the next two, a device part is reached through its owner's memory
  ucx,           ///< "ucx"
  tcp,           ///< "tcp"
  staged,        ///< the owner copies, with messages over the store: "staged". Works always, and is slow
};
HMC_API const char* name_of(PoolWay way) noexcept;

/// The way to one part of one member, and why; `why` names the ways that were tried before and failed, at the join or
/// during a copy.
struct PoolPath {
  PoolWay way = PoolWay::none;
  std::string why;
};

struct PoolPlace {
  int rank = -1;  ///< -1: the address isn't in the pool
  PoolPart part = PoolPart::host;
  std::uint64_t offset = 0;
};

/// One piece of a batch.
struct PoolCopy {
  void* destination = nullptr;
  const void* source = nullptr;
  std::size_t bytes = 0;
};

/// The members after a join or a leave.
struct PoolChange {
  std::uint64_t version = 0;
  int rank = -1;
  bool joined = false;
  bool died = false;  ///< it left because its process ended
};

/// What the calls of this Pool have done. A batch counts each piece.
struct PoolCounter {
  std::string operation;  ///< "copy", "copy_batch", "copy_2d", "copy_async", "join", "leave", "barrier", ...
  std::uint64_t calls = 0;
  std::uint64_t failures = 0;
  std::uint64_t pieces = 0;
  std::uint64_t bytes = 0;
};

/// A call in flight, of Pool::start_call. Its destructor doesn't wait: the answer is dropped. Threads: one at a time.
class HMC_API PoolCall {
 public:
  PoolCall() noexcept;  ///< empty
  PoolCall(PoolCall&&) noexcept;
  PoolCall& operator=(PoolCall&&) noexcept;
  ~PoolCall();
  bool in_flight() const noexcept;
  /// Returns the answer, or throws as Pool::call does. Afterwards the object is empty.
  std::string wait(Timeout timeout = job_timeout);

 private:
  friend class Pool;
  struct State;
  explicit PoolCall(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

/// ADDRESSES. The part of rank r begins at base + r * stride: host parts first, then device parts. The range is
/// reserved without access. It has the same start in every member if the address space of each process allows that
/// (has_one_address_space(), or why_not_one()); then an address is a number that members may exchange. Otherwise
/// addresses are valid in this process, and members exchange (rank, part, offset): address_of() and place_of().
/// A host part whose way is load_store can be loaded from and stored to at its address while its owner is a member.
/// Other addresses are for copy() only: the processor can't access device parts there. pointer() is the address for
/// kernels.
///
/// MEMBERS. join() and leave() may be called at any time, also again. Each join and each leave is one
/// version; all members see the same sequence. The death of a member is a leave, which the others see when its
/// connection to the store ends. A rank is assigned again after a leave. When a join()
/// has returned, every member can access the new one.
///
/// COPIES throw Error{peer_failed} if a member that they access isn't one, before or during the copy (then some bytes
/// may have been written), and Error{out_of_range} beyond a part. If a way fails while its member lives, the copy is
/// repeated by the next way. They never fault: the pages of a part stay mapped until the copies that use them have
/// ended. Memory that is stored to by load and store is under the caller's own rules: after the leave an access of its
/// address faults.
///
/// ERRORS. After the end of the store, join, leave and control calls throw Error{peer_failed}, the list of members no
/// longer changes, and copies between the members continue.
///
/// THREADS. Any number of threads, except that join, leave and close are one at a time. Callbacks of on_change and
/// on_call run on two threads of the pool, one call at a time; they may call the pool, but not close it.
class HMC_API Pool {
 public:
  /// Reserves the addresses and allocates this member's parts. Not collective. Throws Error{invalid_argument,
  /// out_of_memory, unsupported}, and Error{mismatch} if other members have other strides, limits or rules. A host part
  /// that exceeds the available memory of the machine or the cgroup is Error{out_of_memory} before it is allocated.
  static Pool create(const Store& store, const PoolOptions& options);
  Pool() noexcept;  ///< empty
  Pool(Pool&&) noexcept;
  Pool& operator=(Pool&&) noexcept;
  /// As close().
  ~Pool();
  /// Leaves, waits for the copies in flight and frees the parts. Doesn't throw if the store has ended.
  void close() noexcept;

  // ---- membership

  /// Returns when every member can reach this one and this one every member. Returns the rank. Error{unavailable}: all
  /// ranks are in use; timeout names the member that doesn't answer.
  int join(Timeout timeout = job_timeout);
  /// Waits for the copies that copy_async() has started, then leaves. The others see the leave within milliseconds;
  /// their copies in flight end normally, as the parts stay allocated until close().
  void leave(Timeout timeout = job_timeout);
  bool is_member() const noexcept;
  int rank() const noexcept;  ///< -1: not a member, and no rank was given
  int most_members() const noexcept;
  std::uint64_t version() const noexcept;  ///< 0 before the first join
  /// Ascending. The members that this process has seen: a join that has returned elsewhere may not be in it yet, but
  /// its member can be accessed.
  std::vector<int> members() const;
  /// Returns when the version is at least `version`. Error{timeout, peer_failed}.
  void wait_version(std::uint64_t version, Timeout timeout = job_timeout) const;
  /// Called after each change, in the order of the versions. A member doesn't see changes while it isn't in the pool.
  void on_change(std::function<void(const PoolChange&)> changed);

  // ---- addresses

  bool has_one_address_space() const noexcept;
  const std::string& why_not_one() const noexcept;
  std::size_t stride(PoolPart part) const noexcept;
  /// The size of a member's part; 0 if the rank isn't a member.
  std::size_t bytes(PoolPart part, int rank) const noexcept;
  /// Valid for every rank, a member or not. Null if the stride is 0 or the rank is outside the pool.
  void* address(int rank, PoolPart part, std::uint64_t offset = 0) const noexcept;
  PoolPlace place_of(const void* address) const noexcept;
  int rank_of(const void* address) const noexcept { return place_of(address).rank; }
  /// The address at which this process, or its device, accesses the part: null if it can't.
  void* pointer(int rank, PoolPart part) const noexcept;
  PoolPath path(int rank, PoolPart part) const;

  // ---- copies. Source and destination: an address of this pool, or memory of this process (host or device)

  /// Returns when the bytes are at the destination. 0 bytes: Error{invalid_argument}.
  void copy(void* destination, const void* source, std::size_t bytes,
            PoolDirection direction = PoolDirection::automatic);
  /// The direction of each piece is detected, or each must have `direction`. Pieces must not overlap. All pieces
  /// are checked before the first byte moves.
  void copy_batch(std::span<const PoolCopy> pieces, PoolDirection direction = PoolDirection::automatic);
  /// `height` rows of `width` bytes; row i begins at i * pitch. Pitches are at least `width`.
  void copy_2d(void* destination, std::size_t destination_pitch, const void* source, std::size_t source_pitch,
               std::size_t width, std::size_t height, PoolDirection direction = PoolDirection::automatic);
  /// Starts the copies in the background, in order. The arguments are checked at once; the memory stays in use until
  /// wait() returns.
  void copy_async(std::span<const PoolCopy> pieces, PoolDirection direction = PoolDirection::automatic);
  /// Waits for all copies that were started before, by any thread. Throws the first failure, once.
  void wait(Timeout timeout = job_timeout);
  /// Queues the copy in a stream of `type`'s vendor (its native handle; null: the default stream). One side must be
  /// device memory of that vendor which this process can access, and the other side too or host memory: else
  /// Error{unsupported}. The caller waits for the stream.
  void copy_on_stream(void* destination, const void* source, std::size_t bytes, MemoryType type, void* stream);
  /// Pins host memory of the caller for the devices and wires in use. Optional: copies accept any memory. The same
  /// range again has no effect; another size is Error{invalid_argument}.
  void register_memory(void* address, std::size_t bytes);
  /// An address that isn't registered has no effect.
  void deregister_memory(void* address) noexcept;

  // ---- control

  /// For barriers, allgathers, numbers and exit of the members: see Store.
  const Store& store() const noexcept;  ///< with the pool's prefix
  /// Requests between members: the handler of `rank` gets the bytes, and its result is returned. At most 1 MiB
  /// each. If the handler throws, call() throws the same Error.
  std::string call(int rank, std::string_view request, Timeout timeout = job_timeout) const;
  /// The first half of call(), for several calls at once. A member executes the calls of one caller in their order.
  PoolCall start_call(int rank, std::string_view request) const;
  void on_call(std::function<std::string(int from, std::string_view request)> handler);
  std::vector<PoolCounter> counters() const;

 private:
  friend class PoolCall;
  struct Core;
  explicit Pool(std::shared_ptr<Core> core);
  std::shared_ptr<Core> core_;
};

}  // namespace hmc
