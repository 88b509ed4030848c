#include "runtime/memory/stage.hpp"

#include <atomic>
#include <new>

#include <hmc/error.hpp>

namespace hmc::memory {

using base::Status;

Stage::Stage(const Provider& provider, int device)
    : provider_(provider), block_(provider.take_block(device, 2 * half_bytes)), stream_(provider.make_stream(device)) {
  for (auto& event : events_) event = provider.make_event(device);
}

namespace {

/// Memory that a copy may still access, because the wait for the copy failed. It is neither reused nor freed.
struct Lost {
  HostBlock block;
  Lost* next;
};

void lose(HostBlock& block) noexcept {
  static std::atomic<Lost*> first{nullptr};
  auto* const lost = new (std::nothrow) Lost{};
  if (lost == nullptr) return;
  lost->block = std::move(block);
  // Release: publishes the entry. No code reads the list; it keeps the memory reachable for leak checkers.
  lost->next = first.load(std::memory_order_relaxed);
  while (!first.compare_exchange_weak(lost->next, lost, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

}  // namespace

Stage::~Stage() {
  if (wait_for_all().ok())
    provider_.give_back(std::move(block_));
  else
    lose(block_);
}

Status Stage::start(std::size_t n, const Transfer& transfer) noexcept {
  // Also set if the start fails, because a part of the copy may be in flight.
  under_way_[n % 2] = true;
  const Status started = provider_.copy_async(transfer, *stream_);
  const Status recorded = events_[n % 2]->record(*stream_);
  if (!recorded.ok()) (void)stream_->synchronize();  // there is no event to wait for
  return started.ok() ? recorded : started;
}
Status Stage::start_to_host(std::size_t n, const void* source, std::size_t bytes) noexcept {
  return start(n, {half(n), source, bytes, Direction::device_to_host});
}
Status Stage::start_to_device(std::size_t n, void* destination, std::size_t bytes) noexcept {
  return start(n, {destination, half(n), bytes, Direction::host_to_device});
}

Status Stage::wait(std::size_t n) noexcept {
  if (!under_way_[n % 2]) return {};
  const Status status = events_[n % 2]->synchronize();
  if (status.ok()) under_way_[n % 2] = false;
  return status;
}
Status Stage::wait_for_all() noexcept {
  if (!under_way_[0] && !under_way_[1]) return {};
  const Status status = stream_->synchronize();
  if (status.ok()) under_way_ = {};
  return status;
}

StageLease::~StageLease() {
  if (stage_ == nullptr) return;
  const Provider& provider = stage_->provider();
  // If the wait fails, copies may still be in flight. So the stage isn't reused, and its destructor waits once more.
  if (stage_->wait_for_all().ok()) provider.give_back(std::move(stage_));
}

Status OutPieces::start() noexcept {
  const std::size_t at = begun_ * piece_;
  if (at >= bytes_) return {};
  return stage_.start_to_host(begun_++, source_ + at, std::min(piece_, bytes_ - at));
}

Status OutPieces::next(const std::byte*& at) noexcept {
  if (begun_ == given_)
    if (const Status status = start(); !status.ok()) return status;
  if (const Status status = start(); !status.ok()) return status;
  at = stage_.half(given_);
  return stage_.wait(given_++);
}

Status InPieces::room(std::byte*& at) noexcept {
  at = stage_.half(begun_);
  return stage_.wait(begun_);
}

Status InPieces::filled() noexcept {
  const std::size_t at = begun_ * piece_;
  return stage_.start_to_device(begun_++, destination_ + at, std::min(piece_, bytes_ - at));
}

}  // namespace hmc::memory
