// A program of a user of the installed HMC: puts a value, allreduces a value, and prints the result.
#include <cstdio>

#include <hmc/hmc.hpp>

int main() try {
  hmc::Runtime rt = hmc::Runtime::init();
  hmc::Window win = hmc::Window::create(rt.world(), 4096);
  const double mine = 1.5 * (rt.rank() + 1);
  win.put((rt.rank() + 1) % rt.size(), 0, &mine, sizeof mine);
  rt.world().barrier();
  const int left = (rt.rank() + rt.size() - 1) % rt.size();
  const bool arrived = *win.local<double>() == 1.5 * (left + 1);

  double sum = 0;
  rt.world().allreduce(std::span(&mine, 1), std::span(&sum, 1), hmc::sum);
  const bool right = arrived && sum == 1.5 * rt.size() * (rt.size() + 1) / 2;
  if (rt.rank() == 0) std::printf("consumer of HMC " HMC_VERSION_STRING " on %d ranks: %g\n", rt.size(), sum);
  win.close();
  rt.close();
  return right ? 0 : 1;
} catch (const hmc::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
