// libascendcl. A thread has no device until it sets one.
#include <cstring>

#include "tests/fake_drivers/call.hpp"

namespace {

using namespace fake;

bool initialized = false;
thread_local int current = -1;
// acl_base.h and acl/error_codes/rt_error_codes.h, CANN 8.0.
constexpr int unknown = 507000;  // ACL_ERROR_RT_INTERNAL_ERROR

int code_of(Result result) {
  switch (result) {
    case Result::ok: return 0;
    case Result::not_initialized: return 100001;  // ACL_ERROR_UNINITIALIZE
    case Result::invalid_device: return 107001;   // ACL_ERROR_RT_INVALID_DEVICEID
    case Result::invalid_context: return 107002;  // ACL_ERROR_RT_CONTEXT_NULL
    case Result::other_context: return 107003;    // ACL_ERROR_RT_STREAM_CONTEXT
    case Result::invalid_handle: return 107017;   // ACL_ERROR_RT_INVALID_HANDLE
    case Result::out_of_memory: return 207001;    // ACL_ERROR_RT_MEMORY_ALLOCATION
    case Result::not_supported: return 200006;    // ACL_ERROR_FEATURE_UNSUPPORTED
    default: return 100000;                       // ACL_ERROR_INVALID_PARAM
  }
}
// acl_rt.h, CANN 8.0: ACL_EVENT_SYNC, ACL_EVENT_CAPTURE_STREAM_PROGRESS, ACL_EVENT_TIME_LINE.
constexpr unsigned event_sync = 1, event_progress = 2, event_time_line = 8;
// aclrtMemMallocPolicy of acl_rt.h: a page policy, and bits for the bandwidth of the memory.
enum Pages { huge_first, huge_only, normal_only, huge_first_p2p, huge_only_p2p, normal_only_p2p };
constexpr int low_band_width = 0x100, high_band_width = 0x1000;
template <typename Work> int run(const char* name, Work&& work) {
  return call(name, code_of, unknown, [&]() -> Result { return initialized ? work() : Result::not_initialized; });
}
template <typename Work> int run_here(const char* name, Work&& work) {
  return run(name, [&]() -> Result { return current < 0 ? Result::invalid_context : work(); });
}
/// For a call with a stream, which must be of the current device.
template <typename Work> int run_on(const char* name, void* stream, Work&& work) {
  return run_here(name, [&]() -> Result {
    const StreamName here{stream, current};
    const Result result = streams().check_here(here);
    return result == Result::ok ? work(here) : result;
  });
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
// The P2P policies are refused: other devices can't access this device's memory.
FAKE_API int aclrtMalloc(void** address, std::size_t bytes, int policy) {
  return run_here("aclrtMalloc", [&] {
    const int pages = policy & ~(low_band_width | high_band_width);
    if (pages < huge_first || pages > normal_only_p2p) return Result::invalid_value;
    if (pages >= huge_first_p2p) return Result::not_supported;
    return memory().allocate(*address, bytes, current);
  });
}
FAKE_API int aclrtFree(void* address) {
  return run_here("aclrtFree", [&] { return memory().free(address); });
}
FAKE_API int aclrtMallocHost(void** address, std::size_t bytes) {
  return run_here("aclrtMallocHost", [&] {
    return memory().allocate_host(*address, {.bytes = bytes, .device = current, .portable = true});
  });
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
  return run_on("aclrtMemcpyAsync", stream, [&](const StreamName& here) {
    if (bytes > room) return Result::invalid_value;
    return streams().copy(to, target_side(kind), from, source_side(kind), bytes, here);
  });
}
FAKE_API int aclrtMemcpy2dAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                                std::size_t width, std::size_t height, int kind, void* stream) {
  return run_on("aclrtMemcpy2dAsync", stream, [&](const StreamName& here) {
    if (kind == 3) return Result::invalid_value;  // no copies within a device
    return streams().copy_2d(to, target_side(kind), to_pitch, from, source_side(kind), from_pitch, width, height, here);
  });
}
FAKE_API int aclrtMemsetAsync(void* to, std::size_t room, int value, std::size_t bytes, void* stream) {
  return run_on("aclrtMemsetAsync", stream, [&](const StreamName& here) {
    if (bytes > room) return Result::invalid_value;
    return streams().fill(to, static_cast<unsigned char>(value), bytes, here);
  });
}
FAKE_API int aclrtCreateStream(void** stream) {
  return run_here("aclrtCreateStream", [&] { return streams().create_stream(*stream, current, false); });
}
FAKE_API int aclrtDestroyStream(void* stream) {
  return run_on("aclrtDestroyStream", stream, [&](const StreamName& here) { return streams().destroy_stream(here); });
}
FAKE_API int aclrtSynchronizeStream(void* stream) {
  return run_on("aclrtSynchronizeStream", stream,
                [&](const StreamName& here) { return streams().synchronize_stream(here); });
}
FAKE_API int aclrtStreamQuery(void* stream, int* status) {
  return run_on("aclrtStreamQuery", stream, [&](const StreamName& here) {
    const Result result = streams().query_stream(here);
    *status = result == Result::not_ready ? 1 : 0;
    return result == Result::not_ready ? Result::ok : result;
  });
}
FAKE_API int aclrtStreamWaitEvent(void* stream, void* event) {
  return run_on("aclrtStreamWaitEvent", stream,
                [&](const StreamName& here) { return streams().stream_wait(here, event); });
}
FAKE_API int aclrtLaunchHostFunc(void* stream, void (*function)(void*), void* data) {
  return run_on("aclrtLaunchHostFunc", stream,
                [&](const StreamName& here) { return streams().call_host(here, function, data); });
}
FAKE_API int aclrtCreateEventWithFlag(void** event, unsigned flags) {
  return run_here("aclrtCreateEventWithFlag", [&] {
    if (flags == 0 || (flags & ~(event_sync | event_progress | event_time_line)) != 0) return Result::invalid_value;
    return streams().create_event(
        *event, {.device = current, .times = (flags & event_time_line) != 0, .waitable = (flags & event_sync) != 0});
  });
}
FAKE_API int aclrtEventElapsedTime(float* milliseconds, void* from, void* to) {
  return run_here("aclrtEventElapsedTime", [&] { return streams().elapsed(*milliseconds, from, to); });
}
FAKE_API int aclrtDestroyEvent(void* event) {
  return run_here("aclrtDestroyEvent", [&] { return streams().destroy_event(event); });
}
FAKE_API int aclrtRecordEvent(void* event, void* stream) {
  return run_on("aclrtRecordEvent", stream,
                [&](const StreamName& here) { return streams().record_event(event, here); });
}
FAKE_API int aclrtSynchronizeEvent(void* event) {
  return run_here("aclrtSynchronizeEvent", [&] { return streams().synchronize_event(event); });
}
// An event that was never recorded isn't complete, unlike CUDA's.
FAKE_API int aclrtQueryEventStatus(void* event, int* status) {
  return run_here("aclrtQueryEventStatus", [&] {
    const auto found = streams().event_of(event);
    const Result result = streams().query_event(event);
    *status = result == Result::ok && found->recorded() > 0 ? 1 : 0;
    return result == Result::not_ready ? Result::ok : result;
  });
}
