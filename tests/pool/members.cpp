#include "members.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>

namespace hmc::test {

Process::Process(int rank, int size, int nodes) : rank_(rank), size_(size), nodes_(nodes), store_(Store::connect()) {}

void wait_until(const std::function<bool()>& is_true) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!is_true()) {
    HMC_CHECK(std::chrono::steady_clock::now() < end);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

std::string fork_store(pid_t& pid) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) std::abort();
  pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const StoreService service("127.0.0.1:0");
    (void)!::write(ends[1], service.address().c_str(), service.address().size() + 1);
    for (;;) ::pause();
  }
  std::array<char, 64> address{};
  (void)!::read(ends[0], address.data(), address.size() - 1);
  for (const int end : ends) ::close(end);
  return address.data();
}

namespace {

constexpr int skipped = 77;

struct Arguments {
  int fork = 0, nodes = 1;
  std::string filter;
};

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  if (const char* const nodes = std::getenv("HMC_TEST_NODES")) arguments.nodes = std::atoi(nodes);
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--fork" && i + 1 < argc)
      arguments.fork = std::atoi(argv[++i]);
    else if (word == "--nodes" && i + 1 < argc)
      arguments.nodes = std::atoi(argv[++i]);
    else
      arguments.filter = word;
  }
  return arguments;
}

int run_as(int rank, int size, const Arguments& arguments, const std::vector<Case>& cases) {
  std::string name = "start";
  try {
    Process me(rank, size, arguments.nodes);
    for (const Case& each : cases) {
      name = each.name;
      if (name.find(arguments.filter) == std::string::npos) continue;
      me.begin(name);
      if (rank == 0) std::printf("%s\n", each.name), std::fflush(stdout);
      each.run(me);
    }
    name = "end";
    me.barrier();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d, %s: %s\n", rank, name.c_str(), error.what());
    return 1;
  }
}

int run_forked(const Arguments& arguments, const std::vector<Case>& cases) {
  pid_t store = 0;
  ::setenv("HMC_STORE", fork_store(store).c_str(), 1);
  std::vector<pid_t> children;
  for (int rank = 0; rank < arguments.fork; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::setenv("HMC_NODE", fmt::format("node{}", rank * arguments.nodes / arguments.fork).c_str(), 1);
      std::exit(run_as(rank, arguments.fork, arguments, cases));
    }
    children.push_back(child);
  }
  int failed = 0;
  for (std::size_t left = children.size(); left > 0; --left) {
    int status = 0;
    const pid_t child = ::waitpid(-1, &status, 0);
    if (child == store) break;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    if (failed == 0) failed = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    if (failed == skipped) continue;
    for (const pid_t each : children) ::kill(each, SIGKILL);
  }
  ::kill(store, SIGKILL);
  ::waitpid(store, nullptr, 0);
  return failed;
}

}  // namespace

int run_cases(int argc, char** argv, const std::vector<Case>& cases) {
  const Arguments arguments = parse(argc, argv);
  if (arguments.fork > 0) return run_forked(arguments, cases);
  const char* const rank = std::getenv("HMC_RANK");
  const char* const size = std::getenv("HMC_SIZE");
  if (rank == nullptr || size == nullptr) {
    std::fprintf(stderr, "run it with hmcrun, or with --fork N\n");
    return 2;
  }
  return run_as(std::atoi(rank), std::atoi(size), arguments, cases);
}

}  // namespace hmc::test
