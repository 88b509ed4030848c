#include "collectives/measure.hpp"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "runtime/rma/operation_scope.hpp"
#include "runtime/rma/window_core.hpp"

namespace hmc::collectives {

using schedule::CostParameters;

namespace {

constexpr std::size_t large = 512 << 10, middle = 64 << 10;
constexpr std::uint64_t ping = large, pong = large + 64;
constexpr int small_rounds = 40, middle_rounds = 8, large_rounds = 4, bursts = 6, burst = 32;

double now_ns() {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Checks that this thread had a core since the object's creation. Polling uses the core's time; a wait so long that
/// the thread naps also counts as a shared core.
class CoreWatch {
 public:
  bool has_had_it() const {
    constexpr double most_of_it = 0.8;
    return cpu_ns() - cpu_ >= most_of_it * (now_ns() - start_);
  }

 private:
  static double cpu_ns() {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
  }
  double start_ = now_ns(), cpu_ = cpu_ns();
};

/// The time without disturbance: noise only adds.
double lower_quartile(std::vector<double>& values) {
  const auto quarter = values.begin() + static_cast<long>(values.size() / 4);
  std::nth_element(values.begin(), quarter, values.end());
  return *quarter;
}

/// Runs on rank 0 and on the partner.
class PingPong {
 public:
  PingPong(rma::WindowCore& window, int me, int partner)
      : window_(window), is_first_(me == 0), peer_(me == 0 ? partner : 0), source_(large, std::byte{1}) {}

  CostParameters play(CostParameters parameters) {
    const double call = exchanges(8, 1, small_rounds / 2).call;  // connects and warms up
    static_cast<void>(call);
    const CoreWatch watch;
    const Times small = exchanges(8, 1, small_rounds), many = exchanges(8, burst, bursts);
    const Times mid = exchanges(middle, 1, middle_rounds), whole = exchanges(large, 1, large_rounds);
    schedule::LinkCost& link = parameters.network;
    // The model has one overhead for both sides. If twice the sender's overhead exceeds the one-way time, it is half of
    // that time.
    link.overhead = std::min(small.call, small.way / 2);
    link.latency = small.way - 2 * link.overhead;
    link.gap = std::max(0.0, 2 * (many.way - small.way) / (burst - 1));
    link.per_byte = std::max(1e-3, (whole.way - mid.way) / static_cast<double>(large - middle));
    was_alone_ = watch.has_had_it();
    return parameters;
  }
  bool was_alone() const { return was_alone_; }

 private:
  struct Times {
    double way = 0;   ///< half of the round trip
    double call = 0;  ///< time that the sender spends in the call
  };

  Times exchanges(std::size_t bytes, int count, int rounds) {
    std::vector<double> ways, calls;
    for (int i = 0; i < rounds; ++i) {
      const double start = now_ns();
      double call = start;
      exchange(bytes, count, call);
      ways.push_back((now_ns() - start) / 2);
      calls.push_back(call);
    }
    return {lower_quartile(ways), lower_quartile(calls)};
  }

  /// `count` messages there, one of the same size back (after a burst: a short one).
  void exchange(std::size_t bytes, int count, double& call) {
    const std::uint64_t sent = sent_ += static_cast<std::uint64_t>(count);
    ++answered_;
    if (is_first_) {
      for (int i = count - 1; i >= 0; --i) {
        const double start = now_ns();
        window_.put_signal(peer_, 0, source_.data(), bytes, ping, sent - static_cast<std::uint64_t>(i));
        call = now_ns() - start;
      }
      window_.wait_until(pong, Cmp::ge, answered_, job_timeout);
    } else {
      window_.wait_until(ping, Cmp::ge, sent, job_timeout);
      window_.put_signal(peer_, 0, source_.data(), count > 1 ? 8 : bytes, pong, answered_);
    }
  }

  rma::WindowCore& window_;
  bool is_first_;
  bool was_alone_ = false;
  int peer_;
  std::uint64_t sent_ = 0, answered_ = 0;
  std::vector<std::byte> source_;
};

/// Measures a copy and a float sum outside a core's cache.
void measure_work(CostParameters& parameters) {
  constexpr std::size_t many = (256 << 10) / sizeof(float);
  std::vector<float> a(many, 1.5F), b(many, 0.25F);
  std::vector<double> copies, sums;
  for (std::size_t round = 0; round < 8; ++round) {
    double start = now_ns();
    std::memcpy(b.data(), a.data(), many * sizeof(float));
    copies.push_back(now_ns() - start);
    start = now_ns();
    for (std::size_t i = 0; i < many; ++i) b[i] += a[i];
    sums.push_back(now_ns() - start);
    a[round] += b[round];  // so that the compiler can't remove a round
  }
  parameters.copy = lower_quartile(copies) / static_cast<double>(many * sizeof(float));
  parameters.reduce = lower_quartile(sums) / static_cast<double>(many * sizeof(float));
  parameters.node.per_byte = parameters.copy;  // a put on the node is a copy
}

bool is_reasonable(const CostParameters& parameters) {
  const schedule::LinkCost& link = parameters.network;
  return link.latency + link.overhead < 5e6 && link.gap < 5e6 && link.per_byte < 100;
}

}  // namespace

std::optional<CostParameters> measure(rma::TeamCore& team, int partner, const CostParameters& builtin) {
  const auto window = rma::create_window(team, large + 128, rma::WindowCore::Role::internal);
  CostParameters mine = builtin;
  bool was_alone = true;
  if (team.rank() == 0 || team.rank() == partner) {
    PingPong game(*window, team.rank(), partner);
    mine = game.play(builtin);
    if (team.rank() == 0) measure_work(mine);  // the partner's values aren't used
    if (!is_reasonable(mine)) mine = builtin;
    was_alone = game.was_alone();
  }
  base::ByteWriter out;
  std::uint64_t words[sizeof(CostParameters) / 8];
  static_assert(sizeof(CostParameters) == sizeof words && std::is_trivially_copyable_v<CostParameters>);
  std::memcpy(words, &mine, sizeof words);
  out.number<std::uint64_t>(was_alone ? 1 : 0);
  for (const std::uint64_t word : words) out.number(word);
  const auto answers = rma::allgather_for(team.fabric(), team.exchange(), out.view(), team.fabric().deadline());
  base::ByteReader first(answers.front()), other(answers[static_cast<std::size_t>(partner)]);
  const bool were_alone = first.number<std::uint64_t>() == 1 && other.number<std::uint64_t>() == 1;
  for (std::uint64_t& word : words) word = first.number<std::uint64_t>();
  if (!first.complete()) throw Error(Code::refused, "Runtime::init", "rank 0 sent malformed parameters");
  std::memcpy(static_cast<void*>(&mine), words, sizeof words);
  window->close();
  return were_alone ? std::optional(mine) : std::nullopt;
}

}  // namespace hmc::collectives
