// Control: the control plane of one pool: its store, and the sockets between members on a node. Implemented in job/.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/deadline.hpp"
#include "runtime/base/fd.hpp"

namespace hmc::pool {

/// What a process shares with another of its node.
struct Shared {
  base::Bytes bytes;
  std::vector<base::UniqueFd> fds;
};

/// Functions throw hmc::Error. Threads: any.
class Control {
 public:
  /// Called on the control plane's threads: on_share on one, the others on another, in the order of the store.
  class Handler {
   public:
    virtual ~Handler() = default;
    virtual void on_joined(int rank, std::uint64_t version, base::ByteView card) = 0;
    /// `version` is the last one if the rank was a candidate.
    virtual void on_left(int rank, std::uint64_t version, bool died) = 0;
    virtual void on_post(int from, base::ByteView bytes) = 0;
    /// The store has ended.
    virtual void on_end() = 0;
    /// A candidate shares its memory. Returns this process's. May wait.
    virtual Shared on_share(Shared theirs) = 0;
  };
  struct Entry {
    struct Member {
      int rank = -1;
      bool is_candidate = false;
      base::Bytes card;
    };
    std::uint64_t version = 0;
    int rank = -1;
    std::vector<Member> members;
  };

  virtual ~Control() = default;
  /// Waits for the handler's functions in progress. Afterwards none is called; the other functions still work.
  virtual void stop() noexcept = 0;
  /// The name of this process's socket, for its card.
  virtual const std::string& local_name() const noexcept = 0;
  /// Becomes a candidate. Events arrive from now on, some of them before the return.
  virtual Entry enter(int size, int wanted_rank, base::ByteView card) = 0;
  virtual std::uint64_t commit() = 0;
  /// The new version.
  virtual std::uint64_t leave() = 0;
  /// To a member or a candidate. Doesn't wait. A message to a rank that isn't one is lost.
  virtual void post(int rank, base::ByteView bytes) = 0;
  /// Returns when all events that the store has sent before were passed to the handler.
  virtual void flush() = 0;
  /// Passes `mine` to the process with this socket, and returns what it shares. Error{timeout} when `stop` is set.
  virtual Shared share(const std::string& local_name, const Shared& mine, base::Deadline deadline,
                       const std::atomic<bool>& stop) = 0;
};

}  // namespace hmc::pool
