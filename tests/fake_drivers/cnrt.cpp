// libcnrt: queues and notifiers.
#include <cstring>

#include "tests/fake_drivers/call.hpp"

namespace {

using namespace fake;

thread_local int current = 0;
constexpr int not_ready = 100126, no_memory = 100100, invalid = 100001, unknown = 999999;

int code_of(Result result) {
  return result == Result::ok              ? 0
         : result == Result::not_ready     ? not_ready
         : result == Result::out_of_memory ? no_memory
                                           : invalid;
}
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
  return code == not_ready   ? "cnrtErrorNotReady"
         : code == no_memory ? "cnrtErrorNoMem"
         : code == unknown   ? "cnrtErrorUnknown"
                             : "cnrtErrorArgsInvalid";
}
FAKE_API int cnrtMalloc(void** address, std::size_t bytes) {
  return run("cnrtMalloc", [&] { return memory().allocate(*address, bytes, current); });
}
FAKE_API int cnrtFree(void* address) {
  return run("cnrtFree", [&] { return memory().free(address); });
}
FAKE_API int cnrtHostMalloc(void** address, std::size_t bytes) {
  return run("cnrtHostMalloc", [&] { return memory().allocate_host(*address, bytes, current, false); });
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
    const Side target = direction == 2 ? Side::host : Side::device;
    const Side source = direction == 0 ? Side::host : Side::device;
    return streams().copy(to, target, from, source, bytes, queue);
  });
}
FAKE_API int cnrtMemsetAsync(void* to, int value, std::size_t bytes, void* queue) {
  return run("cnrtMemsetAsync", [&] { return streams().fill(to, static_cast<unsigned char>(value), bytes, queue); });
}
FAKE_API int cnrtQueueCreate(void** queue) {
  return run("cnrtQueueCreate", [&] { return streams().create_stream(*queue, current); });
}
FAKE_API int cnrtQueueDestroy(void* queue) {
  return run("cnrtQueueDestroy", [&] { return streams().destroy_stream(queue); });
}
FAKE_API int cnrtQueueSync(void* queue) {
  return run("cnrtQueueSync", [&] { return streams().synchronize_stream(queue); });
}
FAKE_API int cnrtQueueQuery(void* queue) {
  return run("cnrtQueueQuery", [&] { return streams().query_stream(queue); });
}
FAKE_API int cnrtInvokeHostFunc(void* queue, void (*function)(void*), void* data) {
  return run("cnrtInvokeHostFunc", [&] { return streams().call_host(queue, function, data); });
}
FAKE_API int cnrtNotifierCreate(void** notifier) {
  return run("cnrtNotifierCreate", [&] { return streams().create_event(*notifier); });
}
FAKE_API int cnrtNotifierDestroy(void* notifier) {
  return run("cnrtNotifierDestroy", [&] { return streams().destroy_event(notifier); });
}
FAKE_API int cnrtPlaceNotifier(void* notifier, void* queue) {
  return run("cnrtPlaceNotifier", [&] { return streams().record_event(notifier, queue); });
}
FAKE_API int cnrtWaitNotifier(void* notifier) {
  return run("cnrtWaitNotifier", [&] { return streams().synchronize_event(notifier); });
}
FAKE_API int cnrtQueryNotifier(void* notifier) {
  return run("cnrtQueryNotifier", [&] { return streams().query_event(notifier); });
}
FAKE_API int cnrtQueueWaitNotifier(void* notifier, void* queue, unsigned) {
  return run("cnrtQueueWaitNotifier", [&] { return streams().stream_wait(queue, notifier); });
}
