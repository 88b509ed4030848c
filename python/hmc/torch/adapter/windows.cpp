// Tensors in windows that are used again: torch's allocator interface, and tensors that move into a window.
#include <cstring>

#include "backend.hpp"

namespace hmc::torch_adapter {

namespace {

/// What the memory of a tensor in a pooled window owns.
struct Owner {
  std::shared_ptr<WindowPool> pool;
  std::shared_ptr<RetiredWindows> retired;
  WindowPool::Part part;
};

/// By any thread, also while another one executes an operation of the group.
void end(void* owner) {
  const std::unique_ptr<Owner> owned(static_cast<Owner*>(owner));
  if (owned->part.slot >= 0)
    owned->pool->give_back(owned->part.slot);
  else
    owned->retired->add(std::move(*owned->part.window));  // isn't in the pool
}

}  // namespace

c10::DataPtr HmcBackend::pooled(std::size_t bytes) {
  auto owner = std::make_shared<std::unique_ptr<Owner>>(new Owner{group_->pool(), group_->retired(), {}});
  start("allocate_tensor", c10d::OpType::UNKNOWN, c10d::BarrierOptions(), 0, {}, {}, [owner, bytes](Team& team) {
    (*owner)->part = (*owner)->pool->take(team, bytes);
  })->wait();
  void* const data = (*owner)->part.window->data();
  return {data, owner->release(), &end, c10::Device(c10::kCPU)};
}

at::Tensor HmcBackend::allocate(std::int64_t count, const at::TensorOptions& options) {
  TORCH_CHECK(options.device().is_cpu(), from("allocate_tensor"), "only tensors in host memory can be in a window");
  const std::size_t bytes = static_cast<std::size_t>(count) * options.dtype().itemsize();
  const c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, pooled(bytes), nullptr, false);
  return at::empty({0}, options).set_(storage, 0, {count}, {1});
}

bool HmcBackend::move(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.device().is_cpu() && tensor.layout() == c10::kStrided, from("move"),
              "only dense tensors in host memory can move to a window");
  c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
  if (storage->data_ptr().get_deleter() == &end) return false;
  const std::size_t bytes = storage->nbytes();
  c10::DataPtr data = pooled(bytes);
  if (bytes != 0) std::memcpy(data.get(), storage->data_ptr().get(), bytes);
  storage->set_data_ptr_noswap(std::move(data));
  storage->set_resizable(false);
  return true;
}

#if HMC_TORCH_AT_LEAST(2, 14)
at::Tensor HmcBackend::allocateTensor(long size, at::TensorOptions options) {
  return allocate(static_cast<std::int64_t>(size), options);
}
#endif

}  // namespace hmc::torch_adapter
