// ProgressThread: serves the peers while this rank computes, sleeps or waits for a lock.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "runtime/base/fd.hpp"

namespace hmc::transport::am {

class AmWire;

/// Sleeps in poll until the link has an event. A waiting rank makes progress itself, which avoids a thread switch.
/// Meanwhile this thread only checks periodically whether the rank still makes progress.
class ProgressThread {
 public:
  ProgressThread(AmWire& wire, int event_fd);
  ~ProgressThread();  ///< stops and joins
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

 private:
  void run() noexcept;
  void leave_it_to_the_owner(std::uint64_t driven) noexcept;
  /// False if the thread is to stop, or if the program has closed its descriptors.
  bool sleep(bool for_events, std::chrono::nanoseconds span) noexcept;

  AmWire& wire_;
  int event_fd_;
  base::UniqueFd stop_fd_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace hmc::transport::am
