#include "tests/multirank/shadow_model.hpp"

#include <algorithm>
#include <cstring>

#include "tests/support/pattern.hpp"

namespace hmc::spmd {

using transport::AtomicOp;

namespace {

std::uint64_t mask_of(std::uint8_t width) { return width == 8 ? ~std::uint64_t{0} : 0xffffffffU; }

std::uint64_t outcome(const transport::Atomic& atomic, std::uint64_t old) {
  switch (atomic.op) {
    case AtomicOp::fetch_add:
    case AtomicOp::add: return old + atomic.operand;
    case AtomicOp::swap:
    case AtomicOp::set: return atomic.operand;
    case AtomicOp::compare_swap: return old == (atomic.compare & mask_of(atomic.width)) ? atomic.operand : old;
    case AtomicOp::fetch: return old;
    case AtomicOp::band:
    case AtomicOp::fetch_and: return old & atomic.operand;
    case AtomicOp::bor:
    case AtomicOp::fetch_or: return old | atomic.operand;
    case AtomicOp::bxor:
    case AtomicOp::fetch_xor: return old ^ atomic.operand;
  }
  return old;
}

}  // namespace

std::vector<std::byte> bytes_of(const Action& action) {
  std::vector<std::byte> bytes(action.bytes);
  Pattern{action.target, action.fill}.fill(bytes, action.fill % 5);
  return bytes;
}

Action ActionMaker::next(const std::vector<Block>& blocks) {
  Action action;
  action.target = static_cast<int>(below(static_cast<std::uint64_t>(size_)));
  action.fill = random_();
  // Weights: ordering verbs are rare, so that many transfers are in flight between two of them.
  constexpr Verb wheel[] = {Verb::put,       Verb::put,        Verb::put_nb, Verb::put_nb,   Verb::put_strided,
                            Verb::put_batch, Verb::put_signal, Verb::get,    Verb::get_nb,   Verb::get_strided,
                            Verb::get_batch, Verb::atomic,     Verb::atomic, Verb::atomic,   Verb::put,
                            Verb::get,       Verb::fence,      Verb::flush,  Verb::flush_all};
  action.verb = wheel[below(std::size(wheel))];
  const Block& block = blocks[below(blocks.size())];
  const std::uint64_t start = block.offset + static_cast<std::uint64_t>(rank_) * block.stripe;
  switch (action.verb) {
    case Verb::put_strided:
    case Verb::get_strided: make_strided(action, start, block.stripe); break;
    case Verb::atomic: make_atomic(action, start, block.stripe); break;
    case Verb::put_signal:  // the signal is the stripe's last word, after the data
      place(action, start, block.stripe - 8);
      action.signal_offset = start + block.stripe - 8;
      break;
    case Verb::put_batch:
    case Verb::get_batch:
      place(action, start, block.stripe);
      action.rows = action.bytes < 3 ? 1 : 3;  // three adjacent pieces
      action.bytes = action.bytes / action.rows * action.rows;
      action.remote_pitch = action.local_pitch = action.bytes / action.rows;
      break;
    default: place(action, start, block.stripe); break;
  }
  return action;
}

void ActionMaker::place(Action& action, std::uint64_t start, std::uint64_t room) {
  switch (below(4)) {  // empty or tiny, a word, small, any size that fits
    case 0: action.bytes = below(3); break;
    case 1: action.bytes = 8; break;
    case 2: action.bytes = below(std::min<std::uint64_t>(room, 300) + 1); break;
    default: action.bytes = below(room + 1); break;
  }
  action.offset = start + below(room - action.bytes + 1);
}

void ActionMaker::make_strided(Action& action, std::uint64_t start, std::uint64_t room) {
  const std::uint64_t row = 1 + below(std::min<std::uint64_t>(room / 4, 64));
  action.remote_pitch = row + below(24);
  action.local_pitch = row + below(24);
  const std::uint64_t most = (room - row) / action.remote_pitch + 1;
  action.rows = 1 + below(std::min<std::uint64_t>(most, 40));
  action.bytes = action.rows * row;
  action.offset = start + below(room - action.extent() + 1);
}

void ActionMaker::make_atomic(Action& action, std::uint64_t start, std::uint64_t room) {
  action.atomic.width = below(2) == 0 ? 4 : 8;
  action.atomic.op = static_cast<AtomicOp>(below(12));
  action.atomic.operand = random_() & mask_of(action.atomic.width);
  action.atomic.compare = below(2) == 0 ? 0 : random_() & mask_of(action.atomic.width);
  action.bytes = action.atomic.width;
  action.offset = start + below(room / action.atomic.width) * action.atomic.width;
}

std::uint64_t ShadowModel::apply(const Action& action) {
  std::byte* const window = windows_[static_cast<std::size_t>(action.target)].data();
  if (action.verb == Verb::atomic) {
    std::uint64_t old = 0;
    std::memcpy(&old, window + action.offset, action.atomic.width);
    const std::uint64_t value = outcome(action.atomic, old);
    std::memcpy(window + action.offset, &value, action.atomic.width);
    return old;
  }
  if (!action.writes()) return 0;
  const std::vector<std::byte> bytes = bytes_of(action);
  const std::size_t row = action.bytes / action.rows;
  for (std::size_t i = 0; i < action.rows && row > 0; ++i)
    std::memcpy(window + action.offset + i * action.remote_pitch, bytes.data() + i * row, row);
  if (action.verb == Verb::put_signal) std::memcpy(window + action.signal_offset, &action.fill, 8);
  return 0;
}

}  // namespace hmc::spmd
