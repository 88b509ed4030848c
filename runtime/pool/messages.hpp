// The messages that members pass to each other through the store.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <hmc/error.hpp>

#include "runtime/base/bytes.hpp"

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

  base::Bytes encode() const {
    base::ByteWriter out;
    out.number(kind).number(id).number(static_cast<std::int32_t>(code));
    return out.text(text).text(target).blob(card).blob(bytes).take();
  }
  /// nullopt if the bytes aren't exactly one message.
  static std::optional<Message> decode(base::ByteView view) {
    base::ByteReader in(view);
    Message message;
    const auto kind = in.number<std::uint8_t>();
    message.kind = static_cast<Kind>(kind);
    message.id = in.number<std::uint64_t>();
    message.code = static_cast<Code>(in.number<std::int32_t>());
    message.text = in.text();
    message.target = in.text();
    for (base::Bytes* const each : {&message.card, &message.bytes}) {
      const base::ByteView blob = in.blob();
      each->assign(blob.begin(), blob.end());
    }
    if (!in.complete() || kind > static_cast<std::uint8_t>(Kind::last)) return std::nullopt;
    return message;
  }
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

  base::Bytes encode() const {
    base::ByteWriter out;
    return out.number(part).number(static_cast<std::uint8_t>(writes)).number(half).number(offset).number(size).take();
  }
  static std::optional<StagedCopy> decode(base::ByteView bytes) {
    base::ByteReader in(bytes);
    StagedCopy copy;
    copy.part = in.number<std::uint8_t>();
    copy.writes = in.number<std::uint8_t>() != 0;
    copy.half = in.number<std::int8_t>();
    copy.offset = in.number<std::uint64_t>();
    copy.size = in.number<std::uint64_t>();
    const bool has_size = in.left() == (copy.writes && copy.half < 0 ? copy.size : 0);
    if (!in.ok() || copy.part > 1 || copy.half < -1 || copy.half > 1 || copy.size > most_bytes || !has_size)
      return std::nullopt;
    return copy;
  }
};

}  // namespace hmc::pool
