// member_app: ranks that have joined their job. Rank R differs from the others.
//
//   member_app well           all enter a barrier and close
//   member_app die R          R prints "died NS" and is killed; the others are in a barrier
//   member_app quiet R        R ends with status 0 without close
//   member_app abort R        R aborts the job with 7
//   member_app absent R       R never enters the barrier
//   member_app exit R         R ends with status 1; the others are in Window::close
//   member_app stop R         R stops itself (SIGSTOP) in place of the barrier
//   member_app put R          R stops itself; the others put more to it than sockets hold, and enter the barrier
//   member_app put_nb R       the same, with put_nb
//   member_app late R FILE    R enters the barrier when FILE exists
//   member_app late_start R FILE    R calls Runtime::init when FILE exists
//   member_app shrink R       R is killed; the others shrink the world, and all but its rank 0 enter an allreduce
//   member_app circle         each rank receives from the next one, and nobody sends
//   member_app stay           all print "here", and stay until they are ended
//
// Survivors print "saw NS CODE PEER TEXT" (CLOCK_MONOTONIC) and end with 9.

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <hmc/hmc.hpp>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace {

long long now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Until that process has stopped.
void await_stop(int pid) {
  for (std::string state; state != "T"; std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string word;
    file >> word >> word >> state;  // the number, the name, the state
  }
}

void await_file(const std::string& name) {
  while (!std::ifstream(name)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void be_odd(const std::string& verb, hmc::Runtime& runtime, const std::string& gate) {
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  if (verb == "die") {
    std::printf("died %lld\n", now_ns());
    std::fflush(stdout);
    std::raise(SIGKILL);
  }
  if (verb == "stop" || verb == "put" || verb == "put_nb") std::raise(SIGSTOP);
  if (verb == "quiet") ::_exit(0);
  if (verb == "exit") {
    // A child keeps the rank's sockets open: only hmcrun can report the end of the rank.
    if (::fork() == 0) ::sleep(20);
    ::_exit(1);
  }
  if (verb == "late") return await_file(gate);
  if (verb == "abort") runtime.abort(7, "the test wants it so");
  std::this_thread::sleep_for(std::chrono::seconds(60));
}

/// The survivors' calls after the loss of a rank. Doesn't return.
void shrink(hmc::Runtime& runtime, bool dies) {
  if (dies) std::raise(SIGKILL);
  try {
    for (;;) runtime.world().barrier();
  } catch (const hmc::Error&) {
  }
  hmc::Team rest = runtime.world().shrink();
  if (rest.rank() == 0) std::this_thread::sleep_for(std::chrono::seconds(60));
  const std::vector<double> mine(1000, 1);
  std::vector<double> sum(1000);
  rest.allreduce(std::span(mine), std::span(sum), hmc::sum);
  ::_exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string verb = argv[1];
  if (verb == "late_start" && std::string(std::getenv("HMC_RANK")) == argv[2]) await_file(argv[3]);
  hmc::Runtime runtime = hmc::Runtime::init();
  try {
    constexpr std::size_t large = std::size_t{64} << 20;  // for the put: TCP's buffers are smaller
    std::optional<hmc::Window> window;
    const bool puts = verb == "put" || verb == "put_nb";
    const std::vector<std::byte> source(puts ? large : 0, std::byte{1});
    int odd_pid = ::getpid();
    if (puts) {
      window.emplace(hmc::Window::create(runtime.world(), large));
      runtime.world().broadcast(&odd_pid, sizeof odd_pid, std::atoi(argv[2]));
    }
    if (verb == "exit") window.emplace(hmc::Window::create(runtime.world(), 64));
    runtime.world().barrier();
    if (verb == "shrink") shrink(runtime, runtime.rank() == std::atoi(argv[2]));
    if (verb == "circle") {
      int value = 0;
      runtime.world().recv(std::span(&value, 1), (runtime.rank() + 1) % runtime.size(), 1);
    }
    if (verb == "stay") {
      const double mine = runtime.rank();
      double sum = 0;
      runtime.world().allreduce(std::span(&mine, 1), std::span(&sum, 1), hmc::sum);
      std::printf("here\n");
      std::fflush(stdout);
      std::this_thread::sleep_for(std::chrono::seconds(60));
    }
    if (argc > 2 && verb != "late_start" && runtime.rank() == std::atoi(argv[2]))
      be_odd(verb, runtime, argc > 3 ? argv[3] : "");
    if (puts) await_stop(odd_pid);
    hmc::Request request;
    if (verb == "put_nb") request = window->put_nb(std::atoi(argv[2]), 0, source.data(), large);
    if (verb == "put") window->put(std::atoi(argv[2]), 0, source.data(), large);
    if (verb != "exit") runtime.world().barrier();
    if (verb == "exit") window->close();
    runtime.close();
  } catch (const hmc::Error& error) {
    std::printf("saw %lld %s %d %s\n", now_ns(), hmc::name_of(error.code()), error.peer(), error.what());
    std::fflush(stdout);
    ::_exit(9);
  }
  return 0;
}
