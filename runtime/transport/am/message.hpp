// Message: the header of an active message. Each verb is a message that the target executes.
#pragma once

#include <cstdint>
#include <type_traits>

namespace hmc::transport::am {

enum class MessageKind : std::uint8_t {
  // requests, executed by the target
  put,         ///< data at `offset`
  put_signal,  ///< data at `offset`, then the word `second` at offset `first`
  notice,      ///< as put_signal; if the region isn't registered, the target drops it without an answer
  get,         ///< `first` bytes from `offset`
  atomic,      ///< operand `first`, compare `second`
  flush,       ///< answered after all earlier requests are executed; the answer returns `first`
  // answers, to the origin of the request
  got,      ///< data at `offset` of the destination
  result,   ///< the old value in `first`
  flushed,  ///< `first` of the flush
  refused,  ///< the request's region isn't registered at this rank, or the request exceeds it
};

/// The header of every message, in the byte order that all ranks of a job share.
struct Message {
  std::uint32_t origin = 0;  ///< the number by which the receiver knows the sender; in a job its rank
  MessageKind kind = MessageKind::put;
  std::uint8_t op = 0;  ///< AtomicOp
  std::uint8_t width = 0;
  std::uint8_t wants_result = 0;
  std::uint64_t tag = 0;  ///< the sequence-th number of the pair's Keystream; without it, the message is a stranger's
  std::uint64_t sequence = 0;  ///< counts the messages from origin to this target, from 0
  std::uint64_t region = 0;    ///< index of the target's region
  std::uint64_t nonce = 0;     ///< of the region's key
  std::uint64_t offset = 0;
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  std::uint64_t ticket = 0;  ///< of the request's origin; the answer returns it
  /// Size of this message's own data. Bytes after that are the next joined message and its data; only the first
  /// message's tag and sequence number are checked.
  std::uint64_t bytes = 0;
};
static_assert(std::is_trivially_copyable_v<Message> && sizeof(Message) == 80);

/// Incremented with every change to Message or to the key of a region. A rank refuses peers with another version.
inline constexpr std::uint8_t protocol_version = 8;

/// Data up to this size is copied after the header, so the put completes locally at once.
inline constexpr std::uint64_t inline_bytes = 1024;

/// Small verbs to one peer are joined into one message of at most this size.
inline constexpr std::uint64_t joined_bytes = 4096;

}  // namespace hmc::transport::am
