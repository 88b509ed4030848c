// Providers of memory: one per kind. Everything above asks them, and never assumes that the host can
// read an address.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <hmc/types.hpp>

#include "runtime/base/segment.hpp"
#include "runtime/base/status.hpp"

namespace hmc::memory {

class Provider;

/// Bytes that a provider gave. Freed with the last holder. Its fields don't change.
class Allocation {
 public:
  virtual ~Allocation() = default;
  std::byte* address = nullptr;
  std::size_t bytes = 0;
  int device = 0;
  const Provider* provider = nullptr;
  std::shared_ptr<base::Segment> segment;  ///< where it lies in shareable memory; null if it can't be shared so
  std::size_t segment_offset = 0;
};

/// One kind of memory. Stateless from outside, usable by any thread.
class Provider {
 public:
  virtual ~Provider() = default;
  virtual std::string name() const = 0;
  virtual MemoryType type() const noexcept = 0;
  /// Empty when it can be used here; else one clause that says why not.
  virtual std::string why_not() const = 0;
  /// Load and store of the host reach this memory.
  virtual bool host_accessible() const noexcept = 0;

  /// Zeroed and populated. Throws Error{out_of_memory, invalid_argument (no such device)}.
  virtual std::shared_ptr<Allocation> allocate(int device, std::size_t bytes) const = 0;
  virtual base::Status copy_from_host(void* destination, const void* source, std::size_t bytes) const noexcept = 0;
  virtual base::Status copy_to_host(void* destination, const void* source, std::size_t bytes) const noexcept = 0;
  /// Both sides in this memory; the ranges may overlap.
  virtual base::Status copy_within(void* destination, const void* source, std::size_t bytes) const noexcept = 0;
};

struct ProviderInfo {
  std::string name;
  bool available = false;
  std::string why;
};
std::vector<ProviderInfo> list_providers();

/// Throws Error{unsupported} with the reason.
const Provider& provider_for(MemoryType type);

/// Memory that the caller already has as a segment, as host memory.
std::shared_ptr<Allocation> adopt_segment(std::shared_ptr<base::Segment> segment, std::size_t offset,
                                          std::size_t bytes);

}  // namespace hmc::memory
