// Keystream: numbers that only the holders of a key can compute.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "runtime/base/bytes.hpp"

namespace hmc::transport {

/// A sequence of 64-bit numbers, derived from a key by SHA-256. Who has seen some of them can't tell the others. Two
/// holders use the i-th number to prove to each other that they send the i-th message. One thread at a time.
class Keystream {
 public:
  using Key = std::array<std::byte, 32>;
  Keystream() = default;
  /// The parts together are the key.
  explicit Keystream(std::initializer_list<base::ByteView> key) noexcept;

  bool has_key() const noexcept { return block_ != 0; }
  std::uint64_t at(std::uint64_t index) noexcept {
    if (index / numbers + 1 != block_) compute(index / numbers);
    return words_[index % numbers];
  }

 private:
  static constexpr std::uint64_t numbers = 4;  // of one hash
  void compute(std::uint64_t block) noexcept;

  Key key_{};
  std::array<std::uint64_t, numbers> words_{};
  std::uint64_t block_ = 0;  // the number of the block in words_, plus 1; 0: no key
};

}  // namespace hmc::transport
