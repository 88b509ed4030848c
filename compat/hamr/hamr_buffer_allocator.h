// buffer_allocator: HAMR's names of HMC's places.
#ifndef hamr_buffer_allocator_h
#define hamr_buffer_allocator_h

#include <cassert>
#include <string>

#include <hmc/error.hpp>
#include <hmc/place.hpp>

#include <hamr_config.h>

namespace hamr {

enum class buffer_allocator {
  same = -2,       ///< the current allocator
  none = -1,       ///< no allocator
  cpp = 0,         ///< new
  malloc = 1,      ///< malloc
  cuda = 2,        ///< memory of a CUDA device
  cuda_async = 3,  ///< the same from the stream-ordered pool
  cuda_uva = 4,    ///< managed memory of CUDA
  cuda_host = 5,   ///< page-locked host memory of CUDA
  hip = 6,         ///< memory of a HIP device
  hip_uva = 7,     ///< managed memory of HIP
  openmp = 8       ///< omp_target_alloc
};

inline const char* get_allocator_name(buffer_allocator alloc) {
  constexpr const char* names[] = {"cpp",
                                   "malloc",
                                   "cuda_malloc_allocator",
                                   "cuda_malloc_async_allocator",
                                   "cuda_malloc_uva_allocator",
                                   "cuda_malloc_host_allocator",
                                   "hip_malloc_allocator",
                                   "hip_malloc_uva_allocator",
                                   "openmp_allocator"};
  const int index = static_cast<int>(alloc);
  return index >= 0 && index < 9 ? names[index] : "the allocator name is not known";
}

namespace detail {

inline hmc::Allocator allocator_of(buffer_allocator alloc) {
  switch (alloc) {
    case buffer_allocator::cpp: return hmc::Allocator::host_new;
    case buffer_allocator::malloc: return hmc::Allocator::host_malloc;
    case buffer_allocator::cuda: return hmc::Allocator::cuda;
    case buffer_allocator::cuda_async: return hmc::Allocator::cuda_async;
    case buffer_allocator::cuda_uva: return hmc::Allocator::cuda_managed;
    case buffer_allocator::cuda_host: return hmc::Allocator::cuda_pinned;
    case buffer_allocator::hip: return hmc::Allocator::hip;
    case buffer_allocator::hip_uva: return hmc::Allocator::hip_managed;
    case buffer_allocator::openmp: return hmc::Allocator::openmp;
    case buffer_allocator::same:
    case buffer_allocator::none: break;
  }
  throw hmc::Error(hmc::Code::invalid_argument, "hamr::buffer",
                   std::string("there is no memory of the allocator ") + get_allocator_name(alloc));
}

inline bool is_cuda(buffer_allocator alloc) noexcept {
  return alloc == buffer_allocator::cuda || alloc == buffer_allocator::cuda_async ||
         alloc == buffer_allocator::cuda_uva;
}
inline bool is_hip(buffer_allocator alloc) noexcept {
  return alloc == buffer_allocator::hip || alloc == buffer_allocator::hip_uva;
}
/// True if streams execute the transfers of the memory.
inline bool has_streams(buffer_allocator alloc) noexcept {
  return is_cuda(alloc) || is_hip(alloc) || alloc == buffer_allocator::cuda_host;
}
/// False for host memory, whose owner is -1.
inline bool has_device(buffer_allocator alloc) noexcept {
  return is_cuda(alloc) || is_hip(alloc) || alloc == buffer_allocator::openmp;
}

}  // namespace detail

// Whether code of a technology can access the allocator's memory without a copy. The answers are HAMR's: CUDA, HIP and
// OpenMP have the same device. If this machine's OpenMP runs on the host, or the GPU is of the other vendor,
// get_..._accessible() returns a copy nevertheless.
inline int host_accessible(buffer_allocator alloc) {
  return alloc == buffer_allocator::cpp || alloc == buffer_allocator::malloc || alloc == buffer_allocator::cuda_uva ||
         alloc == buffer_allocator::cuda_host || alloc == buffer_allocator::hip_uva;
}
inline int cuda_accessible(buffer_allocator alloc) { return detail::has_device(alloc); }
inline int hip_accessible(buffer_allocator alloc) { return detail::is_cuda(alloc) || detail::is_hip(alloc); }
inline int openmp_accessible(buffer_allocator alloc) {
  return detail::is_cuda(alloc) || alloc == buffer_allocator::openmp;
}

inline void assert_valid_allocator([[maybe_unused]] buffer_allocator alloc) {
  assert(alloc >= buffer_allocator::cpp && alloc <= buffer_allocator::openmp);
}

/// For memory of this machine's accelerator; malloc if it has none.
inline buffer_allocator get_device_allocator() {
  switch (hmc::detail::resolved(hmc::MemoryType::DEFAULT)) {
    case hmc::MemoryType::NVIDIA_GPU: return buffer_allocator::cuda_async;
    case hmc::MemoryType::AMD_GPU: return buffer_allocator::hip;
    default: return buffer_allocator::malloc;
  }
}
/// For host memory that this machine's accelerator copies fastest.
inline buffer_allocator get_host_allocator() {
  return get_device_allocator() == buffer_allocator::cuda_async ? buffer_allocator::cuda_host
                                                                : buffer_allocator::malloc;
}

}  // namespace hamr

#endif
