// The messages between members of a pool, and the values that the store passes to them.
#include "bootstrap/tcp/shared_store_messages.hpp"
#include "runtime/pool/card.hpp"
#include "runtime/pool/messages.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace hmc::fuzz {

using namespace hmc::pool;

namespace {

template <typename Value> void decode_as(base::ByteView input) {
  if (const auto value = base::decode<Value>(input))
    require(base::encode(*value) == base::Bytes(input.begin(), input.end()));
}

}  // namespace

void run(base::ByteView input) {
  decode_as<Message>(input);
  if (const auto copy = StagedCopy::decode(input)) {
    const std::size_t data = copy->writes && copy->half < 0 ? copy->size : 0;
    require(copy->size <= StagedCopy::most_bytes && input.size() == StagedCopy::header_bytes + data);
  }
  decode_as<Card>(input);
  try {
    (void)Rules(base::as_text(input));
  } catch (const Error&) {
  }
  decode_as<bootstrap::StoreParts>(input);
  decode_as<bootstrap::GroupView>(input);
}

void add_seeds(const std::function<void(base::ByteView)>& add) {
  Message message;
  message.kind = Message::Kind::offer;
  message.text = "tcp,ucx";
  message.bytes.resize(9);
  add(base::encode(message));
  add(base::encode(StagedCopy{1, false, -1, 100, 5}));
  add(base::encode(StagedCopy{0, true, 1, 100, 5}));
  Card card;
  card.tag = "even";
  add(base::encode(card));
  add(base::as_bytes("even:tcp:odd,*:shm:b"));
  add(base::encode(bootstrap::GroupView{3, 1, {{0, false, base::Bytes(4)}}}));
}

}  // namespace hmc::fuzz
