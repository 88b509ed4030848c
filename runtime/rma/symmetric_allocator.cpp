#include "runtime/rma/symmetric_allocator.hpp"

#include <algorithm>
#include <iterator>

namespace hmc::rma {

std::optional<std::uint64_t> SymmetricAllocator::allocate(std::uint64_t bytes, std::uint64_t align) {
  for (auto range = free_.begin(); range != free_.end(); ++range) {
    const auto [start, length] = *range;
    const std::uint64_t skipped = (align - start % align) % align;
    if (skipped > length || bytes > length - skipped) continue;
    const std::uint64_t offset = start + skipped;
    free_.erase(range);
    if (skipped > 0) free_[start] = skipped;
    if (length - skipped > bytes) free_[offset + bytes] = length - skipped - bytes;
    used_[offset] = bytes;
    note({offset, bytes});
    return offset;
  }
  return std::nullopt;
}

void SymmetricAllocator::note(const Made& made) {
  ++made_;
  for (const std::uint64_t word : {made.offset, made.bytes}) {
    hash_ = (hash_ ^ word) * 0xd1342543de82ef95U;
    hash_ ^= hash_ >> 29;
  }
  if (first_made_.size() < first_kept) first_made_.push_back(made);
}

bool SymmetricAllocator::release(std::uint64_t offset) {
  const auto found = used_.find(offset);
  if (found == used_.end()) return false;
  const std::uint64_t bytes = found->second;
  used_.erase(found);
  add_free(offset, bytes);
  return true;
}

void SymmetricAllocator::add_free(std::uint64_t offset, std::uint64_t bytes) {
  auto after = free_.lower_bound(offset);
  if (after != free_.end() && offset + bytes == after->first) {
    bytes += after->second;
    after = free_.erase(after);
  }
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  free_[offset] = bytes;
}

std::uint64_t SymmetricAllocator::largest_free() const noexcept {
  std::uint64_t largest = 0;
  for (const auto& [offset, bytes] : free_) largest = std::max(largest, bytes);
  return largest;
}

}  // namespace hmc::rma
