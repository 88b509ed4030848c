// What ranks write before a call, and what must be there after it. Every value depends on the rank,
// the place and the call, so that a stale, shifted or foreign word shows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace compare {

inline std::uint32_t word_at(int rank, std::uint32_t stamp, std::size_t index) {
  const std::uint32_t seed = static_cast<std::uint32_t>(rank + 1) * 0x85ebca6bU ^ stamp * 0x9e3779b1U;
  return static_cast<std::uint32_t>(index) * 2654435761U ^ seed;
}

inline void fill_words(void* to, std::size_t bytes, int rank, std::uint32_t stamp) {
  auto* words = static_cast<std::uint32_t*>(to);
  for (std::size_t i = 0; i < bytes / 4; ++i) words[i] = word_at(rank, stamp, i);
}

inline bool holds_words(const void* at, std::size_t bytes, int rank, std::uint32_t stamp) {
  const auto* words = static_cast<const std::uint32_t*>(at);
  for (std::size_t i = 0; i < bytes / 4; ++i) {
    if (words[i] != word_at(rank, stamp, i)) return false;
  }
  return true;
}

// Small integers: their sums are exact in floats, in whatever order a library adds.
inline std::uint32_t number_at(std::uint32_t stamp, std::size_t index) {
  return ((static_cast<std::uint32_t>(index) + stamp) & 63U) + 1;
}

inline void fill_numbers(void* to, std::size_t bytes, int rank, std::uint32_t stamp) {
  auto* numbers = static_cast<float*>(to);
  const auto weight = static_cast<std::uint32_t>(rank + 1);
  for (std::size_t i = 0; i < bytes / 4; ++i) numbers[i] = static_cast<float>(weight * number_at(stamp, i));
}

inline bool holds_sums(const void* at, std::size_t bytes, int ranks, std::uint32_t stamp) {
  const auto* numbers = static_cast<const float*>(at);
  const auto weight = static_cast<std::uint32_t>(ranks * (ranks + 1) / 2);
  for (std::size_t i = 0; i < bytes / 4; ++i) {
    if (numbers[i] != static_cast<float>(weight * number_at(stamp, i))) return false;
  }
  return true;
}

/// Reads one word of each cache line, as a consumer would meet them.
inline void consume(const void* at, std::size_t bytes) {
  const auto* words = static_cast<const std::uint32_t*>(at);
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < bytes / 4; i += 16) sum += words[i];
  asm volatile("" : : "r"(sum) : "memory");
}

}  // namespace compare
