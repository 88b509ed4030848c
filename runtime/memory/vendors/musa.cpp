// Moore Threads. Sharing between processes isn't used yet: HMC needs the start of an allocation for the offset of an
// IPC handle, and the runtime doesn't report it.
#include <fmt/format.h>

#include "runtime/memory/vendors/runtime_vendor.hpp"

namespace hmc::memory {

namespace {

using namespace runtime_api;

constexpr Names names = HMC_RUNTIME_NAMES("musa", "musaInit", "musaHostAlloc", "musaFreeHost");

class MusaVendor final : public RuntimeVendor {
 public:
  MusaVendor() : RuntimeVendor(musa_library, names) {}
  const char* name() const noexcept override { return "musa"; }
  MemoryType type() const noexcept override { return MemoryType::MOORE_GPU; }

 protected:
  std::string version_text() const override {
    const int number = version();
    if (number == 0) return {};
    // Either CUDA's scheme (11020 is 11.2) or major * 10000 + minor * 100 (40301 is 4.3).
    return number >= 20'000 ? fmt::format("MUSA {}.{}", number / 10'000, number / 100 % 100)
                            : fmt::format("MUSA {}.{}", number / 1000, number % 1000 / 10);
  }
  PointerKind kind_of(const PointerAttributes& attributes) const noexcept override {
    // musaMemoryTypeHost 1, musaMemoryTypeDevice 2, musaMemoryTypeManaged 3, as in CUDA.
    return attributes.type == 2   ? PointerKind::device
           : attributes.type == 1 ? PointerKind::pinned
           : attributes.type == 3 ? PointerKind::managed
                                  : PointerKind::unknown;
  }
};

}  // namespace

std::unique_ptr<Vendor> open_musa() { return std::make_unique<MusaVendor>(); }

}  // namespace hmc::memory
