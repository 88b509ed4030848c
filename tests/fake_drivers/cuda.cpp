// libcuda: the driver API's names over the engine. A call needs a current context, as there.
#include <cstdio>
#include <cstring>
#include <vector>

#include "runtime/memory/vendors/cuda_api.hpp"
#include "tests/fake_drivers/call.hpp"

namespace {

using namespace fake;
namespace cuda = hmc::memory::cuda;
using cuda::Address;

bool initialized = false;
std::mutex context_mutex;
std::vector<int> retained(16);
thread_local std::vector<int> context_stack;

int code_of(Result result) {
  switch (result) {
    case Result::ok: return 0;
    case Result::invalid_value: return 1;
    case Result::out_of_memory: return 2;
    case Result::not_initialized: return 3;
    case Result::invalid_device: return 101;
    case Result::invalid_context: return 201;
    case Result::already_mapped: return 208;
    case Result::invalid_handle: return 400;
    case Result::not_ready: return 600;
    case Result::not_supported: return 801;
  }
  return 999;
}

template <typename Work> int run(const char* name, Work&& work) {
  return call(name, code_of, 999, [&]() -> Result { return initialized ? work() : Result::not_initialized; });
}
/// Needs a context; `work` gets its device.
template <typename Work> int run_here(const char* name, Work&& work) {
  return run(name,
             [&]() -> Result { return context_stack.empty() ? Result::invalid_context : work(context_stack.back()); });
}
void* context(int device) { return reinterpret_cast<void*>(static_cast<std::intptr_t>(0xC0 + device)); }
int device_of(void* context) { return static_cast<int>(reinterpret_cast<std::intptr_t>(context)) - 0xC0; }
bool is_device(int device) { return device >= 0 && device < control().devices; }
void* pointer(Address address) { return reinterpret_cast<void*>(address); }

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
    *value = attribute == cuda::attribute_vmm || attribute == cuda::attribute_posix_fd;
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
    context_stack.push_back(device);
    return Result::ok;
  });
}
FAKE_API int cuCtxPopCurrent_v2(void** popped) {
  return run_here("cuCtxPopCurrent_v2", [&](int device) {
    *popped = context(device);
    context_stack.pop_back();
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
FAKE_API int cuMemHostAlloc(void** address, std::size_t bytes, unsigned) {
  return run_here("cuMemHostAlloc", [&](int device) { return memory().allocate_host(*address, bytes, device, false); });
}
FAKE_API int cuMemFreeHost(void* address) {
  return run_here("cuMemFreeHost", [&](int) { return memory().free_host(address); });
}
FAKE_API int cuMemAllocManaged(Address* address, std::size_t bytes, unsigned) {
  return run_here("cuMemAllocManaged", [&](int device) {
    void* made = nullptr;
    const Result result = memory().allocate_host(made, bytes, device, true);
    *address = reinterpret_cast<Address>(made);
    return result;
  });
}
FAKE_API int cuMemAllocAsync(Address* address, std::size_t bytes, void*) {
  return run_here("cuMemAllocAsync", [&](int device) {
    void* made = nullptr;
    const Result result = memory().allocate(made, bytes, device);
    *address = reinterpret_cast<Address>(made);
    return result;
  });
}
FAKE_API int cuMemFreeAsync(Address address, void*) {
  return run_here("cuMemFreeAsync", [&](int) { return memory().free(pointer(address)); });
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
FAKE_API int cuPointerGetAttribute(void* value, int attribute, Address address) {
  return run_here("cuPointerGetAttribute", [&](int) {
    Found found;
    HostBlock block;
    const bool on_device = memory().find(found, pointer(address));
    if (!on_device && !memory().find_host(block, pointer(address))) return Result::invalid_value;
    const int device = on_device ? found.device : block.device;
    if (attribute == cuda::pointer_memory_type) {
      const unsigned kind = on_device || block.managed ? cuda::memory_device : cuda::memory_host;
      std::memcpy(value, &kind, sizeof kind);
    } else if (attribute == cuda::pointer_device) {
      std::memcpy(value, &device, sizeof device);
    } else if (attribute == cuda::pointer_is_managed) {
      *static_cast<unsigned*>(value) = !on_device && block.managed;  // the real one writes a bool or more
    } else {
      return Result::invalid_value;
    }
    return Result::ok;
  });
}

FAKE_API int cuMemcpyHtoDAsync_v2(Address to, const void* from, std::size_t bytes, void* stream) {
  return run_here("cuMemcpyHtoDAsync_v2",
                  [&](int) { return streams().copy(pointer(to), Side::device, from, Side::host, bytes, stream); });
}
FAKE_API int cuMemcpyDtoHAsync_v2(void* to, Address from, std::size_t bytes, void* stream) {
  return run_here("cuMemcpyDtoHAsync_v2",
                  [&](int) { return streams().copy(to, Side::host, pointer(from), Side::device, bytes, stream); });
}
FAKE_API int cuMemcpyDtoDAsync_v2(Address to, Address from, std::size_t bytes, void* stream) {
  return run_here("cuMemcpyDtoDAsync_v2", [&](int) {
    return streams().copy(pointer(to), Side::device, pointer(from), Side::device, bytes, stream);
  });
}
FAKE_API int cuMemcpyPeerAsync(Address to, void* to_context, Address from, void* from_context, std::size_t bytes,
                               void* stream) {
  return run_here("cuMemcpyPeerAsync", [&](int) {
    Found target, source;
    if (!memory().find(target, pointer(to)) || !memory().find(source, pointer(from))) return Result::invalid_value;
    if (target.device != device_of(to_context) || source.device != device_of(from_context))
      return Result::invalid_context;
    return streams().copy(pointer(to), Side::device, pointer(from), Side::device, bytes, stream);
  });
}
FAKE_API int cuMemcpy2DAsync_v2(const cuda::Copy2D* copy, void* stream) {
  return run_here("cuMemcpy2DAsync_v2", [&](int) {
    const bool to_host = copy->destination_type == cuda::memory_host,
               from_host = copy->source_type == cuda::memory_host;
    return streams().copy_2d(
        to_host ? copy->destination_host : pointer(copy->destination_device), to_host ? Side::host : Side::device,
        copy->destination_pitch, from_host ? copy->source_host : pointer(copy->source_device),
        from_host ? Side::host : Side::device, copy->source_pitch, copy->width, copy->height, stream);
  });
}
FAKE_API int cuMemsetD8Async(Address to, unsigned char value, std::size_t bytes, void* stream) {
  return run_here("cuMemsetD8Async", [&](int) { return streams().fill(pointer(to), value, bytes, stream); });
}

FAKE_API int cuStreamCreate(void** stream, unsigned) {
  return run_here("cuStreamCreate", [&](int device) { return streams().create_stream(*stream, device); });
}
FAKE_API int cuStreamDestroy_v2(void* stream) {
  return run_here("cuStreamDestroy_v2", [&](int) { return streams().destroy_stream(stream); });
}
FAKE_API int cuStreamSynchronize(void* stream) {
  return run_here("cuStreamSynchronize", [&](int) { return streams().synchronize_stream(stream); });
}
FAKE_API int cuStreamQuery(void* stream) {
  return run_here("cuStreamQuery", [&](int) { return streams().query_stream(stream); });
}
FAKE_API int cuStreamWaitEvent(void* stream, void* event, unsigned) {
  return run_here("cuStreamWaitEvent", [&](int) { return streams().stream_wait(stream, event); });
}
FAKE_API int cuEventCreate(void** event, unsigned) {
  return run_here("cuEventCreate", [&](int) { return streams().create_event(*event); });
}
FAKE_API int cuEventDestroy_v2(void* event) {
  return run_here("cuEventDestroy_v2", [&](int) { return streams().destroy_event(event); });
}
FAKE_API int cuEventRecord(void* event, void* stream) {
  return run_here("cuEventRecord", [&](int) { return streams().record_event(event, stream); });
}
FAKE_API int cuEventSynchronize(void* event) {
  return run_here("cuEventSynchronize", [&](int) { return streams().synchronize_event(event); });
}
FAKE_API int cuEventQuery(void* event) {
  return run_here("cuEventQuery", [&](int) { return streams().query_event(event); });
}

FAKE_API int cuIpcGetMemHandle(cuda::IpcMemHandle* handle, Address address) {
  return run_here("cuIpcGetMemHandle", [&](int) {
    IpcContent content{};
    const Result result = memory().ipc_get(content, pointer(address));
    std::memcpy(handle, &content, sizeof content);
    return result;
  });
}
FAKE_API int cuIpcOpenMemHandle_v2(Address* address, cuda::IpcMemHandle handle, unsigned) {
  return run_here("cuIpcOpenMemHandle_v2", [&](int device) {
    IpcContent content{};
    std::memcpy(&content, &handle, sizeof content);
    void* made = nullptr;
    const Result result = memory().ipc_open(made, content, device);
    *address = reinterpret_cast<Address>(made);
    return result;
  });
}
FAKE_API int cuIpcCloseMemHandle(Address address) {
  return run_here("cuIpcCloseMemHandle", [&](int) { return memory().ipc_close(pointer(address)); });
}

FAKE_API int cuMemGetAllocationGranularity(std::size_t* bytes, const cuda::AllocationProp* prop, int) {
  return run("cuMemGetAllocationGranularity", [&] {
    *bytes = Memory::granularity;
    return prop->location.type == 1 ? Result::ok : Result::invalid_value;
  });
}
FAKE_API int cuMemCreate(cuda::Handle* handle, std::size_t bytes, const cuda::AllocationProp* prop,
                         unsigned long long) {
  return run("cuMemCreate", [&] {
    if (prop->type != 1 || prop->handle_types != 1 || !is_device(prop->location.id)) return Result::invalid_value;
    std::uint64_t made = 0;
    const Result result = memory().create(made, bytes, prop->location.id);
    *handle = made;
    return result;
  });
}
FAKE_API int cuMemRelease(cuda::Handle handle) {
  return run("cuMemRelease", [&] { return memory().release(handle); });
}
FAKE_API int cuMemExportToShareableHandle(void* shareable, cuda::Handle handle, int type, unsigned long long) {
  return run("cuMemExportToShareableHandle", [&] {
    return type == 1 ? memory().export_fd(*static_cast<int*>(shareable), handle) : Result::not_supported;
  });
}
FAKE_API int cuMemImportFromShareableHandle(cuda::Handle* handle, void* os_handle, int type) {
  return run("cuMemImportFromShareableHandle", [&] {
    if (type != 1) return Result::not_supported;
    std::uint64_t made = 0;
    const Result result = memory().import_fd(made, static_cast<int>(reinterpret_cast<std::intptr_t>(os_handle)), 0);
    *handle = made;
    return result;
  });
}
FAKE_API int cuMemAddressReserve(Address* address, std::size_t bytes, std::size_t, Address, unsigned long long) {
  return run("cuMemAddressReserve", [&] {
    void* made = nullptr;
    const Result result = memory().reserve(made, bytes);
    *address = reinterpret_cast<Address>(made);
    return result;
  });
}
FAKE_API int cuMemAddressFree(Address address, std::size_t bytes) {
  return run("cuMemAddressFree", [&] { return memory().unreserve(pointer(address), bytes); });
}
FAKE_API int cuMemMap(Address address, std::size_t bytes, std::size_t offset, cuda::Handle handle, unsigned long long) {
  return run("cuMemMap",
             [&] { return offset == 0 ? memory().map(pointer(address), bytes, handle) : Result::not_supported; });
}
FAKE_API int cuMemUnmap(Address address, std::size_t bytes) {
  return run("cuMemUnmap", [&] { return memory().unmap(pointer(address), bytes); });
}
FAKE_API int cuMemSetAccess(Address address, std::size_t bytes, const cuda::AccessDesc* access, std::size_t count) {
  return run("cuMemSetAccess", [&] {
    if (count != 1 || access->flags != 3 || !is_device(access->location.id)) return Result::invalid_value;
    return memory().set_access(pointer(address), bytes);
  });
}
