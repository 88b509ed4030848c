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
  ~ProgressThread();     ///< stops and joins
  void wake() noexcept;  ///< from any thread
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

 private:
  void run() noexcept;
  void leave_it_to_the_owner(std::uint64_t driven) noexcept;
  /// A rank that only waits for a signal of a lost peer has no transfer that fails. If the control plane doesn't report
  /// a failure either, the two ranks live and only their connection is lost: this ends the job.
  void watch_lost() noexcept;
  /// False if the thread is to stop.
  bool sleep(bool for_events, std::chrono::nanoseconds span) noexcept;

  AmWire& wire_;
  int event_fd_;
  base::UniqueFd wake_fd_;  // an eventfd
  std::atomic<bool> stopping_{false};
  // Of this thread: the watch on a lost connection.
  std::int64_t lost_looked_ns_ = 0;
  std::uint64_t lost_driven_ = 0;
  int lost_waits_ = 0;
  std::thread thread_;  // last: it uses the other members
};

}  // namespace hmc::transport::am
