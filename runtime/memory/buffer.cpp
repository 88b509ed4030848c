#include <hmc/buffer.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "runtime/memory/provider.hpp"

namespace hmc {

namespace {

struct Source {
  const char* name;
  MemoryType type;
  memory::Backing backing;
};
// In the order of Allocator.
constexpr std::array<Source, allocator_count> sources{{
    {"host_new", MemoryType::CPU, memory::Backing::best},
    {"host_malloc", MemoryType::CPU, memory::Backing::best},
    {"cuda", MemoryType::NVIDIA_GPU, memory::Backing::best},
    {"cuda_async", MemoryType::NVIDIA_GPU, memory::Backing::stream_ordered},
    {"cuda_pinned", MemoryType::NVIDIA_GPU, memory::Backing::pinned},
    {"cuda_managed", MemoryType::NVIDIA_GPU, memory::Backing::managed},
    {"hip", MemoryType::AMD_GPU, memory::Backing::best},
    {"hip_async", MemoryType::AMD_GPU, memory::Backing::stream_ordered},
    {"hip_pinned", MemoryType::AMD_GPU, memory::Backing::pinned},
    {"hip_managed", MemoryType::AMD_GPU, memory::Backing::managed},
    {"musa", MemoryType::MOORE_GPU, memory::Backing::best},
    {"cnrt", MemoryType::CAMBRICON_MLU, memory::Backing::best},
    {"acl", MemoryType::ASCEND_NPU, memory::Backing::best},
    {"opencl", MemoryType::OPENCL, memory::Backing::best},
}};

const Source& source_of(Allocator allocator) noexcept { return sources[static_cast<std::size_t>(allocator)]; }

std::shared_ptr<std::byte> from_host(Allocator allocator, std::size_t bytes) {
  const std::size_t size = std::max<std::size_t>(bytes, 1);
  const bool by_new = allocator == Allocator::host_new;
  void* const got = by_new ? ::operator new(size, std::nothrow) : std::malloc(size);
  if (got == nullptr) throw Error(Code::out_of_memory, "Buffer", std::to_string(bytes) + " bytes of host memory");
  std::memset(got, 0, size);
  auto* const address = static_cast<std::byte*>(got);
  if (by_new) return {address, [](std::byte* each) { ::operator delete(each); }};
  return {address, [](std::byte* each) { std::free(each); }};
}

}  // namespace

const char* name_of(Allocator allocator) noexcept {
  const auto index = static_cast<std::size_t>(allocator);
  return index < sources.size() ? sources[index].name : "unknown";
}

namespace detail {

std::shared_ptr<std::byte> buffer_allocate(Place place, std::size_t bytes) {
  const Source& source = source_of(place.allocator);
  if (source.type == MemoryType::CPU) return from_host(place.allocator, bytes);
  auto allocation = memory::provider_for(source.type).allocate(place.device, bytes, source.backing);
  std::byte* const address = allocation->address;
  return {std::move(allocation), address};
}

void buffer_copy(void* destination, const void* source, std::size_t bytes) {
  const base::Status status = memory::copy_between(destination, source, bytes);
  if (!status.ok()) throw Error(status.code, "Buffer", status.what == nullptr ? "copy" : status.what);
}

bool host_reaches(Allocator allocator) noexcept {
  const Source& source = source_of(allocator);
  return source.type == MemoryType::CPU || source.backing == memory::Backing::pinned ||
         source.backing == memory::Backing::managed;
}

bool device_reaches(MemoryType type, int device, Place place) noexcept {
  const Source& source = source_of(place.allocator);
  if (source.type != type) return false;
  // Pinned and managed memory is reached by every device of its vendor.
  return device == place.device || host_reaches(place.allocator);
}

Allocator allocator_for(MemoryType type) {
  for (std::size_t i = 0; i < sources.size(); ++i)
    if (sources[i].type == type) return static_cast<Allocator>(i);
  throw Error(Code::unsupported, "Buffer", std::string("no allocator for ") + name_of(type) + " memory");
}

}  // namespace detail

}  // namespace hmc
