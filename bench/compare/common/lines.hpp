// Rank 0's output: one JSON object per line.
#pragma once

#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>

#include "setup.hpp"

namespace compare {

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
