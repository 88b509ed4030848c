#include "bench/osu/report.hpp"

#include <fmt/format.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <utility>

#include <hmc/version.hpp>

#include "bench/kit/figures.hpp"

namespace bench {

namespace {

std::string quoted(const std::string& word) {
  if (word.find_first_of(",\"\n") == std::string::npos) return word;
  std::string out = "\"";
  for (const char c : word) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + '"';
}

// OSU prints two decimals; JSON and CSV have all digits.
struct AsWord {
  bool csv;
  std::string operator()(std::monostate) const { return csv ? "" : "-"; }
  std::string operator()(double number) const { return fmt::format("{:.{}f}", number, csv ? 4 : 2); }
  std::string operator()(std::uint64_t number) const { return fmt::format("{}", number); }
  std::string operator()(const std::string& word) const { return csv ? quoted(word) : word; }
};

nlohmann::ordered_json as_json(const Value& value) {
  if (std::holds_alternative<std::monostate>(value)) return nullptr;
  if (const auto* const number = std::get_if<double>(&value)) return *number;
  if (const auto* const whole = std::get_if<std::uint64_t>(&value)) return *whole;
  return std::get<std::string>(value);
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

void Report::value(const std::string& key, Value value) { values_.emplace_back(key, std::move(value)); }

// The fields of a CSV line that describe its run, since one file may have lines of several runs.
std::vector<std::string> Report::csv_facts(bool keys) const {
  std::vector<std::string> words;
  for (const auto& [key, value] : values_) words.push_back(keys ? key : std::visit(AsWord{true}, value));
  for (const auto& note : notes_) {  // a value replaces the note with the same key
    const bool known =
        std::any_of(values_.begin(), values_.end(), [&](const auto& value) { return value.first == note.first; });
    if (!known) words.push_back(keys ? note.first : quoted(note.second));
  }
  return words;
}

void Report::columns(const Row& row) {
  has_table_ = true;
  if (format_ != Format::json) print(row, true);
}

void Report::row(Row row) {
  if (format_ != Format::json) print(row, false);
  rows_.push_back(std::move(row));
}

void Report::print(const Row& row, bool titles) {
  const bool csv = format_ == Format::csv;
  std::vector<std::string> words;
  for (const Field& field : row) {
    if (!csv && !field.in_text) continue;
    const std::string word = titles ? (csv ? field.key : field.title) : std::visit(AsWord{csv}, field.value);
    words.push_back(csv          ? word
                    : field.left ? fmt::format("{:<{}}", word, field.width)
                                 : fmt::format("{:>{}}", word, field.width));
  }
  if (csv) {
    for (std::string& word : csv_facts(titles)) words.push_back(std::move(word));
  }
  say(joined(words, format_));
}

void Report::finish() {
  if (format_ == Format::csv && !has_table_) say(joined(csv_facts(true), format_) + joined(csv_facts(false), format_));
  if (format_ != Format::json) return;
  nlohmann::ordered_json object{{"program", name_}, {"title", title_}, {"version", HMC_VERSION_STRING}};
  for (const auto& [key, value] : notes_) object[key] = value;
  for (const auto& [key, value] : values_) object[key] = as_json(value);
  if (has_table_) object["rows"] = nlohmann::ordered_json::array();
  for (const Row& row : rows_) {
    nlohmann::ordered_json fields;
    for (const Field& field : row) fields[field.key] = as_json(field.value);
    object["rows"].push_back(std::move(fields));
  }
  say(object.dump(2) + "\n");
}

Progress::Progress(bool speaks) : on_(speaks && isatty(STDERR_FILENO) == 1), next_ns_(now_ns() + 500'000'000) {}

void Progress::begin(std::string what) {
  what_ = std::move(what);
  tick(0, 1);
}

void Progress::show(int done, int of) {
  const std::int64_t now = now_ns();
  if (now < next_ns_) return;
  next_ns_ = now + 200'000'000;
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
