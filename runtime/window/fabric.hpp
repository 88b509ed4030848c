// Fabric: everything between one rank and its peers.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <hmc/runtime.hpp>

#include "runtime/base/exchange.hpp"
#include "runtime/base/fork.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/node_link.hpp"
#include "runtime/base/wait.hpp"
#include "runtime/transport/wire.hpp"
#include "runtime/window/background.hpp"

namespace hmc::window {

class Core;
class DeviceAccess;
class OpenStreams;

/// Gives out tickets as a wire does, for what isn't a wire's: a team's non-blocking collectives, and transfers that
/// devices carry out. In place of a wire's index stands -1 - its index in Fabric::sources.
class TicketSource {
 public:
  virtual ~TicketSource() = default;
  /// Drives it; ok, in_progress, or what went wrong.
  virtual base::Status test(std::uint64_t ticket) noexcept = 0;
  /// The job's deadline has passed in a wait for it, and nothing has moved: all of its tickets fail.
  virtual void expired(std::uint64_t ticket) noexcept = 0;
  /// Rises with every step. While it does the job's deadline isn't over: large calls take as long as they move.
  virtual std::uint64_t moves() const noexcept = 0;
  [[noreturn]] virtual void throw_failure(const base::Status& status, const char* operation) = 0;
  /// It is a team's, which has ended by a mismatch that this rank has yet to be told of; `world_rank` gave up in it.
  virtual bool has_unheard_mismatch(int /*world_rank*/) noexcept { return false; }
  /// It is the world's, and `world_rank`'s last call there, as far as can be read here, is Runtime::close.
  virtual bool is_closing(int /*world_rank*/) noexcept { return false; }
  /// Looks after long waits for its tickets.
  virtual base::Watch* watch() noexcept { return nullptr; }
  /// Its tickets are transfers: at the deadline one goes on, and it can be given up.
  virtual bool is_transfer() const noexcept { return false; }
  /// As Wire::abandon. A collective goes on, but after a death or an abort.
  virtual void abandon(std::uint64_t) noexcept {}
  /// Until the puts among its tickets are visible at their targets.
  virtual base::Status complete() noexcept { return {}; }
};

/// Made by the job, shared by its teams and windows: a window that outlives its Runtime stays a local
/// object that can be destroyed. One thread at a time.
struct Fabric {
  int rank = 0;
  int size = 1;
  std::chrono::nanoseconds timeout{};
  base::Log log;
  /// What a child of fork() reads as 0.
  struct Life {
    std::uint64_t open = 1;  ///< 0 also once the Runtime was closed: no team or window creation any more
    std::uint64_t here = 1;  ///< 0 only in a child
  };
  base::WipedOnFork<Life> life{Life{}};
  bool closed() const noexcept { return life->open == 0; }
  /// This process was forked from the rank: nothing that is shared with it may be touched.
  bool is_forked() const noexcept { return life->here == 0; }

  std::shared_ptr<base::Exchange> exchange;    // the control plane; keeps the bootstrap, and with it node_link
  std::shared_ptr<base::Exchange> over_world;  ///< while the world has schedules: by them
  base::NodeLink* node_link = nullptr;
  std::vector<int> local_index;  ///< by rank: position on my node, or -1
  std::vector<int> node_of;      ///< by rank

  base::Waiter waiter;
  std::vector<std::unique_ptr<transport::Wire>> wires;
  std::vector<int> wire_of;  ///< by rank: index into wires
  std::vector<TicketSource*> sources;
  std::vector<Path> paths;  ///< by rank
  Counters counters;
  /// Apart, since the background thread counts too. Relaxed: nothing hangs on it.
  std::atomic<std::uint64_t> direct_receives{0};
  std::uint64_t wire_atomics = 0;   ///< that windows have given to wires
  std::uint64_t gets_begun = 0;     ///< that devices carry out while the host goes on
  std::uint64_t wires_flushed = 0;  ///< puts, atomics and such gets that flush_wires has seen completed

  /// Factory of the device side of a window; set by the job. Null: no part may be device memory.
  std::unique_ptr<DeviceAccess> (*make_device_access)(Core& core) = nullptr;

  /// What was measured of device memory. Kept for what is mapped here: by whose, how and where.
  struct Figures {
    std::string of;
    std::size_t bytes = 0;  ///< that were moved to measure the bandwidth; 0: it wasn't
    double gigabytes_per_s = 0;
    double latency_us = 0;
  };
  std::vector<Figures> device_figures;

  /// The open windows, ascending by id. All ranks of a window have the same id for it, the largest of their next
  /// ones; so none of them has had another window of that id.
  std::vector<Core*> windows;
  std::uint64_t next_window_id = 0;
  std::uint64_t last_team = 0;             ///< teams made here, but the world
  std::vector<OpenStreams*> open_streams;  ///< of all teams

  /// The user's call that makes or closes something now, and what: see OperationScope.
  const char* operation = nullptr;
  base::SetupCall making = base::SetupCall::other;
  std::uint64_t making_number = 0;

  Background background{*this};  ///< last: it ends before what it drives

  base::Deadline deadline() const noexcept { return base::Deadline::after(timeout); }
  /// job_timeout means this runtime's.
  std::chrono::nanoseconds resolve(Timeout args) const noexcept { return args < Timeout::zero() ? timeout : args; }

  /// How the world's windows come and go.
  base::Exchange& world_exchange() const noexcept { return over_world != nullptr ? *over_world : *exchange; }

  Core* window_by_id(std::uint64_t id) const noexcept;
  /// The window of this team or of the world in which [address, address + bytes) lies on this rank; null if none.
  Core* window_around(const void* address, std::size_t bytes, std::uint64_t team) const noexcept;
  /// The same among the windows whose part here is a device's.
  Core* device_window_around(const void* address, std::size_t bytes, std::uint64_t team) const noexcept;
};

/// Of a call after Runtime::close, or in a child of fork().
[[noreturn]] void throw_closed_runtime(const Fabric& fabric, const char* operation);

/// What a failed call looks like to the user: the status, and what only the caller knows.
struct CallSite {
  const char* operation;
  int peer = -1;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  bool has_extent = false;
};
[[noreturn]] void throw_status(const Fabric& fabric, const base::Status& status, const CallSite& call);
inline void require(const Fabric& fabric, const base::Status& status, const CallSite& call) {
  if (!status.ok()) [[unlikely]]
    throw_status(fabric, status, call);
}

/// A ticket's source; null if it is a wire's.
inline TicketSource* source_of(const Fabric& fabric, int wire) noexcept {
  return wire < 0 ? fabric.sources[static_cast<std::size_t>(-1 - wire)] : nullptr;
}
/// The one that ends what this rank waits for: see TicketSource::has_unheard_mismatch. Null if there is none.
TicketSource* unheard_mismatch(const Fabric& fabric, int world_rank) noexcept;
/// Of all sources together.
std::uint64_t moves_of(const Fabric& fabric) noexcept;
/// What a ticket says, having driven its wire if it wasn't done.
base::Status test_ticket(const Fabric& fabric, int wire, transport::Ticket ticket) noexcept;
/// As Wire::abandon, for a source's too.
void abandon_ticket(const Fabric& fabric, int wire, transport::Ticket ticket) noexcept;
/// Waits for a ticket: its outcome, or timeout, peer_failed, aborted; then it is abandoned.
base::Status finish(Fabric& fabric, int wire, transport::Ticket ticket, const base::WaitNote& note,
                    std::chrono::nanoseconds timeout) noexcept;
/// As finish; but at the deadline the transfer goes on.
base::Status await(Fabric& fabric, int wire, transport::Ticket ticket, const base::WaitNote& note,
                   std::chrono::nanoseconds timeout) noexcept;
/// Completes the puts of all windows on all wires and the transfers that devices have begun, as flush() does for one
/// window. Free if there are none. Puts of collectives aren't included: their signals tell of them. `activity`: the
/// user's call.
base::Status flush_wires(Fabric& fabric, base::Activity activity = base::Activity::flush) noexcept;

}  // namespace hmc::window
