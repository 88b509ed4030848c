#include "collectives/schedule/builder.hpp"

#include <algorithm>

namespace hmc::collectives::schedule {

Step& Builder::add(Kind kind) {
  Step& step = schedule_.steps.emplace_back();
  step.kind = kind;
  return step;
}

void Builder::put(Place from, int peer, std::uint64_t to, std::uint64_t bytes, std::uint32_t slot) {
  Step& step = add(Kind::put);
  step.from_buffer = from.buffer;
  step.to_buffer = Buffer::scratch;
  step.peer = static_cast<std::uint32_t>(peer);
  step.slot = slot;
  step.from = from.offset;
  step.to = to;
  step.bytes = bytes;
  unsettled_ = unsettled_ || bytes > 0;
}

void Builder::wait(int peer, std::uint32_t slot) {
  Step& step = add(Kind::wait);
  step.peer = static_cast<std::uint32_t>(peer);
  step.slot = slot;
  need_slots(slot + 1);
}

void Builder::settle() {
  if (unsettled_) add(Kind::settle);
  unsettled_ = false;
}

void Builder::copy(Place from, Place to, std::uint64_t bytes) {
  if (bytes == 0 || from == to) return;
  Step& step = add(Kind::copy);
  step.from_buffer = from.buffer;
  step.to_buffer = to.buffer;
  step.from = from.offset;
  step.to = to.offset;
  step.bytes = bytes;
}

void Builder::reduce(Place from, Place to, std::uint64_t bytes) {
  if (bytes == 0) return;
  Step& step = add(Kind::reduce);
  step.from_buffer = from.buffer;
  step.to_buffer = to.buffer;
  step.from = from.offset;
  step.to = to.offset;
  step.bytes = bytes;
}

void Builder::reduce_before(Place from, Place to, std::uint64_t bytes) {
  if (bytes == 0) return;
  reduce(from, to, bytes);
  schedule_.steps.back().reversed = true;
}

void Builder::fold(Place from, std::uint64_t stride, int ways, Place to, std::uint64_t bytes) {
  if (bytes == 0) return;
  Step& step = add(Kind::fold);
  step.from_buffer = from.buffer;
  step.to_buffer = to.buffer;
  step.ways = static_cast<std::uint32_t>(ways);
  step.from = from.offset;
  step.to = to.offset;
  step.bytes = bytes;
  step.set_stride(stride);
}

void Builder::scale(Place at, std::uint64_t bytes) {
  if (bytes == 0 || call.op != Op::avg) return;
  Step& step = add(Kind::scale);
  step.to_buffer = at.buffer;
  step.to = at.offset;
  step.bytes = bytes;
}

std::uint64_t Builder::take_scratch(std::uint64_t bytes) {
  const std::uint64_t begin = line_up(schedule_.scratch_bytes);
  schedule_.scratch_bytes = begin + bytes;
  return begin;
}

void Builder::need_slots(std::uint32_t slots) { schedule_.slots = std::max(schedule_.slots, slots); }

void Builder::finish() { settle(); }

}  // namespace hmc::collectives::schedule
