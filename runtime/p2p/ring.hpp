// The ring of one ordered pair of ranks, in the receiver's memory: records of whole cache lines.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "runtime/p2p/layout.hpp"

namespace hmc::p2p {

enum class Kind : std::uint8_t {
  wrap = 1,    ///< the next record is at the ring's start
  eager,       ///< a message with its bytes
  rendezvous,  ///< a message whose bytes are in the sender's memory
  finished,    ///< answer: the receiver has the bytes of a rendezvous, or has dropped them
  grant,       ///< answer: the sender puts a piece of a rendezvous into a slot of the receiver
};

/// The start of a record. Payload follows, also in the rest of the first line.
struct Header {
  std::uint64_t stamp;  ///< number of the record in its ring, from 1, and its Kind
  std::uint32_t team;   ///< TeamCore::agreed_id
  std::int32_t source;  ///< the sender's rank in the team
  std::int32_t tag;
  std::uint32_t payload;  ///< bytes after the header
  std::uint64_t bytes;    ///< the message's length; grant: of the piece
};
static_assert(sizeof(Header) == 32);

constexpr std::size_t record_bytes(std::size_t payload) noexcept {
  return (sizeof(Header) + payload + Layout::line_bytes - 1) / Layout::line_bytes * Layout::line_bytes;
}
constexpr std::uint64_t stamp_of(std::uint64_t number, Kind kind) noexcept {
  return number << 8 | static_cast<std::uint64_t>(kind);
}
constexpr Kind kind_of(std::uint64_t stamp) noexcept { return static_cast<Kind>(stamp & 0xff); }

// Protocol. The receiver polls the stamp at its position for the number of the next record. Invariant: the first word
// of each line that the sender may write next is 0 or an older stamp. So bytes of an earlier record are never taken for
// a stamp, although records have different lengths.
//  - The sender writes a record's bytes, then its stamp: by a release store, or by the wire's put_signal.
//  - The receiver loads the stamp with acquire, so it sees the bytes, and copies them. Later it clears the first word
//  of
//    each further line of the consumed records, and returns the number of consumed bytes by a release store (or
//    put_signal). Not at once: a store to a line that the sender has just written delays the receiver's next stores.
//    Lines with a stamp aren't cleared: that would cost each short message another transfer of its line.
//  - The sender loads that number with acquire before it reuses the lines: its stores come after the receiver's loads
//    and clears.
// A record takes at most a quarter of the ring, and the receiver returns the number at the latest after a quarter. So a
// sender that waits for room waits for a record that the receiver hasn't consumed.

/// The sender's side. One thread at a time.
class RingWriter {
 public:
  RingWriter() = default;
  /// `memory`: the ring itself, or a copy of it from which a wire puts.
  RingWriter(std::byte* memory, std::size_t bytes) noexcept : memory_(memory), bytes_(bytes) {}

  std::byte* memory() const noexcept { return memory_; }
  std::uint64_t position() const noexcept { return written_ & (bytes_ - 1); }
  bool must_wrap(std::size_t record) const noexcept { return position() + record > bytes_; }
  bool has_room(std::size_t record) const noexcept {
    const std::uint64_t skipped = must_wrap(record) ? bytes_ - position() : 0;
    return written_ + skipped + record <= consumed_ + bytes_;
  }
  void set_consumed(std::uint64_t consumed) noexcept { consumed_ = consumed; }
  std::uint64_t next_stamp(Kind kind) noexcept { return stamp_of(++number_, kind); }
  /// After a record. A wrap record takes the rest of the ring.
  void advance(std::size_t record) noexcept { written_ += record; }

 private:
  std::byte* memory_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::uint64_t written_ = 0;   // since the start
  std::uint64_t consumed_ = 0;  // as the receiver has returned it
  std::uint64_t number_ = 0;
};

/// The receiver's side. One thread at a time.
class RingReader {
 public:
  RingReader() = default;
  RingReader(std::byte* memory, std::size_t bytes) noexcept : memory_(memory), bytes_(bytes) {}

  /// The next record; null if there is none.
  const Header* peek() noexcept {
    for (;;) {
      std::byte* const at = memory_ + (consumed_ & (bytes_ - 1));
      // Acquire: pairs with the release of the stamp; the record's bytes are visible.
      const std::uint64_t stamp = word(at).load(std::memory_order_acquire);
      if (stamp >> 8 != number_ + 1) [[likely]]
        return nullptr;
      if (kind_of(stamp) != Kind::wrap) return reinterpret_cast<const Header*>(at);
      ++number_;
      consumed_ += bytes_ - (consumed_ & (bytes_ - 1));
    }
  }
  /// After peek(): the record's bytes aren't used any more.
  void consume(std::size_t record) noexcept {
    ++number_;
    consumed_ += record;
  }
  /// Bytes that were consumed since the last release().
  std::uint64_t unreleased() const noexcept { return consumed_ - released_; }
  /// Prepares the consumed lines for the sender. Returns the number of consumed bytes, for set_consumed().
  std::uint64_t release() noexcept {
    while (released_ != consumed_) {
      const std::uint64_t position = released_ & (bytes_ - 1);
      std::byte* const at = memory_ + position;
      // Relaxed: peek() has loaded this stamp, and the sender doesn't write here before the number is returned.
      if (kind_of(word(at).load(std::memory_order_relaxed)) == Kind::wrap) {
        released_ += bytes_ - position;
        continue;
      }
      const std::size_t record = record_bytes(reinterpret_cast<const Header*>(at)->payload);
      // Relaxed: the release of the returned number orders these stores before the sender's next ones.
      for (std::size_t line = Layout::line_bytes; line < record; line += Layout::line_bytes)
        word(at + line).store(0, std::memory_order_relaxed);
      released_ += record;
    }
    return consumed_;
  }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::byte* memory_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::uint64_t consumed_ = 0;
  std::uint64_t released_ = 0;
  std::uint64_t number_ = 0;  // of the last consumed record
};

}  // namespace hmc::p2p
