// RegisteredMemory.
#include <sys/mman.h>

#include "compat/memfabric/trans.hpp"

namespace hmc::memfabric {
namespace {

constexpr std::uint64_t most_allocated_bytes = std::uint64_t{128} << 30;  // as the original

std::uint64_t number(const void* address) { return reinterpret_cast<std::uint64_t>(address); }

}  // namespace

RegisteredMemory::~RegisteredMemory() {
  for (const auto& [address, bytes] : allocated_) ::munmap(reinterpret_cast<void*>(address), bytes);
}

void RegisteredMemory::require_free(std::byte* address, std::uint64_t bytes) const {
  require(address != nullptr && bytes > 0 && number(address) + bytes > number(address),
          "the address is null, or the size is 0 or too large");
  const auto same = ranges_.find(number(address));
  require(same == ranges_.end() || same->second == bytes, "the address is registered with another size");
}

void RegisteredMemory::add(std::byte* address, std::uint64_t bytes) {
  const std::pair<std::byte*, std::uint64_t> range{address, bytes};
  add({&range, 1});
}

void RegisteredMemory::add(std::span<const std::pair<std::byte*, std::uint64_t>> ranges) {
  const std::unique_lock lock(mutex_);
  for (const auto& [address, bytes] : ranges) require_free(address, bytes);
  for (const auto& [address, bytes] : ranges) ranges_.emplace(number(address), bytes);
}

void RegisteredMemory::remove(std::byte* address) {
  const std::unique_lock lock(mutex_);
  require(allocated_.count(number(address)) == 0, "smem_trans_free ends the registration of this memory");
  if (ranges_.erase(number(address)) == 0) throw Failure(SMEM_OBJECT_NOT_EXISTS, "the address isn't registered");
}

void* RegisteredMemory::allocate(std::uint64_t bytes) {
  const std::unique_lock lock(mutex_);
  require(bytes > 0, "the size is 0");
  if (bytes > most_allocated_bytes - allocated_bytes_)
    throw Failure(SMEM_MALLOC_FAILED, "more than 128 GiB are allocated");
  void* const pages =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) throw Failure(SMEM_MALLOC_FAILED, "mmap has failed");
  ranges_.emplace(number(pages), bytes);
  allocated_.emplace(number(pages), bytes);
  allocated_bytes_ += bytes;
  return pages;
}

void RegisteredMemory::free(std::byte* address) {
  const std::unique_lock lock(mutex_);
  const auto found = allocated_.find(number(address));
  if (found == allocated_.end()) throw Failure(SMEM_OBJECT_NOT_EXISTS, "smem_trans_malloc didn't return the address");
  ::munmap(address, found->second);
  allocated_bytes_ -= found->second;
  allocated_.erase(found);
  ranges_.erase(number(address));
}

bool RegisteredMemory::contains(std::uint64_t address, std::uint64_t bytes) const {
  if (bytes == 0 || address + bytes < address) return false;
  // A range may continue in the next one: the caller may have registered adjacent ranges.
  auto range = ranges_.upper_bound(address);
  if (range == ranges_.begin()) return false;
  --range;
  std::uint64_t end = range->first + range->second;
  if (end <= address) return false;
  for (++range; end < address + bytes && range != ranges_.end() && range->first <= end; ++range)
    end = std::max(end, range->first + range->second);
  return end >= address + bytes;
}

}  // namespace hmc::memfabric
