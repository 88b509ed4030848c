// Replays the schedules of a whole team under a Model.
#pragma once

#include <cstdint>

#include "sim/model.hpp"
#include "sim/program.hpp"

namespace hmc::sim {

struct Prediction {
  Time time = 0;      ///< the end of the last rank; all ranks start at 0
  Time earliest = 0;  ///< the end of the first rank
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  std::uint64_t network_messages = 0;
  std::uint64_t network_bytes = 0;
  bool estimated = false;  ///< only one node's ranks were replayed
};

struct ReplayLimits {
  std::uint64_t ops = 120'000'000;      ///< steps in memory: 16 bytes each
  std::uint64_t messages = 16'000'000;  ///< in flight at one time: 32 bytes each, and as much again while sorted
};

/// Every rank, every message. Throws TooLarge, or std::runtime_error if the schedules don't match (a wait without a
/// message, two messages for one slot, a message without a wait).
Prediction replay(const schedule::Shape& shape, const ScheduleSource& build, const Model& model,
                  const ReplayLimits& limits = {});

/// Replays the ranks of one node, which represent all nodes. For algorithms whose number of messages grows with the
/// square of the team size (rings, pairwise exchange). A message to another node also represents the message that
/// this node receives from the corresponding rank. Throws std::runtime_error if nodes differ.
Prediction replay_one_node(const schedule::Shape& shape, const ScheduleSource& build, const Model& model,
                           const ReplayLimits& limits = {});

/// replay(), or if that is too large, the replay of one node. Throws TooLarge if neither is possible.
Prediction predict(const schedule::Shape& shape, const ScheduleSource& build, const Model& model,
                   const ReplayLimits& limits = {});

}  // namespace hmc::sim
