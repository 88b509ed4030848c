#include "collectives/schedule/builder.hpp"

#include <algorithm>

namespace hmc::collectives::schedule {

Step& Builder::add(StepKind kind) {
  Step& step = schedule_.steps.emplace_back();
  step.kind = kind;
  return step;
}

void Builder::put(Operand from, int peer, std::uint64_t to, std::uint64_t bytes, std::uint32_t slot) {
  Step& step = add(StepKind::put);
  step.from_buffer = from.buffer;
  step.to_buffer = StepBuffer::scratch;
  step.peer = static_cast<std::uint32_t>(peer);
  step.slot = slot;
  step.from = from.offset;
  step.to = to;
  step.bytes = bytes;
  unflushed_ = unflushed_ || bytes > 0;
}

void Builder::get(int peer, std::uint64_t from, Operand to, std::uint64_t bytes) {
  if (bytes == 0) return;
  Step& step = add(StepKind::get);
  step.from_buffer = StepBuffer::scratch;
  step.to_buffer = to.buffer;
  step.peer = static_cast<std::uint32_t>(peer);
  step.from = from;
  step.to = to.offset;
  step.bytes = bytes;
}

void Builder::wait(int peer, std::uint32_t slot) {
  Step& step = add(StepKind::wait);
  step.peer = static_cast<std::uint32_t>(peer);
  step.slot = slot;
  reserve_slots(slot + 1);
}

void Builder::flush_local() {
  if (unflushed_) add(StepKind::flush_local);
  unflushed_ = false;
}

void Builder::copy(Operand from, Operand to, std::uint64_t bytes) {
  if (bytes == 0 || from == to) return;
  Step& step = add(StepKind::copy);
  step.from_buffer = from.buffer;
  step.to_buffer = to.buffer;
  step.from = from.offset;
  step.to = to.offset;
  step.bytes = bytes;
}

void Builder::reduce(Operand from, Operand to, std::uint64_t bytes) {
  if (bytes == 0) return;
  Step& step = add(StepKind::reduce);
  step.from_buffer = from.buffer;
  step.to_buffer = to.buffer;
  step.from = from.offset;
  step.to = to.offset;
  step.bytes = bytes;
}

void Builder::reduce_before(Operand from, Operand to, std::uint64_t bytes) {
  if (bytes == 0) return;
  reduce(from, to, bytes);
  schedule_.steps.back().reversed = true;
}

void Builder::fold(Operand from, std::uint64_t stride, int inputs, Operand to, std::uint64_t bytes) {
  if (bytes == 0) return;
  Step& step = add(StepKind::fold);
  step.from_buffer = from.buffer;
  step.to_buffer = to.buffer;
  step.inputs = static_cast<std::uint32_t>(inputs);
  step.from = from.offset;
  step.to = to.offset;
  step.bytes = bytes;
  step.set_stride(stride);
}

void Builder::scale(Operand at, std::uint64_t bytes) {
  if (bytes == 0 || call.op != Op::avg) return;
  Step& step = add(StepKind::scale);
  step.to_buffer = at.buffer;
  step.to = at.offset;
  step.bytes = bytes;
}

std::uint64_t Builder::allocate_scratch(std::uint64_t bytes) {
  const std::uint64_t begin = align_to_line(schedule_.scratch_bytes);
  schedule_.scratch_bytes = begin + bytes;
  return begin;
}

void Builder::reserve_slots(std::uint32_t slots) { schedule_.slots = std::max(schedule_.slots, slots); }

}  // namespace hmc::collectives::schedule
