// Where a program's data live.
#pragma once

#include <cstddef>
#include <cstdint>
#include <hmc/team.hpp>
#include <hmc/window.hpp>
#include <memory>

#include "bench/osu/kit/options.hpp"

namespace bench {

/// On every rank: `remote` bytes in a window, which others reach, and `local` bytes, which lie in the
/// same window or in private memory. Both begin on a page and are written once, so that no page is new
/// when it is timed. Making and closing it is collective.
class Buffers {
 public:
  Buffers(hmc::Team& team, Place place, std::size_t local, std::size_t remote = 0);
  void close() { window_.close(); }

  std::byte* local() const { return local_; }
  std::byte* remote() const { return window_.data() + remote_offset; }  // this rank's own part
  hmc::Window& window() { return window_; }

  /// Before it: words for signals and atomics, one cache line each.
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
