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
  rendezvous,  ///< a message without its bytes
  piece,       ///< the next bytes of a rendezvous
  finished,    ///< answer: the receiver needs no (further) bytes of a rendezvous
  grant,       ///< answer: the sender sends the rest, or puts a piece into a slot of the receiver
};

/// The start of a record. Payload follows, also in the rest of the first line.
struct Header {
  std::uint64_t stamp;  ///< number of the record in its ring, from 1, and its Kind
  std::uint32_t team;   ///< TeamCore::agreed_id
  std::int32_t source;  ///< the sender's rank in the team
  std::int32_t tag;
  std::uint32_t payload;  ///< bytes after the header
  std::uint64_t bytes;    ///< the message's length; piece: the sender's ticket; grant: length of the piece in the slot
};
static_assert(sizeof(Header) == 32);

/// Where the payload starts in its record. A large copy is faster to the start of a line.
constexpr std::size_t payload_offset(std::size_t payload) noexcept {
  return payload < 2048 ? sizeof(Header) : Layout::line_bytes;
}
constexpr std::size_t record_bytes(std::size_t payload) noexcept {
  return (payload_offset(payload) + payload + Layout::line_bytes - 1) / Layout::line_bytes * Layout::line_bytes;
}
/// The largest payload: four records and a wrap record fit into a ring.
constexpr std::size_t payload_max(std::size_t ring) noexcept {
  const std::size_t record = ring / 4 - Layout::line_bytes;
  return record - payload_offset(record - sizeof(Header));
}
inline const std::byte* payload_of(const Header& record) noexcept {
  return reinterpret_cast<const std::byte*>(&record) + payload_offset(record.payload);
}
constexpr std::uint64_t stamp_of(std::uint64_t number, Kind kind) noexcept {
  return number << 8 | static_cast<std::uint64_t>(kind);
}
constexpr Kind kind_of(std::uint64_t stamp) noexcept { return static_cast<Kind>(stamp & 0xff); }

// Protocol. The receiver polls the stamp at its position for the number of the next record. Invariant: at the
// receiver's position is the stamp of the next record, or a word that is not: bytes of an old record are never taken
// for a stamp.
//  - The sender writes a record's bytes. If the first word after the record is by chance the number of the record that
//    comes next, it clears that word: the place is free, since otherwise an older stamp is there. Then it writes the
//    stamp: by a release store, or by the wire's put_signal.
//  - The receiver loads the stamp with acquire, so it sees the bytes and the cleared word, and copies the bytes.
//    Later it returns the number of consumed bytes by a release store (or put_signal). It never writes to the ring:
//    the lines would move between the cores once more.
//  - The sender loads that number with acquire before it reuses the lines: its stores come after the receiver's loads.
// A record takes less than a quarter of the ring, and the receiver returns the number at the latest after a quarter. So
// a sender that waits for room waits for a record that the receiver hasn't consumed.

/// The sender's side. One thread at a time.
class RingWriter {
 public:
  RingWriter() = default;
  /// `memory`: the ring itself, or a copy of it from which a wire puts.
  RingWriter(std::byte* memory, std::size_t bytes) noexcept : memory_(memory), bytes_(bytes) {}

  std::byte* memory() const noexcept { return memory_; }
  std::uint64_t written() const noexcept { return written_; }
  std::uint64_t position() const noexcept { return written_ & (bytes_ - 1); }
  /// A line is left at the ring's end: for a wrap record, and so that the next record's place follows this record.
  bool must_wrap(std::size_t record) const noexcept { return position() + record + Layout::line_bytes > bytes_; }
  bool has_room(std::size_t record) const noexcept {
    const std::uint64_t skipped = must_wrap(record) ? bytes_ - position() : 0;
    return written_ + skipped + record <= consumed_ + bytes_;
  }
  void set_consumed(std::uint64_t consumed) noexcept { consumed_ = consumed; }
  std::uint64_t next_stamp(Kind kind) noexcept { return stamp_of(++number_, kind); }
  /// Before next_stamp() of a record: true if it has cleared the word after the record, which a wire must put, too.
  bool clear_next(std::size_t record) noexcept {
    const std::atomic_ref<std::uint64_t> next = word(memory_ + position() + record);
    // Relaxed: only this rank writes to the ring, and the release of the record's stamp comes after the store.
    if (next.load(std::memory_order_relaxed) >> 8 != number_ + 2) [[likely]]
      return false;
    next.store(0, std::memory_order_relaxed);
    return true;
  }
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
  /// Returns the number of consumed bytes, for set_consumed().
  std::uint64_t release() noexcept { return released_ = consumed_; }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::byte* memory_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::uint64_t consumed_ = 0;
  std::uint64_t released_ = 0;
  std::uint64_t number_ = 0;  // of the last consumed record
};

}  // namespace hmc::p2p
