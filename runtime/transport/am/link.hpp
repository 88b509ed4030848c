// Link: sends messages to peers and receives theirs.
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
  /// The link no longer reads a message that it held: the source may be reused.
  virtual void sent(Sending& record, base::Status status) noexcept = 0;
  /// The rank is lost: no message comes from it or goes to it. `why` is a literal; `error` an errno, or 0.
  virtual void lost(int rank, const char* why, int error) noexcept = 0;
  /// A message with its data, and the messages joined to it.
  virtual void received(const Message& message, const std::byte* data, std::uint64_t bytes) noexcept = 0;
  /// Received bytes that aren't a message of a rank of this job.
  virtual void stranger() noexcept = 0;

  // ---- a large message in parts, for a link that can read bytes directly to their destination
  /// True if the message has this wire's secret.
  virtual bool knows(const Message& message) const noexcept = 0;
  /// The header of a large message was received. False: the message is rejected.
  virtual bool begins(const Message& message) noexcept = 0;
  /// The destination of the message's bytes from `at` on, and how many of them go there. The link calls it again for
  /// every part, since a region may be deregistered or a transfer abandoned meanwhile. Null: the bytes are dropped.
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

/// Messages to one rank arrive in the order of send(), complete and once, or the rank is lost. Connects only by
/// connect(). Threads: AmWire holds its lock around every call.
class Link {
 public:
  struct Traits {
    std::string_view name;         ///< of the wire
    std::uint64_t chunk_bytes;     ///< larger transfers are cut into several messages
    std::uint32_t most_in_flight;  ///< messages per rank that the link may hold; further ones stay queued
  };
  virtual ~Link() = default;
  virtual const Traits& traits() const noexcept = 0;
  /// One clause for messages: the transport in use.
  virtual std::string describe() const = 0;
  /// The same for one connection.
  virtual std::string describe(int rank) const = 0;

  // ---- set-up; may throw
  virtual void serve(LinkUser& user, int rank, int ranks) = 0;
  /// The data that a peer needs to connect.
  virtual base::Bytes address() const = 0;
  /// For poll(2): readable when progress() has something to do, after arm() returned true.
  virtual int event_fd() const = 0;

  // ---- the rest
  virtual base::Status connect(int rank, base::ByteView address) noexcept = 0;
  /// ok: the source may be reused; in_progress: LinkUser::sent follows; otherwise the failure.
  virtual base::Status send(Sending& record) noexcept = 0;
  virtual int progress() noexcept = 0;
  /// False: there is something to do already.
  virtual bool arm() noexcept = 0;
  /// Releases soon all that it holds for that rank. `at_once`: messages that the link has accepted may be lost.
  virtual void disconnect(int rank, bool at_once) noexcept = 0;
  /// Connections that still close after disconnect().
  virtual std::size_t ending() noexcept = 0;
  /// Closes the remaining connections; may still call the user. Only the destructor follows. `all_left`: no rank waits
  /// for anything from this rank.
  virtual void leave(bool all_left) noexcept = 0;
};

}  // namespace hmc::transport::am
