// Tensors on an accelerator: the order of their streams, and reductions by the devices.
#pragma once

#include <algorithm>
#include <bit>
#include <memory>
#include <utility>

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <hmc/conn_buffer.hpp>
#include <hmc/reduction.hpp>
#include <hmc/team.hpp>
#include <hmc/window.hpp>

#include "group.hpp"

namespace hmc::torch_adapter {

/// An operation's work on a tensor's device. It is on a stream of its own, behind the work that the caller's stream has
/// at the call. Each copy is complete when it returns, so the caller's later work needs no order.
class DeviceOrder {
 public:
  explicit DeviceOrder(const at::Tensor& tensor)
      : on_(tensor.device().type()),
        called_(tensor.device().type()),
        stream_(on_.getStreamFromGlobalPool(tensor.device())) {
    called_.record(on_.getStream(tensor.device()));
  }
  void copy(const at::Tensor& to, const at::Tensor& from) const {
    called_.block(stream_);
    const c10::StreamGuard guard(stream_);
    to.copy_(from);
    stream_.synchronize();
  }

 private:
  c10::impl::VirtualGuardImpl on_;
  c10::Event called_;
  c10::Stream stream_;
};

/// A window over device memory to which large tensors are copied, because the devices reduce memory in windows only.
/// One operation of the group at a time.
class DeviceWindow {
 public:
  explicit DeviceWindow(std::shared_ptr<RetiredWindows> retired) : retired_(std::move(retired)) {}
  DeviceWindow(const DeviceWindow&) = delete;
  DeviceWindow& operator=(const DeviceWindow&) = delete;
  ~DeviceWindow() { retired_->add(std::move(window_)); }

  static bool suits(const at::Tensor& tensor) {
    return tensor.is_cuda() && tensor.layout() == c10::kStrided && tensor.nbytes() >= least;
  }
  /// Collective; in place. Returns false, on all ranks, if a rank can't have such a window.
  bool allreduce(Team& team, const DeviceOrder& order, const at::Tensor& tensor, DType type, Op op) {
    if (!prepare(team, tensor)) return false;
    const auto whole = static_cast<std::int64_t>(tensor.nbytes()), most = static_cast<std::int64_t>(window_.bytes());
    const bool is_as_stored = tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
    const at::Tensor bytes = is_as_stored ? tensor : at::empty(tensor.sizes(), tensor.options());
    if (!is_as_stored) order.copy(bytes, tensor);
    const auto options = tensor.options().dtype(at::kByte);
    for (std::int64_t first = 0; first < whole; first += most) {
      const std::int64_t length = std::min(most, whole - first);
      const at::Tensor part = at::from_blob(static_cast<char*>(bytes.data_ptr()) + first, {length}, options);
      const at::Tensor staging = at::from_blob(window_.data(), {length}, options);
      order.copy(staging, part);
      team.allreduce(window_.data(), window_.data(), static_cast<std::size_t>(length) / size_of(type), type, op);
      order.copy(part, staging);
    }
    if (!is_as_stored) order.copy(tensor, bytes);
    return true;
  }

 private:
  static constexpr std::size_t least = std::size_t{256} << 10, most = std::size_t{64} << 20;

  /// The same decisions on all ranks: by the number of bytes, and by what the ranks agree on.
  bool prepare(Team& team, const at::Tensor& tensor) {
    const std::size_t wanted = std::min(std::bit_ceil(tensor.nbytes()), most);
    if (is_refused_) return false;
    // A rank may use several devices in turn. Then its tensor isn't on the window's device, and all use host memory.
    std::int32_t is_same = bytes_ == 0 || device_ == tensor.device() ? 1 : 0;
    team.allreduce(&is_same, &is_same, 1, DType::i32, Op::min);
    if (is_same == 0) return false;
    if (bytes_ >= wanted) return true;
    std::int32_t has_memory = 0;
    std::unique_ptr<ConnBuffer> memory;
    try {
      memory = std::make_unique<ConnBuffer>(static_cast<int>(tensor.device().index()), wanted, MemoryType::NVIDIA_GPU);
      has_memory = 1;
    } catch (const Error& error) {  // no memory, or no driver that HMC knows
      TORCH_WARN_ONCE("hmc: all_reduce of tensors on this device goes through host memory: ", error.what());
    }
    team.allreduce(&has_memory, &has_memory, 1, DType::i32, Op::min);
    is_refused_ = has_memory == 0;
    if (is_refused_) return false;
    retired_->add(std::exchange(window_, Window()));
    window_ = Window::create(team, *memory);
    bytes_ = wanted;
    device_ = tensor.device();
    return true;
  }

  std::shared_ptr<RetiredWindows> retired_;
  Window window_;
  std::size_t bytes_ = 0;
  c10::Device device_{c10::kCPU};
  bool is_refused_ = false;
};

}  // namespace hmc::torch_adapter
