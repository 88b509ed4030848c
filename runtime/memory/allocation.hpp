// Allocation: bytes that a provider gave.
#pragma once

#include <cstddef>
#include <memory>

#include "runtime/base/segment.hpp"
#include "runtime/memory/known_ranges.hpp"

namespace hmc::memory {

class Provider;

/// How memory is got. The host reaches `pinned` and `managed`; devices reach all.
enum class Backing {
  best,            ///< what shares best on this machine: vmm where its trial passed, else plain
  plain,           ///< the vendor's malloc
  vmm,             ///< physical memory mapped into a reserved range; shared by descriptor
  stream_ordered,  ///< from the vendor's pool
  pinned,          ///< host memory that devices read and write
  managed,         ///< moves between host and device by itself
};
const char* name_of(Backing backing) noexcept;

/// Freed with the last holder. Its fields don't change.
class Allocation {
 public:
  virtual ~Allocation() = default;
  /// From now on kernels on another device of the provider's reach it; false where they can't.
  virtual bool let_reach(int other) noexcept { return other == device; }
  std::byte* address = nullptr;
  std::size_t bytes = 0;
  int device = 0;
  const Provider* provider = nullptr;
  Backing backing = Backing::best;
  bool host_accessible = false;            ///< load and store of the host reach it
  std::shared_ptr<base::Segment> segment;  ///< where it lies in shareable host memory; null if it doesn't
  std::size_t segment_offset = 0;
  KnownRange known;  ///< whoever gives the memory back forgets it before; a user's memory isn't in it
};

}  // namespace hmc::memory
