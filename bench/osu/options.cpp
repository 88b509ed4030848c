#include "bench/osu/options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <hmc/version.hpp>
#include <map>
#include <sstream>

namespace bench {
namespace {

std::size_t read_bytes(const std::string& text) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value == 0)
    throw CLI::ValidationError("-m", "'" + text + "' isn't a size in bytes");
  return value;
}

// MAX, MIN:MAX, MIN: or :MAX, as in OSU.
void read_sizes(const std::string& text, Options& options) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) {
    options.max_bytes = read_bytes(text);
  } else {
    if (colon > 0) options.min_bytes = read_bytes(text.substr(0, colon));
    if (colon + 1 < text.size()) options.max_bytes = read_bytes(text.substr(colon + 1));
  }
  if (options.min_bytes > options.max_bytes) throw CLI::ValidationError("-m", "MIN is above MAX in '" + text + "'");
}

void add_timing_flags(CLI::App& app, Options& options) {
  app.add_option("-i,--iterations", options.iterations, "Timed iterations per size")->check(CLI::PositiveNumber);
  app.add_option("-x,--warmup", options.warmup, "Iterations before the timed ones")->check(CLI::NonNegativeNumber);
  app.add_flag("-f,--full", options.full, "Also minimum, maximum, iterations; for collectives also bandwidths");
  app.add_flag("-c,--validation", options.validate, "Check every result; adds a column with Pass or Fail");
  app.add_flag("-z,--tail-lat", options.tail, "Also the 50th, 90th and 99th percentile of the iterations");
  // For tests that a wrong result is detected: spoils data of this size before the check.
  app.add_option("--corrupt", options.corrupt_bytes)->group("");
}

void add_data_flags(CLI::App& app, Options& options) {
  static const std::map<std::string, Place> places{{"window", Place::window}, {"private", Place::private_memory}};
  app.add_option("-b,--buffers", options.place, "Memory of this rank's buffers: window (default) or private")
      ->transform(CLI::CheckedTransformer(places))
      ->type_name("window|private")
      ->option_text("window|private");
  app.add_flag(
      "--fresh", options.fresh,
      "Every iteration writes its input and reads its result: outside the timer, and inside as an extra column");
}

void add_word(CLI::App& app, const std::string& flags, std::string& value, const std::vector<std::string>& words,
              const std::string& what) {
  if (words.empty()) return;
  value = words.front();
  app.add_option(flags, value, what)->check(CLI::IsMember(words))->capture_default_str();
}

void add_flags(CLI::App& app, const Spec& spec, Options& options) {
  if (spec.flags & size_flag) {
    app.add_option_function<std::string>(
           "-m,--message-size", [&options](const std::string& text) { read_sizes(text, options); },
           "Bytes: MAX, MIN:MAX, MIN: or :MAX")
        ->type_name("[MIN:]MAX");
  }
  if (spec.flags & timing_flags) add_timing_flags(app, options);
  if (spec.flags & window_size_flag)
    app.add_option("-W,--window-size", options.window_size, "Transfers before each completion")
        ->check(CLI::Range(1, 1 << 16))
        ->capture_default_str();
  if (spec.flags & in_place_flag) app.add_flag("-l,--in-place", options.in_place, "Input and output are one buffer");
  if (spec.flags & data_flags) add_data_flags(app, options);
  add_word(app, "-t,--dtype", options.dtype, spec.dtypes, "Element type");
  add_word(app, "-o,--operation", options.operation, spec.operations, "Operation on the elements");
  const auto as = [&options](Format format) { return [&options, format](std::int64_t) { options.format = format; }; };
  auto* const json = app.add_flag_function("--json", as(Format::json), "One JSON object instead of columns");
  app.add_flag_function("--csv", as(Format::csv), "Comma-separated values instead of columns")->excludes(json);
}

}  // namespace

CommandLine parse(const Spec& spec, int argc, char** argv) {
  CommandLine line;
  line.options.max_bytes = spec.max_bytes;
  CLI::App app("HMC " + spec.title + "; ranks and nodes come from hmcrun", spec.name);
  app.set_version_flag("-v,--version", "HMC " + spec.title + " v" HMC_VERSION_STRING);
  add_flags(app, spec, line.options);
  try {
    app.parse(argc, argv);
    if (line.options.corrupt_bytes && !line.options.touches())
      throw CLI::ValidationError("--corrupt", "needs -c or --fresh");
  } catch (const CLI::ParseError& error) {
    std::ostringstream out;
    std::ostringstream err;
    line.ends = true;
    line.exit_code = app.exit(error, out, err) == 0 ? 0 : 2;
    line.out = out.str();
    line.err = err.str();
  }
  return line;
}

Repeats repeats_for(const Spec& spec, const Options& options, std::size_t bytes) {
  const Iterations& rule = spec.iterations;
  const bool large = bytes > large_above;
  return {options.iterations.value_or(large ? rule.large : rule.small),
          options.warmup.value_or(large ? rule.large_warmup : rule.small_warmup)};
}

std::vector<std::size_t> sizes_of(const Options& options, std::size_t element) {
  std::vector<std::size_t> sizes;
  std::size_t bytes = std::max(options.min_bytes / element, std::size_t{1}) * element;
  sizes.push_back(bytes);  // one element, even if that is more than max
  for (; bytes <= options.max_bytes / 2; bytes *= 2) sizes.push_back(bytes * 2);
  return sizes;
}

}  // namespace bench
