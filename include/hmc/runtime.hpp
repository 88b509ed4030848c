// Runtime: one rank's membership in a job.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <hmc/error.hpp>
#include <hmc/key_value_store.hpp>
#include <hmc/request.hpp>
#include <hmc/team.hpp>

namespace hmc {

namespace job {
class JobCore;
}

/// The wire (transport) from this rank to a peer.
struct Path {
  std::string wire;     ///< "self", "shm", "verbs", "ucx", "tcp"; for Window::path see there
  bool direct = false;  ///< this rank can load from and store to the peer's windows
  std::string why;      ///< why this wire is used, and why faster wires aren't
  /// Measured values, for Window::path to device memory only:
  ///  - mapped in this process: the bandwidth at which this rank's device reads the peer's memory, and the latency of
  ///    a read of 8 bytes by the host. HMC measures them when it first maps the peer's memory.
  ///  - "staged": bandwidth and latency of a get into host memory. The first call of path() measures them.
  ///  - 0: not measured. Bandwidth is also 0 if the part is smaller than 64 KiB.
  double gigabytes_per_s = 0;
  double latency_us = 0;
};

/// Counters of this rank since init, for tests and tools.
struct Counters {
  std::uint64_t puts_direct = 0;        ///< puts by a copy into mapped memory
  std::uint64_t puts_wire = 0;          ///< puts over a wire
  std::uint64_t buffers_in_place = 0;   ///< collective buffers not staged: they or a peer's buffer are in a window
  std::uint64_t buffers_staged = 0;     ///< collective buffers that were copied through staging memory
  std::uint64_t buffers_read = 0;       ///< collective buffers outside windows that peers read directly
  std::uint64_t direct_receives = 0;    ///< ranges that a wire received directly into a collective's output
  std::uint64_t reduced_on_device = 0;  ///< reductions computed by devices
};

/// One rank's membership in a job.
///
/// LIFETIME. init and close are collective over the job. The destructor is local and never blocks. If a Runtime is
/// destroyed without close(), the other ranks treat this rank as failed. There is no global state: one process may have
/// several Runtimes, at the same time (one per rank) or one after another.
///
/// THREADS. One thread at a time.
///
/// UNCAUGHT ERRORS. Under hmcrun, init() replaces C++'s default terminate handler: hmcrun prints an uncaught Error once
/// for all ranks that throw it, with the ranks and the line of the call, and the processes abort as usual. A handler of
/// the program isn't replaced.
///
/// FORK. A child of fork() isn't a member of the job. The parent's job isn't affected. In the child:
///  - Calls on inherited objects that communicate, allocate or wait throw Error{closed}. So do test() and
///    wait() of an incomplete Request.
///  - Local queries such as rank() and size(), and complete Requests, still work.
///  - Destructors do nothing.
class HMC_API Runtime {
 public:
  /// Detects the launcher and joins its job. Without a launcher this process is rank 0 of 1. Throws Error if the
  /// environment shows a job of several ranks that this process can't join.
  static Runtime init();
  /// Collective over `size` ranks, each started in any way. The ranks find each other through the store. One store
  /// serves one Runtime per rank; use another prefix of the keys for each further Runtime.
  /// `timeout` is the deadline of this call, and the Runtime's timeout(); job_timeout: HMC_TIMEOUT_S.
  static Runtime init(const KeyValueStore& store, int rank, int size, Timeout timeout = job_timeout);

  Runtime(Runtime&&) noexcept;
  Runtime& operator=(Runtime&&) noexcept;
  ~Runtime();
  /// Collective. Waits for all ranks, and leaves the job. If close() throws, the other ranks treat this rank as failed.
  /// Error{closed} if the Runtime is closed, or if an earlier close() failed.
  void close();

  // A moved-from Runtime is rank -1 of 0; its functions that aren't noexcept throw Error{closed}.
  int rank() const noexcept;
  int size() const noexcept;
  int node() const noexcept;  ///< this rank's node; nodes are numbered 0 to node_count() - 1
  int node(int rank) const;   ///< a rank's node
  int node_count() const noexcept;
  Team& world();  ///< the team of all ranks; after Team::shrink or Team::grow the new one
  /// True if this process was started in place of a process of the same rank that has ended. In that case init returns
  /// when the other ranks call Team::grow, with Error{timeout} after HMC_TIMEOUT_S, and with Error{unavailable} when no
  /// rank is left that could call it.
  bool is_replacement() const;

  Path path(int rank) const;  ///< the wire to a rank, and the reason for it
  /// The launcher: "hmcrun", "by hand (HMC_RANK)", "PMIx", "PMI-1", "torchrun", "Slurm", "a key-value store", "alone".
  std::string launcher() const;
  Counters counters() const;
  Timeout timeout() const noexcept;  ///< the value of job_timeout
  /// Changes timeout() for this rank's later calls on this Runtime. Ranks may have different timeouts. Not negative.
  void set_timeout(Timeout timeout);

  /// Aborts the job: on every rank the current or next call throws Error{aborted} with this text. The launcher ends the
  /// processes. The launcher's exit status is `exit_code`, or 1 if `exit_code` is 0.
  void abort(int exit_code, const std::string& text) noexcept;

  /// For HMC's own use.
  explicit Runtime(std::unique_ptr<job::JobCore> core);
  job::JobCore& core() const;

 private:
  std::unique_ptr<job::JobCore> core_;
};

}  // namespace hmc
