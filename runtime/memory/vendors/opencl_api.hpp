// The part of OpenCL 1.2 that HMC uses. Prototypes are written by hand. tests/unit/memory/opencl_prototypes_gate.cpp
// compares them with CL/cl.h if it is installed.
#pragma once

#include <cstddef>

#include "runtime/memory/library.hpp"

namespace hmc::memory::opencl {

using Result = int;
using Uint = unsigned;
using Bitfield = unsigned long;
using Object = void*;  // platform, device, context, queue, buffer or event

inline constexpr int error_device_not_found = -1;
inline constexpr int error_allocation = -4;
inline constexpr int error_out_of_resources = -5;
inline constexpr int error_out_of_host_memory = -6;
inline constexpr int error_no_platform = -1001;
inline constexpr Bitfield device_type_all = 0xFFFFFFFF;
inline constexpr Bitfield memory_read_write = 1;
inline constexpr Uint platform_version = 0x0901;
inline constexpr Uint device_name = 0x102B;
inline constexpr Uint device_global_bytes = 0x101F;
inline constexpr Uint event_status = 0x11D3;
inline constexpr int complete = 0;
inline constexpr Uint queue_context = 0x1090;

struct Api {
  explicit Api(Library& from) : library(from) {}
  Library& library;
  template <typename S> using Call = Symbol<S>;
  using Info = Result(Object, Uint, std::size_t, void*, std::size_t*);
  using Transfer = Result(Object, Object, Uint, std::size_t, std::size_t, void*, Uint, const Object*, Object*);
  using Rect = Result(Object, Object, Uint, const std::size_t*, const std::size_t*, const std::size_t*, std::size_t,
                      std::size_t, std::size_t, std::size_t, void*, Uint, const Object*, Object*);

  Call<Result(Uint, Object*, Uint*)> platforms{library, "clGetPlatformIDs"};
  Call<Info> platform_info{library, "clGetPlatformInfo"};
  Call<Result(Object, Bitfield, Uint, Object*, Uint*)> devices{library, "clGetDeviceIDs"};
  Call<Info> device_info{library, "clGetDeviceInfo"};
  Call<Object(const std::intptr_t*, Uint, const Object*, void (*)(const char*, const void*, std::size_t, void*), void*,
              Result*)>
      create_context{library, "clCreateContext"};
  Call<Result(Object)> release_context{library, "clReleaseContext"};
  Call<Object(Object, Object, Bitfield, Result*)> create_queue{library, "clCreateCommandQueue"};
  Call<Result(Object)> release_queue{library, "clReleaseCommandQueue"};
  Call<Info> queue_info{library, "clGetCommandQueueInfo"};
  Call<Object(Object, Bitfield, std::size_t, void*, Result*)> create_buffer{library, "clCreateBuffer"};
  Call<Result(Object)> release_buffer{library, "clReleaseMemObject"};
  Call<Result(Object, Object, Uint, std::size_t, std::size_t, const void*, Uint, const Object*, Object*)> write{
      library, "clEnqueueWriteBuffer"};
  Call<Transfer> read{library, "clEnqueueReadBuffer"};
  Call<Result(Object, Object, Object, std::size_t, std::size_t, std::size_t, Uint, const Object*, Object*)> copy{
      library, "clEnqueueCopyBuffer"};
  Call<Result(Object, Object, Uint, const std::size_t*, const std::size_t*, const std::size_t*, std::size_t,
              std::size_t, std::size_t, std::size_t, const void*, Uint, const Object*, Object*)>
      write_rect{library, "clEnqueueWriteBufferRect"};
  Call<Rect> read_rect{library, "clEnqueueReadBufferRect"};
  Call<Result(Object, Object, const void*, std::size_t, std::size_t, std::size_t, Uint, const Object*, Object*)> fill{
      library, "clEnqueueFillBuffer"};
  Call<Result(Object, Uint, const Object*, Object*)> marker{library, "clEnqueueMarkerWithWaitList"};
  Call<Result(Object, Uint, const Object*, Object*)> barrier{library, "clEnqueueBarrierWithWaitList"};
  Call<Result(Object)> flush{library, "clFlush"};
  Call<Result(Object)> finish{library, "clFinish"};
  Call<Result(Uint, const Object*)> wait_events{library, "clWaitForEvents"};
  Call<Info> event_info{library, "clGetEventInfo"};
  Call<Object(Object, Result*)> create_event{library, "clCreateUserEvent"};
  Call<Result(Object, int)> set_event{library, "clSetUserEventStatus"};
  Call<Result(Object)> release_event{library, "clReleaseEvent"};
};

}  // namespace hmc::memory::opencl
