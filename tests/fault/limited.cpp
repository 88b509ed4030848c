// limited WHAT [RANK]: a rank (every rank without RANK) exceeds a system limit. Each rank prints its error to stdout.
//
//   descriptors_create      RANK has no free descriptor when all ranks create a window
//   descriptors_duplicate   the same when all ranks duplicate a team, which needs none
//   file_size               RANK can't create a file of the window's size (RLIMIT_FSIZE)
//   too_large               every rank requests four times the memory of the machine
//   too_large_together      every rank requests two thirds of the available memory
//   start                   no limit: init, barrier, close
//   no_close FOLDER         init, barrier, return without close when no rank is in a call
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <hmc/hmc.hpp>
#include <string>
#include <thread>

namespace {

/// "MemAvailable:" or "MemTotal:".
std::size_t meminfo(const std::string& name) {
  std::ifstream file("/proc/meminfo");
  std::string word;
  std::size_t value = 0;
  while (file >> word)
    if (word == name && file >> value) return value * 1024;
  return 0;
}

template <typename Resource> void limit(Resource which, rlim_t value) {
  rlimit limits{};
  if (::getrlimit(which, &limits) != 0) std::perror("getrlimit");
  limits.rlim_cur = value;
  if (::setrlimit(which, &limits) != 0) std::perror("setrlimit");
}

/// Returns when every rank has called this. The ranks wait by files, so that none is in a call of the library.
void wait_for_all(const hmc::Runtime& runtime, const std::filesystem::path& folder) {
  std::ofstream(folder / std::to_string(runtime.rank())).flush();
  for (int rank = 0; rank < runtime.size(); ++rank)
    while (!exists(folder / std::to_string(rank))) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void leave_no_descriptor() {
  const int next = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
  ::close(next);
  limit(RLIMIT_NOFILE, static_cast<rlim_t>(next));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argv[1];
  const int odd = argc > 2 ? std::atoi(argv[2]) : -1;
  int result = 0;
  try {
    hmc::Runtime runtime = hmc::Runtime::init();
    hmc::Team& world = runtime.world();
    const bool is_odd = odd < 0 || odd == runtime.rank();
    world.barrier();
    try {
      std::size_t bytes = 65536;
      if (what == "descriptors_create" && is_odd) leave_no_descriptor();
      if (what == "descriptors_duplicate" && is_odd) leave_no_descriptor();
      if (what == "file_size" && is_odd) limit(RLIMIT_FSIZE, 4096);
      if (what == "too_large") bytes = 4 * meminfo("MemTotal:");
      if (what == "too_large_together") bytes = meminfo("MemAvailable:") / 3 * 2 + meminfo("SwapFree:");
      if (what == "descriptors_duplicate")
        (void)world.duplicate();
      else if (what != "start" && what != "no_close")
        (void)hmc::Window::create(world, bytes);
    } catch (const hmc::Error& error) {
      std::printf("rank %d: %s\n", runtime.rank(), error.what());
      result = 3;
    }
    // The team still works: the failed call released its resources.
    const double mine = runtime.rank();
    double sum = 0;
    world.allreduce(std::span(&mine, 1), std::span(&sum, 1), hmc::sum);
    if (sum != runtime.size() * (runtime.size() - 1) / 2.0) result = 4;
    if (what == "no_close")
      wait_for_all(runtime, argv[2]);
    else
      runtime.close();
  } catch (const hmc::Error& error) {
    std::printf("start: %s\n", error.what());
    result = 5;
  }
  std::fflush(stdout);
  return result;
}
