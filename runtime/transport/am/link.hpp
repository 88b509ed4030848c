// Link: what carries messages to peers and brings theirs.
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

/// Whom a link tells what happens, from inside of its own calls; so under the engine's lock.
class LinkUser {
 public:
  /// It has let go of a message that it held: the source is free.
  virtual void sent(Sending& record, base::Status status) noexcept = 0;
  /// Nothing comes from that rank any more, and nothing goes to it. `why` is a literal; `error` an errno, or 0.
  virtual void lost(int rank, const char* why, int error) noexcept = 0;
  /// A message with its data, and what rides with it.
  virtual void received(const Message& message, const std::byte* data, std::uint64_t bytes) noexcept = 0;
  /// Bytes that are no message of a rank of this job.
  virtual void stranger() noexcept = 0;

  // ---- a large message in parts, for a link that can read bytes straight to where they belong
  /// Holds this wire's secret.
  virtual bool knows(const Message& message) const noexcept = 0;
  /// Its header is here; false: it isn't believed.
  virtual bool begins(const Message& message) noexcept = 0;
  /// Where the message's bytes from `at` on go, and how many of them. Asked anew for every part, since a region may be
  /// deregistered and a transfer abandoned meanwhile; null: nowhere.
  struct Place {
    std::byte* to = nullptr;
    std::uint64_t bytes = 0;
  };
  virtual Place place(const Message& message, std::uint64_t at) noexcept = 0;
  /// So many of them are there.
  virtual void filled(const Message& message, std::uint64_t at, std::uint64_t bytes) noexcept = 0;
  /// All of it was read to its place.
  virtual void arrived(const Message& message) noexcept = 0;

 protected:
  ~LinkUser() = default;
};

/// Messages to one rank arrive in the order of send(), whole and once, or the rank is lost. Connects when told to.
/// Threads: the engine's lock around every call.
class Link {
 public:
  struct Traits {
    std::string_view name;         ///< the wire's
    std::uint64_t chunk_bytes;     ///< more than this goes in several messages
    std::uint32_t most_in_flight;  ///< so many messages to one rank it may hold; those behind wait in the rank's queue
  };
  virtual ~Link() = default;
  virtual const Traits& traits() const noexcept = 0;
  /// One clause for people: by what messages go.
  virtual std::string describe() const = 0;
  /// The same of one connection.
  virtual std::string describe(int rank) const = 0;

  // ---- set-up; may throw
  virtual void serve(LinkUser& user, int rank, int ranks) = 0;
  /// What a peer must know to connect.
  virtual base::Bytes address() const = 0;
  /// For poll(2): readable when progress() has something to do, once arm() has said true.
  virtual int event_fd() const = 0;

  // ---- the rest
  virtual base::Status connect(int rank, base::ByteView address) noexcept = 0;
  /// ok: the source is free; in_progress: LinkUser::sent will tell; else what went wrong.
  virtual base::Status send(Sending& record) noexcept = 0;
  virtual int progress() noexcept = 0;
  /// False: there is something to do already.
  virtual bool arm() noexcept = 0;
  /// Lets go of what it holds for that rank, soon. `at_once`: what it has taken may be lost.
  virtual void disconnect(int rank, bool at_once) noexcept = 0;
  /// Connections that haven't ended yet after disconnect().
  virtual std::size_t ending() noexcept = 0;
  /// Ends what is left, and may still call back; afterwards there is its destructor. `all_left`: nobody waits for
  /// anything of this rank.
  virtual void leave(bool all_left) noexcept = 0;
};

}  // namespace hmc::transport::am
