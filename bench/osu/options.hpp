// A program's specification, and its command line.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace bench {

/// Iterations and warm-up for sizes up to large_above, and above it.
struct Iterations {
  int small;
  int small_warmup;
  int large;
  int large_warmup;
};
inline constexpr std::size_t large_above = 8192;
inline constexpr Iterations collective_iterations{1000, 100, 100, 10};
inline constexpr Iterations latency_iterations{10000, 100, 1000, 10};
inline constexpr Iterations bandwidth_iterations{100, 10, 20, 2};

/// The flags of a program.
enum Flags : unsigned {
  timing_flags = 1,      // -i -x -f -z -c
  size_flag = 2,         // -m
  data_flags = 4,        // -b --fresh
  window_size_flag = 8,  // -W
  in_place_flag = 16,    // -l
  overlap_flag = 32,     // non-blocking: no flag, but other columns
};

struct Spec {
  std::string name{};   // hmc_allreduce
  std::string title{};  // Allreduce Latency Test
  unsigned flags = 0;
  Iterations iterations = collective_iterations;
  std::size_t max_bytes = 1 << 20;
  int min_ranks = 1;
  std::vector<std::string> dtypes{};      // values of -t; the first is the default. Empty: there is no -t
  std::vector<std::string> operations{};  // the same for -o
};

enum class Place { window, private_memory };
enum class Format { text, json, csv };

struct Options {
  std::size_t min_bytes = 1;
  std::size_t max_bytes = 0;
  std::optional<int> iterations;
  std::optional<int> warmup;
  bool full = false;
  bool validate = false;
  bool tail = false;
  int window_size = 64;
  bool in_place = false;
  Place place = Place::window;
  std::string dtype;
  std::string operation;
  bool fresh = false;
  Format format = Format::text;
  std::optional<std::size_t> corrupt_bytes;  // for the self-test: data of this size is spoiled before the check

  /// Every iteration writes its input and reads its result.
  bool touches() const { return validate || fresh; }
};

/// Either options, or a text to print and an exit code.
struct CommandLine {
  Options options;
  bool ends = false;
  int exit_code = 0;
  std::string out;
  std::string err;
};

CommandLine parse(const Spec& spec, int argc, char** argv);

struct Repeats {
  int count;
  int warmup;
};
Repeats repeats_for(const Spec& spec, const Options& options, std::size_t bytes);

/// Sizes from min to max, doubling; whole elements of `element` bytes, at least one.
std::vector<std::size_t> sizes_of(const Options& options, std::size_t element = 1);

}  // namespace bench
