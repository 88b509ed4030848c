// closed_descriptors RANK CALL: this rank, or each (-1), closes all descriptors of its process, as a program does that
// becomes a daemon. Then it returns from main with a window and a Runtime in scope (`return`), or closes them
// (`close`). The job may fail, but it must end.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <hmc/hmc.hpp>
#include <string_view>

int main(int, char** argv) {
  const int who = std::atoi(argv[1]);
  const bool closes = std::string_view(argv[2]) == "close";
  hmc::Runtime runtime = hmc::Runtime::init();
  hmc::Window window = hmc::Window::create(runtime.world(), 4096);
  const double mine = runtime.rank();
  window.put((runtime.rank() + 1) % runtime.size(), 0, &mine, sizeof mine);
  runtime.world().barrier();
  if (who < 0 || who == runtime.rank()) ::closefrom(STDERR_FILENO + 1);
  if (!closes) return 0;
  try {
    window.close();
    runtime.close();
    return 0;
  } catch (const hmc::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
