// HmcBackend: the operations of a process group of torch.
//
// In torch 1.13 a backend is a ProcessGroup, from 2.0 on a c10d::Backend. The methods have the names that all releases
// know: newer names forward to them.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/api/include/torch/version.h>
#if TORCH_VERSION_MAJOR >= 2
#include <torch/csrc/distributed/c10d/Backend.hpp>
#else
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#endif

#include "group.hpp"
#include "work.hpp"

#define HMC_TORCH_AT_LEAST(major, minor) \
  (TORCH_VERSION_MAJOR > (major) || (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

namespace hmc::torch_adapter {

#if TORCH_VERSION_MAJOR >= 2
using Base = c10d::Backend;
#else
using Base = c10d::ProcessGroup;
#endif
using Handle = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;
using TensorLists = std::vector<std::vector<at::Tensor>>;

inline at::Tensor& single(Tensors& tensors, const Caller& caller) {
  TORCH_CHECK(tensors.size() == 1, caller, "needs one tensor per rank, not ", tensors.size());
  return tensors[0];
}
inline const Tensors& single(const TensorLists& lists, const Caller& caller) {
  TORCH_CHECK(lists.size() == 1, caller, "needs one list of tensors per rank, not ", lists.size());
  return lists[0];
}

class HmcBackend final : public Base {
 public:
  /// `name`: "hmc" or an alias, for the profiler. `ranks`: the global ranks of the group; empty: 0 to size - 1.
  HmcBackend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, Milliseconds timeout, std::string name,
             std::string group_name, std::vector<std::int64_t> ranks);

  /// Not an alias: DDP's logger casts a backend named "gloo" to torch's class.
  const std::string getBackendName() const override { return "hmc"; }

  Handle broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) override;
  Handle allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) override;
  Handle allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& opts);
  Handle allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& opts) override;
  Handle reduce(Tensors& tensors, const c10d::ReduceOptions& opts) override;
  Handle allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) override;
  Handle _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& opts) override;
  Handle allgather_coalesced(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) override;
  Handle allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts);
  Handle gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& opts) override;
  Handle gather_into_tensor(at::Tensor& output, at::Tensor& input, const c10d::GatherOptions& opts);
  Handle scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& opts) override;
  Handle reduce_scatter(Tensors& outputs, TensorLists& inputs, const c10d::ReduceScatterOptions& opts) override;
  Handle _reduce_scatter_base(at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& opts) override;
  Handle reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& opts);
  Handle alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_rows,
                       std::vector<std::int64_t>& input_rows, const c10d::AllToAllOptions& opts) override;
  Handle alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) override;
  Handle send(Tensors& tensors, int destination, int tag) override;
  Handle recv(Tensors& tensors, int source, int tag) override;
  Handle recvAnysource(Tensors& tensors, int tag) override;
  Handle barrier(const c10d::BarrierOptions& opts) override;
  void monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) override;
  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override { return sequence_; }

#if TORCH_VERSION_MAJOR >= 2
  void setTimeout(std::chrono::milliseconds timeout) { options_->timeout = timeout; }
  void abort() { group_->abort("abort was called on the process group"); }
  void shutdown() { group_->leave(); }
  c10::intrusive_ptr<Options> getBackendOptions() { return options_; }
#endif
#if HMC_TORCH_AT_LEAST(2, 14)
  /// Not with a bound device: torch then expects a call on the ranks that aren't members.
  bool supportsSplitting() const override { return !getBoundDeviceId(); }
  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<Options>& opts) override;
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;
  bool supportsTensorAlloc(c10::DeviceIndex device) override { return device < 0; }  // the CPU
#endif

  /// Collective. A tensor in a window: reductions of it are without copies.
  at::Tensor empty(const std::vector<std::int64_t>& sizes, const at::TensorOptions& options);
  /// Collective. A tensor of one dimension in a window that is used again. Its content is undefined.
  at::Tensor allocate(std::int64_t count, const at::TensorOptions& options);
  /// Collective. Moves the tensor's memory, with all of its views, to such a window. Returns false if it is in one.
  bool move(const at::Tensor& tensor);
  const std::shared_ptr<Group>& group() const { return group_; }

 private:
  template <typename Call>
  Handle start(const char* name, c10d::OpType type, const Call& opts, std::size_t bytes, Tensors inputs,
               Tensors outputs, std::function<void(Team&)> body);
  Handle message(bool is_receive, Tensors& tensors, int peer, int tag, const char* name, c10d::OpType type);
  c10::DataPtr pooled(std::size_t bytes);
  /// For the checks of a collective's arguments, before start() gives it this number.
  Caller from(const char* name) const { return {name, *context_, sequence_.load(std::memory_order_relaxed) + 1}; }
  Milliseconds timeout_of(Milliseconds timeout) const;
  const char* title(const char* name);
  Milliseconds default_timeout() const {
#if TORCH_VERSION_MAJOR >= 2
    return options_->timeout;
#else
    return timeout_;
#endif
  }

  std::string name_;
  std::shared_ptr<const std::string> context_;  ///< of error texts: the group
  std::shared_ptr<Group> group_;
  std::shared_ptr<DeviceWindow> devices_;  ///< of the collectives
  std::atomic<std::uint64_t> sequence_{0};
#if TORCH_VERSION_MAJOR >= 2
  c10::intrusive_ptr<Options> options_;
#else
  Milliseconds timeout_;
#endif
};

}  // namespace hmc::torch_adapter
