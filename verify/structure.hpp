// What can be seen in the steps without following them: who raises and who awaits each slot, and bounds.
#pragma once

#include <memory>
#include <vector>

#include "verify/checker.hpp"

namespace hmc::verify {

/// What other ranks' steps are known to be over: for each rank, how many of its first steps.
using Clock = std::vector<std::uint32_t>;

/// One message, in the place of its slot at its receiver.
struct Message {
  static constexpr std::uint32_t none = 0xffffffffU;
  std::uint32_t sender = none;
  std::uint32_t put_step = none;
  std::uint32_t wait_step = none;
  bool raised = false;
  std::shared_ptr<const Clock> clock;  ///< what the sender knew when it put
};
/// messages[receiver][slot]
using Messages = std::vector<std::vector<Message>>;

/// Sizes of one rank's buffers, by schedule::Buffer.
struct Sizes {
  std::uint64_t bytes[3];
};

/// Throws Counterexample.
Messages match_messages(const std::vector<schedule::Schedule>& schedules);
/// Throws Counterexample.
void check_bounds(const Case& subject, const std::vector<schedule::Schedule>& schedules);

}  // namespace hmc::verify
