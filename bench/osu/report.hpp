// A program's output: OSU's columns, JSON, or comma-separated values; and the progress of a long run on a terminal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "bench/osu/options.hpp"

namespace bench {

/// OSU's columns. Parsers split at blanks; the widths are for readers.
inline constexpr int size_width = 10;
inline constexpr int value_width = 20;
inline constexpr int count_width = 12;

/// std::monostate is a number that must not be printed: "-", null, or an empty field.
using Value = std::variant<std::monostate, double, std::uint64_t, std::string>;

/// A column and its value in one row.
struct Field {
  std::string title{};  // as in OSU: "Avg Latency(us)"
  std::string key{};    // in JSON and CSV: "avg_us"
  Value value{};
  int width = value_width;
  bool left = false;
  bool in_text = true;  // false: in JSON and CSV only, since OSU has no such column
};
using Row = std::vector<Field>;

/// Only rank 0 prints. Lines are printed as soon as they are known; JSON is printed at the end.
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
  void value(const std::string& key, Value value);
  /// The header of a table whose rows have these fields.
  void columns(const Row& row);
  void row(Row row);
  void finish();

 private:
  void print(const Row& row, bool titles);
  std::vector<std::string> csv_facts(bool keys) const;
  void say(const std::string& text);

  Format format_;
  bool speaks_;
  std::FILE* out_;
  std::string name_;
  std::string title_;
  std::vector<std::pair<std::string, std::string>> notes_;
  std::vector<std::pair<std::string, Value>> values_;
  bool has_table_ = false;
  std::vector<Row> rows_;
};

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
  void show(int done, int of);

  bool on_;
  bool shown_ = false;
  std::string what_;
  std::int64_t next_ns_;
};

}  // namespace bench
