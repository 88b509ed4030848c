// StagedChannel: device memory that this process can't map. Bytes go to the peer's Control by whatever
// wire reaches it, and its agent makes the last copy; in pieces, two under way, so that wire and copy overlap.
#pragma once

#include "runtime/memory/stage.hpp"
#include "runtime/window/device/control.hpp"
#include "runtime/window/device_channel.hpp"

namespace hmc::window {

class StagedChannel final : public DeviceChannel {
 public:
  /// `way` leads to the peer's Control. The fabric outlives this.
  StagedChannel(Fabric& fabric, int peer, int wire, std::unique_ptr<transport::Channel> way) noexcept
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
  base::Status atomic(const transport::Atomic& atomic, std::uint64_t offset, std::uint64_t* result,
                      transport::Ticket& ticket) noexcept override;
  base::Status put_rows(std::uint64_t offset, const void* source, const Strides& strides) noexcept override;
  base::Status get_rows(std::uint64_t offset, void* destination, const Strides& strides) noexcept override;

 private:
  base::WaitNote note() const noexcept { return {base::Activity::wait_request, peer_}; }
  transport::Wire& wire() const noexcept { return *fabric_.wires[static_cast<std::size_t>(wire_)]; }
  void begin() noexcept { verb_first_ = issued_ + 1; }
  base::Status over(const base::Status& started, transport::Ticket ticket) noexcept;

  /// `command` follows the bytes that fill() put into its buffer. Before that buffer is used again, the command
  /// before last is awaited.
  base::Status post(const Command& command) noexcept;
  /// Until the agent has done command `number`; its failure, if the verb under way has one.
  base::Status await(std::uint64_t number) noexcept;
  bool look(std::uint64_t& seen, transport::Ticket& asked, base::Status& status) noexcept;
  base::Status failure() noexcept;
  base::Status read_answer(Answer& answer) noexcept;
  base::Status lease(const memory::Owner& owner, memory::StageLease& stage) noexcept;
  base::Status fill(const std::byte* source, std::size_t bytes, const memory::Owner& owner,
                    memory::OutPieces* pieces) noexcept;
  base::Status empty(std::uint64_t number, std::byte* destination, std::size_t bytes, const memory::Owner& owner,
                     memory::InPieces* pieces) noexcept;
  base::Status send(std::uint64_t offset, const std::byte* source, std::size_t bytes, const Command& last) noexcept;

  Fabric& fabric_;
  int peer_;
  int wire_;
  ControlShape shape_;
  std::unique_ptr<transport::Channel> way_;
  std::byte* control_;            // the peer's, where load and store reach it
  std::uint64_t issued_ = 0;      // commands so far
  std::uint64_t verb_first_ = 1;  // the first command of the verb under way
  char text_[sizeof Answer::text] = {};
};

}  // namespace hmc::window
