// Regions: what this rank exposes to messages from others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

namespace hmc::transport::ucx {

/// Numbers regions for their keys. The same memory exposed twice is one region, counted. Under the
/// engine's lock.
class Regions {
 public:
  struct Exposed {
    std::byte* base = nullptr;
    std::uint64_t bytes = 0;
    std::uint32_t generation = 0;  ///< so that a key of a region that is gone isn't taken for its heir's
    int uses = 0;
    std::uint64_t sending = 0;  ///< messages under way that UCX reads from here
  };

  std::uint64_t add(std::byte* base, std::uint64_t bytes) {
    std::size_t index = slots_.size();
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].uses == 0) index = i;
      if (slots_[i].uses == 0 || slots_[i].base != base || slots_[i].bytes != bytes) continue;
      ++slots_[i].uses;
      return id_of(i);
    }
    if (index == slots_.size()) slots_.emplace_back();
    Exposed& slot = slots_[index];
    slot = Exposed{base, bytes, slot.generation + 1, 1, 0};
    return id_of(index);
  }

  Exposed* of(const std::byte* base, std::uint64_t bytes) noexcept {
    for (Exposed& slot : slots_)
      if (slot.uses > 0 && slot.base == base && slot.bytes == bytes) return &slot;
    return nullptr;
  }

  /// Null unless `id` is exposed now and has [offset, offset + bytes).
  Exposed* find(std::uint64_t id, std::uint64_t offset, std::uint64_t bytes) noexcept {
    const auto index = static_cast<std::uint32_t>(id);
    if (index >= slots_.size()) return nullptr;
    Exposed& slot = slots_[index];
    if (slot.uses == 0 || slot.generation != static_cast<std::uint32_t>(id >> 32)) return nullptr;
    if (offset > slot.bytes || bytes > slot.bytes - offset) return nullptr;
    return &slot;
  }

 private:
  std::uint64_t id_of(std::size_t index) const noexcept {
    return (std::uint64_t{slots_[index].generation} << 32) | index;
  }
  std::deque<Exposed> slots_;  // addresses hold while messages are under way
};

}  // namespace hmc::transport::ucx
