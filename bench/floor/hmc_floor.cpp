// hmc_floor: compares HMC with bare loops over shared memory, in one run, interleaved.
#include <sys/mman.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include <hmc/hmc.hpp>

#include "bench/floor/bare.hpp"
#include "bench/floor/ranks.hpp"
#include "bench/floor/table.hpp"

namespace {

using namespace hmc::floor;

constexpr std::size_t kib = 1024;
constexpr std::size_t mib = 1024 * kib;
constexpr std::size_t largest = 16 * mib;

struct Options {
  int ranks = 2;
  bool fresh = false;
  bool check = false;
  std::string filter;
  Settings settings;
};

std::string size_name(std::size_t bytes) {
  return bytes < mib ? std::to_string(bytes / kib) + " KiB" : std::to_string(bytes / mib) + " MiB";
}

/// Private memory.
float* private_memory(std::size_t bytes) {
  void* const memory = std::aligned_alloc(4096, bytes);
  std::memset(memory, 1, bytes);
  return static_cast<float*>(memory);
}

class Rows {
 public:
  Rows(const Options& options, Bare& bare, hmc::Runtime& runtime)
      : options_(options), bare_(bare), world_(runtime.world()) {
    if (options.ranks != 2) return;
    win_.emplace(hmc::Window::create(world_, 2 * largest));
    in_ = private_memory(largest);
    out_ = private_memory(largest);
  }

  std::vector<Row> all() {
    if (options_.ranks == 2) {
      add_put_of_a_word();
      add_copies(4 * kib, 0, Limit::extra_ns(10));  // all data in the nearest cache: measures the call itself
      for (const std::size_t bytes : {4 * kib, 64 * kib, mib, 4 * mib})
        add_copies(bytes, largest, Limit::ratio(1 / 0.95));
    }
    add_barrier();
    add_small_allreduce();
    if (options_.ranks == 2) {
      for (const std::size_t bytes : {64 * kib, mib, 4 * mib, largest}) add_window_allreduce(bytes);
      for (const std::size_t bytes : {64 * kib, mib, 4 * mib, largest}) add_private_allreduce(bytes);
    }
    std::erase_if(rows_, [&](const Row& row) { return row.name.find(options_.filter) == std::string::npos; });
    return std::move(rows_);
  }

  void close() {
    if (win_) win_->close();
  }

 private:
  /// About a millisecond per round, by an estimate of a call's time. On a busy machine many short rounds find more
  /// quiet moments than a few long ones.
  static int times_for(double ns) { return std::clamp(static_cast<int>(1e6 / ns), 2, 50'000); }
  static int times_for_bytes(std::size_t bytes) { return times_for(100 + static_cast<double>(bytes) / 10); }

  /// Only rank 0 moves bytes; its peer waits in the barrier around.
  Loop on_rank_0(Loop loop) const {
    return bare_.rank() == 0 ? std::move(loop) : Loop([](int) {});
  }

  void add_put_of_a_word() {
    auto* const there = reinterpret_cast<volatile std::uint64_t*>(bare_.window(1, Shared::window_in));
    rows_.push_back({"put 8 B",
                     {{"store", on_rank_0([there](int times) {
                         for (int i = 0; i < times; ++i) there[i & 63] = static_cast<std::uint64_t>(i);
                       })}},
                     on_rank_0([this](int times) {
                       for (int i = 0; i < times; ++i) {
                         const auto word = static_cast<std::uint64_t>(i);
                         win_->put(1, static_cast<std::uint64_t>(i & 63) * 8, &word, 8);
                       }
                     }),
                     50'000,
                     Limit::extra_ns(10)});
  }

  /// Both use the same memory, so that only the call differs. `area` > bytes: each copy goes to the next position in
  /// it, so that the target's lines aren't always in the origin's nearest cache.
  void add_copies(std::size_t bytes, std::size_t area, Limit limit) {
    std::byte* const theirs = win_->ptr(1);
    if (theirs == nullptr) return;
    const int times = times_for_bytes(bytes);
    const std::string where = area > bytes ? ", moving" : "";
    const auto each = [this, bytes, area](auto copy) {
      return on_rank_0([=](int n) {
        std::size_t place = 0;
        for (int i = 0; i < n; ++i) {
          copy(place);
          place = place + 2 * bytes <= area ? place + bytes : 0;
        }
      });
    };
    rows_.push_back({"put " + size_name(bytes) + where,
                     {{"memcpy", each([=, this](std::size_t place) { std::memcpy(theirs + place, in_, bytes); })}},
                     each([=, this](std::size_t place) { win_->put(1, place, in_, bytes); }),
                     times,
                     limit});
    rows_.push_back({"get " + size_name(bytes) + where,
                     {{"memcpy", each([=, this](std::size_t place) { std::memcpy(in_, theirs + place, bytes); })}},
                     each([=, this](std::size_t place) { win_->get(1, place, in_, bytes); }),
                     times,
                     limit});
  }

  void add_barrier() {
    rows_.push_back({"barrier",
                     {{"flags",
                       [this](int times) {
                         for (int i = 0; i < times; ++i) bare_.barrier();
                       }}},
                     [this](int times) {
                       for (int i = 0; i < times; ++i) world_.barrier();
                     },
                     times_for(options_.ranks == 2 ? 200 : 5000),
                     Limit::ratio(1.5)});
  }

  void add_small_allreduce() {
    rows_.push_back({"allreduce 8 B",
                     {{"flags with a value",
                       [this](int times) {
                         for (int i = 0; i < times; ++i) bare_.allreduce(i);
                       }}},
                     [this](int times) {
                       for (int i = 0; i < times; ++i) {
                         const double mine = i;
                         double sum = 0;
                         world_.allreduce(&mine, &sum, 1, hmc::DType::f64, hmc::sum);
                       }
                     },
                     times_for(options_.ranks == 2 ? 200 : 5000),
                     Limit::ratio(2)});
  }

  /// With --fresh, each call has new inputs, and the time includes reading its result.
  Loop before(std::vector<float*> inputs, std::size_t count) const {
    if (!options_.fresh) return {};
    return [inputs = std::move(inputs), count](int call) {
      for (float* const input : inputs) std::fill_n(input, count, static_cast<float>(call));
    };
  }
  Loop then_read(Loop loop, const float* result, std::size_t count) const {
    if (!options_.fresh) return loop;
    return [loop = std::move(loop), result, count](int times) {
      loop(times);
      sink() = consume(result, count);
    };
  }
  static volatile float& sink() {
    static volatile float value;
    return value;
  }

  void add_window_allreduce(std::size_t bytes) {
    const std::size_t count = bytes / sizeof(float);
    auto* const in = win_->local<float>();
    auto* const out = win_->local<float>(largest);
    float* const bare_in = bare_.window(bare_.rank(), Shared::window_in);
    float* const bare_out = bare_.window(bare_.rank(), Shared::window_out);
    Row row{"allreduce " + size_name(bytes) + ", windows", {}, {}, times_for_bytes(bytes), Limit::ratio(1.3)};
    const std::pair<const char*, Stores> forms[] = {{"slices to all", Stores::plain},
                                                    {"slices, streamed to the peer", Stores::stream_second},
                                                    {"slices, streamed to all", Stores::stream_both}};
    for (const auto& [name, stores] : forms) {
      row.bare.push_back({name, then_read(
                                    [=, this, how = stores](int n) {
                                      for (int i = 0; i < n; ++i) bare_.allreduce_window(count, how);
                                    },
                                    bare_out, count)});
    }
    row.hmc = then_read(
        [=, this](int n) {
          for (int i = 0; i < n; ++i) world_.allreduce(in, out, count, hmc::DType::f32, hmc::sum);
        },
        out, count);
    row.before = before({in, bare_in}, count);
    rows_.push_back(std::move(row));
  }

  void add_private_allreduce(std::size_t bytes) {
    const std::size_t count = bytes / sizeof(float);
    Row row{"allreduce " + size_name(bytes) + ", private", {}, {}, times_for_bytes(bytes), Limit::ratio(1.3)};
    const auto form = [&](const char* name, auto call) {
      row.bare.push_back({name, then_read(
                                    [=](int n) {
                                      for (int i = 0; i < n; ++i) call();
                                    },
                                    out_, count)});
    };
    form("halves in place, 512 KiB blocks", [=, this] { bare_.allreduce_in_place(in_, out_, count, 512 * kib); });
    form("halves in place, whole", [=, this] { bare_.allreduce_in_place(in_, out_, count, largest); });
    form("halves, two areas", [=, this] { bare_.allreduce_two_areas(in_, out_, count); });
    form("all of it, 64 KiB slots", [=, this] { bare_.allreduce_pipelined(in_, out_, count, 64 * kib, 4); });
    row.hmc = then_read(
        [=, this](int n) {
          for (int i = 0; i < n; ++i) world_.allreduce(in_, out_, count, hmc::DType::f32, hmc::sum);
        },
        out_, count);
    row.before = before({in_}, count);
    rows_.push_back(std::move(row));
  }

  const Options& options_;
  Bare& bare_;
  hmc::Team& world_;
  std::optional<hmc::Window> win_;
  float* in_ = nullptr;
  float* out_ = nullptr;
  std::vector<Row> rows_;
};

int be_rank(const Options& options, Shared* shared, int rank) {
  Bare bare(shared, rank);
  hmc::Runtime runtime = hmc::Runtime::init();
  Rows rows(options, bare, runtime);
  const std::vector<Row> all = rows.all();
  if (rank == 0)
    std::printf("%d ranks%s, kernels %s, %d rounds, %s\n\n", options.ranks, options.ranks == 2 ? " pinned" : "",
                kernels().isa, options.settings.rounds,
                options.fresh ? "inputs written before and results read inside each call" : "back to back");
  bare.barrier();
  const int missed = measure(bare, all, options.settings);
  rows.close();
  runtime.close();
  return options.check && missed > 0 ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Compares HMC with bare loops over shared memory; ratios of interleaved rounds");
  app.add_option("-n,--np", options.ranks, "ranks; above 2 only barrier and 8-byte allreduce")
      ->check(CLI::Range(2, max_ranks));
  app.add_option("--rounds", options.settings.rounds, "rounds per row")->check(CLI::Range(1, 1000));
  app.add_option("--filter", options.filter, "only rows whose name contains this");
  app.add_flag("--fresh", options.fresh, "large allreduces with new inputs, and their results read");
  app.add_flag("--all", options.settings.all, "print every bare form, not only the best");
  app.add_flag("--check", options.check, "exit with 1 if a limit is missed");
  CLI11_PARSE(app, argc, argv);
  Shared* const shared = Shared::create(options.ranks);
  return run_ranks(options.ranks, [&](int rank) { return be_rank(options, shared, rank); });
}
