// Untrusted input: bytes into the frame decoder, and payloads into the decoder of every message.
//
// With libFuzzer (clang, -fsanitize=fuzzer) this file has its entry point. Otherwise random_driver.cpp calls it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "bootstrap/tcp/protocol.hpp"

using namespace hmc;
using namespace hmc::bootstrap;

namespace {

/// Checks an invariant. A fuzzer detects the abort.
void require(bool holds) {
  if (!holds) std::abort();
}

base::ByteView view_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const std::byte*>(data), size};
}

FrameOpener opener_with(const Secret& key, bool hello_only) {
  FrameOpener opener;
  opener.rekey(key, Direction::to_server);
  opener.hello_only(hello_only);
  return opener;
}

/// Without the key no frame is returned, however the bytes are split.
void feed_as_stranger(base::ByteView bytes) {
  const Secret key = Secret::from_bytes({});
  for (const bool hello_only : {true, false}) {
    FrameOpener opener = opener_with(key.derive({base::as_bytes("unknown")}), hello_only);
    const std::size_t cut = bytes.empty() ? 0 : static_cast<std::size_t>(bytes[0]) % bytes.size();
    opener.feed(bytes.first(cut));
    require(!opener.next());
    opener.feed(bytes.subspan(cut));
    require(!opener.next());
  }
}

/// A valid frame, the input, a second valid frame. The first is always returned, the last only if the input is empty.
void feed_between_good_frames(base::ByteView bytes) {
  const Secret key = Secret::from_bytes({});
  FrameSealer sealer;
  sealer.rekey(key, Direction::to_server);
  FrameOpener opener = opener_with(key, false);
  opener.feed(sealer.seal(MessageType::goodbye, encode(Goodbye{1})));
  opener.feed(bytes);
  opener.feed(sealer.seal(MessageType::goodbye, encode(Goodbye{2})));
  require(opener.next().has_value());
  require(opener.next().has_value() == bytes.empty());
}

/// A decoded message must encode to the same bytes: the decoder neither ignores nor adds any.
template <typename Message> void decode_as(base::ByteView payload) {
  const Frame frame{Message::type, 0, {payload.begin(), payload.end()}};
  if (const auto message = decode<Message>(frame)) require(encode(*message) == frame.payload);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const base::ByteView bytes = view_of(data, size);
  feed_as_stranger(bytes);
  feed_between_good_frames(bytes);
  decode_as<NodeHello>(bytes);
  decode_as<Welcome>(bytes);
  decode_as<Join>(bytes);
  decode_as<Page>(bytes);
  decode_as<Table>(bytes);
  decode_as<Contribution>(bytes);
  decode_as<Result>(bytes);
  decode_as<RoundFailed>(bytes);
  decode_as<ShareOffer>(bytes);
  decode_as<ShareResult>(bytes);
  decode_as<Publish>(bytes);
  decode_as<Lookup>(bytes);
  decode_as<Reply>(bytes);
  decode_as<MissingQuery>(bytes);
  decode_as<MissingReply>(bytes);
  decode_as<Failure>(bytes);
  decode_as<Goodbye>(bytes);
  return 0;
}
