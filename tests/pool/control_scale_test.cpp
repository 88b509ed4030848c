// A thousand members of the control plane: clients with a connection to the store and a socket of their own, without
// memory. Prints the cost of a join by the number of members, and checks the number of messages:
//   control_scale_test [MEMBERS]
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "job/pool_control.hpp"
#include "members.hpp"

namespace hmc::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int processes = 4;
constexpr int most_members = 1024;
constexpr int rounds = 11;

/// What the handlers of all processes have received.
struct Counts {
  std::atomic<std::uint64_t> events, shares;
};

class Member final : private pool::Control::Handler {
 public:
  explicit Member(Counts& counts)
      : counts_(counts),
        control_(std::make_unique<job::PoolControl>(Store::connect().client(), "scale", static_cast<Handler&>(*this))) {
  }
  ~Member() override { control_->stop(); }
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  pool::Control::Entry enter() { return control_->enter(most_members, -1, base::as_bytes(control_->local_name())); }
  void commit() { HMC_CHECK(control_->commit() > 0); }
  void leave() { (void)control_->leave(); }
  /// As a join does, with each member of the node.
  void share_with(const pool::Control::Entry& entry) {
    const std::atomic<bool> stop{false};
    const auto deadline = base::Deadline::after(60s);
    for (const auto& each : entry.members) {
      const pool::Shared answer =
          control_->share(std::string(base::as_text(each.card)), {each.card, {}}, deadline, stop);
      HMC_CHECK(answer.bytes == each.card);
    }
  }

 private:
  void on_joined(int, std::uint64_t, base::ByteView) override { ++counts_.events; }
  void on_left(int, std::uint64_t, bool) override { ++counts_.events; }
  void on_post(int, base::ByteView) override {}
  void on_end() override {}
  pool::Shared on_share(pool::Shared theirs) override {
    ++counts_.shares;
    return {std::move(theirs.bytes), {}};
  }

  Counts& counts_;
  std::unique_ptr<job::PoolControl> control_;
};

double median_ms(std::vector<double>& ms) {
  std::nth_element(ms.begin(), ms.begin() + rounds / 2, ms.end());
  return ms[rounds / 2];
}

/// One more member joins and leaves.
void measure(int members, Counts& counts) {
  std::vector<double> control, whole;
  for (int round = 0; round < rounds; ++round) {
    for (const bool shares : {false, true}) {
      Member last(counts);
      const std::uint64_t events = counts.events, shared = counts.shares;
      const auto start = Clock::now();
      const pool::Control::Entry entry = last.enter();
      HMC_CHECK_EQ(static_cast<int>(entry.members.size()), members);
      if (shares) last.share_with(entry);
      last.commit();
      (shares ? whole : control).push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
      // One event to each member and to the new one; one exchange with each member.
      const auto expected = static_cast<std::uint64_t>(members);
      wait_until([&] { return counts.events - events >= expected + 1; });
      last.leave();
      wait_until([&] { return counts.events - events >= 2 * expected + 1; });
      HMC_CHECK_EQ(counts.events - events, 2 * expected + 1);
      HMC_CHECK_EQ(counts.shares - shared, shares ? expected : 0);
    }
  }
  const double in_control = median_ms(control), in_all = median_ms(whole);
  std::printf("%8d %14.2f %20.2f %22.1f\n", members, in_control, in_all, 1e3 * in_all / members);
  std::fflush(stdout);
}

void run_process(int index, int members, Counts& counts) {
  const Store store = Store::connect();
  std::vector<std::unique_ptr<Member>> mine;
  std::vector<int> steps = {8, 64, 256, members};
  std::erase_if(steps, [&](int step) { return step > members; });
  if (index == 0) std::printf("%8s %14s %20s %22s\n", "members", "store ms", "with sockets ms", "us per member");
  for (const int step : steps) {
    while (static_cast<int>(mine.size()) * processes + index < step) {
      mine.push_back(std::make_unique<Member>(counts));
      (void)mine.back()->enter();
      mine.back()->commit();
    }
    store.barrier("joined", processes, index, 300s);
    if (index == 0) {
      // The events of the joins have arrived: the k-th member gets those from its own on.
      static std::uint64_t before = 0;
      const auto total = static_cast<std::uint64_t>(step);
      static std::uint64_t measured = 0;
      wait_until([&] { return counts.events - measured >= total * (total + 1) / 2; });
      before = counts.events;
      measure(step, counts);
      measured += counts.events - before;
    }
    store.barrier("measured", processes, index, 300s);
  }
}

}  // namespace
}  // namespace hmc::test

int main(int argc, char** argv) {
  using namespace hmc::test;
  const int members = argc > 1 ? std::atoi(argv[1]) : 1000;
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < static_cast<rlim_t>(2 * members + 100)) {
    std::printf("skipped: the limit of open files is %llu\n", static_cast<unsigned long long>(limit.rlim_cur));
    return 77;
  }
  auto* const counts =
      static_cast<Counts*>(::mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  pid_t store = 0;
  ::setenv("HMC_STORE", fork_store(store).c_str(), 1);
  std::vector<pid_t> children;
  for (int i = 0; i < processes; ++i) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    int status = 0;
    try {
      run_process(i, members, *counts);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "process %d: %s\n", i, error.what());
      status = 1;
    }
    std::fflush(stdout);
    std::_Exit(status);
  }
  int failed = 0;
  for (std::size_t left = children.size(); left > 0; --left) {
    int status = 0;
    ::waitpid(-1, &status, 0);
    if (status == 0) continue;
    failed = 1;
    break;
  }
  for (const pid_t each : children) ::kill(each, SIGKILL);
  ::kill(store, SIGKILL);
  return failed;
}
