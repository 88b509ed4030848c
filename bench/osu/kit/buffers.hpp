// The buffers of a program, and the patterns in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <hmc/team.hpp>
#include <hmc/types.hpp>
#include <hmc/window.hpp>

#include "bench/osu/kit/options.hpp"

namespace bench {

/// A sequence of elements with a prime period, shifted in every iteration. So a block at another power-of-two offset,
/// or of the last iteration, is detected. Written and compared at the speed of memory.
class Pattern {
 public:
  /// `one_period` holds `period` elements of `element` bytes.
  Pattern(std::size_t element, const std::vector<std::byte>& one_period);
  /// Bytes that depend on `seed`, for example a rank.
  static Pattern bytes(std::uint64_t seed);

  void write(void* to, std::size_t bytes, int iteration) const;
  bool matches(const void* data, std::size_t bytes, int iteration) const;

  static constexpr std::size_t period = 1021;

 private:
  const std::byte* start(int iteration) const;

  std::size_t element_;
  std::vector<std::byte> twice_;  // two periods, so that a period may start at any offset
};

/// Each rank's contribution to a reduction: small integers, so that the result is exact in every type.
Pattern contribution(hmc::Op op, hmc::DType type, int rank, int ranks);
/// The result of the reduction over all ranks.
Pattern reduction(hmc::Op op, hmc::DType type, int ranks);
/// The result over the first `count` ranks, at least one; for avg, their sum.
Pattern prefix(hmc::Op op, hmc::DType type, int count, int ranks);

/// On every rank: `remote` bytes in a window, and `local` bytes in the same window or in private memory. Both begin on
/// a page and are written once, so that no page fault is timed. Construction and close are collective.
class Buffers {
 public:
  Buffers(hmc::Team& team, Place place, std::size_t local, std::size_t remote = 0);
  void close() { window_.close(); }

  std::byte* local() const { return local_; }
  std::byte* remote() const { return window_.data() + remote_offset; }  // this rank's own part
  hmc::Window& window() { return window_; }

  /// Before it: words for signals and atomics, one per cache line.
  static constexpr std::uint64_t remote_offset = 4096;

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  hmc::Window window_;
  std::unique_ptr<std::byte, Free> private_;
  std::byte* local_ = nullptr;
};

}  // namespace bench
