// Byte patterns that reveal errors: every byte depends on the writer's rank, the offset and the call.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>

namespace hmc::spmd {

/// Identifies a pattern. The test increments `call` for every transfer.
struct Pattern {
  int rank = 0;
  std::uint64_t call = 0;

  /// The eight bytes of word `index`.
  constexpr std::uint64_t word(std::uint64_t index) const noexcept {
    std::uint64_t x = (static_cast<std::uint64_t>(rank) + 1) * 0x9e3779b97f4a7c15U + call * 0xd1342543de82ef95U + index;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
  }
  constexpr std::byte at(std::uint64_t offset) const noexcept {
    return static_cast<std::byte>(word(offset / 8) >> (8 * (offset % 8)));
  }

  /// Writes the pattern's bytes [from, from + out.size()).
  void fill(std::span<std::byte> out, std::uint64_t from = 0) const noexcept {
    std::size_t i = 0;
    for (; i < out.size() && (from + i) % 8 != 0; ++i) out[i] = at(from + i);
    for (; i + 8 <= out.size(); i += 8) {
      const std::uint64_t bytes = word((from + i) / 8);
      std::memcpy(out.data() + i, &bytes, 8);
    }
    for (; i < out.size(); ++i) out[i] = at(from + i);
  }

  /// The position in `got` of the first byte that differs from the pattern.
  std::optional<std::size_t> mismatch(std::span<const std::byte> got, std::uint64_t from = 0) const noexcept {
    std::size_t i = 0;
    while (i < got.size()) {
      std::uint64_t bytes = 0;
      if ((from + i) % 8 == 0 && i + 8 <= got.size()) {
        std::memcpy(&bytes, got.data() + i, 8);
        if (bytes == word((from + i) / 8)) {
          i += 8;
          continue;
        }
      }
      if (got[i] != at(from + i)) return i;
      ++i;
    }
    return std::nullopt;
  }

  /// Empty if all bytes are correct; otherwise a line about the first wrong one.
  std::string verify(std::span<const std::byte> got, std::uint64_t from = 0) const {
    const auto wrong = mismatch(got, from);
    if (!wrong) return {};
    return fmt::format("byte {} of {} is {:#04x} and not {:#04x} (pattern of rank {}, call {}, offset {})", *wrong,
                       got.size(), static_cast<unsigned>(got[*wrong]), static_cast<unsigned>(at(from + *wrong)), rank,
                       call, from + *wrong);
  }
};

}  // namespace hmc::spmd
