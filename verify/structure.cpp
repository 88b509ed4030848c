#include "verify/structure.hpp"

namespace hmc::verify {
namespace {

using schedule::Schedule;
using schedule::Step;
using schedule::StepBuffer;
using schedule::StepKind;
using Schedules = std::vector<Schedule>;

class BoundsChecker {
 public:
  BoundsChecker(const Case& subject, const Schedules& schedules) : subject_(subject), schedules_(schedules) {}

  void check_rank(int rank) {
    rank_ = rank;
    const schedule::Call call = subject_.call_of(rank);
    element_ = call.element_bytes;
    deterministic_ = call.deterministic && reduces(call.collective);
    const Schedule& mine = schedules_[static_cast<std::size_t>(rank)];
    sizes_ = {
        {input_bytes(subject_.shape(), call, rank), output_bytes(subject_.shape(), call, rank), mine.scratch_bytes}};
    for (step_ = 0; step_ < mine.steps.size(); ++step_) check_step(mine.steps[step_]);
  }

 private:
  [[noreturn]] void reject(std::string what) const { throw Counterexample{rank_, static_cast<long>(step_), what}; }

  void check_range(StepBuffer buffer, std::uint64_t at, std::uint64_t bytes, std::uint64_t size,
                   const char* what) const {
    if (bytes > size || at > size - bytes)
      reject(std::string(what) + " beyond the end of " +
             (buffer == StepBuffer::input    ? "the input"
              : buffer == StepBuffer::output ? "the output"
                                             : "the scratch") +
             ", which has " + std::to_string(size) + " B");
  }
  void check_own(StepBuffer buffer, std::uint64_t at, std::uint64_t bytes, const char* what) const {
    check_range(buffer, at, bytes, sizes_.bytes[static_cast<int>(buffer)], what);
  }
  void check_written(const Step& step) const {
    if (step.to_buffer == StepBuffer::input) reject("writes to the input");
    check_own(step.to_buffer, step.to, step.bytes, "writes");
  }
  /// Whole elements, at addresses that the kernels' loads may use. Which elements: the checker compares positions.
  void check_elements(const Step& step) const {
    const std::uint64_t alignment = element_ & (~element_ + 1);
    if (step.bytes % element_ != 0) reject("cuts an element");
    if (step.to % alignment != 0 || (step.kind != StepKind::scale && step.from % alignment != 0))
      reject("isn't aligned");
    if (step.kind == StepKind::fold && step.stride() % alignment != 0) reject("isn't aligned");
  }

  void check_step(const Step& step) const {
    switch (step.kind) {
      case StepKind::put: check_put(step); break;
      case StepKind::wait:
      case StepKind::flush_local: break;  // match_messages has checked these
      case StepKind::copy:
        check_own(step.from_buffer, step.from, step.bytes, "reads");
        check_written(step);
        break;
      case StepKind::get: check_get(step); break;
      case StepKind::reduce:
        if (deterministic_) reject("rounds by parts: only fold is deterministic");
        check_own(step.from_buffer, step.from, step.bytes, "reads");
        check_written(step);
        check_elements(step);
        break;
      case StepKind::fold: check_fold(step); break;
      case StepKind::scale:
        check_written(step);
        check_elements(step);
        break;
    }
  }

  void check_put(const Step& step) const {
    if (static_cast<int>(step.peer) == rank_) reject("puts to itself");
    if (step.to_buffer != StepBuffer::scratch) reject("puts to memory other than scratch");
    if (step.bytes == 0) return;
    check_own(step.from_buffer, step.from, step.bytes, "reads");
    check_range(StepBuffer::scratch, step.to, step.bytes, schedules_[step.peer].scratch_bytes, "puts");
  }

  void check_get(const Step& step) const {
    if (!subject_.shape().shares_memory) reject("gets from a rank that shares no memory");
    if (step.peer >= schedules_.size()) reject("no such peer");
    if (static_cast<int>(step.peer) == rank_) reject("gets from itself");
    if (step.from_buffer != StepBuffer::scratch) reject("gets from memory other than scratch");
    check_range(StepBuffer::scratch, step.from, step.bytes, schedules_[step.peer].scratch_bytes, "gets");
    check_written(step);
  }

  void check_fold(const Step& step) const {
    if (step.inputs == 0) reject("folds nothing");
    const std::uint64_t stride = step.stride();
    const std::uint64_t size = sizes_.bytes[static_cast<int>(step.from_buffer)];
    if (step.inputs > 1 && stride > size / (step.inputs - 1)) reject("reads beyond the end of its buffer");
    check_own(step.from_buffer, step.from, stride * (step.inputs - 1) + step.bytes, "reads");
    check_written(step);
    check_elements(step);
  }

  const Case& subject_;
  const Schedules& schedules_;
  int rank_ = 0;
  std::size_t step_ = 0;
  std::uint64_t element_ = 1;
  bool deterministic_ = false;
  BufferSizes sizes_{};
};

void note_put(MatchedMessages& messages, const Step& step, std::uint32_t rank, std::uint32_t index) {
  const auto reject = [&](const std::string& what) { throw Counterexample{static_cast<int>(rank), index, what}; };
  if (step.peer >= messages.size()) reject("no such peer");
  if (step.slot >= messages[step.peer].size())
    reject("rank " + std::to_string(step.peer) + " has no slot " + std::to_string(step.slot));
  MatchedMessage& message = messages[step.peer][step.slot];
  if (message.sender != MatchedMessage::none)
    reject("rank " + std::to_string(message.sender) + " raises this slot too, in its step " +
           std::to_string(message.put_step));
  message.sender = rank;
  message.put_step = index;
}

void note_wait(MatchedMessages& messages, const Step& step, std::uint32_t rank, std::uint32_t index) {
  const auto reject = [&](const char* what) { throw Counterexample{static_cast<int>(rank), index, what}; };
  if (step.slot >= messages[rank].size()) reject("no such slot");
  MatchedMessage& message = messages[rank][step.slot];
  if (message.wait_step != MatchedMessage::none) reject("waits for this slot a second time");
  message.wait_step = index;
}

}  // namespace

MatchedMessages match_messages(const Schedules& schedules) {
  MatchedMessages messages(schedules.size());
  for (std::size_t r = 0; r < schedules.size(); ++r) messages[r].resize(schedules[r].slots);
  for (std::uint32_t r = 0; r < schedules.size(); ++r)
    for (std::uint32_t i = 0; i < schedules[r].steps.size(); ++i) {
      const Step& step = schedules[r].steps[i];
      if (step.kind == StepKind::put) note_put(messages, step, r, i);
      if (step.kind == StepKind::wait) note_wait(messages, step, r, i);
    }
  for (std::uint32_t r = 0; r < schedules.size(); ++r)
    for (std::uint32_t slot = 0; slot < messages[r].size(); ++slot) {
      const MatchedMessage& message = messages[r][slot];
      if (message.sender == MatchedMessage::none && message.wait_step == MatchedMessage::none)
        continue;  // an unused slot
      const auto reject = [&](std::uint32_t rank, std::uint32_t step, const std::string& what) {
        throw Counterexample{static_cast<int>(rank), step, what};
      };
      if (message.sender == MatchedMessage::none) reject(r, message.wait_step, "waits for a slot that no rank raises");
      if (message.wait_step == MatchedMessage::none)
        reject(message.sender, message.put_step,
               "rank " + std::to_string(r) + " never waits for slot " + std::to_string(slot));
      const Step& wait = schedules[r].steps[message.wait_step];
      if (wait.peer != message.sender)
        reject(r, message.wait_step, "the slot is raised by rank " + std::to_string(message.sender));
    }
  return messages;
}

void check_bounds(const Case& subject, const Schedules& schedules) {
  BoundsChecker bounds(subject, schedules);
  for (int rank = 0; rank < subject.shape().size; ++rank) bounds.check_rank(rank);
}

}  // namespace hmc::verify
