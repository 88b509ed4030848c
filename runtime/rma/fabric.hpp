// Fabric: one rank's wires, paths and control plane to its peers, shared by its teams and windows.
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
#include "runtime/progress/background.hpp"
#include "runtime/progress/tickets.hpp"
#include "runtime/transport/wire.hpp"

namespace hmc::rma {

class WindowCore;
class DeviceAccess;
class OpenStreams;

/// The job creates it; its teams and windows share it, so a window that outlives its Runtime can still be destroyed.
/// One thread at a time.
struct Fabric {
  int rank = 0;
  int size = 1;
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

  std::shared_ptr<base::Exchange> exchange;    // the control plane; owns the bootstrap, and with it node_link
  std::shared_ptr<base::Exchange> over_world;  ///< by the world's schedules; null while the world has none
  base::NodeLink* node_link = nullptr;
  std::vector<int> local_index;  ///< by rank: position on this rank's node, or -1
  std::vector<int> node_of;      ///< by rank
  /// By rank: whether this rank can read that rank's private memory.
  enum class Readable : std::uint8_t { untested, yes, no };
  std::vector<Readable> readable;

  base::Waiter waiter;
  std::vector<std::unique_ptr<transport::Wire>> wires;
  std::vector<int> wire_of;           ///< by rank: index into wires
  progress::Tickets tickets{waiter};  ///< of the wires, collectives and devices
  std::vector<Path> paths;            ///< by rank
  Counters counters;
  /// Not in `counters`, because the progress thread also increments it. Relaxed: it orders no data.
  std::atomic<std::uint64_t> direct_receives{0};
  /// The operations that flush_wires must complete, beside counters.puts_wire.
  struct FlushCounts {
    std::uint64_t atomics = 0;      ///< atomics that windows have passed to wires
    std::uint64_t device_gets = 0;  ///< gets that devices carry out asynchronously
    std::uint64_t flushed = 0;      ///< puts, atomics and gets of devices that flush_wires has completed
  };
  FlushCounts to_flush;

  /// Factory of the device side of a window; set by the job. Null: no part may be device memory.
  std::unique_ptr<DeviceAccess> (*make_device_access)(WindowCore& core) = nullptr;

  /// Measurements of access to device memory, cached for mapped memory by peer, method of sharing and device.
  struct Figures {
    std::string of;         ///< the key
    std::size_t bytes = 0;  ///< size of the bandwidth measurement; 0: bandwidth wasn't measured
    double gigabytes_per_s = 0;
    double latency_us = 0;
  };
  std::vector<Figures> device_figures;

  /// The open windows, ascending by id. A window's id is the maximum of its ranks' next ids, so it is equal on all
  /// ranks and unused on each.
  std::vector<WindowCore*> windows;
  std::uint64_t next_window_id = 0;
  std::uint64_t last_team = 0;             ///< number of teams created by this rank, without the world
  std::vector<OpenStreams*> open_streams;  ///< of all teams

  /// The user's call in progress that creates or closes an object: see OperationScope. `operation` is null outside it.
  struct SetupState {
    const char* operation = nullptr;
    base::SetupCall call = base::SetupCall::other;
    std::uint64_t number = 0;
  };
  SetupState setup;

  progress::Background background{waiter, tickets, log};  ///< last: destroyed before the members that it uses

  base::Deadline deadline() const noexcept { return base::Deadline::after(timeout); }
  /// Replaces job_timeout (negative) by this runtime's timeout.
  std::chrono::nanoseconds resolve(Timeout args) const noexcept { return args < Timeout::zero() ? timeout : args; }

  /// The exchange that opens and closes the world's windows.
  base::Exchange& world_exchange() const noexcept { return over_world != nullptr ? *over_world : *exchange; }

  WindowCore* window_by_id(std::uint64_t id) const noexcept;
  /// The window of this team or of the world that contains [address, address + bytes) on this rank; null if none.
  WindowCore* window_around(const void* address, std::size_t bytes, std::uint64_t team) const noexcept;
  /// As window_around(), among the windows whose part on this rank is device memory.
  WindowCore* device_window_around(const void* address, std::size_t bytes, std::uint64_t team) const noexcept;
};

/// For a call after Runtime::close, or in a child of fork().
[[noreturn]] void throw_closed_runtime(const Fabric& fabric, const char* operation);

/// The caller's arguments, which an Error contains in addition to the status.
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

/// Completes the puts of all windows on all wires and the started transfers of devices, as flush() does for one window.
/// Costs nothing if there are none. Excludes the puts of collectives, which complete by their signals. `activity`: the
/// user's call.
base::Status flush_wires(Fabric& fabric, base::Activity activity = base::Activity::flush) noexcept;

}  // namespace hmc::rma
