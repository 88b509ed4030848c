// The data of each operation: the buffers, the ranks that fill and read each of them, and the expected contents.
// Every value depends on rank, position and call, so that a stale or misplaced word, or one of another rank, is
// detected.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "setup.hpp"

namespace compare {

inline constexpr std::size_t page_bytes = 4096;

inline std::size_t whole_pages(std::size_t bytes) { return (bytes + page_bytes - 1) / page_bytes * page_bytes; }

class Memory {
 public:
  Memory() = default;
  explicit Memory(std::size_t bytes)
      : start_(static_cast<std::byte*>(std::aligned_alloc(page_bytes, whole_pages(bytes)))) {
    if (!start_) throw std::bad_alloc();
    std::memset(start_.get(), 0, whole_pages(bytes));
  }
  std::byte* data() const { return start_.get(); }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> start_;
};

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

inline bool one_sided(Operation operation) { return operation == Operation::put || operation == Operation::get; }

/// One rank's data of a cell. For `Contestant` see common/loop.hpp.
template <typename Contestant> class Data {
 public:
  explicit Data(Contestant& contestant) : it_(contestant) {}

  void fill(const Cell& cell, std::uint32_t stamp) {
    const int rank = it_.rank();
    switch (cell.operation) {
      case Operation::barrier: return;
      case Operation::put:
      case Operation::broadcast:
        if (rank == 0) fill_words(it_.source(), cell.bytes, rank, stamp);
        return;
      case Operation::get:
        if (rank == target_rank()) fill_words(it_.target(), cell.bytes, rank, stamp);
        return;
      case Operation::allgather:
      case Operation::allgatherv:
      case Operation::gather: return fill_words(it_.source(), cell.bytes, rank, stamp);
      case Operation::scatter:
        if (rank != 0) return;
        [[fallthrough]];
      case Operation::alltoall:
      case Operation::alltoallv:
        for (int to = 0; to < it_.size(); ++to) fill_words(in_block(cell, to), cell.bytes, pair(rank, to), stamp);
        return;
      case Operation::reduce_scatter:
        for (int to = 0; to < it_.size(); ++to) fill_numbers(in_block(cell, to), cell.bytes, pair(rank, to), stamp);
        return;
      case Operation::allreduce:
      case Operation::reduce:
      case Operation::scan:
      case Operation::exscan: return fill_numbers(it_.source(), cell.bytes, rank, stamp);
    }
  }

  /// Reads the result as a consumer would.
  void read(const Cell& cell) {
    if (!has_result(cell.operation)) return;
    if (cell.operation == Operation::put)
      consume(it_.target(), cell.bytes);
    else if (cell.operation == Operation::broadcast)
      consume(it_.source(), cell.bytes);
    else
      consume(it_.result(), result_bytes(cell));
  }

  /// Overwrites the result, so that an earlier call's result isn't accepted.
  void poison(const Cell& cell) { std::memset(it_.result(), 0xa5, result_bytes(cell)); }

  bool verify(const Cell& cell, std::uint32_t stamp) {
    if (!has_result(cell.operation)) return true;
    const int rank = it_.rank();
    const std::size_t bytes = cell.bytes;
    switch (cell.operation) {
      case Operation::barrier: return true;
      case Operation::put: return holds_words(it_.target(), bytes, 0, stamp);
      case Operation::get: return holds_words(it_.result(), bytes, target_rank(), stamp);
      case Operation::broadcast: return holds_words(it_.source(), bytes, 0, stamp);
      case Operation::scatter: return holds_words(it_.result(), bytes, pair(0, rank), stamp);
      case Operation::allreduce:
      case Operation::reduce: return holds_sums(it_.result(), bytes, it_.size(), stamp);
      case Operation::scan: return holds_sums(it_.result(), bytes, rank + 1, stamp);
      case Operation::exscan: return holds_sums(it_.result(), bytes, rank, stamp);
      case Operation::reduce_scatter:
        return holds_sums(it_.result(), bytes, it_.size(), stamp, pair(0, rank), most_ranks);
      case Operation::allgather:
      case Operation::allgatherv:
      case Operation::gather:
      case Operation::alltoall:
      case Operation::alltoallv:
        for (int from = 0; from < it_.size(); ++from) {
          const int filled_as = has_block_per_rank_in(cell.operation) ? pair(from, rank) : from;
          if (!holds_words(it_.result() + block(cell, from), bytes, filled_as, stamp)) return false;
        }
        return true;
    }
    return false;
  }

  int target_rank() const { return it_.size() > 1 ? 1 : 0; }

 private:
  static constexpr int most_ranks = 4096;
  /// The seed with which `from` fills its block for `to`.
  static int pair(int from, int to) { return from * most_ranks + to + 1; }
  static std::size_t block(const Cell& cell, int index) { return cell.bytes * static_cast<std::size_t>(index); }
  std::byte* in_block(const Cell& cell, int index) { return it_.source() + block(cell, index); }

  bool has_result(Operation operation) const {
    switch (operation) {
      case Operation::barrier: return false;
      case Operation::put: return it_.rank() == target_rank();
      case Operation::get:
      case Operation::gather:
      case Operation::reduce: return it_.rank() == 0;
      case Operation::exscan: return it_.rank() > 0;
      default: return true;
    }
  }
  std::size_t result_bytes(const Cell& cell) const {
    return cell.bytes * (has_block_per_rank_out(cell.operation) ? static_cast<std::size_t>(it_.size()) : 1);
  }

  Contestant& it_;
};

}  // namespace compare
