// The buffers of a program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <hmc/team.hpp>
#include <hmc/window.hpp>
#include <memory>

#include "bench/osu/kit/options.hpp"

namespace bench {

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
