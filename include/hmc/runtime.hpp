// Runtime: this process's (or this thread's) membership in a job.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <hmc/error.hpp>
#include <hmc/request.hpp>
#include <hmc/team.hpp>

namespace hmc {

namespace job {
class Core;
}

/// Which way the bytes go from this rank to a peer.
struct Path {
  std::string wire;     ///< "self", "shm", "ucx", "tcp", ...
  bool direct = false;  ///< load and store reach the peer's windows
  std::string why;      ///< why this wire, and why not a better one
  /// Of Window::path to device memory, as measured. Mapped here, when that was tried first: this rank's device reading
  /// the peer's memory, and 8 bytes to the host. "staged", when path() is first called, which takes that long: gets to
  /// the host's memory, with the owner's help. 0: not measured; bandwidth only of 64 KiB or more.
  double gigabytes_per_s = 0;
  double latency_us = 0;
};

/// What has happened so far, for tests and tools.
struct Counters {
  std::uint64_t puts_direct = 0;        ///< puts that were a copy into mapped memory
  std::uint64_t puts_wire = 0;          ///< puts that went through a wire
  std::uint64_t buffers_in_place = 0;   ///< collective buffers that were used where they lay, with a window at one end
  std::uint64_t buffers_staged = 0;     ///< collective buffers that were copied through staging
  std::uint64_t buffers_read = 0;       ///< collective buffers in no window that peers read out of this rank's memory
  std::uint64_t runs_landed = 0;        ///< long runs that a wire brought straight to a collective's output
  std::uint64_t reduced_on_device = 0;  ///< collectives whose devices reduced, in each other's windows
};

/// No globals: several Runtimes may live in one process (one per rank, or one after the other).
/// init and close are collective over the job. The destructor is local and never blocks; a rank that
/// goes without close() has failed in the eyes of the others. Threads: one at a time. A child of fork() has no part in
/// the job: calls on what it inherits that communicate, allocate or wait throw Error{closed}, among them test() and
/// wait() of a Request that isn't complete. Local queries like rank() and size() keep answering, and so does a complete
/// Request. Destructors in the child do nothing, and the parent's job goes on.
class HMC_API Runtime {
 public:
  /// Finds its launcher by itself; alone, it is rank 0 of 1. Throws Error if there are signs of a
  /// job of several ranks that can't be joined.
  static Runtime init();

  Runtime(Runtime&&) noexcept;
  Runtime& operator=(Runtime&&) noexcept;
  ~Runtime();
  /// Error{closed} on one that is closed, or whose close has failed: then the others see a failed rank.
  void close();

  // One that was moved from is rank -1 of 0; what isn't noexcept throws Error{closed}.
  int rank() const noexcept;
  int size() const noexcept;
  int node() const noexcept;  ///< of this rank; nodes are numbered 0..node_count()-1
  int node(int rank) const;
  int node_count() const noexcept;
  Team& world();

  Path path(int rank) const;
  std::string launcher() const;  ///< how the job was joined
  Counters counters() const;
  Timeout timeout() const noexcept;  ///< what job_timeout means here

  /// Ends the whole job: every rank's present or next call throws Error{aborted} with this text, and
  /// the launcher ends the processes with `exit_code`.
  void abort(int exit_code, const std::string& text) noexcept;

  explicit Runtime(std::unique_ptr<job::Core> core);
  job::Core& core() const;

 private:
  std::unique_ptr<job::Core> core_;
};

}  // namespace hmc
