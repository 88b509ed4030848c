// Checks that don't follow the execution: the sender and the receiver of each slot, and bounds.
#pragma once

#include <memory>
#include <vector>

#include "verify/checker.hpp"

namespace hmc::verify {

/// Vector clock: for each rank, the number of its completed steps that are known.
using VectorClock = std::vector<std::uint32_t>;

/// One message, indexed by its slot at its receiver.
struct MatchedMessage {
  static constexpr std::uint32_t none = 0xffffffffU;
  std::uint32_t sender = none;
  std::uint32_t put_step = none;
  std::uint32_t wait_step = none;
  bool raised = false;
  std::shared_ptr<const VectorClock> clock;  ///< the sender's at the put
};
/// messages[receiver][slot]
using MatchedMessages = std::vector<std::vector<MatchedMessage>>;

/// The sizes of one rank's buffers, indexed by schedule::StepBuffer.
struct BufferSizes {
  std::uint64_t bytes[3];
};

/// Throws Counterexample.
MatchedMessages match_messages(const std::vector<schedule::Schedule>& schedules);
/// Throws Counterexample.
void check_bounds(const Case& subject, const std::vector<schedule::Schedule>& schedules);

}  // namespace hmc::verify
