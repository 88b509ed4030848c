// Measures the model's parameters between ranks of this machine: on a node, and between emulated nodes.
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <hmc/hmc.hpp>

#include "sim/options.hpp"

namespace hmc::sim {

namespace {

constexpr std::uint64_t largest = 1 << 20;
constexpr std::uint64_t ping = largest, pong = largest + 64;
constexpr int rounds = 201, large_rounds = 21, burst = 64;

double now_ns() {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The time on an undisturbed core: the 10th percentile.
double undisturbed(std::vector<double> values) {
  const auto tenth = values.begin() + static_cast<long>(values.size() / 10);
  std::nth_element(values.begin(), tenth, values.end());
  return *tenth;
}

/// Rank 0 and `peer` exchange signals. After each step both words have the current count.
class PingPong {
 public:
  PingPong(Runtime& runtime, Window& window, int peer) : runtime_(runtime), window_(window), peer_(peer) {}

  /// Returns half of the round-trip time, in ns.
  double one_way(std::uint64_t bytes, int times) {
    std::vector<double> samples;
    for (int i = 0; i < times; ++i) {
      const double start = now_ns();
      exchange(bytes, 1, nullptr);
      samples.push_back((now_ns() - start) / 2);
    }
    return undisturbed(samples);
  }

  /// The duration of the put_signal call at the origin.
  double overhead() {
    std::vector<double> samples;
    for (int i = 0; i < rounds; ++i) {
      double call = 0;
      exchange(8, 1, &call);
      samples.push_back(call);
    }
    return undisturbed(samples);
  }

  /// The time between the messages of a burst.
  double gap() {
    std::vector<double> one, many;
    for (int i = 0; i < rounds; ++i) {
      double start = now_ns();
      exchange(8, 1, nullptr);
      one.push_back(now_ns() - start);
      start = now_ns();
      exchange(8, burst, nullptr);
      many.push_back(now_ns() - start);
    }
    return std::max(0.0, undisturbed(many) - undisturbed(one)) / (burst - 1);
  }

 private:
  /// `count` messages in one direction, one signal back.
  void exchange(std::uint64_t bytes, int count, double* call) {
    sent_ += static_cast<std::uint64_t>(count);
    ++answered_;
    if (runtime_.rank() == 0) {
      for (int i = count - 1; i >= 0; --i) {
        const double start = call != nullptr ? now_ns() : 0;
        window_.put_signal(peer_, 0, source_.data(), bytes, ping, sent_ - static_cast<std::uint64_t>(i));
        if (call != nullptr) *call = now_ns() - start;
      }
      window_.wait_until(pong, Cmp::ge, answered_);
    } else {
      window_.wait_until(ping, Cmp::ge, sent_);
      window_.put_signal(0, 0, source_.data(), count > 1 ? 8 : bytes, pong, answered_);
    }
  }

  Runtime& runtime_;
  Window& window_;
  int peer_;
  std::uint64_t sent_ = 0, answered_ = 0;
  std::vector<std::byte> source_ = std::vector<std::byte>(largest, std::byte{1});
};

std::string measure_link(Runtime& runtime, const char* name, int peer) {
  Window window = Window::create(runtime.world(), largest + 128);
  std::string text;
  if (runtime.rank() == 0 || runtime.rank() == peer) {
    PingPong play(runtime, window, peer);
    play.one_way(8, rounds);  // connects, warms
    const double small = play.one_way(8, rounds), overhead = play.overhead(), gap = play.gap();
    const double middle = play.one_way(largest / 4, large_rounds), large = play.one_way(largest, large_rounds);
    const double per_byte = (large - middle) / (largest - largest / 4);
    // The model has one overhead for both sides: at most half of the one-way time.
    const double both = std::min(overhead, small / 2);
    const double latency = small - 2 * both;
    text = fmt::format("--{0}-L {1:.0f} --{0}-o {2:.0f} --{0}-g {3:.0f} --{0}-G {4:.4f}", name, latency, both, gap,
                       std::max(0.0, per_byte));
  }
  runtime.world().barrier();
  window.close();
  return text;
}

/// ns per byte of a copy and of a float sum, on blocks of 1 MiB.
std::string measure_work() {
  std::vector<float> a(largest / 4, 1.5F), b(largest / 4, 0.25F);
  std::vector<double> copies, sums;
  for (int i = 0; i < large_rounds; ++i) {
    double start = now_ns();
    std::memcpy(b.data(), a.data(), largest);
    copies.push_back(now_ns() - start);
    start = now_ns();
    for (std::size_t k = 0; k < a.size(); ++k) b[k] += a[k];
    sums.push_back(now_ns() - start);
    a[static_cast<std::size_t>(i)] += b[static_cast<std::size_t>(i)];  // prevents the compiler from removing a round
  }
  return fmt::format("--copy {:.4f} --reduce {:.4f}", undisturbed(copies) / largest, undisturbed(sums) / largest);
}

/// Starts two ranks of this program on `nodes` emulated nodes. More ranks would share the measured cores.
int run_pair(const char* nodes) {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string hmcrun = (self.parent_path() / "hmcrun").string();
  // Binds ranks to cores: two ranks on one core would wait for the scheduler.
  const char* const words[] = {hmcrun.c_str(), "-np",  "2",          "--nodes",   nodes,
                               "--bind-to",    "core", self.c_str(), "--measure", nullptr};
  pid_t child = 0;
  if (::posix_spawn(&child, words[0], nullptr, nullptr, const_cast<char* const*>(words), environ) != 0)
    throw std::runtime_error("can't start " + hmcrun);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace

int measure(const SimOptions&) {
  Runtime runtime = Runtime::init();
  if (runtime.size() == 1) {
    runtime.close();
    const int failed = run_pair("1");
    return failed != 0 ? failed : run_pair("2");
  }
  const bool far = runtime.node(1) != runtime.node(0);
  const std::string text = measure_link(runtime, far ? "network" : "node", 1);
  if (runtime.rank() == 0) fmt::print("{}{}\n", text, far ? "" : " " + measure_work());
  runtime.close();
  return std::fflush(stdout) == 0 ? 0 : 1;
}

}  // namespace hmc::sim
