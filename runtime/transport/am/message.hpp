// Message: what ranks say to each other. Every verb is a message that the target carries out.
#pragma once

#include <cstdint>
#include <type_traits>

namespace hmc::transport::am {

enum class Kind : std::uint8_t {
  // requests, carried out by the target
  put,         ///< data at `offset`
  put_signal,  ///< data at `offset`, then the word `second` at offset `first`
  get,         ///< `first` bytes from `offset`
  atomic,      ///< operand `first`, compare `second`
  flush,       ///< answered once everything before it was carried out; `first` comes back
  // answers, to the rank that asked
  got,      ///< data at `offset` of the destination
  result,   ///< the old value in `first`
  flushed,  ///< `first` of the flush
  refused,  ///< the request named no region of this rank, or left it
};

/// The header of every message, in the byte order that all ranks of a job share.
struct Message {
  std::uint32_t origin = 0;  ///< the rank that sends this message
  Kind kind = Kind::put;
  std::uint8_t op = 0;  ///< AtomicOp
  std::uint8_t width = 0;
  std::uint8_t wants_result = 0;
  std::uint64_t secret = 0;    ///< the receiving wire's: who doesn't know it is no rank of this job
  std::uint64_t sequence = 0;  ///< counts the messages from origin to this target, from 0
  std::uint64_t region = 0;    ///< which of the target's, and
  std::uint64_t nonce = 0;     ///< the number that its key holds
  std::uint64_t offset = 0;
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  std::uint64_t ticket = 0;  ///< the asking rank's; comes back in the answer
  /// Of its own data. What follows that is the next message, which rides with this one, and its data: of those only
  /// the first's secret and sequence count.
  std::uint64_t bytes = 0;
};
static_assert(std::is_trivially_copyable_v<Message> && sizeof(Message) == 80);

/// Raised with every change to Message; ranks that differ don't talk.
inline constexpr std::uint8_t protocol_version = 3;

/// Up to this size the bytes are copied beside the header, and a put is locally complete at once.
inline constexpr std::uint64_t inline_bytes = 1024;

/// Verbs for one peer that are held ride in one message while they fit into this.
inline constexpr std::uint64_t joined_bytes = 4096;

}  // namespace hmc::transport::am
