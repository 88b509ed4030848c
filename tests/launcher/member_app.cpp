// member_app: ranks that joined their job, and one of them, the odd one, does something.
//
//   member_app well           all meet in a barrier and close
//   member_app die R          R prints "died NS" and is killed; the others are in a barrier
//   member_app quiet R        R ends with status 0 without close
//   member_app abort R        R aborts the job with 7
//   member_app absent R       R never comes to the barrier
//   member_app exit R         R ends with status 1; the others are in Window::close
//
// Survivors print "saw NS CODE PEER TEXT" (CLOCK_MONOTONIC) and end with 9.

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <hmc/hmc.hpp>
#include <string>
#include <thread>

namespace {

long long now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void be_odd(const std::string& verb, hmc::Runtime& runtime) {
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  if (verb == "die") {
    std::printf("died %lld\n", now_ns());
    std::fflush(stdout);
    std::raise(SIGKILL);
  }
  if (verb == "quiet") ::_exit(0);
  if (verb == "exit") {
    // A child keeps the rank's sockets open: what ended the rank is told by hmcrun alone.
    if (::fork() == 0) ::sleep(20);
    ::_exit(1);
  }
  if (verb == "abort") runtime.abort(7, "the test wants it so");
  std::this_thread::sleep_for(std::chrono::seconds(60));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string verb = argv[1];
  hmc::Runtime runtime = hmc::Runtime::init();
  try {
    hmc::Window window = hmc::Window::create(runtime.world(), 64);
    runtime.world().barrier();
    if (argc > 2 && runtime.rank() == std::atoi(argv[2])) be_odd(verb, runtime);
    if (verb != "exit") runtime.world().barrier();
    window.close();
    runtime.close();
  } catch (const hmc::Error& error) {
    std::printf("saw %lld %s %d %s\n", now_ns(), hmc::name_of(error.code()), error.peer(), error.what());
    std::fflush(stdout);
    ::_exit(9);
  }
  return 0;
}
