// A rank kills itself at a random time, while all ranks execute the same random calls.
//   hmcrun -np N kills MODE SEED FILE
//   MODE: calls   put, get, atomics, barrier, allreduce, window creation
//         init    the victim dies during Runtime::init
//         shrink  a second rank dies while the others are in shrink()
//         forever no rank dies: the test ends a host
//   FILE: shared by the ranks; holds each rank's time of death.
// A survivor prints "survivor R code CODE peer P after US us in CALL: TEXT"; in mode shrink also
// "shrunk R to SIZE after US us".
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <hmc/hmc.hpp>

#include "runtime/base/deadline.hpp"

namespace {

constexpr int most_ranks = 64;
/// Each origin has a slice of each part, so that no two ranks access the same bytes.
constexpr std::size_t slice = 64 << 10, slices_at = 64;

/// By rank of the job: CLOCK_MONOTONIC at its death. Relaxed: read after the death was reported, as a measured value.
struct Moments {
  std::atomic<std::int64_t> ns[most_ranks];
};

Moments* map_file(const char* path) {
  const int file = ::open(path, O_RDWR | O_CLOEXEC);
  void* const at = ::mmap(nullptr, sizeof(Moments), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (at == MAP_FAILED) std::abort();
  return static_cast<Moments*>(at);
}

Moments* moments;

[[noreturn]] void die(int rank) {
  moments->ns[rank].store(hmc::base::now_ns(), std::memory_order_relaxed);
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}

void die_after(int rank, std::chrono::microseconds time) {
  std::thread([rank, time] {
    std::this_thread::sleep_for(time);
    die(rank);
  }).detach();
}

long us_since_death(int rank) {
  return static_cast<long>((hmc::base::now_ns() - moments->ns[rank].load(std::memory_order_relaxed)) / 1000);
}

const char* call = "init";

void call_at_random(hmc::Runtime& rt, hmc::Window& win, std::mt19937& random, std::vector<std::byte>& memory) {
  const int target = static_cast<int>(random() % static_cast<unsigned>(rt.size()));
  const std::size_t bytes = std::size_t{8} << random() % 14;
  const std::uint64_t mine = slices_at + static_cast<std::size_t>(rt.rank()) * slice;
  switch (random() % 40 == 0 ? 6 : random() % 6) {
    case 0: call = "put", win.put(target, mine, memory.data(), bytes), win.flush(); break;
    case 1: call = "get", win.get(target, mine, memory.data(), bytes); break;
    case 2: call = "fetch_add", win.fetch_add<long>(target, 0, 1L); break;
    case 3: call = "put_signal", win.put_signal(target, mine, memory.data(), bytes, 8, 1); break;
    case 4: call = "barrier", rt.world().barrier(); break;
    case 5:
      call = "allreduce";
      rt.world().allreduce(memory.data(), memory.data(), bytes / 4, hmc::DType::i32, hmc::sum);
      break;
    case 6: call = "Window::create", hmc::Window::create(rt.world(), bytes).close(); break;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::string mode = argv[1];
  const auto seed = static_cast<unsigned>(std::atoi(argv[2]));
  moments = map_file(argv[3]);
  const int rank = std::atoi(std::getenv("HMC_RANK")), size = std::atoi(std::getenv("HMC_SIZE"));
  std::mt19937 random(seed);
  const int victim = static_cast<int>(random() % static_cast<unsigned>(size));
  const auto at_random = [&random](long least, long most) {
    return std::chrono::microseconds(least + static_cast<long>(random() % static_cast<unsigned long>(most - least)));
  };
  const std::chrono::microseconds in_init = at_random(0, 12'000), in_calls = at_random(1'000, 60'000);
  const int second = (victim + 1 + static_cast<int>(random() % static_cast<unsigned>(size - 1))) % size;
  const std::chrono::microseconds in_shrink = at_random(0, 8'000);
  try {
    if (mode == "init" && rank == victim) die_after(rank, in_init);
    hmc::Runtime rt = hmc::Runtime::init();
    call = "Window::create";
    hmc::Window win = hmc::Window::create(rt.world(), slices_at + static_cast<std::size_t>(size) * slice);
    std::vector<std::byte> memory(slice);
    if (mode == "forever") {
      std::printf("ready\n");
      std::fflush(stdout);
      try {
        for (;;) call_at_random(rt, win, random, memory);
      } catch (const hmc::Error&) {
        std::printf("noticed by %d\n", rank);  // the destructors that follow wait for peers
        std::fflush(stdout);
        throw;
      }
    }
    if (mode != "init" && rank == victim) die_after(rank, in_calls);
    try {
      for (;;) call_at_random(rt, win, random, memory);
    } catch (const hmc::Error& error) {
      if (mode != "shrink") throw;
      if (rank == second) die_after(rank, in_shrink);
      rt.world().shrink();
      // The second rank may have died after the agreement.
      if (rt.size() == size - 1) try {
          for (;;) rt.world().barrier();
        } catch (const hmc::Error&) {
          rt.world().shrink();
        }
      win.rebind(rt.world());
      std::printf("shrunk %d to %d after %ld us\n", rank, rt.size(), us_since_death(second));
      int one = 1, all = 0;
      rt.world().allreduce(&one, &all, 1, hmc::DType::i32, hmc::sum);
      win.close();
      rt.close();
      return all == size - 2 ? 0 : 1;
    }
  } catch (const hmc::Error& error) {
    std::printf("survivor %d code %s peer %d after %ld us in %s: %s\n", rank, hmc::name_of(error.code()), error.peer(),
                us_since_death(error.peer() < 0 ? victim : error.peer()), call, error.what());
  }
  return 0;
}
