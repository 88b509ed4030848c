// Access of kernels to a window's parts. KernelReach: whether kernels of this rank's device can access all parts, and
// the addresses. DeviceView: the table that a DeviceHandle points to. Registration: registered host memory.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <hmc/device_handle.hpp>
#include <hmc/types.hpp>

#include "runtime/base/status.hpp"
#include "runtime/memory/provider.hpp"

namespace hmc::memory {
class Kernels;
class Stream;
}  // namespace hmc::memory

namespace hmc::rma {
class WindowCore;
}  // namespace hmc::rma

namespace hmc::device {

/// Created once per window, at the first use. The window outlives it. One thread at a time.
class KernelReach {
 public:
  explicit KernelReach(const rma::WindowCore& core);
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
  std::string find(const rma::WindowCore& core);

  std::string why_not_;
  int device_ = 0;
  const memory::Kernels* kernels_ = nullptr;
  std::vector<std::byte*> parts_;
  std::unique_ptr<memory::Stream> stream_;
};

class NodeRange;

/// Host memory that is registered with a device of this process during this object's lifetime. One thread at a time.
class Registration {
 public:
  Registration() = default;
  /// Registers all pages of the range. If other code has already registered the memory, seen() is also valid.
  Registration(const memory::Provider& provider, int device, std::byte* address, std::size_t bytes);
  Registration(Registration&& other) noexcept;
  Registration& operator=(Registration&&) = delete;
  ~Registration();
  /// The address in the device's address space; null if the device can't access it.
  std::byte* seen() const noexcept { return seen_; }

 private:
  const memory::Provider* provider_ = nullptr;
  int device_ = 0;
  std::byte* registered_ = nullptr;
  std::byte* seen_ = nullptr;
};

class DeviceView {
 public:
  /// Throws Error. `range`, `context`: null if there is none.
  DeviceView(const rma::WindowCore& core, const NodeRange* range, const rma::WindowCore* context,
             const memory::Provider& provider, int device);
  DeviceHandle handle() const noexcept { return handle_; }
  const memory::Provider& provider() const noexcept { return provider_; }
  int device() const noexcept { return device_; }
  bool has_context() const noexcept { return has_context_; }

 private:
  std::byte* reach(const rma::WindowCore& core, int rank);
  /// The parts' addresses, indexed by rank: in the node's range if all parts are in it, otherwise in each part's own
  /// mapping.
  std::vector<std::byte*> reach_all(const rma::WindowCore& core, const NodeRange* range);

  const memory::Provider& provider_;
  int device_;
  bool has_context_;
  std::vector<Registration> registered_;
  std::shared_ptr<memory::Allocation> table_;
  DeviceHandle handle_;
};

}  // namespace hmc::device
