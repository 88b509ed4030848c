#include "collectives/rounds/round_team.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace hmc::collectives {

using base::Status;

namespace {

constexpr std::size_t header_bytes = 64;  // the signature, and then the payload on a line of its own
constexpr std::size_t signal_stride = 64;

/// Slots for all peers, twice, in about 4 MiB.
std::size_t slot_for(int size) noexcept {
  const std::size_t share = (std::size_t{2} << 20) / static_cast<std::size_t>(size);
  return std::clamp<std::size_t>(share / 64 * 64, 1024, std::size_t{256} << 10);
}

}  // namespace

RoundTeam::RoundTeam(window::TeamCore& team)
    : fabric_(team.fabric()), rank_(team.rank()), size_(team.size()), slot_bytes_(slot_for(team.size())) {
  const auto size = static_cast<std::size_t>(size_);
  ins.resize(size);
  buffer.resize(slot_bytes_);
  message_.resize(header_bytes + slot_bytes_);
  const std::size_t bytes = size * (signal_stride + 2 * (header_bytes + slot_bytes_));
  arena_ = window::Core::create(team, bytes, window::Core::Role::internal);
}

void RoundTeam::close() { arena_->close(); }

std::uint64_t RoundTeam::signal_offset(int source) const noexcept {
  return static_cast<std::uint64_t>(source) * signal_stride;
}

std::uint64_t RoundTeam::slot_offset(int source) const noexcept {
  const auto size = static_cast<std::uint64_t>(size_);
  const std::uint64_t index = (round_ & 1) * size + static_cast<std::uint64_t>(source);
  return size * signal_stride + index * (header_bytes + slot_bytes_);
}

const std::byte* RoundTeam::received(int peer) const noexcept {
  return arena_->data() + slot_offset(peer) + header_bytes;
}

Signature RoundTeam::signature_of(int rank) const noexcept {
  if (rank == rank_) return signature_;  // nobody sends to itself
  std::uint64_t word = 0;
  std::memcpy(&word, arena_->data() + slot_offset(rank), sizeof word);
  return Signature(word);
}

Status RoundTeam::fail(const Status& status) noexcept {
  failure_ = status;
  return status;
}

Status RoundTeam::begin(Signature signature) noexcept {
  if (!failure_.ok()) return failure_;
  signature_ = signature;
  return {};
}

Status RoundTeam::send(int peer, std::span<const std::byte> message) noexcept {
  const std::uint64_t word = signature_.word();
  std::memcpy(message_.data(), &word, sizeof word);
  if (!message.empty()) std::memcpy(message_.data() + header_bytes, message.data(), message.size());
  const std::size_t bytes = message.empty() ? sizeof word : header_bytes + message.size();
  return arena_->try_put_signal(peer, slot_offset(rank_), message_.data(), bytes, signal_offset(rank_), round_,
                                {activity_of(signature_.kind()), peer, round_});
}

Status RoundTeam::wait_all() noexcept {
  for (int i = 1; i < size_; ++i) {
    const int peer = (rank_ + i) % size_;
    const std::atomic_ref<std::uint64_t> signal(
        *reinterpret_cast<std::uint64_t*>(arena_->data() + signal_offset(peer)));
    // Acquire: pairs with put_signal's release; the message comes first.
    const auto arrived = [&]() noexcept { return signal.load(std::memory_order_acquire) >= round_; };
    const Status status =
        fabric_.waiter.until({activity_of(signature_.kind()), peer, round_}, arrived, fabric_.timeout);
    if (!status.ok()) return fail(status);
    if (!(signature_of(peer) == signature_))
      return fail(Status::failure(Code::mismatch, "ranks called different collectives", peer));
  }
  return {};
}

}  // namespace hmc::collectives
