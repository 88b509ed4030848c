#include "collectives/args/reducer.hpp"

#include <algorithm>
#include <cstring>

namespace hmc::collectives {

namespace {

constexpr std::size_t block_bytes = 16384;  // the accumulator stays in the L1 cache

void reduce_by_user(const Reducer& reducer, void* const* outs, int out_count, const void* const* ins, int in_count,
                    std::size_t count, std::vector<std::byte>& scratch) noexcept {
  if (scratch.size() < block_bytes) scratch.resize(block_bytes);
  const std::size_t block = block_bytes / reducer.element;
  for (std::size_t done = 0; done < count; done += block) {
    const std::size_t n = std::min(block, count - done);
    const std::size_t offset = done * reducer.element;
    std::memcpy(scratch.data(), static_cast<const std::byte*>(ins[0]) + offset, n * reducer.element);
    for (int i = 1; i < in_count; ++i)
      reducer.function(scratch.data(), static_cast<const std::byte*>(ins[i]) + offset, n, reducer.type,
                       reducer.context);
    for (int j = 0; j < out_count; ++j)
      std::memcpy(static_cast<std::byte*>(outs[j]) + offset, scratch.data(), n * reducer.element);
  }
}

}  // namespace

void reduce(const Reducer& reducer, void* const* outs, int out_count, const void* const* ins, int in_count,
            std::size_t count, std::vector<std::byte>& scratch) noexcept {
  if (count == 0) return;
  if (reducer.kernel != nullptr) {
    reducer.kernel(outs, out_count, ins, in_count, count);
  } else {
    reduce_by_user(reducer, outs, out_count, ins, in_count, count, scratch);
  }
}

}  // namespace hmc::collectives
