// Helpers for tests of collectives on device streams.
#pragma once

#include <functional>
#include <memory>

#include "tests/multirank/device_kernels.hpp"
#include "tests/multirank/device_sums.hpp"

namespace hmc::spmd {

inline bool by_words(TestRank& me, const MemoryKind& kind, const ConnBuffer& buffer) {
  return kind.name == "cuda" && has_kernels(me, buffer);
}

/// A stream on the buffer's device, owned by the test.
struct OnStream {
  explicit OnStream(const ConnBuffer& buffer)
      : provider(*buffer.allocation()->provider), stream(provider.make_stream(buffer.device_id)) {}
  void copy(void* to, const void* from, std::size_t bytes, hmc::memory::Direction direction) {
    HMC_CHECK(provider.copy_async({to, from, bytes, direction}, *stream).ok());
  }
  void synchronize() { HMC_CHECK(stream->synchronize().ok()); }
  void* native() const { return stream->native(); }
  const hmc::memory::Provider& provider;
  std::unique_ptr<hmc::memory::Stream> stream;
};

inline void sum_on(hmc::Team& team, OnStream& on, void* in, void* out, std::size_t count) {
  team.allreduce_on(on.native(), in, out, count, DType::f32, hmc::sum);
}

inline void on_every_kind(TestRank& me, const std::function<void(const MemoryKind&)>& body) {
  for (const MemoryKind& kind : kinds_of(me))
    if (kind.type != hmc::MemoryType::CPU) body(kind);
}
inline void on_every_fake(TestRank& me, const std::function<void(const MemoryKind&)>& body) {
  if (!drivers_are_fake()) skip("for fake drivers");
  on_every_kind(me, [&](const MemoryKind& kind) {
    if (kind.type != hmc::MemoryType::OPENCL) body(kind);
  });
}

inline bool is_steered(const MemoryKind& kind) { return drivers_are_fake() && kind.type != hmc::MemoryType::OPENCL; }
inline void make_late(const MemoryKind& kind, int us) {
  if (is_steered(kind)) Fake(kind.name).set_delay_us(us);
}

}  // namespace hmc::spmd
