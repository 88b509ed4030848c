#include "collectives/execute/arrivals.hpp"

#include <algorithm>

namespace hmc::collectives {

using schedule::Buffer;
using schedule::Kind;
using schedule::Step;

namespace {

/// Below this a landing costs more than the copy.
constexpr std::uint64_t shortest_bytes = 32 * 1024;
/// More aren't kept, since each message looks through those that are open; nor looked at, since each is held against
/// all steps.
constexpr std::size_t most = 16;
constexpr int most_looked_at = 64;

bool overlap(std::uint64_t a, std::uint64_t a_bytes, std::uint64_t b, std::uint64_t b_bytes) noexcept {
  return a < b + b_bytes && b < a + a_bytes;
}

std::uint64_t bytes_read(const Step& step) noexcept {
  return step.kind == Kind::fold && step.ways > 0 ? (step.ways - 1) * step.stride() + step.bytes : step.bytes;
}

bool reads(const Step& step) noexcept {
  return step.kind == Kind::put || step.kind == Kind::copy || step.kind == Kind::reduce || step.kind == Kind::fold;
}
/// Memory of this rank: a put writes to its peer's.
bool writes(const Step& step) noexcept {
  return step.kind == Kind::copy || step.kind == Kind::reduce || step.kind == Kind::fold || step.kind == Kind::scale;
}

/// Whether a step has to do with that range of a buffer.
bool touches(const Step& step, Buffer buffer, std::uint64_t at, std::uint64_t bytes) noexcept {
  if (step.bytes == 0) return false;
  return (reads(step) && step.from_buffer == buffer && overlap(step.from, bytes_read(step), at, bytes)) ||
         (writes(step) && step.to_buffer == buffer && overlap(step.to, step.bytes, at, bytes));
}

}  // namespace

void find_arrivals(const schedule::Schedule& schedule, bool in_place, std::vector<Arrival>& arrivals) {
  arrivals.clear();
  const std::vector<Step>& steps = schedule.steps;
  // In place the input lies somewhere in the output: who reads the one can't have the other filled early.
  const auto reads_input = [](const Step& step) {
    return reads(step) && step.bytes > 0 && step.from_buffer == Buffer::input;
  };
  if (in_place && std::ranges::any_of(steps, reads_input)) return;
  int looked_at = 0;
  for (std::size_t i = 0; i < steps.size() && arrivals.size() < most && looked_at < most_looked_at; ++i) {
    const Step& copy = steps[i];
    if (copy.kind != Kind::copy || copy.from_buffer != Buffer::scratch || copy.to_buffer != Buffer::output ||
        copy.bytes < shortest_bytes)
      continue;
    ++looked_at;
    const auto is_in_the_way = [&](const Step& step) {
      return &step != &copy && (touches(step, Buffer::scratch, copy.from, copy.bytes) ||
                                touches(step, Buffer::output, copy.to, copy.bytes));
    };
    if (std::ranges::none_of(steps, is_in_the_way)) arrivals.push_back({i, copy.from, copy.to, copy.bytes});
  }
}

}  // namespace hmc::collectives
