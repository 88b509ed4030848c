// A rank whose process stands still, its progress thread included, for as long as a peer needs it to. No clock
// decides: on a busy machine what a peer does meanwhile takes as long as it takes.
#pragma once

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <fstream>
#include <string>
#include <thread>

#include <hmc/hmc.hpp>

#include "tests/support/check.hpp"

namespace hmc::spmd {

/// On the rank that stands: tells `peer` of its process, in `word` of the window, and goes on when that one's
/// Standing ends.
inline void stand_still(Window& window, int peer, std::uint64_t word) {
  const pid_t myself = ::getpid();
  window.put_signal(peer, 0, nullptr, 0, word, static_cast<std::uint64_t>(myself));
  window.flush();
  ::kill(myself, SIGSTOP);
}

/// On the peer: from the constructor to the destructor the other rank stands.
class Standing {
 public:
  Standing(Window& window, std::uint64_t word) : process_(static_cast<pid_t>(window.wait_until(word, Cmp::ne, 0))) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    for (std::string stat; stat.find(") T ") == std::string::npos;) {
      if (std::chrono::steady_clock::now() > limit) {
        ::kill(process_, SIGCONT);  // no destructor comes
        fail_check(__FILE__, __LINE__, "the peer doesn't stand");
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::ifstream file("/proc/" + std::to_string(process_) + "/stat");
      std::getline(file, stat);
    }
  }
  ~Standing() { ::kill(process_, SIGCONT); }
  Standing(const Standing&) = delete;
  Standing& operator=(const Standing&) = delete;

 private:
  pid_t process_;
};

}  // namespace hmc::spmd
