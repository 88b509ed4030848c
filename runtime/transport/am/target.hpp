// Target: carries out what other ranks ask of this one, and takes in their answers.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/transport/am/message.hpp"
#include "runtime/transport/am/peers.hpp"
#include "runtime/transport/am/regions.hpp"
#include "runtime/transport/am/tickets.hpp"

namespace hmc::transport::am {

/// Requests change memory at once, in the order in which they arrive; answers are sent afterwards, by
/// answer(), as far as there is room: the link's callbacks are no place to connect, and a large get's bytes
/// aren't queued all at once. Nothing in a message is believed before it was checked against this wire's
/// secret, and then against what is registered or in flight. Under the engine's lock.
///
/// What is refused is dropped, counted and logged. A stranger's message changes nothing else; that of a
/// rank of the job fails the transfer that it belongs to, or ends that rank's way into the region.
class Target {
 public:
  struct Refusals {
    std::uint64_t strangers = 0;  ///< messages without the secret
    std::uint64_t requests = 0;   ///< from ranks of the job, for regions that aren't there, or beyond them
    std::uint64_t own = 0;        ///< of this rank's requests, by its peers
  };

  Target(int rank, std::uint64_t secret, Peers& peers, Tickets& tickets, Regions& regions, base::Log log)
      : rank_(rank), secret_(secret), peers_(peers), tickets_(tickets), regions_(regions), log_(log) {}

  void receive(const Message& message, const std::byte* data, std::uint64_t bytes) noexcept;
  bool knows(const Message& message) const noexcept {
    return message.secret == secret_ && message.origin < static_cast<std::uint32_t>(peers_.count());
  }
  // The same in three steps, for a large message whose bytes the link puts to their place itself: see LinkUser.
  bool begin(const Message& message) noexcept;
  LinkUser::Place place(const Message& message, std::uint64_t at) noexcept;
  void filled(const Message& message, std::uint64_t at, std::uint64_t bytes) noexcept;
  void finish(const Message& message) noexcept;
  /// A message that isn't even of our shape.
  void refuse_stranger() noexcept;
  /// Sends the answers due, as far as there is room; returns how many messages.
  int answer() noexcept;
  bool owes() const noexcept { return !due_.empty(); }
  /// Answers that read this region aren't sent any more; who asked is told.
  void forget(const Regions::Registered& region) noexcept;
  Refusals refusals() const noexcept { return refusals_; }
  /// A channel to a peer's region begins, or ends. What is refused on a way that has ended concerns nobody: who drops a
  /// team with things under way drops it a moment before the others do. May throw bad_alloc.
  void begin_way(int peer, const Regions::Key& region);
  void end_way(int peer, const Regions::Key& region) noexcept;
  /// A peer reported that it hasn't registered the region.
  bool was_refused(int peer, const Regions::Key& region) const noexcept;

 private:
  struct Answer {
    Message message;
    Regions::Registered* region = nullptr;  ///< of a get
    std::uint64_t offset = 0;               ///< in the region, of what isn't sent
    std::uint64_t bytes = 0;                ///< not sent
  };
  /// The answers due to one rank, in the order of its questions.
  struct Due {
    int rank = -1;
    std::size_t first = 0;
    std::vector<Answer> answers;
  };
  /// A message, and those that ride with it; false: they aren't whole.
  bool receive_all(Message message, const std::byte* data, std::uint64_t left);
  /// Nothing that it sends is believed any more.
  void distrust(Peer& peer, const char* why) noexcept;
  void carry_out(const Message& message, const std::byte* data, std::uint64_t bytes);
  void take_in(const Message& message, const std::byte* data, std::uint64_t bytes);
  /// Whether it is the message that is due from a rank of this job.
  bool admit(const Message& message) noexcept;
  Regions::Registered* region_of_put(const Message& message) noexcept;
  /// The direct receive that covers byte `offset` of a region; null: none. `bytes`, in and out: how far that holds.
  static DirectReceive* receive_at(Regions::Registered& region, std::uint64_t offset, std::uint64_t& bytes) noexcept;
  static void raise(const Regions::Registered& region, const Message& message) noexcept;
  void do_put(const Message& message, const std::byte* data, std::uint64_t bytes);
  void do_atomic(const Message& message);
  void do_get(const Message& message);
  void refuse(const Message& message);
  void take_refusal(const Message& message);
  Answer& reply(const Message& to, Kind kind);
  /// Sends one message of an answer; true if that was its last, or it can't be sent.
  bool send_part(Peer& peer, Answer& answer) noexcept;
  static Regions::Key key_of(const Message& message) noexcept { return {message.region, message.nonce}; }

  int rank_;
  std::uint64_t secret_;
  Peers& peers_;
  Tickets& tickets_;
  Regions& regions_;
  base::Log log_;
  std::vector<Due> due_;    // only ranks to whom answers are due
  std::vector<Due> spare_;  // empty ones, with their memory
  std::vector<std::pair<int, Regions::Key>> refused_;
  std::map<std::tuple<int, std::uint64_t, std::uint64_t>, int> ways_;  // channels to a peer's region, by its key
  Refusals refusals_;
};

}  // namespace hmc::transport::am
