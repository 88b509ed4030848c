// libcuda: the driver API's functions for devices, contexts, memory, copies, streams and events.
#include <cstdio>
#include <cstring>
#include <mutex>
#include <vector>

#include "tests/fake_drivers/cuda_calls.hpp"
#include "tests/fake_drivers/cuda_ipc_events.hpp"

namespace fake {

bool initialized = false;
thread_local constinit ContextStack context_stack{};

}  // namespace fake

namespace {

using namespace fake;
namespace cuda = hmc::memory::cuda;

std::mutex context_mutex;
std::vector<int> retained(16);

// cuda.h of CUDA 13.0: CU_STREAM_*, CU_EVENT_*, CU_MEMHOSTALLOC_*, CU_MEMHOSTREGISTER_*, CU_MEM_ATTACH_*.
constexpr unsigned event_blocking_sync = 1, event_interprocess = 4;
constexpr unsigned host_alloc_write_combined = 4;
constexpr unsigned host_register_io_memory = 4, host_register_read_only = 8;
constexpr unsigned attach_host = 2;

/// Whether `flags` has only bits of `known`.
bool is_of(unsigned flags, unsigned known) { return (flags & ~known) == 0; }

}  // namespace

FAKE_API int cuInit(unsigned) {
  return call("cuInit", code_of, 999, [] {
    initialized = true;
    return control().devices > 0 ? Result::ok : Result::invalid_device;
  });
}
FAKE_API int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
FAKE_API int cuDeviceGetCount(int* count) {
  return run("cuDeviceGetCount", [&] {
    *count = control().devices;
    return Result::ok;
  });
}
FAKE_API int cuDeviceGet(int* device, int index) {
  *device = index;
  return code_of(is_device(index) ? Result::ok : Result::invalid_device);
}
FAKE_API int cuDeviceGetName(char* name, int room, int device) {
  std::snprintf(name, static_cast<std::size_t>(room), "fake CUDA device %d", device);
  return 0;
}
FAKE_API int cuDeviceTotalMem_v2(std::size_t* bytes, int) {
  *bytes = control().device_bytes;
  return 0;
}
FAKE_API int cuDeviceGetAttribute(int* value, int attribute, int device) {
  return run("cuDeviceGetAttribute", [&] {
    *value = attribute == cuda::attribute_vmm || attribute == cuda::attribute_posix_fd ||
             (attribute == cuda::attribute_fabric && control().fabric != 0);
    if (attribute == cuda::attribute_major) *value = 9;
    if (attribute == attribute_can_flush) *value = 1;
    return is_device(device) ? Result::ok : Result::invalid_device;
  });
}
FAKE_API int cuGetErrorName(int code, const char** name) {
  switch (code) {
    case 1: *name = "CUDA_ERROR_INVALID_VALUE"; return 0;
    case 2: *name = "CUDA_ERROR_OUT_OF_MEMORY"; return 0;
    case 3: *name = "CUDA_ERROR_NOT_INITIALIZED"; return 0;
    case 201: *name = "CUDA_ERROR_INVALID_CONTEXT"; return 0;
    case 208: *name = "CUDA_ERROR_ALREADY_MAPPED"; return 0;
    case 400: *name = "CUDA_ERROR_INVALID_HANDLE"; return 0;
    case 999: *name = "CUDA_ERROR_UNKNOWN"; return 0;
    default: *name = nullptr; return 1;
  }
}

FAKE_API int cuDevicePrimaryCtxRetain(void** made, int device) {
  return run("cuDevicePrimaryCtxRetain", [&] {
    if (!is_device(device)) return Result::invalid_device;
    const std::scoped_lock lock(context_mutex);
    ++retained[static_cast<std::size_t>(device)];
    control().gained(Live::context);
    *made = context(device);
    return Result::ok;
  });
}
FAKE_API int cuDevicePrimaryCtxRelease_v2(int device) {
  return run("cuDevicePrimaryCtxRelease_v2", [&] {
    const std::scoped_lock lock(context_mutex);
    if (!is_device(device) || retained[static_cast<std::size_t>(device)]-- == 0) return Result::invalid_context;
    control().lost(Live::context);
    return Result::ok;
  });
}
FAKE_API int cuCtxPushCurrent_v2(void* pushed) {
  return run("cuCtxPushCurrent_v2", [&] {
    const std::scoped_lock lock(context_mutex);
    const int device = device_of(pushed);
    if (!is_device(device) || retained[static_cast<std::size_t>(device)] == 0) return Result::invalid_context;
    if (!context_stack.push(device)) return Result::invalid_context;
    return Result::ok;
  });
}
FAKE_API int cuCtxPopCurrent_v2(void** popped) {
  return run_here("cuCtxPopCurrent_v2", [&](int device) {
    *popped = context(device);
    context_stack.pop();
    return Result::ok;
  });
}
FAKE_API int cuCtxGetDevice(int* device) {
  return run_here("cuCtxGetDevice", [&](int current) {
    *device = current;
    return Result::ok;
  });
}
FAKE_API int cuCtxGetCurrent(void** current) {
  *current = context_stack.empty() ? nullptr : context(context_stack.back());
  return 0;
}

FAKE_API int cuMemAlloc_v2(Address* address, std::size_t bytes) {
  return run_here("cuMemAlloc_v2", [&](int device) {
    void* made = nullptr;
    const Result result = memory().allocate(made, bytes, device);
    *address = reinterpret_cast<Address>(made);
    return result;
  });
}
FAKE_API int cuMemFree_v2(Address address) {
  return run_here("cuMemFree_v2", [&](int) {
    const Result result = memory().free(pointer(address));
    return result == Result::ok ? result : memory().free_host(pointer(address));
  });
}
FAKE_API int cuMemHostAlloc(void** address, std::size_t bytes, unsigned flags) {
  return run_here("cuMemHostAlloc", [&](int device) {
    if (!is_of(flags, cuda::host_alloc_portable | cuda::host_alloc_mapped | host_alloc_write_combined))
      return Result::invalid_value;
    return memory().allocate_host(*address, {.bytes = bytes,
                                             .device = device,
                                             .portable = (flags & cuda::host_alloc_portable) != 0,
                                             .mapped = (flags & cuda::host_alloc_mapped) != 0});
  });
}
FAKE_API int cuMemFreeHost(void* address) {
  return run_here("cuMemFreeHost", [&](int) { return memory().free_host(address); });
}
FAKE_API int cuMemHostRegister_v2(void* address, std::size_t bytes, unsigned flags) {
  return run_here("cuMemHostRegister_v2", [&](int device) {
    if (!is_of(flags, cuda::host_register_portable | cuda::host_register_mapped | host_register_io_memory |
                          host_register_read_only))
      return Result::invalid_value;
    return memory().pin(address, {.bytes = bytes,
                                  .device = device,
                                  .portable = (flags & cuda::host_register_portable) != 0,
                                  .mapped = (flags & cuda::host_register_mapped) != 0});
  });
}
FAKE_API int cuMemHostUnregister(void* address) {
  return run_here("cuMemHostUnregister", [&](int) { return memory().unpin(address); });
}
FAKE_API int cuMemAllocManaged(Address* address, std::size_t bytes, unsigned flags) {
  return run_here("cuMemAllocManaged", [&](int device) {
    if (flags != cuda::attach_global && flags != attach_host) return Result::invalid_value;
    void* made = nullptr;
    const Result result = memory().allocate_host(
        made, {.bytes = bytes, .device = device, .managed = true, .portable = true, .mapped = true});
    *address = reinterpret_cast<Address>(made);
    return result;
  });
}
FAKE_API int cuMemAllocAsync(Address* address, std::size_t bytes, void* stream) {
  return run_here("cuMemAllocAsync", [&](int device) {
    void* made = nullptr;
    const Result result = streams().allocate(made, bytes, {stream, device});
    *address = reinterpret_cast<Address>(made);
    return result;
  });
}
FAKE_API int cuMemFreeAsync(Address address, void* stream) {
  return run_here("cuMemFreeAsync", [&](int device) {
    const Result result = streams().free(pointer(address), {stream, device});
    return result != Result::invalid_value ? result
                                           : memory().ipc_close(pointer(address));  // memory of an imported pool
  });
}
FAKE_API int cuMemGetAddressRange_v2(Address* start, std::size_t* bytes, Address address) {
  return run_here("cuMemGetAddressRange_v2", [&](int) {
    Found found;
    if (!memory().find(found, pointer(address))) return Result::invalid_value;
    *start = reinterpret_cast<Address>(found.start);
    *bytes = found.bytes;
    return Result::ok;
  });
}
// Needs no context. For memory that isn't CUDA's it succeeds with type 0 and device -2.
FAKE_API int cuPointerGetAttributes(unsigned count, int* attributes, void** data, Address address) {
  return run("cuPointerGetAttributes", [&] {
    Found found;
    HostBlock block;
    const bool on_device = memory().find(found, pointer(address));
    const bool known = on_device || memory().find_host(block, pointer(address));
    const int device = on_device ? found.device : known ? block.device : -2;
    const unsigned kind = !known ? 0 : on_device || block.managed ? cuda::memory_device : cuda::memory_host;
    for (unsigned i = 0; i < count; ++i) {
      if (attributes[i] == cuda::pointer_memory_type)
        std::memcpy(data[i], &kind, sizeof kind);
      else if (attributes[i] == cuda::pointer_device)
        std::memcpy(data[i], &device, sizeof device);
      else if (attributes[i] == cuda::pointer_is_managed)
        *static_cast<unsigned*>(data[i]) = known && !on_device && block.managed;
      else
        return Result::invalid_value;
    }
    return Result::ok;
  });
}

FAKE_API int cuMemcpyHtoDAsync_v2(Address to, const void* from, std::size_t bytes, void* stream) {
  return run_here("cuMemcpyHtoDAsync_v2", [&](int device) {
    return streams().copy(pointer(to), Side::device, from, Side::host, bytes, {stream, device});
  });
}
FAKE_API int cuMemcpyDtoHAsync_v2(void* to, Address from, std::size_t bytes, void* stream) {
  return run_here("cuMemcpyDtoHAsync_v2", [&](int device) {
    return streams().copy(to, Side::host, pointer(from), Side::device, bytes, {stream, device});
  });
}
FAKE_API int cuMemcpyDtoDAsync_v2(Address to, Address from, std::size_t bytes, void* stream) {
  return run_here("cuMemcpyDtoDAsync_v2", [&](int device) {
    return streams().copy(pointer(to), Side::device, pointer(from), Side::device, bytes, {stream, device});
  });
}
FAKE_API int cuMemcpyPeerAsync(Address to, void* to_context, Address from, void* from_context, std::size_t bytes,
                               void* stream) {
  return run_here("cuMemcpyPeerAsync", [&](int device) {
    Found target, source;
    if (!memory().find(target, pointer(to)) || !memory().find(source, pointer(from))) return Result::invalid_value;
    if (target.device != device_of(to_context) || source.device != device_of(from_context))
      return Result::invalid_context;
    return streams().copy(pointer(to), Side::device, pointer(from), Side::device, bytes, {stream, device});
  });
}
FAKE_API int cuMemcpy2DAsync_v2(const cuda::Copy2D* copy, void* stream) {
  return run_here("cuMemcpy2DAsync_v2", [&](int device) {
    const bool to_host = copy->destination_type == cuda::memory_host,
               from_host = copy->source_type == cuda::memory_host;
    return streams().copy_2d(
        to_host ? copy->destination_host : pointer(copy->destination_device), to_host ? Side::host : Side::device,
        copy->destination_pitch, from_host ? copy->source_host : pointer(copy->source_device),
        from_host ? Side::host : Side::device, copy->source_pitch, copy->width, copy->height, {stream, device});
  });
}
FAKE_API int cuMemsetD8Async(Address to, unsigned char value, std::size_t bytes, void* stream) {
  return run_here("cuMemsetD8Async", [&](int device) {
    return streams().fill(pointer(to), value, bytes, {stream, device});
  });
}

FAKE_API int cuStreamCreate(void** stream, unsigned flags) {
  return run_here("cuStreamCreate", [&](int device) {
    if (!is_of(flags, cuda::stream_non_blocking)) return Result::invalid_value;
    return streams().create_stream(*stream, device, flags == 0);
  });
}
FAKE_API int cuStreamDestroy_v2(void* stream) {
  return run_here("cuStreamDestroy_v2", [&](int device) { return streams().destroy_stream({stream, device}); });
}
FAKE_API int cuStreamSynchronize(void* stream) {
  return run_here("cuStreamSynchronize", [&](int device) { return streams().synchronize_stream({stream, device}); });
}
FAKE_API int cuStreamQuery(void* stream) {
  return run_here("cuStreamQuery", [&](int device) { return streams().query_stream({stream, device}); });
}
FAKE_API int cuStreamWaitEvent(void* stream, void* event, unsigned flags) {
  return run_here("cuStreamWaitEvent", [&](int device) {
    return flags == 0 ? streams().stream_wait({stream, device}, event) : Result::invalid_value;
  });
}
FAKE_API int cuEventCreate(void** event, unsigned flags) {
  return run_here("cuEventCreate", [&](int device) {
    if (!is_of(flags, event_blocking_sync | cuda::event_disable_timing | event_interprocess))
      return Result::invalid_value;
    const EventTraits traits{.device = device, .times = (flags & cuda::event_disable_timing) == 0};
    if ((flags & event_interprocess) == 0) return streams().create_event(*event, traits);
    return traits.times ? Result::invalid_value : create_shared_event(*event, traits);
  });
}
FAKE_API int cuEventElapsedTime(float* milliseconds, void* from, void* to) {
  return run_here("cuEventElapsedTime", [&](int) { return streams().elapsed(*milliseconds, from, to); });
}
FAKE_API int cuIpcGetEventHandle(cuda::IpcMemHandle* handle, void* event) {
  return run_here("cuIpcGetEventHandle", [&](int) { return get_event_handle(handle, event); });
}
FAKE_API int cuIpcOpenEventHandle(void** event, cuda::IpcMemHandle handle) {
  return run_here("cuIpcOpenEventHandle", [&](int device) { return open_event_handle(*event, &handle, device); });
}
FAKE_API int cuEventDestroy_v2(void* event) {
  return run_here("cuEventDestroy_v2", [&](int) { return streams().destroy_event(event); });
}
FAKE_API int cuEventRecord(void* event, void* stream) {
  return run_here("cuEventRecord", [&](int device) { return streams().record_event(event, {stream, device}); });
}
FAKE_API int cuEventSynchronize(void* event) {
  return run_here("cuEventSynchronize", [&](int) { return streams().synchronize_event(event); });
}
FAKE_API int cuEventQuery(void* event) {
  return run_here("cuEventQuery", [&](int) { return streams().query_event(event); });
}
