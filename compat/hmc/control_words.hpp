// The control words of a connection, and the layout of a relay; equal on both sides.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/rma/endpoint.hpp"

namespace hmc::compat {

/// The words of each direction. A call stores consecutive words, and the other side waits for the last of them.
enum Word : std::size_t {
  data_bytes,  // by the sender of send_data: the length of message `data_message`
  data_message,
  data_chunks,   // the number of chunks put into the receiver's halves so far, over all messages
  data_verdict,  // by the receiver of message `data_answer`: accepted or too_long
  data_grant,    // the sender may put the chunks below this number
  data_answer,
  receive_offset,  // by the receiver of `send`: the position in its buffer of message `receive_message`
  receive_bytes,
  receive_message,
  sent_bytes,  // by the sender: length of message `sent_message`
  sent_message,
  // Transfers through a relay. By the caller:
  relay_offset,  // the range in the device buffer
  relay_size,
  relay_call,    // RelayCall
  relay_pieces,  // relay_count: put into the slot, or taken from it
  relay_end,     // the number of the last call that has failed: its slot is free
  // By the owner of the device buffer:
  relay_grant,  // RelayGrant
  relay_done,   // relay_count: copied to the device, or into the slot
  word_count
};
static_assert(word_count <= rma::Endpoint::control_words);

/// The memory of a relay: two halves, in which messages of sendDataTo arrive, and slots for transfers, each with two
/// halves of one piece.
struct RelayLayout {
  static constexpr std::size_t message_bytes = std::size_t{2} << 20;
  static constexpr std::size_t slots = 16;
  static constexpr std::size_t piece_bytes = std::size_t{256} << 10;
  static constexpr std::size_t bytes = message_bytes + slots * 2 * piece_bytes;
  static constexpr std::size_t place_of(std::uint64_t slot, std::uint64_t piece) noexcept {
    return message_bytes + (slot * 2 + piece % 2) * piece_bytes;
  }
  static constexpr std::uint64_t pieces_of(std::size_t size) noexcept {
    return size / piece_bytes + (size % piece_bytes != 0);
  }
};

/// The caller's transfers are numbered from 1.
struct RelayCall {
  std::uint64_t number = 0;
  bool is_get = false;
  std::uint64_t word() const noexcept { return number << 1 | (is_get ? 1 : 0); }
  static RelayCall of(std::uint64_t word) noexcept { return {word >> 1, (word & 1) != 0}; }
};

/// A number of pieces of one call. Words of later calls are greater.
constexpr std::uint64_t relay_count(std::uint64_t call, std::uint64_t pieces) noexcept { return call << 32 | pieces; }

/// The owner's answer to call `number`: a slot, or a failure.
struct RelayGrant {
  static constexpr std::uint64_t failed = 255, out_of_range = 254;
  std::uint64_t number = 0;
  std::uint64_t slot = failed;
  std::uint64_t word() const noexcept { return number << 8 | slot; }
  static RelayGrant of(std::uint64_t word) noexcept { return {word >> 8, word & 255}; }
};

}  // namespace hmc::compat
