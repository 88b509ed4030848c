// Untrusted input of the control plane: bytes into the frame decoder, and payloads into the decoder of every message.
#include "bootstrap/tcp/protocol.hpp"
#include "bootstrap/tcp/shared_store_messages.hpp"

#include "tests/fuzz/fuzz.hpp"

namespace hmc::fuzz {

using namespace hmc::bootstrap;

namespace {

control::FrameOpener opener_with(const control::Secret& key, bool hello_only) {
  control::FrameOpener opener(&payload_limit);
  opener.rekey(key, control::Direction::to_server);
  opener.hello_only(hello_only);
  return opener;
}

/// Without the key no frame is returned, however the bytes are split.
void feed_as_stranger(base::ByteView bytes) {
  const control::Secret key = control::Secret::from_bytes({});
  for (const bool hello_only : {true, false}) {
    control::FrameOpener opener = opener_with(key.derive({base::as_bytes("unknown")}), hello_only);
    const std::size_t cut = bytes.empty() ? 0 : static_cast<std::size_t>(bytes[0]) % bytes.size();
    opener.feed(bytes.first(cut));
    require(!opener.next());
    opener.feed(bytes.subspan(cut));
    require(!opener.next());
  }
}

/// A valid frame, the input, a second valid frame. The first is always returned, the last only if the input is empty.
void feed_between_good_frames(base::ByteView bytes) {
  const control::Secret key = control::Secret::from_bytes({});
  control::FrameSealer sealer;
  sealer.rekey(key, control::Direction::to_server);
  control::FrameOpener opener = opener_with(key, false);
  opener.feed(sealer.seal(on_wire(MessageType::goodbye), encode(Goodbye{1})));
  opener.feed(bytes);
  opener.feed(sealer.seal(on_wire(MessageType::goodbye), encode(Goodbye{2})));
  require(opener.next().has_value());
  require(opener.next().has_value() == bytes.empty());
}

/// A decoded message must encode to the same bytes: the decoder neither ignores nor adds any.
template <typename Message> void decode_as(base::ByteView payload) {
  const control::Frame frame{on_wire(Message::type), 0, {payload.begin(), payload.end()}};
  if (const auto message = decode<Message>(frame)) require(encode(*message) == frame.payload);
}

/// Calls `each` with a null pointer to every message.
template <typename Each> void for_each_message(const Each& each) {
  each(static_cast<NodeHello*>(nullptr));
  each(static_cast<Welcome*>(nullptr));
  each(static_cast<Join*>(nullptr));
  each(static_cast<Page*>(nullptr));
  each(static_cast<Table*>(nullptr));
  each(static_cast<Contribution*>(nullptr));
  each(static_cast<Result*>(nullptr));
  each(static_cast<RoundFailed*>(nullptr));
  each(static_cast<ShareOffer*>(nullptr));
  each(static_cast<ShareResult*>(nullptr));
  each(static_cast<RankCall*>(nullptr));
  each(static_cast<RankAnswer*>(nullptr));
  each(static_cast<MissingQuery*>(nullptr));
  each(static_cast<MissingReply*>(nullptr));
  each(static_cast<Failure*>(nullptr));
  each(static_cast<Death*>(nullptr));
  each(static_cast<Goodbye*>(nullptr));
  each(static_cast<Vote*>(nullptr));
  each(static_cast<DecisionFor*>(nullptr));
  each(static_cast<Lost*>(nullptr));
  each(static_cast<Cause*>(nullptr));
  each(static_cast<NoReplacement*>(nullptr));
  each(static_cast<Report*>(nullptr));
  each(static_cast<Command*>(nullptr));
  each(static_cast<StateQuery*>(nullptr));
  each(static_cast<StateReply*>(nullptr));
  each(static_cast<StoreCall*>(nullptr));
  each(static_cast<StoreAnswer*>(nullptr));
  each(static_cast<StoreEvent*>(nullptr));
}

}  // namespace

void run(base::ByteView input) {
  feed_as_stranger(input);
  feed_between_good_frames(input);
  for_each_message([&]<typename Message>(Message*) { decode_as<Message>(input); });
}

void add_seeds(const std::function<void(base::ByteView)>& add) {
  for_each_message([&]<typename Message>(Message*) {
    control::FrameSealer sealer;
    sealer.rekey(control::Secret::from_bytes({}), control::Direction::to_server);
    add(encode(Message{}));
    add(sealer.seal(on_wire(Message::type), encode(Message{})));
  });
  Table table;
  table.ranks.resize(3);
  add(encode(table));
  add(encode(Contribution{.round = 1, .entries = {{.rank = 2, .bytes = base::Bytes(5)}}}));
  add(encode(RankCall{.rank = 2, .call = {.id = 1, .op = StoreOp::swap, .key = "key", .value = base::Bytes(7)}}));
}

}  // namespace hmc::fuzz
