// hmc_floor: compares HMC with the bare loops, in one run of the same ranks, interleaved. Each row has a limit.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <random>

#include <hmc/hmc.hpp>

#include "bench/compare/floor.hpp"
#include "bench/compare/limit.hpp"

namespace {

using bench::allowed_cpus;
using bench::Limit;
using bench::median_of;
using bench::now_ns;
using bench::ns_since;
using bench::Setup;
using bench::floor::Board;
using bench::floor::Floor;

constexpr std::size_t kib = 1024;
constexpr std::size_t mib = 1024 * kib;
constexpr std::size_t largest = 16 * mib;
constexpr double longest_row_ns = 4e9;

struct Options {
  int ranks = 2;
  int rounds = 51;
  bool fresh = false;
  bool check = false;
  std::string filter;
};

/// Performs an operation `times` times. Called on every rank with the same number.
using Loop = std::function<void(int times)>;

struct Row {
  std::string name;
  Loop bare;
  Loop hmc;
  int times = 1;  ///< per round
  Limit limit;
  Loop before = {};  ///< untimed, before each timed call (then a round times single calls)
};

/// The shared memory of the bare loops. It is created before fork().
struct Boards {
  explicit Boards(const Options& options) {
    small_setup.ranks = options.ranks;
    // None if the ranks outnumber the CPUs.
    if (std::vector<int> cpus = allowed_cpus(); cpus.size() >= static_cast<std::size_t>(options.ranks))
      small_setup.cpus.assign(cpus.begin(), cpus.begin() + options.ranks);
    small.emplace(small_setup, options.ranks);
    if (options.ranks != 2) return;
    large_setup = small_setup;
    large_setup.cells = {{bench::Operation::allreduce, largest}};
    private_buffers.emplace(large_setup, 2);
    window_buffers.emplace(large_setup, 2);
  }

  Setup small_setup, large_setup;
  std::optional<Board> small, private_buffers, window_buffers;
};

std::string size_name(std::size_t bytes) {
  return bytes < mib ? std::to_string(bytes / kib) + " KiB" : std::to_string(bytes / mib) + " MiB";
}

float* floats(std::byte* bytes) { return reinterpret_cast<float*>(bytes); }

class Rows {
 public:
  Rows(const Options& options, Boards& boards, Floor& small, int rank, hmc::Runtime& runtime)
      : options_(options), rank_(rank), small_(small), world_(runtime.world()) {
    if (options.ranks != 2) return;
    private_.emplace(*boards.private_buffers, rank, boards.large_setup);
    boards.large_setup.window_buffers = true;
    shared_.emplace(*boards.window_buffers, rank, boards.large_setup);
    win_.emplace(hmc::Window::create(world_, 2 * largest));
    for (float* const input : {floats(private_->source()), floats(shared_->source()), win_->local<float>()})
      std::fill_n(input, largest / sizeof(float), 1.0F);
  }

  std::vector<Row> all() {
    if (options_.ranks == 2) {
      add_put_of_a_word();
      add_copies(4 * kib, 0, Limit::extra_ns(10));  // all data in the nearest cache: measures the call itself
      for (const std::size_t bytes : {4 * kib, 64 * kib, mib, 4 * mib})
        add_copies(bytes, largest, Limit::ratio(1 / 0.95));
    }
    if (options_.ranks == 2) add_ping_pong();
    const int small_times = times_for(options_.ranks == 2 ? 200 : 5000);
    add(
        "barrier", [this] { small_.barrier(); }, [this] { world_.barrier(); }, small_times, Limit::ratio(1.5));
    add(
        "allreduce 8 B", [this] { small_.allreduce(8); },
        [this] {
          const float mine[2] = {1, 2};
          float sum[2];
          world_.allreduce(mine, sum, 2, hmc::DType::f32, hmc::sum);
        },
        small_times, Limit::ratio(2));
    if (options_.ranks == 2) {
      for (const std::size_t bytes : {64 * kib, mib, 4 * mib, largest})
        add_allreduce(", windows", bytes, *shared_, win_->local<float>(), win_->local<float>(largest));
      for (const std::size_t bytes : {64 * kib, mib, 4 * mib, largest})
        add_allreduce(", private", bytes, *private_, floats(private_->source()), floats(private_->result()));
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

  template <typename Call> static Loop repeat(Call call) {
    return [call](int times) {
      for (int i = 0; i < times; ++i) call();
    };
  }
  template <typename Bare, typename Hmc>
  void add(const std::string& name, Bare bare, Hmc hmc, int times, const Limit& limit) {
    rows_.push_back({name, repeat(bare), repeat(hmc), times, limit});
  }

  /// Only rank 0 moves bytes; its peer waits in the barrier around.
  Loop on_rank_0(Loop loop) const {
    return rank_ == 0 ? std::move(loop) : Loop([](int) {});
  }

  void add_put_of_a_word() {
    auto* const there = reinterpret_cast<volatile std::uint64_t*>(win_->ptr(1));
    rows_.push_back({"put 8 B", on_rank_0([there](int times) {
                       for (int i = 0; i < times; ++i) there[i & 63] = static_cast<std::uint64_t>(i);
                     }),
                     on_rank_0([this](int times) {
                       for (int i = 0; i < times; ++i) {
                         const auto word = static_cast<std::uint64_t>(i);
                         win_->put(1, static_cast<std::uint64_t>(i & 63) * 8, &word, 8);
                       }
                     }),
                     50'000, Limit::extra_ns(10)});
  }

  /// Half a round trip is half of this row. Bare: a ring of 64 lines per direction; a line has a number and 8 bytes.
  void add_ping_pong() {
    struct Slot {
      std::atomic_ref<std::uint64_t> number;
      std::uint64_t* value;
      Slot(std::byte* ring, std::uint64_t n)
          : number(*reinterpret_cast<std::uint64_t*>(ring + (n & 63) * 64)),
            value(reinterpret_cast<std::uint64_t*>(ring + (n & 63) * 64 + 8)) {}
    };
    std::byte* const theirs = win_->ptr(1 - rank_);
    std::byte* const mine = win_->data();
    std::fill_n(mine, 64 * 64, std::byte{});
    world_.barrier();
    const auto sent = std::make_shared<std::uint64_t>(0), received = std::make_shared<std::uint64_t>(0);
    const auto send = [=] {
      const Slot slot(theirs, ++*sent);
      *slot.value = *sent;
      slot.number.store(*sent, std::memory_order_release);
    };
    const auto recv = [=] {
      const Slot slot(mine, ++*received);
      while (slot.number.load(std::memory_order_acquire) != *received) bench::floor::relax();
      asm volatile("" : : "r"(*slot.value) : "memory");
    };
    const int rank = rank_;
    add(
        "ping-pong 8 B",
        [=] {
          if (rank == 0) send();
          recv();
          if (rank == 1) send();
        },
        [this, peer = 1 - rank_] {
          std::uint64_t word = 7;
          if (rank_ == 0) world_.send_bytes(&word, 8, peer, 1);
          world_.recv_bytes(&word, 8, peer, 1);
          if (rank_ == 1) world_.send_bytes(&word, 8, peer, 1);
        },
        times_for(300), Limit::ratio(1.3));
  }

  /// Both use the same memory, so that only the call differs. `area` > bytes: each copy goes to the next position in
  /// it, so that the target's lines aren't always in the origin's nearest cache.
  void add_copies(std::size_t bytes, std::size_t area, const Limit& limit) {
    std::byte* const theirs = win_->ptr(1);
    std::byte* const mine = private_->source();
    const int times = times_for_bytes(bytes);
    const std::string name = size_name(bytes) + (area > bytes ? ", moving" : "");
    const auto each = [this, bytes, area](auto copy) {
      return on_rank_0([=](int n) {
        std::size_t place = 0;
        for (int i = 0; i < n; ++i) {
          copy(place);
          place = place + 2 * bytes <= area ? place + bytes : 0;
        }
      });
    };
    rows_.push_back({"put " + name, each([=](std::size_t place) { std::memcpy(theirs + place, mine, bytes); }),
                     each([=, this](std::size_t place) { win_->put(1, place, mine, bytes); }), times, limit});
    rows_.push_back({"get " + name, each([=](std::size_t place) { std::memcpy(mine, theirs + place, bytes); }),
                     each([=, this](std::size_t place) { win_->get(1, place, mine, bytes); }), times, limit});
  }

  /// With --fresh, each call has new inputs, and the time includes reading its result.
  void add_allreduce(const char* where, std::size_t bytes, Floor& floor, float* in, float* out) {
    const std::size_t count = bytes / sizeof(float);
    const bool fresh = options_.fresh;
    add(
        "allreduce " + size_name(bytes) + where,
        [=, &floor] {
          floor.allreduce(bytes);
          if (fresh) read(floats(floor.result()), count);
        },
        [=, this] {
          world_.allreduce(in, out, count, hmc::DType::f32, hmc::sum);
          if (fresh) read(out, count);
        },
        times_for_bytes(bytes), Limit::ratio(1.3));
    if (!fresh) return;
    rows_.back().before = [=, &floor](int call) {
      for (float* const input : {in, floats(floor.source())}) std::fill_n(input, count, static_cast<float>(call));
    };
  }

  static void read(const float* data, std::size_t count) {
    float sums[16] = {};
    for (std::size_t i = 0; i + 16 <= count; i += 16)
      for (std::size_t k = 0; k < 16; ++k) sums[k] += data[i + k];
    asm volatile("" : : "r"(sums) : "memory");  // the compiler can't drop the sums
  }

  const Options& options_;
  int rank_;
  Floor& small_;
  hmc::Team& world_;
  std::optional<Floor> private_, shared_;  // allreduces of private buffers, and of buffers that the peer reaches
  std::optional<hmc::Window> win_;
  std::vector<Row> rows_;
};

/// Measures rows and prints them. The bare loops synchronize the ranks, so that HMC isn't measured with its own
/// barrier.
class Table {
 public:
  Table(Floor& floor, int rounds) : floor_(floor), rounds_(rounds) {}

  /// Returns the number of rows that miss their limit (on rank 0).
  int measure(const std::vector<Row>& rows) {
    if (floor_.rank() == 0)
      std::printf("| %-27s | %10s | %10s | %6s | %6s | %s\n", "median of rounds", "bare", "HMC", "ratio", "quiet",
                  "limit");
    int missed = 0;
    for (const Row& row : rows) {
      std::vector<double> bare, hmc;
      const std::int64_t start = now_ns();
      for (int round = -1; round < rounds_; ++round) {  // the first one warms up
        // On a busy machine fewer rounds are made; rank 0's clock decides for all.
        if (round > 4 && from_rank_0(ns_since(start)) > longest_row_ns) break;
        double ns[2];
        for (const int which : {round & 1, ~round & 1}) ns[which] = time(row, which == 0 ? row.bare : row.hmc);
        if (round < 0) continue;
        bare.push_back(ns[0]);
        hmc.push_back(ns[1]);
      }
      if (floor_.rank() == 0 && !print(row, bare, hmc)) ++missed;
    }
    return missed;
  }

 private:
  double from_rank_0(double value) {
    std::memcpy(floor_.source(), &value, sizeof value);
    floor_.broadcast(sizeof value);
    std::memcpy(&value, floor_.source(), sizeof value);
    return value;
  }
  /// The time of the slowest rank. All ranks get the same value.
  double slowest(double mine) {
    std::memcpy(floor_.source(), &mine, sizeof mine);
    floor_.allgather(sizeof mine);
    const auto* const all = reinterpret_cast<const double*>(floor_.result());
    return *std::max_element(all, all + floor_.size());
  }

  /// Nanoseconds per call.
  double time(const Row& row, const Loop& loop) {
    if (!row.before) {
      loop(std::max(1, row.times / 10));  // warm
      floor_.barrier();
      const std::int64_t start = now_ns();
      loop(row.times);
      return slowest(ns_since(start) / row.times);
    }
    std::vector<double> calls;
    for (int i = 0; i < row.times + 1; ++i) {
      row.before(i);
      floor_.barrier();
      const std::int64_t start = now_ns();
      loop(1);
      if (i > 0) calls.push_back(ns_since(start));
    }
    floor_.barrier();
    return slowest(median_of(std::move(calls)));
  }

  static std::string show(double ns) {
    char text[32];
    std::snprintf(text, sizeof text, ns < 1000 ? "%.1f ns" : "%.2f us", ns < 1000 ? ns : ns / 1000);
    return text;
  }

  /// True if the limit is met.
  static bool print(const Row& row, const std::vector<double>& bare, const std::vector<double>& hmc) {
    const bench::Verdict verdict(row.limit, bare, hmc);
    // Of the quiet rounds: the ratio without the effect of other work on the machine.
    const double quiet = bench::quantile_of(hmc, 0.1) / bench::quantile_of(bare, 0.1);
    std::printf("| %-27s | %10s | %10s | %6.2f | %6.2f | %s\n", row.name.c_str(), show(median_of(bare)).c_str(),
                show(median_of(hmc)).c_str(), verdict.ratio, quiet, verdict.text.c_str());
    std::fflush(stdout);
    return verdict.kept;
  }

  Floor& floor_;
  int rounds_;
};

int run_rank(const Options& options, Boards& boards, int rank) {
  ::setenv("HMC_RANK", std::to_string(rank).c_str(), 1);
  Floor floor(*boards.small, rank, boards.small_setup);
  hmc::Runtime runtime = hmc::Runtime::init();
  Rows rows(options, boards, floor, rank, runtime);
  const std::vector<Row> all = rows.all();
  if (rank == 0)
    std::printf("%d ranks%s, %d rounds, %s\n\n", options.ranks, boards.small_setup.cpus.empty() ? "" : " pinned",
                options.rounds,
                options.fresh ? "inputs written before and results read inside each call" : "back to back");
  floor.barrier();
  const int missed = Table(floor, options.rounds).measure(all);
  rows.close();
  runtime.close();
  return options.check && missed > 0 ? 1 : 0;
}

/// Sets the variables that hmcrun would set, so that the ranks join one job.
void set_job_environment(int ranks) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (::bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    throw std::runtime_error("hmc_floor: no free port on 127.0.0.1");
  ::close(listener);
  std::random_device random;
  std::string secret;
  while (secret.size() < 64) secret += "0123456789abcdef"[random() % 16];
  ::setenv("HMC_SIZE", std::to_string(ranks).c_str(), 1);
  ::setenv("HMC_STORE", ("127.0.0.1:" + std::to_string(ntohs(address.sin_port))).c_str(), 1);
  ::setenv("HMC_SECRET", secret.c_str(), 1);
}

}  // namespace

int main(int argc, char** argv) try {
  Options options;
  CLI::App app("Compares HMC with bare loops over shared memory; ratios of interleaved rounds");
  app.add_option("-n,--np", options.ranks, "ranks; above 2 only barrier and 8-byte allreduce")
      ->check(CLI::Range(2, bench::floor::most_ranks));
  app.add_option("--rounds", options.rounds, "rounds per row")->check(CLI::Range(1, 1000));
  app.add_option("--filter", options.filter, "only rows whose name contains this");
  app.add_flag("--fresh", options.fresh, "large allreduces with new inputs, and their results read");
  app.add_flag("--check", options.check, "exit with 1 if a limit is missed");
  CLI11_PARSE(app, argc, argv);
  Boards boards(options);
  set_job_environment(options.ranks);
  return bench::run_ranks(options.ranks, boards.small_setup.cpus,
                          [&](int rank) { return run_rank(options, boards, rank); });
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
