// stream: a stream of CUDA or HIP, by the vendor's handle.
#ifndef hamr_stream_h
#define hamr_stream_h

#include <cstddef>
#include <cstdint>
#include <iostream>
#include <type_traits>

#include <hmc/place.hpp>
#include <hmc/types.hpp>

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
  stream(CUstream_st* handle) : handle_(handle), vendor_(hmc::MemoryType::NVIDIA_GPU) {}
  stream(ihipStream_t* handle) : handle_(handle), vendor_(hmc::MemoryType::AMD_GPU) {}

  operator CUstream_st*() const { return get_cuda_stream(); }
  operator ihipStream_t*() const { return get_hip_stream(); }
  CUstream_st* get_cuda_stream() const { return static_cast<CUstream_st*>(handle_); }
  ihipStream_t* get_hip_stream() const { return static_cast<ihipStream_t*>(handle_); }
  std::size_t get_stream() const { return reinterpret_cast<std::uintptr_t>(handle_); }
  /// The default stream if this one is of another vendor.
  void* handle_for(hmc::MemoryType type) const {
    return vendor_ == hmc::MemoryType::DEFAULT || vendor_ == type ? handle_ : stream().handle_;
  }
  /// True for a stream of CUDA or HIP. The default stream is one on a machine with their devices.
  template <typename Bool>
  requires std::is_same_v<Bool, bool>
  operator Bool() const { return vendor() != hmc::MemoryType::CPU; }

  /// Waits for the stream's work. Does nothing on a machine without its technology. Throws hmc::Error.
  int synchronize() const {
    if (vendor() == hmc::MemoryType::CPU) return 0;
    const bool hip = vendor() == hmc::MemoryType::AMD_GPU;
    const hmc::Place place = hmc::Place::current(hip ? hmc::Allocator::hip : hmc::Allocator::cuda);
    hmc::detail::synchronize(*hmc::detail::make_transfers(place, {hmc::TransferMode::async, handle_}));
    return 0;
  }
  /// To stderr.
  void print() const {
    if (vendor() == hmc::MemoryType::NVIDIA_GPU)
      std::cerr << "cudaStream_t m_stream = " << handle_ << "\n";
    else if (vendor() == hmc::MemoryType::AMD_GPU)
      std::cerr << "hipStream_t m_stream = " << handle_ << "\n";
    else
      std::cerr << "empty\n";
  }

 private:
  /// CPU if there is no stream.
  hmc::MemoryType vendor() const {
    if (vendor_ != hmc::MemoryType::DEFAULT) return vendor_;
    const hmc::MemoryType type = hmc::detail::resolved(hmc::MemoryType::DEFAULT);
    return type == hmc::MemoryType::NVIDIA_GPU || type == hmc::MemoryType::AMD_GPU ? type : hmc::MemoryType::CPU;
  }

  void* handle_ = reinterpret_cast<void*>(std::uintptr_t{2});  // per thread; the same number in CUDA and HIP
  hmc::MemoryType vendor_ = hmc::MemoryType::DEFAULT;          ///< DEFAULT: the machine's
};

}  // namespace hamr

#endif
