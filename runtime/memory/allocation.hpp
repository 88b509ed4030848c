// Allocation: memory allocated or imported by a provider.
#pragma once

#include <cstddef>
#include <memory>

#include "runtime/base/segment.hpp"
#include "runtime/memory/known_ranges.hpp"

namespace hmc::memory {

class Provider;

/// How memory is allocated. The host can access `pinned` and `managed` memory; devices can access every kind.
enum class Backing {
  best,            ///< DeviceProvider: vmm if preferred for this vendor and its trial passed, otherwise plain
  plain,           ///< from the vendor's malloc
  vmm,             ///< physical memory mapped into a reserved address range; shared by descriptor
  stream_ordered,  ///< from the vendor's pool
  pinned,          ///< page-locked host memory that devices can access
  managed,         ///< migrates between host and device on access
};
const char* name_of(Backing backing) noexcept;

/// Freed with its last shared_ptr. The fields don't change after creation.
class Allocation {
 public:
  virtual ~Allocation() = default;
  /// Gives kernels on another device of the same provider access to the memory. Returns false if that isn't possible.
  virtual bool let_reach(int other) noexcept { return other == device; }
  std::byte* address = nullptr;
  std::size_t bytes = 0;
  int device = 0;
  const Provider* provider = nullptr;
  Backing backing = Backing::best;
  bool host_accessible = false;            ///< the host can load and store
  std::shared_ptr<base::Segment> segment;  ///< the shared segment that contains the memory; null if there is none
  std::size_t segment_offset = 0;
  KnownRange known;  ///< call forget() before the memory is freed or unmapped; not set for a user's memory
};

}  // namespace hmc::memory
