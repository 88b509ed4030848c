// A job whose network goes away for a while.
//   hmcrun ... outage_app allreduce|put|silent SECONDS
// Every value is checked. Rank 0 prints "ready", and at the end "CALLS calls, the longest took MS ms".
// A rank whose call fails prints "noticed by R".
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <hmc/hmc.hpp>

namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(int rank, const char* what, long call) {
  std::printf("rank %d: wrong %s in call %ld\n", rank, what, call);
  std::exit(1);
}

/// The sum of the ranks' contributions; the last element says whether rank 0 wants to end.
bool reduce(hmc::Runtime& rt, long call, bool wants_end) {
  std::vector<long> mine(1001), all(mine.size());
  for (std::size_t i = 0; i + 1 < mine.size(); ++i) mine[i] = (rt.rank() + 1) * (call + static_cast<long>(i));
  mine.back() = rt.rank() == 0 && wants_end ? 1 : 0;
  rt.world().allreduce(mine.data(), all.data(), mine.size(), hmc::DType::i64, hmc::sum);
  const long ranks = rt.size() * (rt.size() + 1) / 2;
  for (std::size_t i = 0; i + 1 < all.size(); ++i)
    if (all[i] != ranks * (call + static_cast<long>(i))) fail(rt.rank(), "sum", call);
  return all.back() != 0;
}

/// Offsets in each part of the window.
constexpr std::uint64_t counter_at = 0, signal_at = 8, bytes_at = 64;
constexpr std::size_t bytes = 100'000;

std::byte pattern(int rank, long call, std::size_t i) {
  return static_cast<std::byte>(rank * 7 + call * 13 + static_cast<long>(i * 31 + i / 251));
}

/// Each rank writes to a rank of the other host: bytes, a fence, a signal, and an atomic.
void put(hmc::Runtime& rt, hmc::Window& win, long call) {
  const int to = (rt.rank() + rt.size() / 2) % rt.size();
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = pattern(rt.rank(), call, i);
  win.put(to, bytes_at, data.data(), bytes);
  win.fence();
  win.fetch_add<long>(to, counter_at, 1L);
  win.put_signal(to, bytes_at, data.data(), 8, signal_at, static_cast<std::uint64_t>(call));
  win.wait_until(signal_at, hmc::Cmp::ge, static_cast<std::uint64_t>(call));
  const std::byte* const mine = win.local<std::byte>(bytes_at);
  for (std::size_t i = 0; i < bytes; ++i)
    if (mine[i] != pattern(to, call, i)) fail(rt.rank(), "byte", call);  // pairs: `to` also writes to this rank
  if (win.fetch<long>(rt.rank(), counter_at) != call) fail(rt.rank(), "counter", call);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string mode = argv[1];
  const auto time = std::chrono::milliseconds(static_cast<long>(std::atof(argv[2]) * 1000));
  hmc::Runtime rt = hmc::Runtime::init();
  hmc::Window win = hmc::Window::create(rt.world(), bytes_at + bytes);
  (void)reduce(rt, 0, false);
  if (rt.rank() == 0) std::printf("ready\n"), std::fflush(stdout);
  const auto end = Clock::now() + time;
  Clock::duration longest{};
  long call = 0;
  try {
    for (bool ends = false; !ends;) {
      ++call;
      if (mode == "silent") std::this_thread::sleep_until(end);
      const auto start = Clock::now();
      if (mode == "put") put(rt, win, call);
      ends = reduce(rt, call, Clock::now() >= end);
      longest = std::max(longest, Clock::now() - start);
    }
  } catch (const hmc::Error&) {
    std::printf("noticed by %d\n", rt.rank());
    std::fflush(stdout);
    throw;
  }
  if (rt.rank() == 0)
    std::printf("%ld calls, the longest took %ld ms\n", call,
                static_cast<long>(std::chrono::duration_cast<std::chrono::milliseconds>(longest).count()));
  win.close();
  rt.close();
  return 0;
}
