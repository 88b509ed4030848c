#include "runtime/memory/provider.hpp"

#include <fmt/format.h>

#include <hmc/error.hpp>

#include "runtime/memory/host.hpp"

namespace hmc::memory {

namespace {

const HostProvider& host() {
  static const HostProvider provider;  // stateless
  return provider;
}

}  // namespace

std::vector<ProviderInfo> list_providers() { return {{host().name(), true, "memfd-backed, device 0"}}; }

const Provider& provider_for(MemoryType type) {
  if (type == MemoryType::DEFAULT || type == MemoryType::CPU) return host();
  throw Error(Code::unsupported, "ConnBuffer", fmt::format("this build has no provider for {} memory", name_of(type)),
              "hmcinfo lists the kinds of memory that it has");
}

std::shared_ptr<Allocation> adopt_segment(std::shared_ptr<base::Segment> segment, std::size_t offset,
                                          std::size_t bytes) {
  auto allocation = std::make_shared<Allocation>();
  allocation->address = segment->base() + offset;
  allocation->bytes = bytes;
  allocation->provider = &host();
  allocation->segment = std::move(segment);
  allocation->segment_offset = offset;
  return allocation;
}

}  // namespace hmc::memory
