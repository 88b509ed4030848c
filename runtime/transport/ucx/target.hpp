// Target: carries out what other ranks ask of this one, and takes in their answers.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/transport/ucx/message.hpp"
#include "runtime/transport/ucx/peers.hpp"
#include "runtime/transport/ucx/regions.hpp"
#include "runtime/transport/ucx/tickets.hpp"

namespace hmc::transport::ucx {

/// Requests change memory at once, in the order in which they arrive; answers are sent afterwards, by
/// answer(), since UCX's callbacks are no place to connect. Nothing in a message is believed before it
/// was checked against what is exposed or under way. Under the engine's lock.
class Target {
 public:
  Target(int rank, Peers& peers, Tickets& tickets, Regions& regions, base::Log log)
      : rank_(rank), peers_(peers), tickets_(tickets), regions_(regions), log_(log) {}

  void receive(const Message& message, const std::byte* data, std::uint64_t bytes) noexcept;
  /// Sends the answers due; returns how many.
  int answer() noexcept;
  /// Counts the messages that changed this rank's memory or ended one of its transfers.
  std::uint64_t deliveries() const noexcept { return deliveries_; }

 private:
  struct Answer {
    Message message;
    Regions::Exposed* region = nullptr;  ///< of a get
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    int to = -1;
  };
  void carry_out(const Message& message, const std::byte* data, std::uint64_t bytes) noexcept;
  void take_in(const Message& message, const std::byte* data, std::uint64_t bytes) noexcept;
  void do_put(const Message& message, const std::byte* data, std::uint64_t bytes) noexcept;
  void do_atomic(const Message& message) noexcept;
  void do_get(const Message& message) noexcept;
  void refuse(const Message& message) noexcept;
  Answer& reply(const Message& to, Kind kind) noexcept;
  void send_region(const Answer& answer) noexcept;

  int rank_;
  Peers& peers_;
  Tickets& tickets_;
  Regions& regions_;
  base::Log log_;
  std::vector<Answer> answers_;
  std::uint64_t deliveries_ = 0;
};

}  // namespace hmc::transport::ucx
