// What rank 0 of a compared program prints: one JSON object per line.
#pragma once

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "bench/kit/ranks.hpp"

namespace bench {

/// A rank's first CPU and the number of its CPUs.
inline std::array<double, 2> own_place() {
  const std::vector<int> cpus = allowed_cpus();
  return {cpus.empty() ? 0 : static_cast<double>(cpus.front()), static_cast<double>(cpus.size())};
}

/// Bytes received by `lo` since boot, which shows whether data crossed it. 0 if /proc doesn't have it.
inline long long loopback_bytes() {
  std::ifstream file("/proc/net/dev");
  for (std::string line; std::getline(file, line);) {
    const std::size_t at = line.find("lo:");
    if (at != std::string::npos) return std::atoll(line.c_str() + at + 3);
  }
  return 0;
}

class Lines {
 public:
  /// `path`: of the file; empty: standard output. `contestant` and `ranks` begin every line.
  Lines(const std::string& path, std::string_view contestant, int ranks)
      : contestant_(quoted(contestant)), ranks_(ranks), file_(path.empty() ? stdout : std::fopen(path.c_str(), "w")) {
    if (file_ == nullptr) throw std::runtime_error("can't write " + path);
  }
  ~Lines() {
    if (file_ != stdout) std::fclose(file_);
  }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;

  void begin() { std::fprintf(file_, "{\"contestant\": %s, \"np\": %d", contestant_.c_str(), ranks_); }
  void begin(std::string_view operation, std::size_t bytes) {
    begin();
    text("op", operation);
    whole("bytes", static_cast<long long>(bytes));
  }
  /// The first line; not ended. `places`: of all ranks, one after the other.
  template <typename Contestant> void describe(const Contestant& contestant, const std::vector<double>& places) {
    begin();
    text("version", contestant.version());
    text("settings", contestant.settings());
    std::fputs(", \"cpus\": [", file_);
    for (std::size_t i = 0; i + 1 < places.size(); i += 2)
      std::fprintf(file_, "%s[%d, %d]", i == 0 ? "" : ", ", static_cast<int>(places[i]),
                   static_cast<int>(places[i + 1]));
    std::fputs("]", file_);
  }
  void text(const char* key, std::string_view value) {
    std::fprintf(file_, ", \"%s\": %s", key, quoted(value).c_str());
  }
  void number(const std::string& key, double value) { std::fprintf(file_, ", \"%s\": %.4f", key.c_str(), value); }
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

  std::string contestant_;
  int ranks_;
  std::FILE* file_;
};

}  // namespace bench
