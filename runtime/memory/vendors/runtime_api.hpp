// The runtime API that HIP and MUSA share except for the prefix of its names, and HIP's virtual memory. Prototypes and
// layouts are written by hand. tests/unit/memory/hip_prototypes_gate.cpp compares them with HIP's headers if installed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/memory/library.hpp"

namespace hmc::memory::runtime_api {

using Result = int;
using Stream = void*;
using Event = void*;
using Handle = void*;

// Sources of the numbers: hip/hip_runtime_api.h (compared with HIP 5.2's if it is installed) and, for MUSA's codes
// musaErrorMemoryAllocation and musaErrorNotReady, driver_types.h of MUSA 4.1. MUSA's flags, copy kinds and memory
// types equal CUDA's, because its compiler accepts CUDA programs with renamed calls.
inline constexpr int error_invalid_value = 1;
inline constexpr int error_out_of_memory = 2;
inline constexpr int error_not_ready = 600;  // not 34 (CUDA before version 10): that is musaErrorStubLibrary
inline constexpr unsigned stream_non_blocking = 1;
inline constexpr unsigned event_disable_timing = 2;
inline constexpr unsigned host_alloc_portable = 1;
inline constexpr unsigned host_register_portable = 1;
inline constexpr unsigned attach_global = 1;
inline constexpr unsigned ipc_lazy_peer_access = 1;
inline constexpr unsigned ipc_lazy_peer_access_older = 0;  // HIP 5.2's; the version that changed it is unknown
inline constexpr int to_device = 1, to_host = 2, within = 3;
inline constexpr int allocation_pinned = 1;
inline constexpr int handle_posix_fd = 1;
inline constexpr int location_device = 1;
inline constexpr int access_read = 1;
inline constexpr int access_read_write = 3;
inline constexpr int granularity_recommended = 1;
inline constexpr unsigned signal_memory = 2;
inline constexpr unsigned wait_until_past = 0;

/// `type` and `device` have the same layout in every version of both. The only other field that is read is HIP's
/// `is_managed`.
struct PointerAttributes {
  int type;
  int device;
  void* device_pointer;
  void* host_pointer;
  int is_managed;  ///< HIP only
  unsigned allocation_flags;
  char room[64];  ///< reserved for fields of later versions
};
struct IpcMemHandle {
  char reserved[64];
};
struct Location {
  int type;
  int id;
};
struct AllocationProp {
  int type;
  int handle_type;
  Location location;
  void* win32_meta_data;
  struct {
    unsigned char compression;
    unsigned char rdma_capable;
    unsigned short usage;
  } flags;
};
struct AccessDesc {
  Location location;
  int flags;
};

/// The function names of one of the two libraries.
struct Names {
  const char *init, *version, *device_count, *get_device, *set_device, *error_name;
  const char *allocate, *free, *allocate_host, *free_host, *allocate_managed, *allocate_async, *free_async;
  const char *copy, *copy_peer, *copy_2d, *fill, *pointer;
  const char *create_stream, *destroy_stream, *synchronize_stream, *query_stream, *stream_wait;
  const char *create_event, *destroy_event, *record_event, *synchronize_event, *query_event;
  const char *ipc_get, *ipc_open, *ipc_close;
  const char *pin, *unpin;
  const char* launch_host;
};

// clang-format off
#define HMC_RUNTIME_NAMES(p, init, host_alloc, host_free)                                                            \
  ::hmc::memory::runtime_api::Names {                                                                                \
    init, p "RuntimeGetVersion", p "GetDeviceCount", p "GetDevice", p "SetDevice", p "GetErrorName",                 \
    p "Malloc", p "Free", host_alloc, host_free, p "MallocManaged", p "MallocAsync", p "FreeAsync",                  \
    p "MemcpyAsync", p "MemcpyPeerAsync", p "Memcpy2DAsync", p "MemsetAsync", p "PointerGetAttributes",              \
    p "StreamCreateWithFlags", p "StreamDestroy", p "StreamSynchronize", p "StreamQuery", p "StreamWaitEvent",       \
    p "EventCreateWithFlags", p "EventDestroy", p "EventRecord", p "EventSynchronize", p "EventQuery",               \
    p "IpcGetMemHandle", p "IpcOpenMemHandle", p "IpcCloseMemHandle", p "HostRegister", p "HostUnregister",           \
    p "LaunchHostFunc"                                                                                               \
  }
// clang-format on

struct Api {
  Api(Library& from, const Names& names) : library(from), n(names) {}
  Library& library;
  const Names& n;
  template <typename S> using Call = Symbol<S>;
  static constexpr Need optional = Need::optional;

  Call<Result(int*)> version{library, n.version};
  Call<Result(int*)> device_count{library, n.device_count};
  Call<Result(int*)> get_device{library, n.get_device};
  Call<Result(int)> set_device{library, n.set_device};
  Call<const char*(Result)> error_name{library, n.error_name, optional};

  Call<Result(void**, std::size_t)> allocate{library, n.allocate};
  Call<Result(void*)> free{library, n.free};
  Call<Result(void**, std::size_t, unsigned)> allocate_host{library, n.allocate_host, optional};
  Call<Result(void*)> free_host{library, n.free_host, optional};
  Call<Result(void**, std::size_t, unsigned)> allocate_managed{library, n.allocate_managed, optional};
  Call<Result(void**, std::size_t, Stream)> allocate_async{library, n.allocate_async, optional};
  Call<Result(void*, Stream)> free_async{library, n.free_async, optional};
  Call<Result(PointerAttributes*, const void*)> pointer{library, n.pointer};

  Call<Result(void*, const void*, std::size_t, int, Stream)> copy{library, n.copy};
  Call<Result(void*, int, const void*, int, std::size_t, Stream)> copy_peer{library, n.copy_peer, optional};
  Call<Result(void*, std::size_t, const void*, std::size_t, std::size_t, std::size_t, int, Stream)> copy_2d{
      library, n.copy_2d, optional};
  Call<Result(void*, int, std::size_t, Stream)> fill{library, n.fill};

  Call<Result(Stream*, unsigned)> create_stream{library, n.create_stream};
  Call<Result(Stream)> destroy_stream{library, n.destroy_stream};
  Call<Result(Stream)> synchronize_stream{library, n.synchronize_stream};
  Call<Result(Stream)> query_stream{library, n.query_stream};
  Call<Result(Stream, Event, unsigned)> stream_wait{library, n.stream_wait};
  Call<Result(Event*, unsigned)> create_event{library, n.create_event};
  Call<Result(Event)> destroy_event{library, n.destroy_event};
  Call<Result(Event, Stream)> record_event{library, n.record_event};
  Call<Result(Event)> synchronize_event{library, n.synchronize_event};
  Call<Result(Event)> query_event{library, n.query_event};

  Call<Result(IpcMemHandle*, void*)> ipc_get{library, n.ipc_get, optional};
  Call<Result(void**, IpcMemHandle, unsigned)> ipc_open{library, n.ipc_open, optional};
  Call<Result(void*)> ipc_close{library, n.ipc_close, optional};
  Call<Result(void*, std::size_t, unsigned)> pin{library, n.pin, optional};
  Call<Result(void*)> unpin{library, n.unpin, optional};
  Call<Result(Stream, void (*)(void*), void*)> launch_host{library, n.launch_host, optional};
};

/// Functions that HMC uses from HIP only.
struct HipApi {
  explicit HipApi(Library& from) : library(from) {}
  Library& library;
  template <typename S> using Call = Symbol<S>;
  static constexpr Need optional = Need::optional;

  Call<Result(char*, int, int)> device_name{library, "hipDeviceGetName", optional};
  Call<Result(std::size_t*, int)> device_bytes{library, "hipDeviceTotalMem", optional};
  Call<Result(void**, std::size_t*, void*)> range{library, "hipMemGetAddressRange", optional};

  Call<Result(std::size_t*, const AllocationProp*, int)> granularity{library, "hipMemGetAllocationGranularity",
                                                                     optional};
  Call<Result(Handle*, std::size_t, const AllocationProp*, unsigned long long)> create{library, "hipMemCreate",
                                                                                       optional};
  Call<Result(Handle)> release{library, "hipMemRelease", optional};
  Call<Result(void*, Handle, int, unsigned long long)> export_handle{library, "hipMemExportToShareableHandle",
                                                                     optional};
  Call<Result(Handle*, void*, int)> import_handle{library, "hipMemImportFromShareableHandle", optional};
  Call<Result(void**, std::size_t, std::size_t, void*, unsigned long long)> reserve{library, "hipMemAddressReserve",
                                                                                    optional};
  Call<Result(void*, std::size_t)> unreserve{library, "hipMemAddressFree", optional};
  Call<Result(void*, std::size_t, std::size_t, Handle, unsigned long long)> map{library, "hipMemMap", optional};
  Call<Result(void*, std::size_t)> unmap{library, "hipMemUnmap", optional};
  Call<Result(void*, std::size_t, const AccessDesc*, std::size_t)> set_access{library, "hipMemSetAccess", optional};

  Call<Result(void**, std::size_t, unsigned)> allocate_signal{library, "hipExtMallocWithFlags", optional};
  Call<Result(Stream, void*, std::uint64_t, unsigned, std::uint64_t)> wait_signal{library, "hipStreamWaitValue64",
                                                                                  optional};

  Call<Result(void**, const void*)> load_module{library, "hipModuleLoadData", optional};
  Call<Result(void*)> unload_module{library, "hipModuleUnload", optional};
  Call<Result(void**, void*, const char*)> get_function{library, "hipModuleGetFunction", optional};
  Call<Result(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void**, void**)>
      launch{library, "hipModuleLaunchKernel", optional};
};

}  // namespace hmc::memory::runtime_api
