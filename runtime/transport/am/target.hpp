// Target: executes the requests of other ranks, and receives their answers.
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

/// Executes requests at once, in the order of arrival. answer() sends the answers afterwards, while has_room(), because
/// a link's callback must not connect and a large get must not queue all its bytes at once.
/// A message's fields are used only after a check of its tag, and then against the registered regions or the transfers
/// in flight. Threads: under AmWire's lock.
///
/// A refused message is dropped, counted and logged. A message from outside the job has no other effect. The refusal of
/// a request of a rank of the job fails its transfer at the origin, and that rank's later verbs to the region.
class Target {
 public:
  struct Refusals {
    std::uint64_t strangers = 0;  ///< messages without the tag that was due
    std::uint64_t requests = 0;   ///< from ranks of the job, for unregistered regions or beyond their end
    std::uint64_t own = 0;        ///< requests of this rank that its peers refused
  };

  Target(Peers& peers, Tickets& tickets, Regions& regions, base::Log log)
      : peers_(peers), tickets_(tickets), regions_(regions), log_(log) {}

  void receive(const Message& message, const std::byte* data, std::uint64_t bytes) noexcept;
  // The steps of receive() for a large message whose bytes the link reads directly to their destination: see LinkUser.
  bool begin(const Message& message) noexcept;
  LinkUser::Place place(const Message& message, std::uint64_t at) noexcept;
  void filled(const Message& message, std::uint64_t at, std::uint64_t bytes) noexcept;
  void finish(const Message& message) noexcept;
  /// A message without the format of Message. `socket`: from which it came; -1: unknown.
  void refuse_stranger(int socket) noexcept;
  /// Sends the pending answers, while has_room(); returns the number of messages.
  int answer() noexcept;
  bool owes() const noexcept { return !due_.empty(); }
  /// Cancels the pending answers that read this region; the origins of their requests get a refusal.
  void forget(const Regions::Registered& region) noexcept;
  Refusals refusals() const noexcept { return refusals_; }
  /// Count the channels to a peer's region. A refusal that arrives after the last channel ended is ignored, because a
  /// rank may drop a team with transfers in flight before its peers do. May throw bad_alloc.
  void add_channel(int peer, const Regions::Key& region);
  void remove_channel(int peer, const Regions::Key& region) noexcept;
  /// True if the peer has reported that it hasn't registered the region.
  bool was_refused(int peer, const Regions::Key& region) const noexcept;

 private:
  struct Answer {
    Message message;
    Regions::Registered* region = nullptr;  ///< of a get
    std::uint64_t offset = 0;               ///< in the region, of the unsent rest
    std::uint64_t bytes = 0;                ///< of the unsent rest
  };
  /// The pending answers to one rank, in the order of its requests.
  struct Due {
    int rank = -1;
    std::size_t first = 0;
    std::vector<Answer> answers;
  };
  /// Executes a message and the messages joined to it; false: they are incomplete.
  bool receive_all(Message message, const std::byte* data, std::uint64_t left);
  /// Fails the peer; all its later messages are dropped.
  void distrust(AmPeer& peer, const char* why) noexcept;
  void carry_out(const Message& message, const std::byte* data, std::uint64_t bytes);
  void receive_reply(const Message& message, const std::byte* data, std::uint64_t bytes);
  /// True if the message has its tag and is the next one from a rank of this job.
  bool admit(const Message& message) noexcept;
  Regions::Registered* region_of_put(const Message& message) noexcept;
  /// The direct receive that covers byte `offset` of a region, or null. Reduces `bytes` to the length for which the
  /// result is valid.
  static DirectReceive* receive_at(Regions::Registered& region, std::uint64_t offset, std::uint64_t& bytes) noexcept;
  static void raise(const Regions::Registered& region, const Message& message) noexcept;
  void do_put(const Message& message, const std::byte* data, std::uint64_t bytes);
  void do_atomic(const Message& message);
  void do_get(const Message& message);
  void refuse_put(const Message& message);
  void refuse(const Message& message);
  void take_refusal(const Message& message);
  Answer& reply(const Message& to, MessageKind kind);
  /// Sends one message of an answer; true if it was the last, or the peer failed.
  bool send_part(AmPeer& peer, Answer& answer) noexcept;
  static bool has_signal(const Message& message) noexcept {
    return message.kind == MessageKind::put_signal || message.kind == MessageKind::notice;
  }
  static Regions::Key key_of(const Message& message) noexcept { return {message.region, message.nonce}; }

  Peers& peers_;
  Tickets& tickets_;
  Regions& regions_;
  base::Log log_;
  std::vector<Due> due_;    // only ranks with pending answers
  std::vector<Due> spare_;  // empty entries, kept for their memory
  std::vector<std::pair<int, Regions::Key>> refused_;
  std::map<std::tuple<int, std::uint64_t, std::uint64_t>, int> channels_;  // channels to a peer's region, by its key
  Refusals refusals_;
};

}  // namespace hmc::transport::am
