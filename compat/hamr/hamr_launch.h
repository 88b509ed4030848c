// The grid of blocks of a kernel over a flat array.
#ifndef hamr_launch_h
#define hamr_launch_h

#include <algorithm>
#include <cstddef>
#include <string>

#include <hmc/error.hpp>

namespace hamr {

namespace detail {

struct grid {
  unsigned x, y, z;  ///< blocks
  int blocks;        ///< that have elements
  unsigned threads;  ///< per block
};

/// At least one thread per element. Small arrays get smaller blocks. Throws hmc::Error if the grid can't have as many
/// blocks; more warps per block help.
inline grid partition(std::size_t array_size, int warps_per_block, int warp_size, const int* block_grid_max) {
  const auto warp = static_cast<std::size_t>(warp_size);
  const std::size_t warps = std::clamp(array_size / warp, std::size_t{1}, static_cast<std::size_t>(warps_per_block));
  const std::size_t threads = warps * warp, blocks = (array_size + threads - 1) / threads;
  const auto in = [](std::size_t all, int most) { return std::min(all, static_cast<std::size_t>(most)); };
  const auto over = [](std::size_t all, std::size_t each) { return std::max<std::size_t>(1, (all + each - 1) / each); };
  const std::size_t x = std::max<std::size_t>(1, in(blocks, block_grid_max[0]));
  const std::size_t y = in(over(blocks, x), block_grid_max[1]), z = over(blocks, x * y);
  if (z > static_cast<std::size_t>(block_grid_max[2]))
    throw hmc::Error(hmc::Code::invalid_argument, "hamr::partition_thread_blocks",
                     std::to_string(blocks) + " blocks are more than a grid can have; use more warps per block");
  return {static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(z), static_cast<int>(blocks),
          static_cast<unsigned>(threads)};
}

inline void check_launch(bool ok, const char* what, const char* why) {
  if (!ok) throw hmc::Error(hmc::Code::error, what, why);
}

}  // namespace detail

}  // namespace hamr

#endif
