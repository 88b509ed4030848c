#include "bench/osu/kit/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

namespace bench {

using namespace std::chrono_literals;

Progress::Progress(bool speaks) : on_(speaks && isatty(STDERR_FILENO) == 1), next_(Clock::now() + 500ms) {}

void Progress::begin(std::string what) {
  what_ = std::move(what);
  tick(0, 1);
}

void Progress::show(int done, int of) {
  const Clock::time_point now = Clock::now();
  if (now < next_) return;
  next_ = now + 200ms;
  shown_ = true;
  fmt::print(stderr, "\r{}: {} %\033[K", what_, static_cast<long>(done) * 100 / of);
  std::fflush(stderr);
}

void Progress::clear() {
  if (!shown_) return;
  shown_ = false;
  fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
}

}  // namespace bench
