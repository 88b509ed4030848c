// libamdhip64 and libmusart: the same functions with different prefixes. The build defines FAKE_PREFIX.
#include <cstdio>
#include <cstring>

#include "runtime/memory/vendors/runtime_api.hpp"
#include "tests/fake_drivers/result_numbers.hpp"
#include "tests/fake_drivers/runtime_family.hpp"

#define FAKE_JOIN2(a, b) a##b
#define FAKE_JOIN(a, b) FAKE_JOIN2(a, b)
#define FAKE_TEXT2(a) #a
#define FAKE_TEXT(a) FAKE_TEXT2(a)
#define FN(name) FAKE_JOIN(FAKE_PREFIX, name)
#define NAME(name) FAKE_TEXT(FAKE_PREFIX) #name

namespace fake {

thread_local constinit int current_device = 0;

}  // namespace fake

namespace {

using namespace fake;
namespace api = hmc::memory::runtime_api;

template <typename Work> int run(const char* name, Work&& work) {
  return call(name, code_of, 999, static_cast<Work&&>(work));
}
// musa_runtime_api.h and hip_runtime_api.h (5.2) have the same numbers for StreamNonBlocking, Event*, HostRegister* and
// MemAttach*. They equal CUDA's.
constexpr unsigned event_blocking_sync = 1, event_interprocess = 4;
constexpr unsigned host_register_mapped = 2, host_register_io_memory = 4, host_register_read_only = 8;
constexpr unsigned attach_host = 2;
bool is_of(unsigned flags, unsigned known) { return (flags & ~known) == 0; }
StreamName here(void* stream) { return {stream, current_device}; }
bool is_device(int device) { return device >= 0 && device < control().devices; }
constexpr int within_host = 0, any_kind = 4;
Side target_side(int kind) {
  return kind == any_kind ? Side::any : kind == api::to_host || kind == within_host ? Side::host : Side::device;
}
Side source_side(int kind) {
  return kind == any_kind ? Side::any : kind == api::to_device || kind == within_host ? Side::host : Side::device;
}

}  // namespace

FAKE_API int FN(RuntimeGetVersion)(int* version) {
  *version = std::strcmp(FAKE_TEXT(FAKE_PREFIX), "hip") == 0 ? control().hip_version.load() : 40301;
  return 0;
}
FAKE_API int FN(GetDeviceCount)(int* count) {
  return run(NAME(GetDeviceCount), [&] {
    *count = control().devices;
    return Result::ok;
  });
}
FAKE_API int FN(GetDevice)(int* device) {
  return run(NAME(GetDevice), [&] {
    *device = current_device;
    return Result::ok;
  });
}
FAKE_API int FN(SetDevice)(int device) {
  return run(NAME(SetDevice), [&] {
    if (!is_device(device)) return Result::invalid_device;
    current_device = device;
    return Result::ok;
  });
}
FAKE_API const char* FN(GetErrorName)(int code) {
  switch (code) {
    case 1: return NAME(ErrorInvalidValue);
    case 2: return NAME(ErrorOutOfMemory);
    case 208: return NAME(ErrorAlreadyMapped);
    case 999: return NAME(ErrorUnknown);
    default: return NAME(ErrorOther);
  }
}

FAKE_API int FN(Malloc)(void** address, std::size_t bytes) {
  return run(NAME(Malloc), [&] { return memory().allocate(*address, bytes, current_device); });
}
FAKE_API int FN(Free)(void* address) {
  return run(NAME(Free), [&] {
    const Result result = memory().free(address);
    return result == Result::ok ? result : memory().free_host(address);
  });
}
FAKE_API int FN(HostRegister)(void* address, std::size_t bytes, unsigned flags) {
  return run(NAME(HostRegister), [&] {
    if (!is_of(flags,
               api::host_register_portable | host_register_mapped | host_register_io_memory | host_register_read_only))
      return Result::invalid_value;
    return memory().pin(address, {.bytes = bytes,
                                  .device = current_device,
                                  .portable = (flags & api::host_register_portable) != 0,
                                  .mapped = (flags & host_register_mapped) != 0});
  });
}
FAKE_API int FN(HostGetDevicePointer)(void** seen, void* address, unsigned flags) {
  return run(NAME(HostGetDevicePointer), [&] {
    return flags == 0 ? memory().device_pointer(*seen, address, current_device) : Result::invalid_value;
  });
}
FAKE_API int FN(HostUnregister)(void* address) {
  return run(NAME(HostUnregister), [&] { return memory().unpin(address); });
}
FAKE_API int FN(MallocManaged)(void** address, std::size_t bytes, unsigned flags) {
  return run(NAME(MallocManaged), [&] {
    if (flags != api::attach_global && flags != attach_host) return Result::invalid_value;
    return memory().allocate_host(
        *address, {.bytes = bytes, .device = current_device, .managed = true, .portable = true, .mapped = true});
  });
}
FAKE_API int FN(MallocAsync)(void** address, std::size_t bytes, void* stream) {
  return run(NAME(MallocAsync), [&] { return streams().allocate(*address, bytes, here(stream)); });
}
FAKE_API int FN(FreeAsync)(void* address, void* stream) {
  return run(NAME(FreeAsync), [&] { return streams().free(address, here(stream)); });
}

FAKE_API int FN(MemcpyAsync)(void* to, const void* from, std::size_t bytes, int kind, void* stream) {
  return run(NAME(MemcpyAsync), [&] {
    if (kind < within_host || kind > any_kind) return Result::invalid_value;
    return streams().copy(to, target_side(kind), from, source_side(kind), bytes, here(stream));
  });
}
FAKE_API int FN(MemcpyPeerAsync)(void* to, int to_device, const void* from, int from_device, std::size_t bytes,
                                 void* stream) {
  return run(NAME(MemcpyPeerAsync), [&] {
    Found target, source;
    if (!memory().find(target, to) || !memory().find(source, from)) return Result::invalid_value;
    if (target.device != to_device || source.device != from_device) return Result::invalid_device;
    return streams().copy(to, Side::device, from, Side::device, bytes, here(stream));
  });
}
FAKE_API int FN(Memcpy2DAsync)(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                               std::size_t width, std::size_t height, int kind, void* stream) {
  return run(NAME(Memcpy2DAsync), [&] {
    return streams().copy_2d(to, target_side(kind), to_pitch, from, source_side(kind), from_pitch, width, height,
                             here(stream));
  });
}
FAKE_API int FN(MemsetAsync)(void* to, int value, std::size_t bytes, void* stream) {
  return run(NAME(MemsetAsync),
             [&] { return streams().fill(to, static_cast<unsigned char>(value), bytes, here(stream)); });
}
FAKE_API int FN(PointerGetAttributes)(void* out, const void* address) {
  return run(NAME(PointerGetAttributes), [&] {
    struct {
      int type, device;
      void *device_pointer, *host_pointer;
      int managed;
      unsigned flags;
    } attributes{};
    Found found;
    HostBlock block;
    const bool on_device = memory().find(found, address);
    if (!on_device && !memory().find_host(block, address)) return Result::invalid_value;
    // Before ROCm 6 HIP's types are 0 for the host and 1 for a device. MUSA and later HIP use CUDA's numbers.
    const int shift = control().hip_version < 60'000'000 && std::strcmp(FAKE_TEXT(FAKE_PREFIX), "hip") == 0 ? 1 : 0;
    attributes.type = (on_device ? 2 : block.managed ? 3 : 1) - shift;
    attributes.device = on_device ? found.device : block.device;
    attributes.managed = !on_device && block.managed;
    const bool is_hip = std::strcmp(FAKE_TEXT(FAKE_PREFIX), "hip") == 0;
    std::memcpy(out, &attributes, is_hip ? sizeof attributes : 24);  // MUSA's struct has only the first four fields
    return Result::ok;
  });
}

FAKE_API int FN(StreamCreateWithFlags)(void** stream, unsigned flags) {
  return run(NAME(StreamCreateWithFlags), [&] {
    if (!is_of(flags, api::stream_non_blocking)) return Result::invalid_value;
    return streams().create_stream(*stream, current_device, flags == 0);
  });
}
FAKE_API int FN(StreamDestroy)(void* stream) {
  return run(NAME(StreamDestroy), [&] { return streams().destroy_stream(here(stream)); });
}
FAKE_API int FN(StreamSynchronize)(void* stream) {
  return run(NAME(StreamSynchronize), [&] { return streams().synchronize_stream(here(stream)); });
}
FAKE_API int FN(StreamQuery)(void* stream) {
  return run(NAME(StreamQuery), [&] { return streams().query_stream(here(stream)); });
}
FAKE_API int FN(StreamWaitEvent)(void* stream, void* event, unsigned flags) {
  return run(NAME(StreamWaitEvent),
             [&] { return flags == 0 ? streams().stream_wait(here(stream), event) : Result::invalid_value; });
}
FAKE_API int FN(LaunchHostFunc)(void* stream, void (*function)(void*), void* data) {
  return run(NAME(LaunchHostFunc), [&] { return streams().call_host(here(stream), function, data); });
}
// Only the fake libcuda shares events between processes. Here an inter-process event works within this process.
FAKE_API int FN(EventCreateWithFlags)(void** event, unsigned flags) {
  return run(NAME(EventCreateWithFlags), [&] {
    const bool times = (flags & api::event_disable_timing) == 0;
    if (!is_of(flags, event_blocking_sync | api::event_disable_timing | event_interprocess) ||
        ((flags & event_interprocess) != 0 && times))
      return Result::invalid_value;
    return streams().create_event(*event, {.device = current_device, .times = times});
  });
}
FAKE_API int FN(EventElapsedTime)(float* milliseconds, void* from, void* to) {
  return run(NAME(EventElapsedTime), [&] { return streams().elapsed(*milliseconds, from, to); });
}
FAKE_API int FN(EventDestroy)(void* event) {
  return run(NAME(EventDestroy), [&] { return streams().destroy_event(event); });
}
FAKE_API int FN(EventRecord)(void* event, void* stream) {
  return run(NAME(EventRecord), [&] { return streams().record_event(event, here(stream)); });
}
FAKE_API int FN(EventSynchronize)(void* event) {
  return run(NAME(EventSynchronize), [&] { return streams().synchronize_event(event); });
}
FAKE_API int FN(EventQuery)(void* event) {
  return run(NAME(EventQuery), [&] { return streams().query_event(event); });
}

FAKE_API int FN(IpcGetMemHandle)(api::IpcMemHandle* handle, void* address) {
  return run(NAME(IpcGetMemHandle), [&] {
    IpcContent content{};
    const Result result = memory().ipc_get(content, address);
    std::memcpy(handle, &content, sizeof content);
    return result;
  });
}
FAKE_API int FN(IpcOpenMemHandle)(void** address, api::IpcMemHandle handle, unsigned flags) {
  return run(NAME(IpcOpenMemHandle), [&] {
    const bool is_older_hip = std::strcmp(FAKE_TEXT(FAKE_PREFIX), "hip") == 0 && control().hip_version < 60'000'000;
    if (flags != (is_older_hip ? api::ipc_lazy_peer_access_older : api::ipc_lazy_peer_access))
      return Result::invalid_value;
    IpcContent content{};
    std::memcpy(&content, &handle, sizeof content);
    return memory().ipc_open(*address, content, current_device);
  });
}
FAKE_API int FN(IpcCloseMemHandle)(void* address) {
  return run(NAME(IpcCloseMemHandle), [&] { return memory().ipc_close(address); });
}
