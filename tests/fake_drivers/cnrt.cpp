// libcnrt: queues and notifiers.
#include <cstring>

#include "tests/fake_drivers/call.hpp"

namespace {

using namespace fake;

thread_local int current = 0;
// cnrt.h, CNRT 6.14: cnrtRet_t.
constexpr int not_ready = 1, invalid_device = 100005, invalid_argument = 100006, invalid_handle = 100014,
              no_memory = 100100, other_device = 632006, unknown = 999991;

int code_of(Result result) {
  switch (result) {
    case Result::ok: return 0;
    case Result::not_ready: return not_ready;
    case Result::out_of_memory: return no_memory;
    case Result::invalid_device: return invalid_device;
    case Result::invalid_handle: return invalid_handle;
    case Result::other_context: return other_device;
    default: return invalid_argument;
  }
}
StreamName here(void* queue) { return {queue, current}; }
template <typename Work> int run(const char* name, Work&& work) {
  return call(name, code_of, unknown, static_cast<Work&&>(work));
}

}  // namespace

FAKE_API int cnrtGetLibVersion(int* major, int* minor, int* patch) {
  *major = 6, *minor = 7, *patch = 0;
  return 0;
}
FAKE_API int cnrtGetDeviceCount(unsigned* count) {
  return run("cnrtGetDeviceCount", [&] {
    *count = static_cast<unsigned>(control().devices);
    return Result::ok;
  });
}
FAKE_API int cnrtGetDevice(int* device) {
  return run("cnrtGetDevice", [&] {
    *device = current;
    return Result::ok;
  });
}
FAKE_API int cnrtSetDevice(int device) {
  return run("cnrtSetDevice", [&] {
    if (device < 0 || device >= control().devices) return Result::invalid_device;
    current = device;
    return Result::ok;
  });
}
FAKE_API const char* cnrtGetErrorName(int code) {
  switch (code) {
    case not_ready: return "cnrtErrorNotReady";
    case invalid_device: return "cnrtErrorDeviceInvalid";
    case invalid_argument: return "cnrtErrorArgsInvalid";
    case invalid_handle: return "cnrtErrorInvalidResourceHandle";
    case no_memory: return "cnrtErrorNoMem";
    case other_device: return "cnrtErrorDevice";
    default: return "cnrtErrorUnknown";
  }
}
FAKE_API int cnrtMalloc(void** address, std::size_t bytes) {
  return run("cnrtMalloc", [&] { return memory().allocate(*address, bytes, current); });
}
FAKE_API int cnrtFree(void* address) {
  return run("cnrtFree", [&] { return memory().free(address); });
}
FAKE_API int cnrtHostMalloc(void** address, std::size_t bytes) {
  return run("cnrtHostMalloc",
             [&] { return memory().allocate_host(*address, {.bytes = bytes, .device = current, .portable = true}); });
}
FAKE_API int cnrtFreeHost(void* address) {
  return run("cnrtFreeHost", [&] { return memory().free_host(address); });
}
FAKE_API int cnrtPointerGetAttributes(void* out, const void* address) {
  return run("cnrtPointerGetAttributes", [&] {
    struct {
      int type, device;
      std::size_t size;
      void *device_pointer, *host_pointer;
      int cache;
      void* base;
    } attributes{};
    Found found;
    HostBlock block;
    if (memory().find(found, address)) {
      attributes.type = 2, attributes.device = found.device, attributes.base = found.start;
    } else if (memory().find_host(block, address)) {
      attributes.type = 1, attributes.device = block.device;
    }
    std::memcpy(out, &attributes, sizeof attributes);
    return Result::ok;
  });
}
FAKE_API int cnrtMemcpyAsync(void* to, void* from, std::size_t bytes, void* queue, int direction) {
  return run("cnrtMemcpyAsync", [&] {
    constexpr int directions = 6;  // cnrtMemTransDir_t
    if (direction < 0 || direction >= directions) return Result::invalid_value;
    const Side target = direction == 2 ? Side::host : Side::device;
    const Side source = direction == 0 ? Side::host : Side::device;
    return streams().copy(to, target, from, source, bytes, here(queue));
  });
}
FAKE_API int cnrtMemsetAsync(void* to, int value, std::size_t bytes, void* queue) {
  return run("cnrtMemsetAsync",
             [&] { return streams().fill(to, static_cast<unsigned char>(value), bytes, here(queue)); });
}
FAKE_API int cnrtQueueCreate(void** queue) {
  return run("cnrtQueueCreate", [&] { return streams().create_stream(*queue, current, false); });
}
FAKE_API int cnrtQueueDestroy(void* queue) {
  return run("cnrtQueueDestroy", [&] { return streams().destroy_stream(here(queue)); });
}
FAKE_API int cnrtQueueSync(void* queue) {
  return run("cnrtQueueSync", [&] { return streams().synchronize_stream(here(queue)); });
}
FAKE_API int cnrtQueueQuery(void* queue) {
  return run("cnrtQueueQuery", [&] { return streams().query_stream(here(queue)); });
}
FAKE_API int cnrtInvokeHostFunc(void* queue, void (*function)(void*), void* data) {
  return run("cnrtInvokeHostFunc", [&] { return streams().call_host(here(queue), function, data); });
}
FAKE_API int cnrtNotifierCreate(void** notifier) {
  return run("cnrtNotifierCreate", [&] { return streams().create_event(*notifier, {.device = current}); });
}
FAKE_API int cnrtNotifierDestroy(void* notifier) {
  return run("cnrtNotifierDestroy", [&] { return streams().destroy_event(notifier); });
}
FAKE_API int cnrtPlaceNotifier(void* notifier, void* queue) {
  return run("cnrtPlaceNotifier", [&] { return streams().record_event(notifier, here(queue)); });
}
FAKE_API int cnrtWaitNotifier(void* notifier) {
  return run("cnrtWaitNotifier", [&] { return streams().synchronize_event(notifier); });
}
FAKE_API int cnrtQueryNotifier(void* notifier) {
  return run("cnrtQueryNotifier", [&] { return streams().query_event(notifier); });
}
FAKE_API int cnrtQueueWaitNotifier(void* notifier, void* queue, unsigned flags) {
  return run("cnrtQueueWaitNotifier",
             [&] { return flags == 0 ? streams().stream_wait(here(queue), notifier) : Result::invalid_value; });
}
FAKE_API int cnrtNotifierElapsedTime(void* from, void* to, float* milliseconds) {
  return run("cnrtNotifierElapsedTime", [&] { return streams().elapsed(*milliseconds, from, to); });
}
