// libascendcl. A thread has no device until it sets one.
#include <cstring>

#include "tests/fake_drivers/call.hpp"

namespace {

using namespace fake;

bool initialized = false;
thread_local int current = -1;
constexpr int unknown = 507000;

int code_of(Result result) {
  switch (result) {
    case Result::ok: return 0;
    case Result::not_initialized: return 100001;
    case Result::invalid_context: return 107002;
    case Result::out_of_memory: return 207001;
    case Result::invalid_device: return 107001;
    default: return 100000;
  }
}
template <typename Work> int run(const char* name, Work&& work) {
  return call(name, code_of, unknown, [&]() -> Result { return initialized ? work() : Result::not_initialized; });
}
template <typename Work> int run_here(const char* name, Work&& work) {
  return run(name, [&]() -> Result { return current < 0 ? Result::invalid_context : work(); });
}
Side target_side(int kind) { return kind == 2 ? Side::host : Side::device; }
Side source_side(int kind) { return kind == 1 ? Side::host : Side::device; }

}  // namespace

FAKE_API int aclInit(const char*) {
  const bool again = initialized;
  const int code = call("aclInit", code_of, unknown, [] { return Result::ok; });
  if (code == 0) initialized = true;
  return code == 0 && again ? 100002 : code;
}
FAKE_API int aclrtGetVersion(int* major, int* minor, int* patch) {
  *major = 1, *minor = 12, *patch = 0;
  return 0;
}
FAKE_API const char* aclrtGetSocName() { return "fake Ascend device"; }
FAKE_API int aclrtGetDeviceCount(unsigned* count) {
  return run("aclrtGetDeviceCount", [&] {
    *count = static_cast<unsigned>(control().devices);
    return Result::ok;
  });
}
FAKE_API int aclrtGetDevice(int* device) {
  return run_here("aclrtGetDevice", [&] {
    *device = current;
    return Result::ok;
  });
}
FAKE_API int aclrtSetDevice(int device) {
  return run("aclrtSetDevice", [&] {
    if (device < 0 || device >= control().devices) return Result::invalid_device;
    current = device;
    return Result::ok;
  });
}
FAKE_API int aclrtMalloc(void** address, std::size_t bytes, int) {
  return run_here("aclrtMalloc", [&] { return memory().allocate(*address, bytes, current); });
}
FAKE_API int aclrtFree(void* address) {
  return run_here("aclrtFree", [&] { return memory().free(address); });
}
FAKE_API int aclrtMallocHost(void** address, std::size_t bytes) {
  return run_here("aclrtMallocHost", [&] { return memory().allocate_host(*address, bytes, current, false); });
}
FAKE_API int aclrtFreeHost(void* address) {
  return run_here("aclrtFreeHost", [&] { return memory().free_host(address); });
}
FAKE_API int aclrtPointerGetAttributes(const void* address, void* out) {
  return run_here("aclrtPointerGetAttributes", [&] {
    struct {
      unsigned device;
      int type;
      unsigned page, reserved[4];
    } attributes{};
    Found found;
    HostBlock block;
    attributes.type = 2;
    if (memory().find(found, address)) {
      attributes.type = 1, attributes.device = static_cast<unsigned>(found.device);
    } else if (memory().find_host(block, address)) {
      attributes.type = 0, attributes.device = static_cast<unsigned>(block.device);
    }
    std::memcpy(out, &attributes, sizeof attributes);
    return Result::ok;
  });
}
FAKE_API int aclrtMemcpyAsync(void* to, std::size_t room, const void* from, std::size_t bytes, int kind, void* stream) {
  return run_here("aclrtMemcpyAsync", [&] {
    if (bytes > room) return Result::invalid_value;
    return streams().copy(to, target_side(kind), from, source_side(kind), bytes, stream);
  });
}
FAKE_API int aclrtMemcpy2dAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                                std::size_t width, std::size_t height, int kind, void* stream) {
  return run_here("aclrtMemcpy2dAsync", [&] {
    if (kind == 3) return Result::invalid_value;  // not within devices
    return streams().copy_2d(to, target_side(kind), to_pitch, from, source_side(kind), from_pitch, width, height,
                             stream);
  });
}
FAKE_API int aclrtMemsetAsync(void* to, std::size_t room, int value, std::size_t bytes, void* stream) {
  return run_here("aclrtMemsetAsync", [&] {
    if (bytes > room) return Result::invalid_value;
    return streams().fill(to, static_cast<unsigned char>(value), bytes, stream);
  });
}
FAKE_API int aclrtCreateStream(void** stream) {
  return run_here("aclrtCreateStream", [&] { return streams().create_stream(*stream, current); });
}
FAKE_API int aclrtDestroyStream(void* stream) {
  return run_here("aclrtDestroyStream", [&] { return streams().destroy_stream(stream); });
}
FAKE_API int aclrtSynchronizeStream(void* stream) {
  return run_here("aclrtSynchronizeStream", [&] { return streams().synchronize_stream(stream); });
}
FAKE_API int aclrtStreamQuery(void* stream, int* status) {
  return run_here("aclrtStreamQuery", [&] {
    const Result result = streams().query_stream(stream);
    *status = result == Result::not_ready ? 1 : 0;
    return result == Result::not_ready ? Result::ok : result;
  });
}
FAKE_API int aclrtStreamWaitEvent(void* stream, void* event) {
  return run_here("aclrtStreamWaitEvent", [&] { return streams().stream_wait(stream, event); });
}
FAKE_API int aclrtLaunchHostFunc(void* stream, void (*function)(void*), void* data) {
  return run_here("aclrtLaunchHostFunc", [&] { return streams().call_host(stream, function, data); });
}
FAKE_API int aclrtCreateEventWithFlag(void** event, unsigned) {
  return run_here("aclrtCreateEventWithFlag", [&] { return streams().create_event(*event); });
}
FAKE_API int aclrtDestroyEvent(void* event) {
  return run_here("aclrtDestroyEvent", [&] { return streams().destroy_event(event); });
}
FAKE_API int aclrtRecordEvent(void* event, void* stream) {
  return run_here("aclrtRecordEvent", [&] { return streams().record_event(event, stream); });
}
FAKE_API int aclrtSynchronizeEvent(void* event) {
  return run_here("aclrtSynchronizeEvent", [&] { return streams().synchronize_event(event); });
}
FAKE_API int aclrtQueryEventStatus(void* event, int* status) {
  return run_here("aclrtQueryEventStatus", [&] {
    const Result result = streams().query_event(event);
    *status = result == Result::ok ? 1 : 0;
    return result == Result::not_ready ? Result::ok : result;
  });
}
