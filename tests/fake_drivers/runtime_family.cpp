// libamdhip64 and libmusart: the same functions under two prefixes. FAKE_PREFIX is given by the build.
#include <cstdio>
#include <cstring>

#include "runtime/memory/vendors/runtime_api.hpp"
#include "tests/fake_drivers/result_numbers.hpp"

#define FAKE_JOIN2(a, b) a##b
#define FAKE_JOIN(a, b) FAKE_JOIN2(a, b)
#define FAKE_TEXT2(a) #a
#define FAKE_TEXT(a) FAKE_TEXT2(a)
#define FN(name) FAKE_JOIN(FAKE_PREFIX, name)
#define NAME(name) FAKE_TEXT(FAKE_PREFIX) #name

namespace {

using namespace fake;
namespace api = hmc::memory::runtime_api;

thread_local int current = 0;

template <typename Work> int run(const char* name, Work&& work) {
  return call(name, code_of, 999, static_cast<Work&&>(work));
}
bool is_device(int device) { return device >= 0 && device < control().devices; }
Side target_side(int kind) { return kind == api::to_host ? Side::host : Side::device; }
Side source_side(int kind) { return kind == api::to_device ? Side::host : Side::device; }

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
    *device = current;
    return Result::ok;
  });
}
FAKE_API int FN(SetDevice)(int device) {
  return run(NAME(SetDevice), [&] {
    if (!is_device(device)) return Result::invalid_device;
    current = device;
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
  return run(NAME(Malloc), [&] { return memory().allocate(*address, bytes, current); });
}
FAKE_API int FN(Free)(void* address) {
  return run(NAME(Free), [&] {
    const Result result = memory().free(address);
    return result == Result::ok ? result : memory().free_host(address);
  });
}
FAKE_API int FN(HostRegister)(void* address, std::size_t bytes, unsigned) {
  return run(NAME(HostRegister), [&] { return memory().pin(address, bytes, current); });
}
FAKE_API int FN(HostUnregister)(void* address) {
  return run(NAME(HostUnregister), [&] { return memory().unpin(address); });
}
FAKE_API int FN(MallocManaged)(void** address, std::size_t bytes, unsigned) {
  return run(NAME(MallocManaged), [&] { return memory().allocate_host(*address, bytes, current, true); });
}
FAKE_API int FN(MallocAsync)(void** address, std::size_t bytes, void*) {
  return run(NAME(MallocAsync), [&] { return memory().allocate(*address, bytes, current); });
}
FAKE_API int FN(FreeAsync)(void* address, void*) {
  return run(NAME(FreeAsync), [&] { return memory().free(address); });
}

FAKE_API int FN(MemcpyAsync)(void* to, const void* from, std::size_t bytes, int kind, void* stream) {
  return run(NAME(MemcpyAsync),
             [&] { return streams().copy(to, target_side(kind), from, source_side(kind), bytes, stream); });
}
FAKE_API int FN(MemcpyPeerAsync)(void* to, int to_device, const void* from, int from_device, std::size_t bytes,
                                 void* stream) {
  return run(NAME(MemcpyPeerAsync), [&] {
    Found target, source;
    if (!memory().find(target, to) || !memory().find(source, from)) return Result::invalid_value;
    if (target.device != to_device || source.device != from_device) return Result::invalid_device;
    return streams().copy(to, Side::device, from, Side::device, bytes, stream);
  });
}
FAKE_API int FN(Memcpy2DAsync)(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                               std::size_t width, std::size_t height, int kind, void* stream) {
  return run(NAME(Memcpy2DAsync), [&] {
    return streams().copy_2d(to, target_side(kind), to_pitch, from, source_side(kind), from_pitch, width, height,
                             stream);
  });
}
FAKE_API int FN(MemsetAsync)(void* to, int value, std::size_t bytes, void* stream) {
  return run(NAME(MemsetAsync), [&] { return streams().fill(to, static_cast<unsigned char>(value), bytes, stream); });
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
    // Until ROCm 6 HIP counted host 0, device 1; MUSA and later HIP count as CUDA does.
    const int shift = control().hip_version < 60'000'000 && std::strcmp(FAKE_TEXT(FAKE_PREFIX), "hip") == 0 ? 1 : 0;
    attributes.type = (on_device ? 2 : block.managed ? 3 : 1) - shift;
    attributes.device = on_device ? found.device : block.device;
    attributes.managed = !on_device && block.managed;
    const bool is_hip = std::strcmp(FAKE_TEXT(FAKE_PREFIX), "hip") == 0;
    std::memcpy(out, &attributes, is_hip ? sizeof attributes : 24);  // MUSA's is the first four fields
    return Result::ok;
  });
}

FAKE_API int FN(StreamCreateWithFlags)(void** stream, unsigned) {
  return run(NAME(StreamCreateWithFlags), [&] { return streams().create_stream(*stream, current); });
}
FAKE_API int FN(StreamDestroy)(void* stream) {
  return run(NAME(StreamDestroy), [&] { return streams().destroy_stream(stream); });
}
FAKE_API int FN(StreamSynchronize)(void* stream) {
  return run(NAME(StreamSynchronize), [&] { return streams().synchronize_stream(stream); });
}
FAKE_API int FN(StreamQuery)(void* stream) {
  return run(NAME(StreamQuery), [&] { return streams().query_stream(stream); });
}
FAKE_API int FN(StreamWaitEvent)(void* stream, void* event, unsigned) {
  return run(NAME(StreamWaitEvent), [&] { return streams().stream_wait(stream, event); });
}
FAKE_API int FN(LaunchHostFunc)(void* stream, void (*function)(void*), void* data) {
  return run(NAME(LaunchHostFunc), [&] { return streams().call_host(stream, function, data); });
}
FAKE_API int FN(EventCreateWithFlags)(void** event, unsigned) {
  return run(NAME(EventCreateWithFlags), [&] { return streams().create_event(*event); });
}
FAKE_API int FN(EventDestroy)(void* event) {
  return run(NAME(EventDestroy), [&] { return streams().destroy_event(event); });
}
FAKE_API int FN(EventRecord)(void* event, void* stream) {
  return run(NAME(EventRecord), [&] { return streams().record_event(event, stream); });
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
FAKE_API int FN(IpcOpenMemHandle)(void** address, api::IpcMemHandle handle, unsigned) {
  return run(NAME(IpcOpenMemHandle), [&] {
    IpcContent content{};
    std::memcpy(&content, &handle, sizeof content);
    return memory().ipc_open(*address, content, current);
  });
}
FAKE_API int FN(IpcCloseMemHandle)(void* address) {
  return run(NAME(IpcCloseMemHandle), [&] { return memory().ipc_close(address); });
}
