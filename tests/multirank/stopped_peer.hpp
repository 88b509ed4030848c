// Stops a rank's process (SIGSTOP), its progress thread included, until a peer continues it. No timeout ends the stop:
// on a busy machine the peer's work may take arbitrarily long.
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

/// On the rank to be stopped: sends its process id to `word` of `peer`'s window, then stops itself. Returns when the
/// peer destroys its Standing.
inline void stand_still(Window& window, int peer, std::uint64_t word) {
  const pid_t myself = ::getpid();
  window.put_signal(peer, 0, nullptr, 0, word, static_cast<std::uint64_t>(myself));
  window.flush();
  ::kill(myself, SIGSTOP);
}

/// On the peer: the other rank is stopped from the constructor to the destructor.
class Standing {
 public:
  Standing(Window& window, std::uint64_t word) : process_(static_cast<pid_t>(window.wait_until(word, Cmp::ne, 0))) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    for (std::string stat; stat.find(") T ") == std::string::npos;) {
      if (std::chrono::steady_clock::now() > limit) {
        ::kill(process_, SIGCONT);  // the constructor throws, so no destructor runs
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
