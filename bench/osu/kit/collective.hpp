// The loop of every collective's program.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "bench/osu/kit/session.hpp"

namespace bench {

/// A collective at one size. `write` and `read` are only called when data are touched (-c, --fresh).
struct CollectiveCase {
  std::function<void()> call;
  std::function<void(int iteration)> write = [](int) {};               // this rank's input
  std::function<bool(int iteration)> read = [](int) { return true; };  // is this rank's result right?
  std::function<void()> spoil = [] {};                                 // this rank's result, for --corrupt
  bool lines_up = true;        // a barrier between write and call; not where the call is what is to be seen waiting
  double algorithm_bytes = 0;  // what algorithm bandwidth counts: the size of the whole result
  double bus_factor = 0;       // bus bandwidth = factor * algorithm bandwidth
};

/// A row per size. OSU's rules: a barrier after each call, outside the timer; average over the ranks;
/// minimum and maximum over the per-rank means. Collective.
void measure_collective(Session& session, const std::vector<std::size_t>& sizes,
                        const std::function<CollectiveCase(std::size_t bytes)>& make);

/// The same for a collective without sizes: only the figures.
void measure_collective(Session& session, const CollectiveCase& the_case);

}  // namespace bench
