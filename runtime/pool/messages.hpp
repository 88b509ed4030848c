// The messages that members pass to each other through the store.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>

#include <hmc/error.hpp>

#include "runtime/base/fields.hpp"

namespace hmc::pool {

struct Message {
  enum class Kind : std::uint8_t {
    offer,   ///< of a candidate's Endpoint: `text` has its wires in order of preference; card and offer; `target`
    accept,  ///< `text`: the chosen wire; offer
    call,    ///< of the program
    staged,  ///< a copy to or from the receiver's part, by the receiver: StagedCopy, and the bytes to write, if any
    answer,  ///< to call and staged
    last = answer
  };
  Kind kind{};
  std::uint64_t id = 0;
  Code code = Code::success;  ///< of an answer, or of an accept: then `text` is the reason
  std::string text;
  std::string target;  ///< of an offer: the join for which it is
  base::Bytes card;
  base::Bytes bytes;

  static constexpr auto fields = std::tuple(&Message::kind, &Message::id, &Message::code, &Message::text,
                                            &Message::target, &Message::card, &Message::bytes);
};

/// The beginning of the bytes of a `staged` message.
struct StagedCopy {
  std::uint8_t part = 0;
  bool writes = false;
  std::int8_t half = -1;  ///< the bytes are in this half of the sender's place, not in messages; -1: in messages
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  static constexpr std::size_t header_bytes = 19;
  static constexpr std::size_t most_bytes = std::size_t{1} << 20;

  static constexpr auto fields =
      std::tuple(&StagedCopy::part, &StagedCopy::writes, &StagedCopy::half, &StagedCopy::offset, &StagedCopy::size);

  static std::optional<StagedCopy> decode(base::ByteView bytes) {
    base::ByteReader in(bytes);
    StagedCopy copy;
    base::read_value(in, copy);
    const bool has_size = in.left() == (copy.writes && copy.half < 0 ? copy.size : 0);
    if (!in.ok() || copy.part > 1 || copy.half < -1 || copy.half > 1 || copy.size > most_bytes || !has_size)
      return std::nullopt;
    return copy;
  }
};

static_assert(base::least_bytes<StagedCopy>() == StagedCopy::header_bytes);

}  // namespace hmc::pool
