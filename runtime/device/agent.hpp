// Agent: a thread of the owner that executes the verbs of peers that can't map its device memory.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

#include "runtime/device/control.hpp"
#include "runtime/device/device_memory.hpp"
#include "runtime/rma/fabric.hpp"

namespace hmc::rma {

/// A target that computes or sleeps therefore doesn't delay the origin. After a short time without commands the thread
/// sleeps. Ranks of the same node wake it. Ranks of other nodes can't, so with such clients it polls at least every
/// millisecond.
class Agent {
 public:
  /// Throws Error if no thread can be created. `control`, `memory` and the fabric outlive it.
  /// `far_origins`: some clients are on other nodes, and can't wake it.
  Agent(const Fabric& fabric, const DeviceMemory& memory, std::byte* control, bool far_origins);
  ~Agent();  ///< stops and joins
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

 private:
  void run() noexcept;
  /// Polls all lanes once. Returns true if it executed a command.
  bool serve() noexcept;
  bool is_idle() const noexcept;
  void sleep() noexcept;
  base::Status carry_out(int rank, std::uint64_t number, const Command& command, Answer& answer) noexcept;
  base::Status put(const Command& command, const std::byte* buffer) noexcept;
  base::Status atomic(const Command& command, Answer& answer) noexcept;
  bool lock() noexcept;
  bool inside(std::uint64_t offset, std::uint64_t bytes) const noexcept;
  void changed() noexcept;
  Lane& lane(int rank) const noexcept { return *reinterpret_cast<Lane*>(control_ + shape_.lane(rank)); }

  const Fabric& fabric_;
  const DeviceMemory& memory_;
  std::byte* control_;
  ControlHead& head_;
  ControlShape shape_;
  bool far_origins_;
  long nap_ns_;
  std::vector<bool> failed_;  ///< by rank: its verb in progress has failed
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

/// Called by an origin on this node after it has posted a command.
void wake_agent(ControlHead& head) noexcept;

}  // namespace hmc::rma
