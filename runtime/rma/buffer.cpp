// Buffers in a window's symmetric heap.
#include <hmc/buffer.hpp>

#include "runtime/rma/window_core.hpp"

namespace hmc {

namespace {

/// The Allocator that describes this rank's part.
Allocator kind_of(const memory::Owner& owner) {
  using memory::PointerKind;
  const MemoryType type = owner.provider->type();
  const bool amd = type == MemoryType::AMD_GPU;
  switch (owner.info.kind) {
    case PointerKind::unknown: return Allocator::host_malloc;
    case PointerKind::device: return detail::allocator_for(type);
    case PointerKind::managed: return amd ? Allocator::hip_managed : Allocator::cuda_managed;
    case PointerKind::pinned: break;
  }
  if (amd) return Allocator::hip_pinned;
  return type == MemoryType::NVIDIA_GPU ? Allocator::cuda_pinned : Allocator::host_malloc;
}

}  // namespace

Place::Place(const Window& window) : Place(Allocator::window) {
  if (!window.is_open()) throw Error(Code::invalid_argument, "Buffer", "the window isn't open");
  heap = window.core();
  const memory::Owner owner = memory::owner_of(heap->data());
  part = kind_of(owner);
  device = owner.info.device < 0 ? 0 : owner.info.device;
}

namespace detail {

std::shared_ptr<std::byte> allocate_in_window(const Place& place, std::size_t bytes) {
  const std::uint64_t offset = place.heap->alloc(bytes, 64);
  return {place.heap->data() + offset, [core = place.heap, offset](std::byte*) {
            if (core->is_open()) core->free(offset);
          }};
}

std::uint64_t offset_in_window(const Place& place, const std::byte* address) {
  if (place.heap == nullptr) throw Error(Code::invalid_argument, "Buffer::offset", "this Buffer lies in no window");
  return address == nullptr ? 0 : static_cast<std::uint64_t>(address - place.heap->data());
}

}  // namespace detail

}  // namespace hmc
