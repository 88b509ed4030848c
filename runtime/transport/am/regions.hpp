// Regions: memory of this rank that messages may access.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "runtime/transport/nonce.hpp"
#include "runtime/transport/wire.hpp"

namespace hmc::transport::am {

/// Assigns each region an index, which is part of its key. Memory that is registered twice is one region with a use
/// count. Threads: under AmWire's lock.
class Regions {
 public:
  struct Registered {
    std::byte* base = nullptr;
    std::uint64_t bytes = 0;
    /// New for every registration, and sent only to the ranks that receive the key. An old key therefore doesn't match
    /// a new region in the same slot, and a message from outside the job matches no region.
    std::uint64_t nonce = 0;
    int uses = 0;
    std::vector<DirectReceive*> receives;
    std::uint64_t sending = 0;  ///< messages in flight that the link reads from this region
  };
  /// Identifies a region in a peer's request.
  struct Key {
    std::uint64_t index = 0;
    std::uint64_t nonce = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };

  /// Throws Error if the kernel provides no random numbers.
  Key add(std::byte* base, std::uint64_t bytes) {
    std::size_t index = slots_.size();
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      // A slot with messages in flight isn't reused.
      if (slots_[i].uses == 0 && slots_[i].sending == 0) index = i;
      if (slots_[i].uses == 0 || slots_[i].base != base || slots_[i].bytes != bytes) continue;
      ++slots_[i].uses;
      return {i, slots_[i].nonce};
    }
    const std::uint64_t nonce = make_nonce();
    if (index == slots_.size()) slots_.emplace_back();
    slots_[index] = Registered{base, bytes, nonce, 1, {}, 0};
    return {index, nonce};
  }

  Registered* of(const std::byte* base, std::uint64_t bytes) noexcept {
    for (Registered& slot : slots_)
      if (slot.uses > 0 && slot.base == base && slot.bytes == bytes) return &slot;
    return nullptr;
  }

  /// Null unless `key` is registered now and its region contains [offset, offset + bytes).
  Registered* find(Key key, std::uint64_t offset, std::uint64_t bytes) noexcept {
    if (key.index >= slots_.size()) return nullptr;
    Registered& slot = slots_[key.index];
    if (slot.uses == 0 || slot.nonce != key.nonce) return nullptr;
    if (offset > slot.bytes || bytes > slot.bytes - offset) return nullptr;
    return &slot;
  }

  std::size_t receives() const noexcept {
    std::size_t count = 0;
    for (const Registered& slot : slots_) count += slot.receives.size();
    return count;
  }

 private:
  std::deque<Registered> slots_;  // a deque: addresses stay valid while messages are in flight
};

}  // namespace hmc::transport::am
