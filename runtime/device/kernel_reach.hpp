// KernelReach: whether kernels of this rank's device can read and write all parts of a window, and their addresses.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <hmc/types.hpp>

#include "runtime/base/status.hpp"

namespace hmc::memory {
class Kernels;
class Stream;
}  // namespace hmc::memory

namespace hmc::rma {

class WindowCore;

/// Created once per window, at the first use. The window outlives it. One thread at a time.
class KernelReach {
 public:
  explicit KernelReach(const WindowCore& core);
  ~KernelReach();
  KernelReach(const KernelReach&) = delete;
  KernelReach& operator=(const KernelReach&) = delete;

  /// Empty if every part is device memory of one vendor, is mapped in this process, and kernels on this rank's device
  /// can access it. Otherwise the reason.
  const std::string& why_not() const noexcept { return why_not_; }
  /// The address of a rank's part for kernels.
  std::byte* part(int rank) const noexcept { return parts_[static_cast<std::size_t>(rank)]; }
  int device() const noexcept { return device_; }
  const memory::Kernels& kernels() const noexcept { return *kernels_; }

  /// outs[j][i] = ins[0][i] op ins[1][i] ..., with the same bits as collectives/reduce. Returns at completion. At most
  /// most_inputs inputs and outputs each; addresses are multiples of the element size.
  base::Status reduce(std::span<const void* const> ins, std::span<void* const> outs, std::size_t count, DType type,
                      Op op) noexcept;
  static constexpr std::size_t most_inputs = 64;

 private:
  std::string find(const WindowCore& core);

  std::string why_not_;
  int device_ = 0;
  const memory::Kernels* kernels_ = nullptr;
  std::vector<std::byte*> parts_;
  std::unique_ptr<memory::Stream> stream_;
};

}  // namespace hmc::rma
