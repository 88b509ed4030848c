// A job over a key-value store under hmcrun, as torch.distributed starts one: hmcrun's control plane doesn't serve it.
//   leaves  rank 1 leaves it without close. It exits with status 5 after the others, which exit with 1 because of it.
//   closes  rank 1 closes its Runtime while the others are in a barrier, and exits with status 5.
//   closes_own  the same, of a job that hmcrun's control plane serves.
//   closes_crash  the same, but rank 0 crashes after it has caught its error: that isn't a consequence.
//   by_hand the ranks of a job by hand: its store also serves Store::connect.
//   killed  rank 1 is killed. The others' errors have the signal, which only hmcrun knows.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <hmc/hmc.hpp>
#include <hmc/store.hpp>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string mode = argv[1];
  const bool is_killed = mode == "killed", closes = mode.starts_with("closes");
  if (mode == "by_hand") {
    hmc::Runtime rt = hmc::Runtime::init();
    const hmc::Store store = hmc::Store::connect();
    (void)store.add("ranks", rt.rank() + 1);
    rt.world().barrier();
    const bool is_right = store.add("ranks", 0) == rt.size() * (rt.size() + 1) / 2;
    rt.close();
    return is_right ? 0 : 1;
  }
  const auto over_store = [] {
    const hmc::Store store = hmc::Store::connect().with_prefix("job");
    hmc::KeyValueStore keys;
    keys.set = [&](const std::string& key, const std::string& value) { store.set(key, value); };
    keys.get = [&](const std::string& key, hmc::Timeout timeout) { return store.get(key, timeout); };
    return hmc::Runtime::init(keys, std::atoi(std::getenv("HMC_RANK")), std::atoi(std::getenv("HMC_SIZE")));
  };
  hmc::Runtime rt = mode.starts_with("closes_") ? hmc::Runtime::init() : over_store();
  const int rank = rt.rank(), mine = ::getpid();
  std::vector<int> pids(static_cast<std::size_t>(rt.size()));
  rt.world().allgather(&mine, pids.data(), sizeof mine);
  try {
    if (rank == 1 && is_killed) ::raise(SIGKILL);
    if (rank == 1 && closes) {
      rt.close();
      std::fprintf(stderr, "FAILED: close returned\n");
    } else if (rank == 1) {
      const hmc::Runtime gone = std::move(rt);
    } else {
      for (;;) rt.world().barrier();
    }
  } catch (const hmc::Error& error) {
    std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    if (is_killed && std::string(error.what()).find("hmcrun: rank 1 was killed by signal 9") == std::string::npos)
      std::fprintf(stderr, "FAILED: the signal is missing\n");
    if (rank == 0 && mode == "closes_crash") {
      ::signal(SIGSEGV, SIG_DFL);
      ::raise(SIGSEGV);
    }
    if (rank != 1 || !closes) ::_exit(1);
  }
  for (const int pid : pids)
    while (pid != mine && ::kill(pid, 0) == 0) ::usleep(1000);
  return 5;
}
