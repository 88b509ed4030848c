// Allreduce: every rank contributes a vector and gets the sum. `./dev run` runs this program on 4 ranks.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <hmc/hmc.hpp>

namespace {

constexpr int repeats = 20;
constexpr std::size_t counts[] = {2, 16 << 10, 256 << 10, 1 << 20};

// Prints the wire of each pair. Every rank knows its own row of the table. An allgather collects the rows.
void print_wires(hmc::Runtime& rt) {
  constexpr std::size_t cell = 16;
  const auto ranks = static_cast<std::size_t>(rt.size());
  std::vector<char> row(ranks * cell, '\0');
  for (int peer = 0; peer < rt.size(); ++peer) {
    const std::string wire = rt.path(peer).wire;
    std::memcpy(&row[static_cast<std::size_t>(peer) * cell], wire.data(), std::min(wire.size(), cell - 1));
  }
  std::vector<char> table(ranks * row.size());
  rt.world().allgather(row, table);

  if (rt.rank() != 0) return;
  std::printf("wire per pair:\n  from\\to");
  for (int to = 0; to < rt.size(); ++to) std::printf("%6d", to);
  for (std::size_t from = 0; from < ranks; ++from) {
    std::printf("\n%9zu", from);
    for (std::size_t to = 0; to < ranks; ++to) std::printf("%6s", &table[(from * ranks + to) * cell]);
  }
  std::printf("\n");
}

// Rank r contributes (r + 1) * (i % 1000). These are small integers, so their float sum is exact.
bool is_sum(const float* out, std::size_t count, int ranks) {
  const int weight = ranks * (ranks + 1) / 2;
  for (std::size_t i = 0; i < count; ++i) {
    if (out[i] != static_cast<float>(weight) * static_cast<float>(i % 1000)) return false;
  }
  return true;
}

// Returns whether this rank's result is correct.
bool allreduce_of(hmc::Runtime& rt, hmc::Window& win, std::size_t count) {
  hmc::Team& world = rt.world();
  const std::span<float> in(win.local<float>(), count);
  const std::span<float> out(win.local<float>(win.bytes() / 2), count);
  for (std::size_t i = 0; i < count; ++i) in[i] = static_cast<float>(rt.rank() + 1) * static_cast<float>(i % 1000);

  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) {
    world.barrier();
    const auto start = std::chrono::steady_clock::now();
    world.allreduce(in, out, hmc::sum);
    times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(times.begin(), times.begin() + repeats / 2, times.end());

  const bool right = is_sum(out.data(), count, rt.size());
  // Allreduces the number of ranks with a wrong result, and the slowest rank's time. Rank 0 prints both.
  double wrong = right ? 0 : 1;
  double slowest = times[repeats / 2];
  world.allreduce(&wrong, &wrong, 1, hmc::DType::f64, hmc::sum);
  world.allreduce(&slowest, &slowest, 1, hmc::DType::f64, hmc::max);
  if (rt.rank() == 0) {
    std::printf("  %9zu bytes  %10.2f us  %s\n", count * sizeof(float), slowest,
                wrong == 0 ? "correct on all ranks" : "WRONG");
  }
  return right;
}

}  // namespace

int main() try {
  hmc::Runtime rt = hmc::Runtime::init();
  if (rt.rank() == 0) {
    std::printf("HMC " HMC_VERSION_STRING ": %d ranks on %d node%s, launcher: %s\n", rt.size(), rt.node_count(),
                rt.node_count() == 1 ? "" : "s", rt.launcher().c_str());
  }
  print_wires(rt);

  if (rt.rank() == 0) std::printf("allreduce of floats, sum; median of %d calls on the slowest rank:\n", repeats);
  hmc::Window win = hmc::Window::create(rt.world(), 8 << 20);
  bool right = true;
  for (const std::size_t count : counts) right &= allreduce_of(rt, win, count);
  win.close();
  rt.close();
  return right ? 0 : 1;
} catch (const hmc::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
