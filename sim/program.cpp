#include "sim/program.hpp"

#include <algorithm>

namespace hmc::sim {

namespace {

constexpr std::size_t chunk_ops = std::size_t{1} << 20;

ProgramOp op(ProgramOpKind kind, std::uint64_t value, std::uint32_t peer = 0, std::uint32_t slot = 0) {
  return {value, peer, slot << 2 | static_cast<std::uint32_t>(kind)};
}

Time cost_of(const schedule::Step& step, const Model& model) {
  switch (step.kind) {
    case schedule::StepKind::copy: return model.work(model.copy_ps, step.bytes);
    case schedule::StepKind::fold: return model.work(model.reduce_ps, step.bytes * step.inputs);
    default: return model.work(model.reduce_ps, step.bytes);
  }
}

}  // namespace

Program::Program(int first, int count, const ScheduleSource& build, const Model& model, std::uint64_t max_ops)
    : first_(first) {
  begins_.reserve(static_cast<std::size_t>(count));
  slots_.reserve(static_cast<std::size_t>(count) + 1);
  slots_.push_back(0);
  schedule::Schedule schedule;
  std::vector<ProgramOp> ops;
  for (int i = 0; i < count; ++i) {
    schedule.clear();
    build(first + i, schedule);
    translate(schedule, model, ops);
    total_ops_ += ops.size();
    if (total_ops_ > max_ops) throw TooLarge("too many steps");
    begins_.push_back(keep(ops));
    slots_.push_back(slots_.back() + schedule.slots);
  }
}

void Program::translate(const schedule::Schedule& schedule, const Model& model, std::vector<ProgramOp>& out) const {
  out.clear();
  for (const schedule::Step& step : schedule.steps) {
    switch (step.kind) {
      case schedule::StepKind::put: out.push_back(op(ProgramOpKind::put, step.bytes, step.peer, step.slot)); break;
      case schedule::StepKind::wait: out.push_back(op(ProgramOpKind::wait, 0, step.peer, step.slot)); break;
      case schedule::StepKind::flush_local: out.push_back(op(ProgramOpKind::flush_local, 0)); break;
      default: {
        const auto cost = static_cast<std::uint64_t>(cost_of(step, model));
        if (!out.empty() && out.back().kind() == ProgramOpKind::work) {
          out.back().value += cost;
        } else {
          out.push_back(op(ProgramOpKind::work, cost));
        }
      }
    }
  }
}

std::span<const ProgramOp> Program::keep(const std::vector<ProgramOp>& ops) {
  if (ops.size() > chunk_left_) {
    chunk_left_ = std::max(chunk_ops, ops.size());
    chunks_.push_back(std::make_unique_for_overwrite<ProgramOp[]>(chunk_left_));
    chunk_next_ = chunks_.back().get();
  }
  ProgramOp* const begin = chunk_next_;
  std::copy(ops.begin(), ops.end(), begin);
  chunk_next_ += ops.size();
  chunk_left_ -= ops.size();
  return {begin, ops.size()};
}

}  // namespace hmc::sim
