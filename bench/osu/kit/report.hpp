// What a program prints: OSU's columns, JSON, or comma-separated values.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "bench/osu/kit/options.hpp"

namespace bench {

/// OSU's columns. Parsers split at blanks; the widths are for people.
inline constexpr int size_width = 10;
inline constexpr int value_width = 20;
inline constexpr int count_width = 12;

struct Column {
  std::string title{};  // as OSU's: "Avg Latency(us)"
  std::string key{};    // in JSON and CSV: "avg_us"
  int width = value_width;
  bool left = false;
  bool in_text = true;  // else in JSON and CSV only: OSU has no such column
};

/// Nothing is a number that may not be printed: "-", null, or an empty field.
using Cell = std::variant<std::monostate, double, std::uint64_t, std::string>;

/// Only the report of rank 0 speaks. Lines come as they are known, except that JSON comes at the end.
class Report {
 public:
  Report(const Spec& spec, Format format, bool speaks, std::FILE* out = stdout);

  /// A comment line "# Wire: shm".
  void note(const std::string& title, const std::string& key, const std::string& value);
  /// A comment line of another form, in text only.
  void remark(const std::string& line);
  /// A whole line that isn't part of a table, in text only.
  void line(const std::string& line);
  /// A named value outside the table, in JSON and CSV only.
  void value(const std::string& key, Cell value);
  void columns(std::vector<Column> columns);
  void row(const std::vector<Cell>& cells);
  void finish();

 private:
  std::vector<std::string> csv_facts(bool keys) const;
  void print_row(const std::vector<Cell>& cells);
  void say(const std::string& text);

  Format format_;
  bool speaks_;
  std::FILE* out_;
  std::string name_;
  std::string title_;
  std::vector<std::pair<std::string, std::string>> notes_;
  std::vector<std::pair<std::string, Cell>> values_;
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace bench
