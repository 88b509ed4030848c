// CopyQueue: copies that a device carries out one after the other while the host goes on.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "runtime/memory/provider.hpp"

namespace hmc::window {

/// A stream and an event for each copy under way; one more than there is room for waits for the first. One thread at a
/// time. Its end waits for what is under way.
class CopyQueue {
 public:
  CopyQueue(const memory::Provider& provider, int device) noexcept : provider_(provider), device_(device) {}
  CopyQueue(const CopyQueue&) = delete;
  CopyQueue& operator=(const CopyQueue&) = delete;

  /// `number` counts from 1. A copy that fails at once isn't under way.
  base::Status start(const memory::Transfer& transfer, std::uint64_t& number) noexcept;
  /// in_progress, ok, or what went wrong with that copy.
  base::Status look(std::uint64_t number) noexcept;
  /// Until all are over.
  base::Status wait() noexcept;
  /// What failed while start() made room, when nobody asked, since this was last called.
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
  std::unique_ptr<memory::Stream> stream_;  // made with the first copy
  std::array<std::unique_ptr<memory::Event>, room> events_;
  std::uint64_t begun_ = 0;
  std::uint64_t over_ = 0;
  // Of copies in a stream behind one that failed nothing is known: from the first failure to the last all count as
  // failed.
  std::uint64_t first_failed_ = 0;
  std::uint64_t last_failed_ = 0;
  base::Status failure_;
  base::Status unseen_;
  std::string open_failure_;  // a Status only points to its text
};

}  // namespace hmc::window
