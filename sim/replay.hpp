// Replays the schedules of a whole team under a Model.
#pragma once

#include <cstdint>

#include "sim/model.hpp"
#include "sim/program.hpp"

namespace hmc::sim {

struct Prediction {
  Time time = 0;      ///< when the last rank is through, all having started at 0
  Time earliest = 0;  ///< when the first rank is through
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  std::uint64_t network_messages = 0;
  std::uint64_t network_bytes = 0;
  bool estimated = false;  ///< one node's ranks stood for all
};

struct Limits {
  std::uint64_t ops = 120'000'000;      ///< steps that are held at once: 16 bytes each
  std::uint64_t messages = 16'000'000;  ///< on their way at one time: 32 bytes each, and as much again while sorted
};

/// Every rank, every message. Throws TooLarge, or std::runtime_error where the schedules don't fit together (a wait
/// that nothing ends, two messages for one slot, a message that nobody waits for).
Prediction replay(const schedule::Shape& shape, const Builder& build, const Model& model, const Limits& limits = {});

/// For algorithms whose number of messages grows with the square of the team (rings, pairwise exchange), where
/// every node does what the others do: one node's ranks, whose messages to other nodes come back as the ones
/// that those nodes' likes would send. Throws std::runtime_error where nodes differ.
Prediction replay_one_node(const schedule::Shape& shape, const Builder& build, const Model& model,
                           const Limits& limits = {});

/// The first, or where it is too large the second; TooLarge where neither will do.
Prediction predict(const schedule::Shape& shape, const Builder& build, const Model& model, const Limits& limits = {});

}  // namespace hmc::sim
