// The bare forms: operations by loads and stores in shared memory, without a library.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/floor/kernels.hpp"

namespace hmc::floor {

inline constexpr int max_ranks = 64;
inline constexpr std::size_t area_bytes = std::size_t{20} << 20;  ///< per rank and purpose

/// One writer, one cache line.
struct alignas(64) Line {
  std::atomic<std::uint64_t> sequence{0};
  double value = 0;
};

/// The memory that one rank writes. Ranks are pages apart, so that prefetchers don't fetch another rank's lines.
struct alignas(4096) Lines {
  Line arrival[2];  ///< two in turn: barrier and small allreduce
  Line step[3];     ///< steps of the large ones
  Line seconds;     ///< a round's time, for the table
};

/// The memory that the ranks share; made before they are forked.
class Shared {
 public:
  static Shared* create(int ranks);
  enum Area { staging, results, window_in, window_out, area_count };
  std::byte* area(int rank, Area which) noexcept;
  int ranks() const noexcept { return ranks_; }

  Lines lines[max_ranks];

 private:
  int ranks_ = 0;
};

/// One rank's side. Every method is called by all ranks.
class Bare {
 public:
  Bare(Shared* shared, int rank);

  void barrier();
  double allreduce(double value);
  /// Rank 0's value.
  double broadcast(double value) { return allreduce(rank_ == 0 ? value : 0); }

  /// Buffers that peers reach: slices reduced from all inputs, stored into all outputs (two ranks).
  void allreduce_window(std::size_t count, Stores stores);
  /// Buffers that peers don't reach, in three forms:
  /// halves through staging, the result in the same place of the peer's staging, block after block
  void allreduce_in_place(const float* in, float* out, std::size_t count, std::size_t block_bytes);
  /// halves through staging, the result through an area of its own, whole
  void allreduce_two_areas(const float* in, float* out, std::size_t count);
  /// each rank reads the other's whole input, through a ring of slots
  void allreduce_pipelined(const float* in, float* out, std::size_t count, std::size_t slot_bytes, std::uint64_t slots);

  Shared& shared() noexcept { return *shared_; }
  int rank() const noexcept { return rank_; }
  int peer() const noexcept { return 1 - rank_; }
  float* window(int rank, Shared::Area area) noexcept { return reinterpret_cast<float*>(shared_->area(rank, area)); }

 private:
  void publish(int step, std::uint64_t value) {
    shared_->lines[rank_].step[step].sequence.store(value, std::memory_order_release);
  }
  void await(int step, std::uint64_t value) { await(shared_->lines[peer()].step[step], value); }
  void await(const Line& line, std::uint64_t value);
  void add(float* out, const float* mine, const float* theirs, std::size_t count);

  Shared* shared_;
  int rank_;
  int ranks_;
  bool yields_;  ///< ranks outnumber cores
  std::uint64_t sequence_ = 0;
  std::uint64_t steps_ = 0;
  std::uint64_t results_read_ = 0;
};

}  // namespace hmc::floor
