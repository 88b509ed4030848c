// The part of CUDA's driver API that HMC uses. Prototypes and layouts are written by hand, so that the build needs no
// toolkit. tests/unit/memory/cuda_prototypes_gate.cpp compares them with cuda.h if it is installed.
#pragma once

#include <cstddef>

#include "runtime/memory/library.hpp"

namespace hmc::memory::cuda {

using Result = int;
using Device = int;
using Context = void*;
using Stream = void*;
using Event = void*;
using Address = unsigned long long;
using Handle = unsigned long long;

inline constexpr int error_out_of_memory = 2;
inline constexpr int error_invalid_device = 101;
inline constexpr int error_not_ready = 600;
inline constexpr int attribute_major = 75;
inline constexpr int attribute_minor = 76;
inline constexpr int attribute_vmm = 102;
inline constexpr int attribute_posix_fd = 103;
inline constexpr int attribute_fabric = 128;
inline constexpr int pointer_memory_type = 2;
inline constexpr int pointer_is_managed = 8;
inline constexpr int pointer_device = 9;
inline constexpr unsigned memory_host = 1;
inline constexpr unsigned memory_device = 2;
inline constexpr unsigned stream_non_blocking = 1;
inline constexpr unsigned event_disable_timing = 2;
inline constexpr unsigned host_alloc_portable = 1;
inline constexpr unsigned host_alloc_mapped = 2;
inline constexpr unsigned attach_global = 1;
inline constexpr unsigned ipc_lazy_peer_access = 1;
inline constexpr int allocation_pinned = 1;
inline constexpr int handle_posix_fd = 1;
inline constexpr int handle_fabric = 8;
inline constexpr int location_device = 1;
inline constexpr int access_read = 1;
inline constexpr int access_read_write = 3;
inline constexpr int granularity_recommended = 1;
inline constexpr unsigned host_register_portable = 1;
inline constexpr unsigned host_register_mapped = 2;
inline constexpr unsigned wait_until_past = 0;  // CU_STREAM_WAIT_VALUE_GEQ: until (int32_t)(word - value) >= 0

struct Location {
  int type;
  int id;
};
struct AllocationProp {
  int type;
  int handle_types;
  Location location;
  void* win32_meta_data;
  struct {
    unsigned char compression;
    unsigned char rdma_capable;
    unsigned short usage;
    unsigned char reserved[4];
  } flags;
};
struct AccessDesc {
  Location location;
  int flags;
};
struct IpcMemHandle {
  char reserved[64];
};
struct Copy2D {
  std::size_t source_x, source_y;
  unsigned source_type;
  const void* source_host;
  Address source_device;
  void* source_array;
  std::size_t source_pitch;
  std::size_t destination_x, destination_y;
  unsigned destination_type;
  void* destination_host;
  Address destination_device;
  void* destination_array;
  std::size_t destination_pitch;
  std::size_t width, height;
};

struct Api {
  explicit Api(Library& from) : library(from) {}
  Library& library;
  template <typename S> using Call = Symbol<S>;
  static constexpr Need optional = Need::optional;

  Call<Result(unsigned)> init{library, "cuInit"};
  Call<Result(int*)> driver_version{library, "cuDriverGetVersion"};
  Call<Result(int*)> device_count{library, "cuDeviceGetCount"};
  Call<Result(Device*, int)> device{library, "cuDeviceGet"};
  Call<Result(char*, int, Device)> device_name{library, "cuDeviceGetName"};
  Call<Result(std::size_t*, Device)> device_bytes{library, "cuDeviceTotalMem_v2"};
  Call<Result(int*, int, Device)> device_attribute{library, "cuDeviceGetAttribute"};
  Call<Result(Result, const char**)> error_name{library, "cuGetErrorName"};

  Call<Result(Context*, Device)> retain_context{library, "cuDevicePrimaryCtxRetain"};
  Call<Result(Device)> release_context{library, "cuDevicePrimaryCtxRelease_v2"};
  Call<Result(Context)> push_context{library, "cuCtxPushCurrent_v2"};
  Call<Result(Context*)> pop_context{library, "cuCtxPopCurrent_v2"};
  Call<Result(Device*)> context_device{library, "cuCtxGetDevice", optional};

  Call<Result(Address*, std::size_t)> allocate{library, "cuMemAlloc_v2"};
  Call<Result(Address)> free{library, "cuMemFree_v2"};
  Call<Result(void**, std::size_t, unsigned)> allocate_host{library, "cuMemHostAlloc"};
  Call<Result(void*)> free_host{library, "cuMemFreeHost"};
  Call<Result(Address*, std::size_t, unsigned)> allocate_managed{library, "cuMemAllocManaged"};
  Call<Result(Address*, std::size_t, Stream)> allocate_async{library, "cuMemAllocAsync", optional};
  Call<Result(Address, Stream)> free_async{library, "cuMemFreeAsync", optional};
  Call<Result(Address*, std::size_t*, Address)> range{library, "cuMemGetAddressRange_v2"};
  Call<Result(unsigned, int*, void**, Address)> pointer_attributes{library, "cuPointerGetAttributes"};

  Call<Result(Address, const void*, std::size_t, Stream)> to_device{library, "cuMemcpyHtoDAsync_v2"};
  Call<Result(void*, Address, std::size_t, Stream)> to_host{library, "cuMemcpyDtoHAsync_v2"};
  Call<Result(Address, Address, std::size_t, Stream)> within{library, "cuMemcpyDtoDAsync_v2"};
  Call<Result(Address, Context, Address, Context, std::size_t, Stream)> peer{library, "cuMemcpyPeerAsync"};
  Call<Result(const Copy2D*, Stream)> copy_2d{library, "cuMemcpy2DAsync_v2"};
  Call<Result(Address, unsigned char, std::size_t, Stream)> fill{library, "cuMemsetD8Async"};

  Call<Result(Stream*, unsigned)> create_stream{library, "cuStreamCreate"};
  Call<Result(Stream)> destroy_stream{library, "cuStreamDestroy_v2"};
  Call<Result(Stream)> synchronize_stream{library, "cuStreamSynchronize"};
  Call<Result(Stream)> query_stream{library, "cuStreamQuery"};
  Call<Result(Stream, Event, unsigned)> stream_wait{library, "cuStreamWaitEvent"};
  Call<Result(Event*, unsigned)> create_event{library, "cuEventCreate"};
  Call<Result(Event)> destroy_event{library, "cuEventDestroy_v2"};
  Call<Result(Event, Stream)> record_event{library, "cuEventRecord"};
  Call<Result(Event)> synchronize_event{library, "cuEventSynchronize"};
  Call<Result(Event)> query_event{library, "cuEventQuery"};

  Call<Result(IpcMemHandle*, Address)> ipc_get{library, "cuIpcGetMemHandle"};
  Call<Result(Address*, IpcMemHandle, unsigned)> ipc_open{library, "cuIpcOpenMemHandle_v2"};
  Call<Result(Address)> ipc_close{library, "cuIpcCloseMemHandle"};

  Call<Result(void*, std::size_t, unsigned)> pin{library, "cuMemHostRegister_v2", optional};
  Call<Result(void*)> unpin{library, "cuMemHostUnregister", optional};

  // Since CUDA 10.2 and 11.
  Call<Result(std::size_t*, const AllocationProp*, int)> granularity{library, "cuMemGetAllocationGranularity",
                                                                     optional};
  Call<Result(Handle*, std::size_t, const AllocationProp*, unsigned long long)> create{library, "cuMemCreate",
                                                                                       optional};
  Call<Result(Handle)> release{library, "cuMemRelease", optional};
  Call<Result(void*, Handle, int, unsigned long long)> export_handle{library, "cuMemExportToShareableHandle", optional};
  Call<Result(Handle*, void*, int)> import_handle{library, "cuMemImportFromShareableHandle", optional};
  Call<Result(Address*, std::size_t, std::size_t, Address, unsigned long long)> reserve{library, "cuMemAddressReserve",
                                                                                        optional};
  Call<Result(Address, std::size_t)> unreserve{library, "cuMemAddressFree", optional};
  Call<Result(Address, std::size_t, std::size_t, Handle, unsigned long long)> map{library, "cuMemMap", optional};
  Call<Result(Address, std::size_t)> unmap{library, "cuMemUnmap", optional};
  Call<Result(Address, std::size_t, const AccessDesc*, std::size_t)> set_access{library, "cuMemSetAccess", optional};

  // Kernels, and words that streams write and wait for. The words' functions have these names since CUDA 11.7.
  Call<Result(void**, const void*)> load_module{library, "cuModuleLoadData", optional};
  Call<Result(void*)> unload_module{library, "cuModuleUnload", optional};
  Call<Result(void**, void*, const char*)> get_function{library, "cuModuleGetFunction", optional};
  Call<Result(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void**, void**)>
      launch{library, "cuLaunchKernel", optional};
  Call<Result(Address*, void*, unsigned)> host_address{library, "cuMemHostGetDevicePointer_v2", optional};
  Call<Result(Stream, Address, unsigned, unsigned)> write_word{library, "cuStreamWriteValue32_v2", optional};
  Call<Result(Stream, Address, unsigned, unsigned)> wait_word{library, "cuStreamWaitValue32_v2", optional};
};

}  // namespace hmc::memory::cuda
