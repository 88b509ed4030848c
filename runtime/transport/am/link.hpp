// ByteLink: sends messages to peers and receives theirs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/bytes.hpp"
#include "runtime/base/status.hpp"
#include "runtime/transport/am/message.hpp"

namespace hmc::transport::am {

struct Sending;

/// Receives a link's events. The link calls it from inside its own calls, so under AmWire's lock.
class LinkUser {
 public:
  /// The link has released a message and no longer reads it: the source may be reused.
  virtual void sent(Sending& record, base::Status status) noexcept = 0;
  /// The connection to the rank is lost: no further message is sent to it or received from it. `why` is a literal;
  /// `error` an errno, or 0.
  virtual void lost(int rank, const char* why, int error) noexcept = 0;
  /// Delivers a message with its data, and the messages joined to it.
  virtual void received(const Message& message, const std::byte* data, std::uint64_t bytes) noexcept = 0;
  /// Received bytes that aren't a message of a rank of this job. `socket`: from which they came; -1: unknown.
  virtual void stranger(int socket) noexcept = 0;

  // ---- a large message in parts, for a link that can read bytes directly to their destination
  /// True if the message has its tag and is the next one of its origin.
  virtual bool knows(const Message& message) noexcept = 0;
  /// The header of a large message was received. False: the message is rejected.
  virtual bool begins(const Message& message) noexcept = 0;
  /// Returns the destination of the message's bytes from `at` on, and the number of bytes for this destination. The
  /// link calls it again for every part, because a region may be deregistered or a transfer abandoned meanwhile. A null
  /// destination means that the bytes are dropped.
  struct Place {
    std::byte* to = nullptr;
    std::uint64_t bytes = 0;
  };
  virtual Place place(const Message& message, std::uint64_t at) noexcept = 0;
  /// `bytes` bytes from `at` on were written to their destination.
  virtual void filled(const Message& message, std::uint64_t at, std::uint64_t bytes) noexcept = 0;
  /// The whole message was received.
  virtual void arrived(const Message& message) noexcept = 0;

 protected:
  ~LinkUser() = default;
};

/// Messages to one rank arrive in the order of send(), complete and exactly once; otherwise the link reports
/// LinkUser::lost. Only connect() connects. Threads: AmWire holds its lock around every call.
class ByteLink {
 public:
  struct Traits {
    std::string_view name;         ///< of the wire
    std::uint64_t chunk_bytes;     ///< larger transfers are split into several messages
    std::uint32_t most_in_flight;  ///< messages per rank that the link may hold; further ones stay queued
  };
  virtual ~ByteLink() = default;
  virtual const Traits& traits() const noexcept = 0;
  /// The transport in use, as a clause for log messages.
  virtual std::string describe() const = 0;
  /// The transport of one connection.
  virtual std::string describe(int rank) const = 0;

  // ---- set-up; may throw
  virtual void serve(LinkUser& user, int rank, int ranks) = 0;
  /// The data that a peer needs to connect.
  virtual base::Bytes address() const = 0;
  /// For poll(2). After arm() returned true, it becomes readable when progress() has something to do.
  virtual int event_fd() const = 0;

  // ---- the rest
  virtual base::Status connect(int rank, base::ByteView address) noexcept = 0;
  /// Returns ok if the source may be reused, in_progress if LinkUser::sent follows, or the failure.
  virtual base::Status send(Sending& record) noexcept = 0;
  virtual int progress() noexcept = 0;
  /// Requests an event. Returns false if there is something to do already.
  virtual bool arm() noexcept = 0;
  /// Closes the connection to the rank and soon releases all messages for it. `at_once`: accepted messages may be lost.
  virtual void disconnect(int rank, bool at_once) noexcept = 0;
  /// The number of connections that are still closing after disconnect().
  virtual std::size_t ending() noexcept = 0;
  /// Closes the remaining connections; may still call the LinkUser. Only the destructor may follow. `all_left`: no rank
  /// waits for data from this rank.
  virtual void leave(bool all_left) noexcept = 0;
};

}  // namespace hmc::transport::am
