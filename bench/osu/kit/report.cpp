#include "bench/osu/kit/report.hpp"

#include <fmt/format.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <utility>

#include <hmc/version.hpp>

namespace bench {

namespace {

// OSU prints two decimals; JSON and CSV have all digits.
struct AsText {
  std::string operator()(std::monostate) const { return "-"; }
  std::string operator()(double number) const { return fmt::format("{:.2f}", number); }
  std::string operator()(std::uint64_t number) const { return fmt::format("{}", number); }
  std::string operator()(const std::string& word) const { return word; }
};

std::string quoted(const std::string& word) {
  if (word.find_first_of(",\"\n") == std::string::npos) return word;
  std::string out = "\"";
  for (const char c : word) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + '"';
}

struct AsCsv {
  std::string operator()(std::monostate) const { return {}; }
  std::string operator()(double number) const { return fmt::format("{:.4f}", number); }
  std::string operator()(std::uint64_t number) const { return fmt::format("{}", number); }
  std::string operator()(const std::string& word) const { return quoted(word); }
};

struct AsJson {
  nlohmann::ordered_json operator()(std::monostate) const { return nullptr; }
  nlohmann::ordered_json operator()(double number) const { return number; }
  nlohmann::ordered_json operator()(std::uint64_t number) const { return number; }
  nlohmann::ordered_json operator()(const std::string& word) const { return word; }
};

std::string in_column(const Column& column, const std::string& text) {
  return column.left ? fmt::format("{:<{}}", text, column.width) : fmt::format("{:>{}}", text, column.width);
}

std::string joined(const std::vector<std::string>& words, Format format) {
  return fmt::format("{}\n", fmt::join(words, format == Format::csv ? "," : ""));
}

}  // namespace

Report::Report(const Spec& spec, Format format, bool speaks, std::FILE* out)
    : format_(format), speaks_(speaks), out_(out), name_(spec.name), title_(spec.title) {
  if (format_ == Format::text) say(fmt::format("# HMC {} v{}\n", title_, HMC_VERSION_STRING));
}

void Report::say(const std::string& text) {
  if (!speaks_) return;
  std::fwrite(text.data(), 1, text.size(), out_);
  std::fflush(out_);
}

void Report::note(const std::string& title, const std::string& key, const std::string& value) {
  notes_.emplace_back(key, value);
  if (format_ == Format::text) say(fmt::format("# {}: {}\n", title, value));
}

void Report::remark(const std::string& line) {
  if (format_ == Format::text) say(fmt::format("# {}\n", line));
}

void Report::line(const std::string& line) {
  if (format_ == Format::text) say(line + "\n");
}

void Report::value(const std::string& key, Cell value) { values_.emplace_back(key, std::move(value)); }

// The fields of a CSV line that describe its run, since one file may have lines of several runs.
std::vector<std::string> Report::csv_facts(bool keys) const {
  std::vector<std::string> words;
  for (const auto& [key, value] : values_) words.push_back(keys ? key : std::visit(AsCsv{}, value));
  for (const auto& note : notes_) {  // a value replaces the note with the same key
    const bool known =
        std::any_of(values_.begin(), values_.end(), [&](const auto& value) { return value.first == note.first; });
    if (!known) words.push_back(keys ? note.first : quoted(note.second));
  }
  return words;
}

void Report::columns(std::vector<Column> columns) {
  columns_ = std::move(columns);
  if (format_ == Format::json) return;
  const bool csv = format_ == Format::csv;
  std::vector<std::string> words;
  for (const Column& column : columns_) {
    if (csv || column.in_text) words.push_back(csv ? column.key : in_column(column, column.title));
  }
  if (csv) {
    for (std::string& key : csv_facts(true)) words.push_back(std::move(key));
  }
  say(joined(words, format_));
}

void Report::row(const std::vector<Cell>& cells) {
  rows_.push_back(cells);
  if (format_ != Format::json) print_row(cells);
}

void Report::print_row(const std::vector<Cell>& cells) {
  const bool csv = format_ == Format::csv;
  std::vector<std::string> words;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (csv)
      words.push_back(std::visit(AsCsv{}, cells[i]));
    else if (columns_[i].in_text)
      words.push_back(in_column(columns_[i], std::visit(AsText{}, cells[i])));
  }
  if (csv) {
    for (std::string& value : csv_facts(false)) words.push_back(std::move(value));
  }
  say(joined(words, format_));
}

void Report::finish() {
  if (format_ == Format::csv && columns_.empty())
    say(joined(csv_facts(true), format_) + joined(csv_facts(false), format_));
  if (format_ != Format::json) return;
  nlohmann::ordered_json object{{"program", name_}, {"title", title_}, {"version", HMC_VERSION_STRING}};
  for (const auto& [key, value] : notes_) object[key] = value;
  for (const auto& [key, value] : values_) object[key] = std::visit(AsJson{}, value);
  if (!columns_.empty()) object["rows"] = nlohmann::ordered_json::array();
  for (const std::vector<Cell>& cells : rows_) {
    nlohmann::ordered_json row;
    for (std::size_t i = 0; i < cells.size(); ++i) row[columns_[i].key] = std::visit(AsJson{}, cells[i]);
    object["rows"].push_back(std::move(row));
  }
  say(object.dump(2) + "\n");
}

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
