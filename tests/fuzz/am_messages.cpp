// Active messages of a peer with the secret, and of a process without it.
//
// The input is a list of {flags, header, data}. A flag replaces a field of the header by the value that the target
// accepts; so the fuzzer reaches the code after checks that it can't pass itself.
#include <algorithm>
#include <cstring>
#include <vector>

#include "tests/fuzz/am_target.hpp"

namespace hmc::fuzz {

using namespace hmc::transport::am;

namespace {

enum Flag : std::uint8_t { right_tag = 1, right_sequence = 2, right_region = 4, right_bytes = 8, ends_region = 128 };

void deliver(FuzzedTarget& fuzzed, Input& input) {
  const auto flags = input.value<std::uint8_t>();
  const auto which = input.value<std::uint8_t>();
  auto message = input.value<Message>();
  const base::ByteView data = input.take(input.value<std::uint8_t>());
  const Message right = fuzzed.next(message.kind);
  if ((flags & right_tag) != 0) {
    message.origin = right.origin;
    message.tag = right.tag;
  }
  if ((flags & right_sequence) != 0) message.sequence = right.sequence;
  if ((flags & right_region) != 0) {
    message.region = right.region;
    message.nonce = right.nonce;
  }
  if ((flags & right_bytes) != 0) message.bytes = data.size();
  if (which != 0) message.ticket = which == 1 ? fuzzed.get : which == 2 ? fuzzed.atomic : fuzzed.flush;
  // A link delivers the exact bytes.
  const std::vector<std::byte> exact(data.begin(), data.end());
  const bool known = fuzzed.peers.knows(message);
  const bool was_unchanged = fuzzed.is_unchanged();
  fuzzed.target.receive(message, exact.data(), exact.size());
  require(known || fuzzed.is_unchanged() == was_unchanged);
  if ((flags & ends_region) != 0) fuzzed.close_region();
  (void)fuzzed.target.answer();
}

}  // namespace

void run(base::ByteView bytes) {
  FuzzedTarget fuzzed;
  for (Input input(bytes); !input.empty();) deliver(fuzzed, input);
}

void add_seeds(const std::function<void(base::ByteView)>& add) {
  base::Bytes all;
  for (std::uint8_t kind = 0; kind <= static_cast<std::uint8_t>(MessageKind::refused); ++kind) {
    Message message;
    message.kind = static_cast<MessageKind>(kind);
    message.width = 8;
    message.wants_result = 1;
    message.offset = 16;
    message.first = 8;  // a signal's offset, an operand, or the size of a get
    base::ByteWriter out;
    out.number(static_cast<std::uint8_t>(right_tag | right_sequence | right_region | right_bytes));
    out.number(static_cast<std::uint8_t>(kind == 5 ? 1 : kind == 6 ? 2 : kind == 7 ? 3 : 0));
    out.raw(std::as_bytes(std::span(&message, 1))).number(std::uint8_t{8}).number(std::uint64_t{0x0807060504030201});
    add(out.view());
    all.insert(all.end(), out.view().begin(), out.view().end());
  }
  add(all);
}

}  // namespace hmc::fuzz
