// CopyQueue: asynchronous copies that a device executes in order.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "runtime/memory/provider.hpp"

namespace hmc::rma {

/// Owns a stream, and an event per copy in flight. If all events are in use, start() waits for the oldest copy. One
/// thread at a time. The destructor waits for copies in flight.
class CopyQueue {
 public:
  CopyQueue(const memory::Provider& provider, int device) noexcept : provider_(provider), device_(device) {}
  CopyQueue(const CopyQueue&) = delete;
  CopyQueue& operator=(const CopyQueue&) = delete;

  /// `number` counts from 1. If the start fails, the copy isn't in flight.
  base::Status start(const memory::Transfer& transfer, std::uint64_t& number) noexcept;
  /// Returns in_progress, ok, or the failure of that copy.
  base::Status look(std::uint64_t number) noexcept;
  /// Waits until all copies have ended.
  base::Status wait() noexcept;
  /// Returns and clears a failure that no caller has seen: start() waited for that copy to reuse its event.
  base::Status take_unseen() noexcept { return std::exchange(unseen_, {}); }
  std::uint64_t begun() const noexcept { return begun_; }
  std::uint64_t over() const noexcept { return over_; }

 private:
  static constexpr std::uint64_t room = 32;
  base::Status open() noexcept;
  base::Status over_until(std::uint64_t number, const base::Status& status) noexcept;
  memory::Event& event(std::uint64_t number) const noexcept { return *events_[number % room]; }

  const memory::Provider& provider_;
  int device_;
  std::unique_ptr<memory::Stream> stream_;  // created with the first copy
  std::array<std::unique_ptr<memory::Event>, room> events_;
  std::uint64_t begun_ = 0;
  std::uint64_t over_ = 0;
  // The outcome of the copies after a failed copy in the stream is unknown. Therefore all copies from the first failure
  // to the last one count as failed.
  std::uint64_t first_failed_ = 0;
  std::uint64_t last_failed_ = 0;
  base::Status failure_;
  base::Status unseen_;
  std::string open_failure_;  // holds the text that a Status points to
};

}  // namespace hmc::rma
