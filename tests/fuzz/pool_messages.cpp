// The messages between members of a pool, and the values that the store passes to them.
#include "bootstrap/tcp/shared_store_messages.hpp"
#include "runtime/pool/card.hpp"
#include "runtime/pool/messages.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace hmc::fuzz {

using namespace hmc::pool;

namespace {

template <typename Value> void decode_value_as(base::ByteView input) {
  if (const auto value = bootstrap::decode_value<Value>(input)) {
    base::ByteWriter out;
    bootstrap::write_value(out, *value);
    require(out.take() == base::Bytes(input.begin(), input.end()));
  }
}

}  // namespace

void run(base::ByteView input) {
  if (const auto message = Message::decode(input))
    require(message->encode() == base::Bytes(input.begin(), input.end()));
  if (const auto copy = StagedCopy::decode(input)) {
    const std::size_t data = copy->writes && copy->half < 0 ? copy->size : 0;
    require(copy->size <= StagedCopy::most_bytes && input.size() == StagedCopy::header_bytes + data);
  }
  try {
    require(Card::decode(input).encode() == base::Bytes(input.begin(), input.end()));
  } catch (const Error&) {
  }
  try {
    (void)Rules(base::as_text(input));
  } catch (const Error&) {
  }
  decode_value_as<bootstrap::StoreParts>(input);
  decode_value_as<bootstrap::GroupView>(input);
}

void add_seeds(const std::function<void(base::ByteView)>& add) {
  Message message;
  message.kind = Message::Kind::offer;
  message.text = "tcp,ucx";
  message.bytes.resize(9);
  add(message.encode());
  add(StagedCopy{1, false, -1, 100, 5}.encode());
  add(StagedCopy{0, true, 1, 100, 5}.encode());
  Card card;
  card.tag = "even";
  add(card.encode());
  add(base::as_bytes("even:tcp:odd,*:shm:b"));
  base::ByteWriter view;
  bootstrap::write_value(view, bootstrap::GroupView{3, 1, {{0, false, base::Bytes(4)}}});
  add(view.view());
}

}  // namespace hmc::fuzz
