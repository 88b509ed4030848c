// A random program from a seed: verbs, collectives, teams and windows. Every rank verifies its bytes. soak.py runs it.
//   --seed N, --set steps=N
//   --set victim=R        rank R fails in a step and between two calls that the seed chooses, so that a seed replays
//   its failure. It prints "rank R fails in step N" first.
//   --set how=kill|exit|stop|disconnect    SIGKILL; exit code 3; SIGSTOP for some time; one TCP connection is closed,
//   later if there is none yet. Connections have no order: a seed doesn't choose the same one again.
//   --set recover=1       on an error the ranks leave out those that died (shrink) and run another program; needs
//   hmcrun --keep-going. They print "recovered SIZE".
// On an error a rank prints "rank R code CODE peer P: TEXT" and exits with 0. Without an error it exits with 0, too.
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/multirank/random_verbs.hpp"
#include "tests/support/spmd.hpp"

namespace {

using namespace hmc::spmd;
using hmc::Request;
using hmc::Team;

using Value = std::int64_t;

/// Element `i` of the contribution of team rank `rank` to the collective number `call`.
Value contribution(std::uint64_t call, int rank, std::size_t i) {
  return static_cast<Value>((call * 31 + static_cast<std::uint64_t>(rank) * 7 + i * 3 + i / 1000) % 1000);
}

std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
}

struct TeamState {
  Team team;
  std::vector<std::unique_ptr<RandomVerbs>> windows;
};

/// Closes one TCP connection of this process. False: it has none.
bool disconnect_one(std::uint64_t random) {
  std::vector<int> found;
  for (int fd = 3; fd < 1024; ++fd) {
    sockaddr_storage peer{};
    socklen_t length = sizeof peer;
    // Accepted connections are AF_INET6 with an IPv4 peer, too.
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) == 0 &&
        (peer.ss_family == AF_INET || peer.ss_family == AF_INET6))
      found.push_back(fd);
  }
  return !found.empty() && ::shutdown(found[random % found.size()], SHUT_RDWR) == 0;
}

/// Stops this process, all its threads, and returns after it continues.
void stop_for(std::chrono::microseconds pause) {
  const pid_t self = ::getpid(), child = ::fork();
  if (child == 0) {
    ::kill(self, SIGSTOP);
    ::usleep(static_cast<useconds_t>(pause.count()));
    ::kill(self, SIGCONT);
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
}

/// The failure of a run's victim: in which step of the two programs it comes, and before which call of this step. A
/// step with fewer calls fails at its end.
class Failure {
 public:
  Failure() = default;
  Failure(int rank, std::string how, std::uint64_t seed, std::uint64_t steps) : rank_(rank), how_(std::move(how)) {
    std::mt19937_64 random(seed ^ 0x5eed);
    failing_step_ = 1 + random() % steps;
    calls_ = random() % 3 == 0 ? 0 : random() % 30;
    pause_ = std::chrono::milliseconds(random() % 300);
    choice_ = random();
  }

  void begin_step() {
    ++step_;
    before_call();
  }
  void before_call() {
    if (step_ == failing_step_ && calls_-- == 0) act();
  }
  void end_step() {
    if (step_ >= failing_step_) act();
  }

 private:
  void act() {
    if (how_.empty() || (how_ == "disconnect" && !disconnect_one(choice_))) return;
    std::printf("rank %d fails in step %llu\n", rank_, static_cast<unsigned long long>(step_));
    std::fflush(nullptr);
    if (how_ == "kill") ::kill(::getpid(), SIGKILL);
    if (how_ == "exit") std::_Exit(3);
    if (how_ == "stop") stop_for(pause_);
    how_.clear();
  }

  int rank_ = -1;
  std::string how_;  // empty: nothing is left to do
  std::uint64_t step_ = 0, failing_step_ = 0, calls_ = 0;
  std::chrono::milliseconds pause_{};
  std::uint64_t choice_ = 0;
};

/// All ranks draw the same steps. A rank that isn't a member of a step's team skips the step.
class RandomProgram {
 public:
  RandomProgram(hmc::Runtime& runtime, std::uint64_t seed, Failure& failure)
      : rank_(runtime.rank()),
        seed_(seed),
        failure_(failure),
        common_(seed),
        own_(seed * 1009 + static_cast<unsigned>(runtime.rank())) {
    teams_.push_back({runtime.world(), {}});
  }

  void run(std::uint64_t steps) {
    for (step_ = 0; step_ < steps; ++step_) {
      // A rank that enters late, or leaves the previous call late.
      if (own_() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(own_() % 2000));
      failure_.begin_step();
      step();
      failure_.end_step();
    }
    while (!teams_.empty()) close_team(teams_.size() - 1);
  }

 private:
  std::size_t below(std::size_t limit) { return common_() % limit; }

  void step() {
    const std::size_t which = below(100);
    const std::size_t at = below(teams_.size());
    TeamState& state = teams_[at];
    // Draw everything before the members act, so that the other ranks draw the same.
    const std::size_t kind = below(10), count = draw_count(), other = below(4);
    const auto root = static_cast<int>(below(16));
    if (which < 5) return create_team(state, other);
    if (which < 8) return at > 0 ? close_team(at) : void();
    if (which < 15) return open_or_close_window(state);
    if (which < 45) return verbs(state, other);
    if (state.team) collective(state.team, kind, count, root % state.team.size(), which >= 90);
  }

  std::size_t draw_count() {
    static constexpr std::size_t limits[] = {2, 10, 600, 10'000, 100'000};
    const std::size_t limit = limits[std::min(below(6), below(5))];
    return below(limit);
  }

  // ---- teams and windows. The lists have the same length on every rank; a non-member has empty entries.
  void create_team(TeamState& parent, std::size_t how) {
    if (teams_.size() >= 4) return;
    const std::uint64_t colours = common_();
    Team made;
    if (parent.team) {
      const int mine = parent.team.rank();
      const auto bit = static_cast<int>(colours >> (mine % 32) & 1);
      if (how == 0) made = parent.team.duplicate();
      if (how == 1) made = parent.team.split(bit, -mine);
      if (how == 2) made = parent.team.node_team();
      if (how == 3) {
        std::vector<int> ranks(static_cast<std::size_t>((parent.team.size() + 1) / 2));
        std::iota(ranks.rbegin(), ranks.rend(), 0);
        made = parent.team.subset(ranks);
      }
    }
    teams_.push_back({std::move(made), {}});
  }

  void close_team(std::size_t at) {
    TeamState& state = teams_[at];
    for (auto& window : state.windows)
      if (window) window->close();
    state.windows.clear();
    if (at > 0 && state.team) state.team.close();  // the Runtime closes the world
    teams_.erase(teams_.begin() + static_cast<std::ptrdiff_t>(at));
  }

  void open_or_close_window(TeamState& state) {
    const std::uint64_t seed = common_();
    if (state.windows.size() < 2) {
      state.windows.push_back(state.team ? std::make_unique<RandomVerbs>(state.team, seed) : nullptr);
    } else {
      if (state.windows.back()) state.windows.back()->close();
      state.windows.pop_back();
    }
  }

  void verbs(TeamState& state, std::size_t which) {
    if (state.windows.empty()) return;
    RandomVerbs* const window = state.windows[which % state.windows.size()].get();
    if (window != nullptr) window->epoch(step_, 1 + which * 20, [this] { failure_.before_call(); });
  }

  // ---- collectives
  void wait(Request request) {
    failure_.before_call();
    request.wait();
  }

  template <typename Expected>
  void verify(const std::vector<Value>& got, std::size_t count, const char* what, const Expected& expected) {
    for (std::size_t i = 0; i < count; ++i)
      if (got[i] != expected(i))
        fail_check(__FILE__, __LINE__,
                   fmt::format("{}: element {} of {} on rank {} is {} and not {} (seed {}, step {})", what, i, count,
                               rank_, got[i], expected(i), seed_, step_));
  }

  void collective(Team& team, std::size_t kind, std::size_t count, int root, bool started) {
    const int rank = team.rank(), size = team.size();
    const auto ranks = static_cast<std::size_t>(size);
    const std::size_t block = kind >= 6 ? count / ranks : count;  // kinds with one block per rank and buffer
    const std::uint64_t call = step_;
    const auto fill = [&](std::size_t length) {
      std::vector<Value> values(length);
      for (std::size_t i = 0; i < length; ++i) values[i] = contribution(call, rank, i);
      return values;
    };
    const auto sum_to = [&](int ranks_before, std::size_t i) {
      Value sum = 0;
      for (int each = 0; each < ranks_before; ++each) sum += contribution(call, each, i);
      return sum;
    };
    std::vector<Value> in, out;
    switch (kind) {
      case 0: return started ? wait(team.ibarrier()) : team.barrier();
      case 1:
        in = fill(count), out.resize(count);
        started ? wait(team.iallreduce(in, out, hmc::sum)) : team.allreduce(in, out, hmc::sum);
        return verify(out, count, "allreduce", [&](std::size_t i) { return sum_to(size, i); });
      case 2:
        out = fill(count);
        started ? wait(team.ibroadcast(out.data(), count * sizeof(Value), root))
                : team.broadcast(out.data(), count * sizeof(Value), root);
        return verify(out, count, "broadcast", [&](std::size_t i) { return contribution(call, root, i); });
      case 3:
        in = fill(count), out.resize(count);
        team.reduce(in, out, hmc::sum, root);
        if (rank == root) verify(out, count, "reduce", [&](std::size_t i) { return sum_to(size, i); });
        return;
      case 4:
        in = fill(count), out.resize(count);
        team.scan(in, out, hmc::sum);
        return verify(out, count, "scan", [&](std::size_t i) { return sum_to(rank + 1, i); });
      case 5:
        in = fill(count), out.resize(count);
        team.exscan(in, out, hmc::sum);
        if (rank > 0) verify(out, count, "exscan", [&](std::size_t i) { return sum_to(rank, i); });
        return;
      case 6:
        in = fill(block), out.resize(block * ranks);
        started ? wait(team.iallgather(in, out)) : team.allgather(in, out);
        return verify(out, block * ranks, "allgather",
                      [&](std::size_t i) { return contribution(call, static_cast<int>(i / block), i % block); });
      case 7:
        in = fill(block * ranks), out.resize(block * ranks);
        started ? wait(team.ialltoall(in, out)) : team.alltoall(in, out);
        return verify(out, block * ranks, "alltoall", [&](std::size_t i) {
          return contribution(call, static_cast<int>(i / block), static_cast<std::size_t>(rank) * block + i % block);
        });
      case 8:
        in = fill(block * ranks), out.resize(block);
        started ? wait(team.ireduce_scatter(in, out, hmc::sum)) : team.reduce_scatter(in, out, hmc::sum);
        return verify(out, block, "reduce_scatter",
                      [&](std::size_t i) { return sum_to(size, static_cast<std::size_t>(rank) * block + i); });
      default:
        in = fill(block), out.resize(block * ranks);
        team.gather(in, out, root);
        if (rank == root)
          verify(out, block * ranks, "gather",
                 [&](std::size_t i) { return contribution(call, static_cast<int>(i / block), i % block); });
        return;
    }
  }

  const int rank_;
  const std::uint64_t seed_;
  Failure& failure_;
  std::uint64_t step_ = 0;
  std::mt19937_64 common_;  // the same numbers on every rank
  std::mt19937_64 own_;
  std::vector<TeamState> teams_;
};

void recover(TestRank& me) {
  me.runtime->world().shrink();
  Failure none;
  RandomProgram(*me.runtime, me.options.seed + 1, none).run(100);
  std::printf("recovered %d\n", me.runtime->size());
  std::fflush(nullptr);
  me.runtime->close();
}

}  // namespace

HMC_SPMD_TEST(Soak, random_program_verifies_its_bytes) {
  const std::uint64_t seed = me.options.seed;
  const std::string how = me.options.setting("how", "none");
  const std::uint64_t steps = std::stoull(me.options.setting("steps", "400"));
  Failure failure;
  if (how != "none" && std::stoi(me.options.setting("victim", "0")) == me.rank)
    failure = Failure(me.rank, how, seed, 2 * steps);
  try {
    RandomProgram(*me.runtime, seed, failure).run(steps);
    // The world keeps its connections and its scratch. The same program again needs no more.
    me.runtime->world().barrier();
    const std::ptrdiff_t descriptors = open_descriptors();
    RandomProgram(*me.runtime, seed, failure).run(steps);
    HMC_CHECK_EQ(open_descriptors(), descriptors);
    me.runtime->world().barrier();  // all survivors notice a failure of the last step here
  } catch (const hmc::Error& error) {
    std::printf("rank %d code %s peer %d: %s\n", me.rank, name_of(error.code()), error.peer(), error.what());
    std::fflush(nullptr);
    if (error.code() == hmc::Code::peer_failed && me.options.setting("recover", "0") == "1") recover(me);
    std::_Exit(0);  // no destructors: the job has ended
  }
}
