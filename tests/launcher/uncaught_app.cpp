// uncaught_app CASE [FOLDER]: ranks that end by an uncaught exception.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>

#include <hmc/hmc.hpp>

namespace {

void throws(hmc::Runtime& runtime) { (void)runtime.node(99); }  // UNCAUGHT

/// Until all ranks are here. Not a barrier of HMC's, which a rank may leave, and end, before another rank has left it.
void meet(const hmc::Runtime& runtime, const std::string& folder) {
  std::ofstream(folder + "/" + std::to_string(runtime.rank())).put('x');
  const auto present = [&] {
    return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
  };
  while (present() < runtime.size()) std::this_thread::yield();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "handler")
    std::set_terminate([] {
      std::fputs("own handler\n", stderr);
      std::abort();
    });
  if (what == "same") std::signal(SIGTERM, SIG_IGN);  // hmcrun sends it after the first rank's end
  hmc::Runtime runtime = hmc::Runtime::init();
  if (what == "same") meet(runtime, argv[2]);
  if (what == "same" || what == "alone" || what == "handler") throws(runtime);
  if (what == "other") throw std::runtime_error("not HMC's");
  if (what == "first") {
    if (runtime.rank() == 1) throws(runtime);
    runtime.world().barrier();
    runtime.world().barrier();
  }
  runtime.close();
  return 0;
}
