// stream: a stream of CUDA or HIP, by the vendor's handle.
#ifndef hamr_stream_h
#define hamr_stream_h

#include <cstddef>
#include <cstdint>
#include <iostream>

#include <hmc/buffer.hpp>

#include <hamr_buffer_allocator.h>

// As in the vendors' headers, which may be included before or after this one.
struct CUstream_st;
struct ihipStream_t;

namespace hamr {

/// Converts from and to the vendor's handle. The user owns the stream. The default is the vendor's default stream of
/// the calling thread, which runs in order with kernels of the legacy default stream.
class stream {
 public:
  stream() = default;
  stream(CUstream_st* handle) : handle_(handle), is_hip_(false) {}
  stream(ihipStream_t* handle) : handle_(handle), is_hip_(true) {}

  operator CUstream_st*() const { return get_cuda_stream(); }
  operator ihipStream_t*() const { return get_hip_stream(); }
  CUstream_st* get_cuda_stream() const { return static_cast<CUstream_st*>(handle_); }
  ihipStream_t* get_hip_stream() const { return static_cast<ihipStream_t*>(handle_); }
  std::size_t get_stream() const { return reinterpret_cast<std::uintptr_t>(handle_); }
  explicit operator bool() const { return handle_ != nullptr; }

  /// Waits for the stream's work. Does nothing on a machine without its technology. Throws hmc::Error.
  int synchronize() const {
    const hmc::MemoryType type = hmc::detail::resolved(hmc::MemoryType::DEFAULT);
    if (type != hmc::MemoryType::NVIDIA_GPU && type != hmc::MemoryType::AMD_GPU) return 0;
    const bool hip = handle_ == per_thread() ? type == hmc::MemoryType::AMD_GPU : is_hip_;
    const hmc::Allocator allocator = hip ? hmc::Allocator::hip : hmc::Allocator::cuda;
    hmc::Buffer<char>(hmc::Place::current(allocator), {hmc::TransferMode::async, handle_}).synchronize();
    return 0;
  }
  void print() const { std::cerr << handle_; }

 private:
  static void* per_thread() { return reinterpret_cast<void*>(std::uintptr_t{2}); }
  void* handle_ = per_thread();  // the same number in CUDA and HIP
  bool is_hip_ = false;
};

}  // namespace hamr

#endif
