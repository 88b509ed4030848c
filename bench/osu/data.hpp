// The buffers of a program, and the data of its reductions.
#pragma once

#include <cstddef>
#include <cstdint>

#include <hmc/team.hpp>
#include <hmc/types.hpp>
#include <hmc/window.hpp>

#include "bench/kit/pattern.hpp"
#include "bench/osu/options.hpp"

namespace bench {

/// Each rank's contribution to a reduction: small integers, so that the result is exact in every type.
Pattern contribution(hmc::Op op, hmc::DType type, int rank, int ranks);
/// The result of the first `count` of the ranks, at least one. avg is defined for all of them only.
Pattern reduction(hmc::Op op, hmc::DType type, int count, int ranks);

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
  hmc::Window window_;
  Memory private_;
  std::byte* local_ = nullptr;
};

}  // namespace bench
