// Stage: two halves of host memory and a stream. A device copies to or from one half while the wire uses the other.
#pragma once

#include <algorithm>
#include <array>
#include <memory>

#include "runtime/memory/provider.hpp"

namespace hmc::memory {

/// Staging for one device. One thread at a time. The provider creates stages and reuses them.
class Stage {
 public:
  static constexpr std::size_t half_bytes = std::size_t{1} << 20;

  /// Throws Error.
  Stage(const Provider& provider, int device);
  ~Stage();  ///< waits for copies in flight; if that fails, deliberately leaks the memory
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  int device() const noexcept { return stream_->device(); }
  const Provider& provider() const noexcept { return provider_; }
  /// Empty: the memory is pinned.
  const std::string& why_pageable() const noexcept { return block_.why_pageable; }

  std::byte* half(std::size_t n) const noexcept { return block_.data + n % 2 * half_bytes; }
  /// Starts a copy. Both sides are in use until wait(n).
  base::Status start_to_host(std::size_t n, const void* source, std::size_t bytes) noexcept;
  base::Status start_to_device(std::size_t n, void* destination, std::size_t bytes) noexcept;
  /// Waits for the last copy of half n. Returns at once if there was none.
  base::Status wait(std::size_t n) noexcept;
  base::Status wait_for_all() noexcept;

 private:
  base::Status start(std::size_t n, const Transfer& transfer) noexcept;

  const Provider& provider_;
  HostBlock block_;
  std::unique_ptr<Stream> stream_;
  std::array<std::unique_ptr<Event>, 2> events_;
  std::array<bool, 2> under_way_{};
};

/// A stage for one call. The destructor waits until no copy in flight accesses the caller's memory.
class StageLease {
 public:
  StageLease() = default;
  /// Throws Error.
  StageLease(const Provider& provider, int device) : stage_(provider.take_stage(device)) {}
  StageLease(StageLease&&) noexcept = default;
  StageLease& operator=(StageLease&& other) noexcept {
    std::swap(stage_, other.stage_);
    return *this;
  }
  ~StageLease();
  explicit operator bool() const noexcept { return stage_ != nullptr; }
  Stage& operator*() const noexcept { return *stage_; }
  Stage* operator->() const noexcept { return stage_.get(); }

 private:
  std::unique_ptr<Stage> stage_;
};

/// The piece size for a transfer of `bytes`. A long transfer has several pieces, whose copies overlap.
constexpr std::size_t staged_piece(std::size_t bytes) noexcept {
  constexpr std::size_t smallest = std::size_t{128} << 10;
  return std::clamp((bytes / 8 + 4095) / 4096 * 4096, smallest, Stage::half_bytes);
}

/// Reads device memory piece by piece: the device copies the next piece while the caller uses the current one.
class OutPieces {
 public:
  /// `piece` <= Stage::half_bytes.
  OutPieces(Stage& stage, const void* source, std::size_t bytes, std::size_t piece) noexcept
      : stage_(stage), source_(static_cast<const std::byte*>(source)), bytes_(bytes), piece_(piece) {}
  /// Sets `at` to the next piece. The caller must no longer use the previous piece.
  base::Status next(const std::byte*& at) noexcept;

 private:
  base::Status start() noexcept;
  Stage& stage_;
  const std::byte* source_;
  std::size_t bytes_;
  std::size_t piece_;
  std::size_t begun_ = 0;  ///< pieces whose copy was started
  std::size_t given_ = 0;  ///< pieces returned by next()
};

/// Writes device memory piece by piece: the device copies one piece while the caller fills the next.
class InPieces {
 public:
  InPieces(Stage& stage, void* destination, std::size_t bytes, std::size_t piece) noexcept
      : stage_(stage), destination_(static_cast<std::byte*>(destination)), bytes_(bytes), piece_(piece) {}
  /// Sets `at` to the space for the next piece.
  base::Status room(std::byte*& at) noexcept;
  /// Called when the caller has filled the piece from room(). Starts its copy.
  base::Status filled() noexcept;
  /// Waits until all pieces are in device memory.
  base::Status finish() noexcept { return stage_.wait_for_all(); }

 private:
  Stage& stage_;
  std::byte* destination_;
  std::size_t bytes_;
  std::size_t piece_;
  std::size_t begun_ = 0;
};

}  // namespace hmc::memory
