// The two ends of a staged path to device memory that the origin can't map. StagedChannel, at the origin: the wire to
// the target moves the bytes to or from the target's Control. Agent, a thread of the target: it copies them to or from
// the device. Two pieces are in flight, so that wire and copy overlap.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

#include "runtime/device/control.hpp"
#include "runtime/device/device_channel.hpp"
#include "runtime/device/device_memory.hpp"
#include "runtime/memory/stage.hpp"
#include "runtime/rma/fabric.hpp"

namespace hmc::device {

class StagedChannel final : public DeviceChannel {
 public:
  /// `way`: the channel to the peer's Control. The fabric outlives this.
  StagedChannel(rma::Fabric& fabric, int peer, int wire, std::unique_ptr<transport::Channel> way) noexcept
      : fabric_(fabric),
        peer_(peer),
        wire_(wire),
        shape_(fabric.size),
        way_(std::move(way)),
        control_(way_->direct()) {}

  base::Status put(std::uint64_t offset, const void* source, std::size_t bytes,
                   transport::Ticket& ticket) noexcept override;
  base::Status get(std::uint64_t offset, void* destination, std::size_t bytes,
                   transport::Ticket& ticket) noexcept override;
  base::Status put_signal(std::uint64_t offset, const void* source, std::size_t bytes, std::uint64_t signal_offset,
                          std::uint64_t value, transport::Ticket& ticket) noexcept override;
  base::Status atomic(const transport::Atomic& atomic, std::uint64_t offset, void* result,
                      transport::Ticket& ticket) noexcept override;
  base::Status put_rows(std::uint64_t offset, const void* source, const Strides& strides) noexcept override;
  base::Status get_rows(std::uint64_t offset, void* destination, const Strides& strides) noexcept override;

 private:
  base::WaitNote note() const noexcept { return {base::Activity::wait_request, peer_}; }
  transport::Wire& wire() const noexcept { return *fabric_.wires[static_cast<std::size_t>(wire_)]; }
  base::Status over(const base::Status& started, transport::Ticket ticket) noexcept;

  /// Sends `command` after the bytes that fill() has put into its buffer. Before the caller reuses a buffer, it waits
  /// for the command that last used it.
  base::Status post(const Command& command) noexcept;
  /// Waits until the agent has executed command `number`. Returns the failure of the current verb, if any.
  base::Status await(std::uint64_t number) noexcept;
  bool look(std::uint64_t& seen, transport::Ticket& asked, base::Status& status) noexcept;
  base::Status read_reply(Reply& reply) noexcept;
  base::Status lease(const memory::Owner& owner, memory::StageLease& stage) noexcept;
  base::Status fill(const std::byte* source, std::size_t bytes, const memory::Owner& owner,
                    memory::OutPieces* pieces) noexcept;
  base::Status empty(std::uint64_t number, std::byte* destination, std::size_t bytes, const memory::Owner& owner,
                     memory::InPieces* pieces) noexcept;
  base::Status send(std::uint64_t offset, const std::byte* source, std::size_t bytes, const Command& last) noexcept;

  rma::Fabric& fabric_;
  int peer_;
  int wire_;
  ControlShape shape_;
  std::unique_ptr<transport::Channel> way_;
  std::byte* control_;            // the peer's Control if it is mapped, otherwise null
  std::uint64_t issued_ = 0;      // number of commands so far
  std::uint64_t verb_first_ = 1;  // number of the first command of the verb in progress
  char text_[sizeof Reply::text] = {};
};

/// A target that computes or sleeps therefore doesn't delay the origin. After a short time without commands the thread
/// sleeps. Ranks of the same node wake it. Ranks of other nodes can't, so with such clients it polls at least every
/// millisecond.
class Agent {
 public:
  /// Throws Error if no thread can be created. `control`, `memory` and the fabric outlive it.
  /// `far_origins`: some clients are on other nodes, and can't wake it.
  Agent(const rma::Fabric& fabric, const DeviceMemory& memory, std::byte* control, bool far_origins);
  ~Agent();  ///< stops and joins the thread
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

 private:
  void run() noexcept;
  /// Polls all lanes once. Returns true if it executed a command.
  bool serve() noexcept;
  bool is_idle() const noexcept;
  void sleep() noexcept;
  base::Status carry_out(int rank, std::uint64_t number, const Command& command, Reply& reply) noexcept;
  base::Status put(const Command& command, const std::byte* buffer) noexcept;
  base::Status atomic(const Command& command, Reply& reply) noexcept;
  bool lock() noexcept;
  bool inside(std::uint64_t offset, std::uint64_t bytes) const noexcept;
  void changed() noexcept;
  Lane& lane(int rank) const noexcept { return *reinterpret_cast<Lane*>(control_ + shape_.lane(rank)); }

  const rma::Fabric& fabric_;
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

}  // namespace hmc::device
