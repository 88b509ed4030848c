// Steps as text, for counterexamples.
#include "verify/checker.hpp"

namespace hmc::verify {

using schedule::Step;
using schedule::StepKind;

std::string text_of(const Step& step) {
  constexpr const char* buffers[] = {"input", "output", "scratch"};
  const std::string from = std::string(buffers[static_cast<int>(step.from_buffer)]) + "+" + std::to_string(step.from);
  const std::string to = std::string(buffers[static_cast<int>(step.to_buffer)]) + "+" + std::to_string(step.to);
  const std::string bytes = std::to_string(step.bytes) + " B";
  const std::string peer = "rank " + std::to_string(step.peer), slot = "slot " + std::to_string(step.slot);
  switch (step.kind) {
    case StepKind::put: return "put " + bytes + " of " + from + " to " + to + " of " + peer + ", " + slot;
    case StepKind::wait: return "wait for " + slot + " by " + peer;
    case StepKind::flush_local: return "flush_local";
    case StepKind::copy: return "copy " + bytes + " of " + from + " to " + to;
    case StepKind::reduce:
      return "reduce " + bytes + ": " + to + " = " + (step.reversed ? from + " op " + to : to + " op " + from);
    case StepKind::fold:
      return "fold " + bytes + " of " + std::to_string(step.inputs) + " at " + from + ", stride " +
             std::to_string(step.stride()) + ", to " + to;
    case StepKind::scale: return "scale " + bytes + " of " + to;
  }
  return "?";
}

}  // namespace hmc::verify
