// The loops of every collective's program.
#pragma once

#include <cstddef>
#include <functional>
#include <hmc/request.hpp>
#include <vector>

#include "bench/osu/kit/session.hpp"

namespace bench {

/// A collective at one size: `call`, or `begin` of a non-blocking one. With -c or --fresh, `write` and `read` are
/// called in every iteration; `data` differs between iterations and is the same on every rank.
struct CollectiveCase {
  std::function<void()> call;
  std::function<hmc::Request()> begin;
  std::function<void(int data)> write;  // this rank's input
  std::function<bool(int data)> read;   // whether this rank's result is right
  std::function<void()> spoil;          // --corrupt: flips a bit of this rank's result
  int spoils_on = 0;                    // the rank of `spoil`, which has a result
  bool lines_up = true;                 // a barrier between write and call; not if the test is that the call waits
  double algorithm_bytes = 0;           // for the algorithm bandwidth: the size of the whole result
  double bus_factor = 0;                // bus bandwidth = factor * algorithm bandwidth
};

/// A row per size. OSU's rules: a barrier after each call, outside the timer; average over the ranks; minimum and
/// maximum over the per-rank means. Non-blocking: first the communication alone, then with as much computation.
/// Collective.
void measure_collective(Session& session, const std::vector<std::size_t>& sizes,
                        const std::function<CollectiveCase(std::size_t bytes)>& make);

/// The same for a collective without sizes: one row.
void measure_collective(Session& session, const CollectiveCase& the_case);

}  // namespace bench
