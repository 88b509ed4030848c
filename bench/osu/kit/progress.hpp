// The progress of a long run, shown on a terminal.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace bench {

/// One line on stderr that is rewritten in place. Silent unless `speaks` and stderr is a terminal, and for the first
/// moments, so that a short run shows nothing. Called only outside the timed sections.
class Progress {
 public:
  explicit Progress(bool speaks);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  bool on() const { return on_; }
  void begin(std::string what);
  void tick(int done, int of) {
    if (on_) show(done, of);
  }
  /// Clears the line before a line is printed on stdout, which may be the same terminal.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  void show(int done, int of);

  bool on_;
  bool shown_ = false;
  std::string what_;
  Clock::time_point next_;
};

}  // namespace bench
