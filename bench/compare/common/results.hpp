// A rank's results, computed from the times of its passes, and rank 0's output: one JSON object per line.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "setup.hpp"

namespace compare {

struct Times {
  std::vector<double> call_ns;  // of each pass, for one call of its batch
  std::vector<double> read_ns;  // of each pass, if this rank has a result to read
  long long loopback_bytes = 0;
};

inline double mean_of(const std::vector<double>& values) {
  return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

inline double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// One rank's times of a cell, in ns: of the call, of reading the result, and of both in one pass.
enum Figure : std::size_t { mean, p50, read_mean, read_p50, both_p50, figure_count };
using Figures = std::array<double, figure_count>;

inline Figures figures_of(const Times& times) {
  std::vector<double> both = times.call_ns;
  for (std::size_t i = 0; i < std::min(both.size(), times.read_ns.size()); ++i) both[i] += times.read_ns[i];
  return {mean_of(times.call_ns), median_of(times.call_ns), mean_of(times.read_ns), median_of(times.read_ns),
          median_of(both)};
}

class Lines {
 public:
  /// An empty path: standard output.
  explicit Lines(const std::string& path) : file_(path.empty() ? stdout : std::fopen(path.c_str(), "w")) {
    if (file_ == nullptr) throw std::runtime_error("can't write " + path);
  }
  ~Lines() {
    if (file_ != stdout) std::fclose(file_);
  }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;

  void begin(std::string_view contestant, int ranks) {
    std::fprintf(file_, "{\"contestant\": %s, \"np\": %d", quoted(contestant).c_str(), ranks);
  }
  void begin(std::string_view contestant, int ranks, const Cell& cell) {
    begin(contestant, ranks);
    text("op", name_of(cell.operation));
    whole("bytes", static_cast<long long>(cell.bytes));
  }
  void text(const char* key, std::string_view value) {
    std::fprintf(file_, ", \"%s\": %s", key, quoted(value).c_str());
  }
  void raw(const char* key, std::string_view json) {
    std::fprintf(file_, ", \"%s\": %.*s", key, static_cast<int>(json.size()), json.data());
  }
  void number(const char* key, double value) { std::fprintf(file_, ", \"%s\": %.4f", key, value); }
  void whole(const char* key, long long value) { std::fprintf(file_, ", \"%s\": %lld", key, value); }
  // Flushed, so that the lines of a contestant that dies later are kept.
  void end() {
    std::fputs("}\n", file_);
    std::fflush(file_);
  }

 private:
  static std::string quoted(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
      if (c == '"' || c == '\\') out += '\\';
      out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
    return out + '"';
  }

  std::FILE* file_;
};

}  // namespace compare
