// CopyQueue: asynchronous copies that a device carries out in order.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "runtime/memory/provider.hpp"

namespace hmc::rma {

/// A stream, and an event per copy in flight. A start with all events in use waits for the oldest copy. One thread at a
/// time. The destructor waits for copies in flight.
class CopyQueue {
 public:
  CopyQueue(const memory::Provider& provider, int device) noexcept : provider_(provider), device_(device) {}
  CopyQueue(const CopyQueue&) = delete;
  CopyQueue& operator=(const CopyQueue&) = delete;

  /// `number` counts from 1. A copy whose start fails isn't in flight.
  base::Status start(const memory::Transfer& transfer, std::uint64_t& number) noexcept;
  /// Returns in_progress, ok, or the failure of that copy.
  base::Status look(std::uint64_t number) noexcept;
  /// Waits until all copies are over.
  base::Status wait() noexcept;
  /// Returns and clears the failure of a copy that start() waited for to free its event: no caller has seen it.
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
  // The outcome of copies behind a failed one in the stream is unknown. All copies from the first failure to the last
  // therefore count as failed.
  std::uint64_t first_failed_ = 0;
  std::uint64_t last_failed_ = 0;
  base::Status failure_;
  base::Status unseen_;
  std::string open_failure_;  // keeps the text of a Status, which only points to it
};

}  // namespace hmc::rma
