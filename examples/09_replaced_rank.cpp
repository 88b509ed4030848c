// A training loop that loses a rank: hmcrun -np 4 --respawn 1 09_replaced_rank
// The last rank is killed in a step. hmcrun starts it again, the others wait for it (grow), and it copies the weights
// from a peer's memory. The final weights are those of a run without a lost rank.
#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <vector>

#include <hmc/hmc.hpp>

namespace {

constexpr int weights = 4096, steps = 40, fatal_step = 17;

/// The state after a step. A rank keeps the last two states, because some peers may not have completed the last step.
struct State {
  std::int64_t step = -1;  ///< -1: none
  double weight[weights] = {};
};

/// The gradient of one rank's data. Multiples of 1/64, so that the sum of all ranks is exact.
double gradient(int rank, std::int64_t step, int i) {
  return static_cast<double>((rank * 31 + step * 7 + i) % 129) / 64;
}

/// The expected weights, computed by one process.
std::vector<double> alone(int ranks) {
  std::vector<double> all(weights);
  for (std::int64_t step = 0; step < steps; ++step)
    for (int i = 0; i < weights; ++i) {
      double sum = 0;
      for (int rank = 0; rank < ranks; ++rank) sum += gradient(rank, step, i);
      all[static_cast<std::size_t>(i)] -= sum / 256;
    }
  return all;
}

/// Returns the last step that all ranks have completed, -1 if there is none. Every rank then has the state after that
/// step; a replacement copies it from a peer.
std::int64_t restore(hmc::Runtime& rt, hmc::Window& win) {
  State* const own = win.local<State>();
  constexpr std::int64_t none = INT64_MAX;
  std::int64_t mine = std::max(own[0].step, own[1].step), last = 0;
  if (mine < 0) mine = none;
  rt.world().allreduce(&mine, &last, 1, hmc::DType::i64, hmc::min);
  if (last == none) return -1;  // lost before the first step
  std::int32_t holder = mine == none ? rt.size() : rt.rank(), source = 0;
  rt.world().allreduce(&holder, &source, 1, hmc::DType::i32, hmc::min);
  const std::uint64_t slot = static_cast<std::uint64_t>(last % 2) * sizeof(State);
  if (mine == none) win.get(source, slot, win.data() + slot, sizeof(State));
  own[(last + 1) % 2].step = -1;
  return last;
}

}  // namespace

int main() try {
  hmc::Runtime rt = hmc::Runtime::init();
  const int rank = rt.rank(), ranks = rt.size();
  if (ranks < 2) return std::printf("this example needs two ranks or more\n"), 0;
  const hmc::ConnBuffer memory(0, 2 * sizeof(State), hmc::MemoryType::CPU);
  State* const own = static_cast<State*>(memory.ptr);
  own[0] = own[1] = State{};

  hmc::Window win = hmc::Window::create(rt.world(), memory);
  std::int64_t done = rt.is_replacement() ? restore(rt, win) : -1;
  if (rt.is_replacement()) std::printf("rank %d: a new process, which goes on after step %ld\n", rank, long{done});

  std::vector<double> sum(weights);
  while (done + 1 < steps) try {
      const std::int64_t step = done + 1;
      if (step == fatal_step && rank == ranks - 1 && !rt.is_replacement()) std::raise(SIGKILL);
      for (int i = 0; i < weights; ++i) sum[static_cast<std::size_t>(i)] = gradient(rank, step, i);
      rt.world().allreduce(sum, sum, hmc::sum);
      const State& before = own[(step + 1) % 2];
      State& after = own[step % 2];
      for (int i = 0; i < weights; ++i)
        after.weight[i] = (step > 0 ? before.weight[i] : 0) - sum[static_cast<std::size_t>(i)] / 256;
      after.step = done = step;
    } catch (const hmc::Error& error) {
      if (error.code() != hmc::Code::peer_failed) throw;
      std::printf("rank %d: %s\n", rank, error.what());
      rt.world().shrink();
      rt.world().grow();
      win.rebind(rt.world());
      done = restore(rt, win);
    }

  const std::vector<double> expected = alone(ranks);
  const bool right = std::equal(expected.begin(), expected.end(), own[(steps - 1) % 2].weight);
  std::printf("rank %d of %d: the weights are %s\n", rt.rank(), rt.size(), right ? "right" : "WRONG");
  win.close();
  rt.close();
  return right ? 0 : 1;
} catch (const hmc::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
