// A job that loses a rank and still completes its sum: hmcrun -np 4 --keep-going 08_lost_rank
// Each rank has terms of the sum in a window, and a copy of the previous rank's terms. The last rank is killed after
// some rounds. The others shrink the world, agree on the round to repeat, and the next rank adds the lost rank's terms
// from its copy.
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <vector>

#include <hmc/hmc.hpp>

namespace {

constexpr std::size_t terms = 1000;  // per rank

std::uint64_t term(int owner, std::size_t i) { return static_cast<std::uint64_t>(owner + 1) * 1'000'003U + i; }

std::uint64_t expected(int owners) {
  std::uint64_t sum = 0;
  for (int owner = 0; owner < owners; ++owner)
    for (std::size_t i = 0; i < terms; ++i) sum += term(owner, i);
  return sum;
}

}  // namespace

int main() try {
  hmc::Runtime rt = hmc::Runtime::init();
  const int owners = rt.size(), first_rank = rt.rank();
  if (owners < 2) return std::printf("this example needs two ranks or more\n"), 0;

  // Each part: this rank's terms, then a copy of the terms of the previous rank.
  hmc::Window win = hmc::Window::create(rt.world(), 2 * terms * sizeof(std::uint64_t));
  for (std::size_t i = 0; i < terms; ++i) win.local<std::uint64_t>()[i] = term(first_rank, i);
  win.put((first_rank + 1) % owners, terms * sizeof(std::uint64_t), win.data(), terms * sizeof(std::uint64_t));
  rt.world().barrier();

  std::vector<int> present(static_cast<std::size_t>(owners), 1);  // by the original rank numbers
  std::uint64_t sum = 0;
  for (int round = 0; round <= 10;) {
    if (round == 3 && first_rank == owners - 1) std::raise(SIGKILL);  // a machine check, the kernel's OOM killer, ...
    const int previous = (first_rank + owners - 1) % owners;
    const std::uint64_t* const all = win.local<std::uint64_t>();
    std::uint64_t mine = std::accumulate(all, all + terms, std::uint64_t{0});
    if (present[static_cast<std::size_t>(previous)] == 0)
      mine = std::accumulate(all, all + 2 * terms, std::uint64_t{0});
    try {
      rt.world().allreduce(&mine, &sum, 1, hmc::DType::u64, hmc::sum);
      ++round;
    } catch (const hmc::Error& error) {
      if (error.code() != hmc::Code::peer_failed) throw;
      std::printf("rank %d: %s\n", first_rank, error.what());
      rt.world().shrink();
      win.rebind(rt.world());
      std::vector<int> mine_only(present.size(), 0);
      mine_only[static_cast<std::size_t>(first_rank)] = 1;
      rt.world().allreduce(mine_only, present, hmc::sum);
      // Some ranks may have completed the lost rank's last round and others not: all repeat the earliest one.
      const int reached = round;
      rt.world().allreduce(&reached, &round, 1, hmc::DType::i32, hmc::min);
    }
  }
  const bool right = sum == expected(owners);
  std::printf("rank %d of %d, now %d of %d: the sum is %s\n", first_rank, owners, rt.rank(), rt.size(),
              right ? "complete" : "WRONG");
  win.close();
  rt.close();
  return right ? 0 : 1;
} catch (const hmc::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
