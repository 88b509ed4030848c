// Agent: a thread of the owner that carries out, on its device memory, what those ask who can't map it.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

#include "runtime/window/device/control.hpp"
#include "runtime/window/device_memory.hpp"
#include "runtime/window/fabric.hpp"

namespace hmc::window {

/// So a target that computes or sleeps doesn't delay the origin. It sleeps when nobody has asked for a while:
/// ranks of the node wake it; those of other nodes can't, so where there are such it looks every millisecond.
class Agent {
 public:
  /// Throws Error if the system gives no thread. `control` and the fabric outlive it.
  /// `far_origins`: some of those who ask can't ring.
  Agent(const Fabric& fabric, const DeviceMemory& memory, std::byte* control, bool far_origins);
  ~Agent();  ///< stops and joins
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

 private:
  void run() noexcept;
  /// One round over the lanes; whether there was anything to do.
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
  std::vector<bool> failed_;  ///< by rank: its verb under way
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

/// After a command was posted on this node.
void wake_agent(ControlHead& head) noexcept;

}  // namespace hmc::window
