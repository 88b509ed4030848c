// The loops of every collective's program.
#pragma once

#include <cstddef>
#include <functional>
#include <hmc/request.hpp>
#include <vector>

#include "bench/osu/kit/session.hpp"

namespace bench {

/// A collective at one size: `call`, or `begin` of a non-blocking one. `write` and `read` are called in every iteration
/// when data are touched (-c, --fresh); `data` differs from iteration to iteration and is the same on every rank.
struct CollectiveCase {
  std::function<void()> call;
  std::function<hmc::Request()> begin;
  std::function<void(int data)> write;  // this rank's input
  std::function<bool(int data)> read;   // is this rank's result right?
  std::function<void()> spoil;          // --corrupt: flips a bit of this rank's result
  int spoils_on = 0;                    // the rank that does; it has a result
  bool lines_up = true;        // a barrier between write and call; not where the call is what is to be seen waiting
  double algorithm_bytes = 0;  // what algorithm bandwidth counts: the size of the whole result
  double bus_factor = 0;       // bus bandwidth = factor * algorithm bandwidth
};

/// A row per size. OSU's rules: a barrier after each call, outside the timer; average over the ranks; minimum and
/// maximum over the per-rank means. Non-blocking: first the communication alone, then beside as much computation.
/// Collective.
void measure_collective(Session& session, const std::vector<std::size_t>& sizes,
                        const std::function<CollectiveCase(std::size_t bytes)>& make);

/// The same for a collective without sizes: only the figures.
void measure_collective(Session& session, const CollectiveCase& the_case);

}  // namespace bench
