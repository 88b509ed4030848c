#include "bench/floor/ranks.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <random>
#include <string>
#include <vector>

namespace hmc::floor {

namespace {

/// A port that is currently free.
int free_port() {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (::bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    std::perror("hmc_floor: bind");
    std::exit(1);
  }
  ::close(listener);
  return ntohs(address.sin_port);
}

std::string random_secret() {
  std::random_device random;
  std::string hex;
  while (hex.size() < 64) hex += "0123456789abcdef"[random() % 16];
  return hex;
}

void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }

void pin(int rank, int count) {
  if (count > ::sysconf(_SC_NPROCESSORS_ONLN)) return;
  cpu_set_t allowed;
  ::sched_getaffinity(0, sizeof allowed, &allowed);
  int skip = rank;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || skip-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    ::sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

[[noreturn]] void be_rank(int rank, int count, pid_t parent, const std::function<int(int)>& body) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) std::_Exit(1);
  set("HMC_RANK", std::to_string(rank));
  pin(rank, count);
  int code = 1;
  try {
    code = body(rank);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hmc_floor: rank %d: %s\n", rank, error.what());
  }
  std::fflush(nullptr);
  std::_Exit(code);
}

}  // namespace

int run_ranks(int count, const std::function<int(int rank)>& body) {
  const pid_t parent = ::getpid();
  set("HMC_SIZE", std::to_string(count));
  set("HMC_STORE", "127.0.0.1:" + std::to_string(free_port()));
  set("HMC_SECRET", random_secret());
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < count; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) be_rank(rank, count, parent, body);
    ranks.push_back(child);
  }
  int code = 0;
  for (int left = count; left > 0; --left) {
    int status = 0;
    if (::wait(&status) < 0) break;
    const int this_one = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (this_one == 0 || code != 0) continue;
    code = this_one;
    for (const pid_t rank : ranks) ::kill(rank, SIGKILL);  // the others would wait for a failed rank
  }
  return code;
}

}  // namespace hmc::floor
