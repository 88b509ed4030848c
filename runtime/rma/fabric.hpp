// Fabric: what one rank's teams and windows share. Reach: its wires and paths to its peers. Setup: what the creation
// and close of teams and windows use.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <hmc/runtime.hpp>

#include "runtime/base/exchange.hpp"
#include "runtime/base/fork.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/node_link.hpp"
#include "runtime/base/wait.hpp"
#include "runtime/progress/background.hpp"
#include "runtime/progress/tickets.hpp"
#include "runtime/rma/devices.hpp"
#include "runtime/transport/wire.hpp"

namespace hmc::rma {

class WindowCore;
class TeamCore;
class Messages;

/// A rank of the job, as this rank reaches it.
struct FabricPeer {
  enum class Readable : std::uint8_t { untested, yes, no };

  Path path;
  std::int32_t wire = 0;                   ///< index into Reach::wires
  std::int32_t local_index = -1;           ///< position on this rank's node, or -1
  std::int32_t node = 0;                   ///< number of its node
  Readable readable = Readable::untested;  ///< whether this rank can read that rank's private memory
};

/// The open windows of the user, ascending by id.
class WindowRegistry {
 public:
  bool is_empty() const noexcept { return windows_.empty(); }
  void add(WindowCore& window) { windows_.push_back(&window); }
  void remove(const WindowCore& window) noexcept { std::erase(windows_, &window); }

  /// Null: no window has this id.
  WindowCore* find(std::uint64_t id) const noexcept;
  /// The window of this team or of the world that contains [address, address + bytes) on this rank; null: none.
  /// `on_device`: among the windows whose part on this rank is device memory, otherwise among the others.
  WindowCore* around(const void* address, std::size_t bytes, std::uint64_t team, bool on_device) const noexcept;

  /// The id that this rank proposes for its next window. The window gets the maximum of its ranks' proposals, so its id
  /// is equal on all ranks and unused on each.
  std::uint64_t proposed_id() const noexcept { return next_id_; }
  void take_id(std::uint64_t id) noexcept { next_id_ = id + 1; }

 private:
  std::vector<WindowCore*> windows_;
  std::uint64_t next_id_ = 0;
};

/// The user's call in progress that creates or closes windows or teams. OperationScope sets it.
class CurrentOperation {
 public:
  /// For error texts.
  const char* name() const noexcept { return name_ != nullptr ? name_ : "team or window setup"; }
  // The ranks compare these two to detect a mismatch.
  base::SetupCall call() const noexcept { return call_; }
  std::uint64_t number() const noexcept { return number_; }

 private:
  friend class OperationScope;
  const char* name_ = nullptr;  // null: no call in progress
  base::SetupCall call_ = base::SetupCall::other;
  std::uint64_t number_ = 0;
};

/// How this rank reaches the ranks of its job. Doesn't change after the start.
struct Reach {
  int rank = 0;
  int size = 1;
  std::vector<FabricPeer> peers;  ///< by rank
  std::vector<std::unique_ptr<transport::Wire>> wires;
  base::NodeLink* node_link = nullptr;  ///< a part of Setup::exchange

  FabricPeer& peer(int world) noexcept { return peers[static_cast<std::size_t>(world)]; }
  const FabricPeer& peer(int world) const noexcept { return peers[static_cast<std::size_t>(world)]; }
};

/// What the creation and the close of teams and windows use.
struct Setup {
  std::shared_ptr<base::Exchange> exchange;    ///< the control plane; owns the bootstrap
  std::shared_ptr<base::Exchange> over_world;  ///< by the world's schedules; null while the world has none
  CurrentOperation operation;
  WindowRegistry windows;
  std::uint64_t last_team = 0;  ///< number of teams created by this rank, without the world

  /// The exchange that opens and closes the world's windows.
  base::Exchange& world_exchange() const noexcept { return over_world != nullptr ? *over_world : *exchange; }
};

/// What a rank's calls ask of its job. job/ implements it. Any thread.
class Job {
 public:
  virtual ~Job() = default;
  /// Team::shrink and Team::grow: the world of a new job. Only while the fabric is open; the caller's thread.
  enum class Regroup : std::uint8_t { shrink, grow };
  virtual Team regroup(Regroup which, std::chrono::nanoseconds timeout) = 0;
  /// As Runtime::abort. Then the node page has the abort.
  virtual void abort(std::string_view text) noexcept = 0;
  /// Before an Error{peer_failed} with this peer is thrown: more for its text, or an empty text.
  virtual std::string explain_failure(int peer) = 0;
  /// Before an error because of this peer, which hasn't failed, is thrown: then the job's exit status is the peer's.
  virtual void blame(int peer) noexcept = 0;
};

/// The job creates it; its teams and windows share it, so a window that outlives its Runtime can still be destroyed.
/// One thread at a time.
///
/// It is a Reach and a Setup, and has neither as a member: a function that needs no more takes one of these two, and
/// its caller passes the fabric.
class Fabric : public Reach, public Setup {
 public:
  Fabric() = default;
  /// The wires, and their threads, use the members below, so they end first.
  ~Fabric() {
    background.stop();
    wires.clear();
  }
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  std::chrono::nanoseconds timeout{};
  base::Log log;
  /// Both words read as 0 in a child of fork().
  struct Life {
    std::uint64_t open = 1;  ///< 0 also after Runtime::close: teams and windows can't be created
    std::uint64_t here = 1;  ///< 0 only in a child of fork()
  };
  base::WipedOnFork<Life> life{Life{}};
  bool closed() const noexcept { return life->open == 0; }
  /// True in a child of fork(), which must not access any resource that it shares with the rank.
  bool is_forked() const noexcept { return life->here == 0; }

  base::Waiter waiter;
  progress::Tickets tickets{waiter};  ///< of the wires, collectives and devices
  Counters counters;
  /// Not in `counters`, because the progress thread also increments it. Relaxed: it orders no data.
  std::atomic<std::uint64_t> direct_receives{0};

  std::unique_ptr<Devices> devices;  ///< null: no part may be device memory

  std::shared_ptr<Job> job;      ///< null before the world is complete
  Messages* messages = nullptr;  ///< of all teams; null before the world is complete and after its close

  base::Deadline deadline() const noexcept { return base::Deadline::after(timeout); }
  /// Replaces job_timeout by this runtime's timeout.
  std::chrono::nanoseconds resolve(Timeout args) const noexcept { return args == job_timeout ? timeout : args; }

  /// Call after a put on a wire or a device.
  void note_wire_put() noexcept {
    ++counters.puts_wire;
    has_unflushed_ = true;
  }
  /// Call after an atomic on a wire, or a get that a device carries out asynchronously.
  void note_unflushed() noexcept { has_unflushed_ = true; }
  /// Completes the puts of all windows on all wires and the started transfers of devices, as flush() does for one
  /// window. Costs nothing if there are none. Excludes the puts of collectives, which complete by their signals.
  /// `activity`: the user's call.
  base::Status flush_wires(base::Activity activity = base::Activity::flush) noexcept;

 private:
  bool has_unflushed_ = false;

 public:
  progress::Background background{waiter, tickets, log};  ///< last: destroyed before the members that it uses
};

/// For a request that was destroyed in flight: ends the job, and returns the abort. `what`: the operation.
base::Status abort_dropped(const Fabric& fabric, std::string_view what) noexcept;
/// For a call after Runtime::close, or in a child of fork().
[[noreturn]] void throw_closed_runtime(const Fabric& fabric, const char* operation);

/// The caller's arguments, which an Error contains in addition to the status.
struct CallSite {
  const char* operation;
  int peer = -1;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  bool has_extent = false;
  std::string_view more = {};  ///< a further clause of the text
};
[[noreturn]] void throw_status(const Fabric& fabric, const base::Status& status, const CallSite& call);
/// As throw_status, for a failure that isn't the effect of a rank's death.
[[noreturn]] void throw_known(const Fabric& fabric, const base::Status& status, const CallSite& call);
inline void require(const Fabric& fabric, const base::Status& status, const CallSite& call) {
  if (!status.ok()) [[unlikely]]
    throw_status(fabric, status, call);
}

}  // namespace hmc::rma
