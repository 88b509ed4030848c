// The data that ranks write before a call, and the expected data after it. Every value depends on rank, position and
// call, so that a stale or misplaced word, or one of another rank, is detected.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace compare {

// Mixes all bits, so that values of different positions, calls or ranks are unrelated.
inline std::uint32_t mixed(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352dU;
  x = (x ^ (x >> 15)) * 0x846ca68bU;
  return x ^ (x >> 16);
}

inline std::uint32_t seed_of(int rank, std::uint32_t stamp) {
  return mixed(mixed(static_cast<std::uint32_t>(rank) + 0x9e3779b9U) + stamp);
}

inline std::uint32_t word_at(std::uint32_t seed, std::size_t index) {
  return mixed(static_cast<std::uint32_t>(index) ^ seed);
}

inline void fill_words(void* to, std::size_t bytes, int rank, std::uint32_t stamp) {
  auto* words = static_cast<std::uint32_t*>(to);
  const std::uint32_t seed = seed_of(rank, stamp);
  for (std::size_t i = 0; i < bytes / 4; ++i) words[i] = word_at(seed, i);
}

inline bool holds_words(const void* at, std::size_t bytes, int rank, std::uint32_t stamp) {
  const auto* words = static_cast<const std::uint32_t*>(at);
  const std::uint32_t seed = seed_of(rank, stamp);
  for (std::size_t i = 0; i < bytes / 4; ++i) {
    if (words[i] != word_at(seed, i)) return false;
  }
  return true;
}

// Integers below 1024: sums over many ranks are exact in floats, in any order of addition. Each rank has different
// numbers, so that a rank counted twice can't replace another.
inline std::uint32_t number_at(std::uint32_t seed, std::size_t index) { return word_at(seed, index) >> 22; }

inline void fill_numbers(void* to, std::size_t bytes, int rank, std::uint32_t stamp) {
  auto* numbers = static_cast<float*>(to);
  const std::uint32_t seed = seed_of(rank, stamp);
  for (std::size_t i = 0; i < bytes / 4; ++i)
    numbers[i] = static_cast<float>(static_cast<std::int32_t>(number_at(seed, i)));
}

/// The sum of the data of `ranks` ranks, with seeds first, first + step, ...
inline bool holds_sums(const void* at, std::size_t bytes, int ranks, std::uint32_t stamp, int first = 0, int step = 1) {
  const auto* numbers = static_cast<const float*>(at);
  std::vector<std::uint32_t> seeds;
  for (int rank = 0; rank < ranks; ++rank) seeds.push_back(seed_of(first + rank * step, stamp));
  for (std::size_t i = 0; i < bytes / 4; ++i) {
    std::uint32_t sum = 0;
    for (const std::uint32_t seed : seeds) sum += number_at(seed, i);
    if (numbers[i] != static_cast<float>(sum)) return false;
  }
  return true;
}

/// Reads one word of each cache line, as a consumer would.
inline void consume(const void* at, std::size_t bytes) {
  const auto* words = static_cast<const std::uint32_t*>(at);
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < bytes / 4; i += 16) sum += words[i];
  asm volatile("" : : "r"(sum) : "memory");
}

}  // namespace compare
