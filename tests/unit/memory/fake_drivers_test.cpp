// The fake drivers themselves: handles, flags and alignments that a vendor's library rejects, and the order of its
// streams. A fake that is less strict hides errors in HMC.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "runtime/memory/vendors/cuda_api.hpp"
#include "runtime/memory/vendors/runtime_api.hpp"
#include "tests/unit/memory/fake.hpp"

namespace hmc::memory {

namespace {

using cuda::Address;

/// A fake's functions by their names. Arguments must have the types of the parameters.
class Driver {
 public:
  explicit Driver(const std::string& name) : fake(name), handle_(::dlopen(fake_path(name).c_str(), RTLD_NOW)) {
    fake.arm("");
    fake.set_delay_us(0);
  }
  template <typename... Args> int operator()(const std::string& name, Args... args) const {
    const auto function = reinterpret_cast<int (*)(Args...)>(::dlsym(handle_, name.c_str()));
    if (function != nullptr) return function(args...);
    ADD_FAILURE() << name;
    return -1;
  }
  const Fake fake;

 private:
  void* handle_;
};

/// libcuda with the context of a device current.
class Cuda : public Driver {
 public:
  Cuda() : Driver("cuda") {
    EXPECT_EQ((*this)("cuInit", 0U), 0);
    for (int device = 0; device < 2; ++device)
      EXPECT_EQ((*this)("cuDevicePrimaryCtxRetain", &contexts_[device], device), 0);
    enter(0);
  }
  ~Cuda() {
    leave();
    for (int device = 0; device < 2; ++device) EXPECT_EQ((*this)("cuDevicePrimaryCtxRelease_v2", device), 0);
  }
  Cuda(const Cuda&) = delete;
  Cuda& operator=(const Cuda&) = delete;
  void enter(int device) const { EXPECT_EQ((*this)("cuCtxPushCurrent_v2", contexts_[device]), 0); }
  void leave() const {
    void* popped = nullptr;
    EXPECT_EQ((*this)("cuCtxPopCurrent_v2", &popped), 0);
  }
  Address allocate(std::size_t bytes) const {
    Address made = 0;
    EXPECT_EQ((*this)("cuMemAlloc_v2", &made, bytes), 0);
    return made;
  }
  void* stream(unsigned flags) const {
    void* made = nullptr;
    EXPECT_EQ((*this)("cuStreamCreate", &made, flags), 0);
    return made;
  }
  int synchronize(void* stream) const { return (*this)("cuStreamSynchronize", stream); }
  std::vector<unsigned char> read(Address address, std::size_t bytes) const {
    std::vector<unsigned char> got(bytes);
    void* const own = stream(1);
    EXPECT_EQ((*this)("cuMemcpyDtoHAsync_v2", static_cast<void*>(got.data()), address, bytes, own), 0);
    EXPECT_EQ(synchronize(own), 0);
    EXPECT_EQ((*this)("cuStreamDestroy_v2", own), 0);
    return got;
  }

 private:
  void* contexts_[2] = {};
};

/// A word that streams wait for.
class Word {
 public:
  explicit Word(const Cuda& cuda) : cuda_(cuda) {
    void* made = nullptr;
    EXPECT_EQ(cuda("cuMemHostAlloc", &made, std::size_t{64}, 3U), 0);
    EXPECT_EQ(cuda("cuMemHostGetDevicePointer_v2", &seen, made, 0U), 0);
    host_ = static_cast<unsigned*>(made);
    set(0);
  }
  ~Word() { EXPECT_EQ(cuda_("cuMemFreeHost", static_cast<void*>(host_)), 0); }
  Word(const Word&) = delete;
  Word& operator=(const Word&) = delete;
  void set(unsigned value) const { std::atomic_ref(*host_).store(value); }
  Address seen = 0;

 private:
  const Cuda& cuda_;
  unsigned* host_ = nullptr;
};

/// Polls for a while, so that a driver that doesn't wait has time to continue.
bool stays(int expected, const std::function<int()>& ask) {
  for (int i = 0; i < 20; ++i) {
    if (ask() != expected) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

void* const unknown = reinterpret_cast<void*>(0xdead0);

TEST(FakeDrivers, missing_and_destroyed_streams_are_rejected) {
  const Cuda cuda;
  const Address memory = cuda.allocate(64);
  char bytes[64] = {};
  Address made = 0;
  void* event = nullptr;
  EXPECT_EQ(cuda("cuEventCreate", &event, 2U), 0);
  const Word word(cuda);
  void* const gone = cuda.stream(1);
  EXPECT_EQ(cuda("cuStreamDestroy_v2", gone), 0);
  for (void* const stream : {unknown, gone}) {
    EXPECT_EQ(cuda.synchronize(stream), 400);
    EXPECT_EQ(cuda("cuStreamQuery", stream), 400);
    EXPECT_EQ(cuda("cuStreamDestroy_v2", stream), 400);
    EXPECT_EQ(cuda("cuEventRecord", event, stream), 400);
    EXPECT_EQ(cuda("cuStreamWaitEvent", stream, event, 0U), 400);
    EXPECT_EQ(cuda("cuMemcpyHtoDAsync_v2", memory, static_cast<const void*>(bytes), std::size_t{64}, stream), 400);
    EXPECT_EQ(cuda("cuMemcpyHtoDAsync_v2", memory, static_cast<const void*>(bytes), std::size_t{0}, stream), 400);
    EXPECT_EQ(cuda("cuMemsetD8Async", memory, static_cast<unsigned char>(1), std::size_t{64}, stream), 400);
    EXPECT_EQ(cuda("cuMemAllocAsync", &made, std::size_t{64}, stream), 400);
    EXPECT_EQ(cuda("cuMemFreeAsync", memory, stream), 400);
    EXPECT_EQ(cuda("cuStreamWaitValue32_v2", stream, word.seen, 1U, 0U), 400);
    EXPECT_EQ(cuda("cuStreamWriteValue32_v2", stream, word.seen, 1U, 0U), 400);
  }
  EXPECT_EQ(cuda("cuStreamDestroy_v2", static_cast<void*>(nullptr)), 400);
  EXPECT_EQ(cuda("cuEventDestroy_v2", event), 0);
  EXPECT_EQ(cuda("cuMemFree_v2", memory), 0);

  for (const std::string name : {"hip", "musa"}) {
    const Driver driver(name);
    EXPECT_EQ(driver(name + "StreamSynchronize", unknown), 400) << name;
    EXPECT_EQ(driver(name + "StreamWaitEvent", unknown, unknown, 0U), 400) << name;
    EXPECT_EQ(driver(name + "FreeAsync", unknown, unknown), 400) << name;
  }
  const Driver cnrt("cnrt");
  EXPECT_EQ(cnrt("cnrtQueueSync", unknown), 100014);
  const Driver acl("acl");
  (void)acl("aclInit", static_cast<const char*>(nullptr));
  EXPECT_EQ(acl("aclrtSetDevice", 0), 0);
  EXPECT_EQ(acl("aclrtSynchronizeStream", unknown), 107017);
}

TEST(FakeDrivers, streams_and_events_of_another_device_are_rejected) {
  const Cuda cuda;
  void* const near = cuda.stream(1);
  void *event = nullptr, *module = nullptr, *kernel = nullptr;
  EXPECT_EQ(cuda("cuEventCreate", &event, 2U), 0);
  EXPECT_EQ(cuda("cuModuleLoadData", &module, static_cast<const void*>("fake kernels\nhmc_reduce_f32\n")), 0);
  EXPECT_EQ(cuda("cuModuleGetFunction", &kernel, module, "hmc_reduce_f32"), 0);
  cuda.enter(1);
  void* const far = cuda.stream(1);
  EXPECT_EQ(cuda("cuEventRecord", event, far), 400);
  EXPECT_EQ(cuda("cuEventRecord", event, near), 0);         // whatever is current
  EXPECT_EQ(cuda("cuStreamWaitEvent", far, event, 0U), 0);  // streams may wait for events of another device
  void* arguments[1] = {unknown};
  EXPECT_EQ(cuda("cuLaunchKernel", kernel, 1U, 1U, 1U, 1U, 1U, 1U, 0U, near, static_cast<void**>(arguments),
                 static_cast<void**>(nullptr)),
            400);
  EXPECT_EQ(cuda.synchronize(far), 0);
  EXPECT_EQ(cuda("cuStreamDestroy_v2", far), 0);
  cuda.leave();
  EXPECT_EQ(cuda("cuModuleUnload", module), 0);
  EXPECT_EQ(cuda("cuStreamDestroy_v2", near), 0);
  EXPECT_EQ(cuda("cuEventDestroy_v2", event), 0);

  const Driver acl("acl");
  void* stream = nullptr;
  (void)acl("aclInit", static_cast<const char*>(nullptr));
  EXPECT_EQ(acl("aclrtSetDevice", 0), 0);
  EXPECT_EQ(acl("aclrtCreateStream", &stream), 0);
  EXPECT_EQ(acl("aclrtSetDevice", 1), 0);
  EXPECT_EQ(acl("aclrtSynchronizeStream", stream), 107003);
  EXPECT_EQ(acl("aclrtSetDevice", 0), 0);
  EXPECT_EQ(acl("aclrtDestroyStream", stream), 0);

  const Driver cnrt("cnrt");
  void *queue = nullptr, *notifier = nullptr;
  EXPECT_EQ(cnrt("cnrtSetDevice", 0), 0);
  EXPECT_EQ(cnrt("cnrtQueueCreate", &queue), 0);
  EXPECT_EQ(cnrt("cnrtSetDevice", 1), 0);
  EXPECT_EQ(cnrt("cnrtNotifierCreate", &notifier), 0);
  EXPECT_EQ(cnrt("cnrtPlaceNotifier", notifier, queue), 632006);
  EXPECT_EQ(cnrt("cnrtNotifierDestroy", notifier), 0);
  EXPECT_EQ(cnrt("cnrtSetDevice", 0), 0);
  EXPECT_EQ(cnrt("cnrtQueueDestroy", queue), 0);
}

// A blocking stream is stopped. The legacy default stream waits for it, and a second blocking stream waits for the
// default stream. A non-blocking stream and the other device's default stream don't wait.
TEST(FakeDrivers, legacy_default_stream_is_ordered_with_blocking_streams) {
  const Cuda cuda;
  const Word word(cuda);
  const Address memory = cuda.allocate(4);
  void* const legacies[] = {nullptr, reinterpret_cast<void*>(1)};
  for (unsigned round = 1; round <= 2; ++round) {
    void* const legacy = legacies[round - 1];
    void *const first = cuda.stream(0), *const second = cuda.stream(0), *const apart = cuda.stream(1);
    EXPECT_EQ(cuda("cuStreamWaitValue32_v2", first, word.seen, round, 0U), 0);
    const auto fill = [&](Address at, void* stream) {
      EXPECT_EQ(cuda("cuMemsetD8Async", at, static_cast<unsigned char>(round), std::size_t{1}, stream), 0);
    };
    fill(memory, first);
    fill(memory + 1, legacy);
    fill(memory + 2, second);
    fill(memory + 3, apart);
    EXPECT_EQ(cuda.synchronize(apart), 0);
    cuda.enter(1);
    EXPECT_EQ(cuda.synchronize(nullptr), 0);
    cuda.leave();
    EXPECT_TRUE(stays(600, [&] { return cuda("cuStreamQuery", second); })) << round;
    EXPECT_EQ(cuda("cuStreamQuery", legacy), 600);
    EXPECT_NE(cuda.read(memory + 2, 1)[0], round);
    word.set(round);
    EXPECT_EQ(cuda.synchronize(second), 0);  // so all the others
    EXPECT_EQ(cuda.read(memory, 4), std::vector<unsigned char>(4, static_cast<unsigned char>(round)));
    for (void* const each : {first, second, apart}) EXPECT_EQ(cuda("cuStreamDestroy_v2", each), 0);
  }
  void* none = nullptr;
  EXPECT_EQ(cuda("cuStreamCreate", &none, 2U), 1);
  EXPECT_EQ(cuda("cuMemFree_v2", memory), 0);
}

TEST(FakeDrivers, runtime_family_orders_streams_alike) {
  for (const std::string name : {"hip", "musa"}) {
    const Driver driver(name);
    void *blocking = nullptr, *apart = nullptr;
    EXPECT_EQ(driver(name + "SetDevice", 0), 0);
    EXPECT_EQ(driver(name + "StreamCreateWithFlags", &blocking, 4U), 1);
    EXPECT_EQ(driver(name + "StreamCreateWithFlags", &blocking, 0U), 0);
    EXPECT_EQ(driver(name + "StreamCreateWithFlags", &apart, 1U), 0);
    std::atomic<bool> open{false};
    const auto gate = +[](void* flag) { static_cast<std::atomic<bool>*>(flag)->wait(false); };
    EXPECT_EQ(driver(name + "LaunchHostFunc", blocking, gate, static_cast<void*>(&open)), 0);
    EXPECT_TRUE(stays(600, [&] { return driver(name + "StreamQuery", static_cast<void*>(nullptr)); })) << name;
    EXPECT_EQ(driver(name + "StreamSynchronize", apart), 0);
    open = true;
    open.notify_all();
    EXPECT_EQ(driver(name + "StreamSynchronize", static_cast<void*>(nullptr)), 0);
    EXPECT_EQ(driver(name + "StreamQuery", blocking), 0);
    EXPECT_EQ(driver(name + "StreamDestroy", blocking), 0);
    EXPECT_EQ(driver(name + "StreamDestroy", apart), 0);
  }
}

TEST(FakeDrivers, event_flags_are_respected) {
  const Cuda cuda;
  void *timed[2] = {}, *untimed = nullptr, *shared = nullptr;
  float ms = -1;
  EXPECT_EQ(cuda("cuEventCreate", &untimed, 8U), 1);
  EXPECT_EQ(cuda("cuEventCreate", &shared, 4U), 1);  // for other processes, and with times
  EXPECT_EQ(cuda("cuEventCreate", &shared, 6U), 0);
  EXPECT_EQ(cuda("cuEventCreate", &untimed, 2U), 0);
  for (void*& each : timed) EXPECT_EQ(cuda("cuEventCreate", &each, 0U), 0);
  void* const stream = cuda.stream(1);
  const Word word(cuda);
  EXPECT_EQ(cuda("cuEventElapsedTime", &ms, timed[0], timed[1]), 400);  // not recorded
  EXPECT_EQ(cuda("cuEventRecord", timed[0], stream), 0);
  EXPECT_EQ(cuda("cuStreamWaitValue32_v2", stream, word.seen, 1U, 0U), 0);
  EXPECT_EQ(cuda("cuEventRecord", timed[1], stream), 0);
  EXPECT_EQ(cuda("cuEventRecord", untimed, stream), 0);
  EXPECT_EQ(cuda("cuEventElapsedTime", &ms, timed[0], timed[1]), 600);
  word.set(1);
  EXPECT_EQ(cuda.synchronize(stream), 0);
  EXPECT_EQ(cuda("cuEventElapsedTime", &ms, timed[0], timed[1]), 0);
  EXPECT_GE(ms, 0);
  EXPECT_EQ(cuda("cuEventElapsedTime", &ms, timed[0], untimed), 400);
  EXPECT_EQ(cuda("cuStreamWaitEvent", stream, untimed, 2U), 1);
  cuda::IpcMemHandle handle{};
  EXPECT_EQ(cuda("cuIpcGetEventHandle", &handle, untimed), 400);
  EXPECT_EQ(cuda("cuIpcGetEventHandle", &handle, shared), 0);
  for (void* const each : {timed[0], timed[1], untimed, shared}) EXPECT_EQ(cuda("cuEventDestroy_v2", each), 0);
  EXPECT_EQ(cuda("cuStreamDestroy_v2", stream), 0);

  for (const std::string name : {"hip", "musa"}) {
    const Driver driver(name);
    void *with = nullptr, *without = nullptr;
    EXPECT_EQ(driver(name + "EventCreateWithFlags", &with, 16U), 1) << name;
    EXPECT_EQ(driver(name + "EventCreateWithFlags", &with, 4U), 1) << name;
    EXPECT_EQ(driver(name + "EventCreateWithFlags", &with, 1U), 0) << name;
    EXPECT_EQ(driver(name + "EventCreateWithFlags", &without, 2U), 0) << name;
    for (void* const each : {with, without})
      EXPECT_EQ(driver(name + "EventRecord", each, static_cast<void*>(nullptr)), 0);
    EXPECT_EQ(driver(name + "StreamSynchronize", static_cast<void*>(nullptr)), 0);
    EXPECT_EQ(driver(name + "EventElapsedTime", &ms, with, with), 0) << name;
    EXPECT_EQ(driver(name + "EventElapsedTime", &ms, with, without), 400) << name;
    for (void* const each : {with, without}) EXPECT_EQ(driver(name + "EventDestroy", each), 0);
  }
}

TEST(FakeDrivers, ascendcl_event_flags_are_respected) {
  const Driver acl("acl");
  void *sync = nullptr, *progress = nullptr, *timed = nullptr, *stream = nullptr;
  float ms = 0;
  int status = -1;
  (void)acl("aclInit", static_cast<const char*>(nullptr));
  EXPECT_EQ(acl("aclrtSetDevice", 0), 0);
  EXPECT_EQ(acl("aclrtCreateEventWithFlag", &sync, 0U), 100000);
  EXPECT_EQ(acl("aclrtCreateEventWithFlag", &sync, 5U), 100000);
  EXPECT_EQ(acl("aclrtCreateEventWithFlag", &sync, 1U), 0);
  EXPECT_EQ(acl("aclrtCreateEventWithFlag", &progress, 2U), 0);
  EXPECT_EQ(acl("aclrtCreateEventWithFlag", &timed, 9U), 0);
  EXPECT_EQ(acl("aclrtCreateStream", &stream), 0);
  EXPECT_EQ(acl("aclrtQueryEventStatus", sync, &status), 0);
  EXPECT_EQ(status, 0);  // never recorded: not complete
  for (void* const each : {sync, progress, timed}) EXPECT_EQ(acl("aclrtRecordEvent", each, stream), 0);
  EXPECT_EQ(acl("aclrtStreamWaitEvent", stream, progress), 200006);
  EXPECT_EQ(acl("aclrtStreamWaitEvent", stream, sync), 0);
  EXPECT_EQ(acl("aclrtSynchronizeStream", stream), 0);
  EXPECT_EQ(acl("aclrtQueryEventStatus", sync, &status), 0);
  EXPECT_EQ(status, 1);
  EXPECT_EQ(acl("aclrtEventElapsedTime", &ms, timed, timed), 0);
  EXPECT_EQ(acl("aclrtEventElapsedTime", &ms, timed, sync), 107017);
  for (void* const each : {sync, progress, timed}) EXPECT_EQ(acl("aclrtDestroyEvent", each), 0);
  EXPECT_EQ(acl("aclrtDestroyStream", stream), 0);
}

TEST(FakeDrivers, registration_and_host_memory_flags_are_respected) {
  alignas(4096) static char page[4096];
  const Cuda cuda;
  Address seen = 0;
  void* const at = page;
  void* const stream = cuda.stream(1);
  EXPECT_EQ(cuda("cuMemHostRegister_v2", at, std::size_t{4096}, 16U), 1);
  const struct {
    unsigned flags;
    int on_own, on_other;  // expected results on the owner's device and on another
  } cases[] = {{0, 1, 1}, {1, 1, 1}, {2, 0, 1}, {3, 0, 0}};
  for (const auto& one : cases) {
    EXPECT_EQ(cuda("cuMemHostRegister_v2", at, std::size_t{4096}, one.flags), 0);
    EXPECT_EQ(cuda("cuMemHostGetDevicePointer_v2", &seen, at, 0U), one.on_own) << one.flags;
    EXPECT_EQ(cuda("cuStreamWriteValue32_v2", stream, reinterpret_cast<Address>(at), 7U, 0U), one.on_own) << one.flags;
    EXPECT_EQ(cuda("cuMemHostGetDevicePointer_v2", &seen, at, 1U), 1);
    cuda.enter(1);
    EXPECT_EQ(cuda("cuMemHostGetDevicePointer_v2", &seen, at, 0U), one.on_other) << one.flags;
    cuda.leave();
    EXPECT_EQ(cuda.synchronize(stream), 0);
    EXPECT_EQ(cuda("cuMemHostUnregister", at), 0);
  }
  void* made = nullptr;
  EXPECT_EQ(cuda("cuMemHostAlloc", &made, std::size_t{64}, 8U), 1);
  EXPECT_EQ(cuda("cuMemHostAlloc", &made, std::size_t{64}, 1U), 0);
  EXPECT_EQ(cuda("cuMemHostGetDevicePointer_v2", &seen, made, 0U), 1);
  EXPECT_EQ(cuda("cuMemFreeHost", made), 0);
  EXPECT_EQ(cuda("cuMemAllocManaged", &seen, std::size_t{64}, 0U), 1);
  EXPECT_EQ(cuda("cuMemAllocManaged", &seen, std::size_t{64}, 4U), 1);
  EXPECT_EQ(cuda("cuIpcOpenMemHandle_v2", &seen, cuda::IpcMemHandle{}, 0U), 1);
  EXPECT_EQ(cuda("cuStreamDestroy_v2", stream), 0);

  for (const std::string name : {"hip", "musa"}) {
    const Driver driver(name);
    void* device = nullptr;
    EXPECT_EQ(driver(name + "SetDevice", 0), 0);
    EXPECT_EQ(driver(name + "HostRegister", at, std::size_t{4096}, 16U), 1) << name;
    for (const auto& one : cases) {
      EXPECT_EQ(driver(name + "HostRegister", at, std::size_t{4096}, one.flags), 0);
      EXPECT_EQ(driver(name + "HostGetDevicePointer", &device, at, 0U), one.on_own) << name << one.flags;
      EXPECT_EQ(driver(name + "SetDevice", 1), 0);
      EXPECT_EQ(driver(name + "HostGetDevicePointer", &device, at, 0U), one.on_other) << name << one.flags;
      EXPECT_EQ(driver(name + "SetDevice", 0), 0);
      EXPECT_EQ(driver(name + "HostUnregister", at), 0);
    }
    EXPECT_EQ(driver(name + "MallocManaged", &device, std::size_t{64}, 4U), 1) << name;
    const std::string host_allocate = name == "hip" ? "hipHostMalloc" : "musaHostAlloc";
    EXPECT_EQ(driver(host_allocate, &device, std::size_t{64}, 0x100U), 1) << name;
    EXPECT_EQ(driver(host_allocate, &device, std::size_t{64}, 0xC0000000U), 1) << name;  // coherent, and not
  }
}

TEST(FakeDrivers, words_are_compared_as_wait_flags_specify) {
  const Cuda cuda;
  const Word word(cuda);
  void* const stream = cuda.stream(1);
  constexpr unsigned at_least = 0, equal = 1, any_bit = 2, not_all_bits = 3, flush = 1U << 30;
  const struct {
    unsigned flags, value, too_early, over;
  } cases[] = {{at_least, 5, 4, 6},
               {at_least, 2, 0xFFFFFFF0, 2},  // wraps around
               {equal, 5, 6, 5},
               {equal | flush, 5, 4, 5},
               {any_bit, 0b0110, 0b1001, 0b0010},
               {not_all_bits, 0x0000FFFF, 0xFFFF0000, 0xFFFE0000}};
  for (const auto& one : cases) {
    word.set(one.too_early);
    EXPECT_EQ(cuda("cuStreamWaitValue32_v2", stream, word.seen, one.value, one.flags), 0) << one.flags;
    EXPECT_TRUE(stays(600, [&] { return cuda("cuStreamQuery", stream); })) << one.flags << " " << one.value;
    word.set(one.over);
    EXPECT_EQ(cuda.synchronize(stream), 0);
  }
  EXPECT_EQ(cuda("cuStreamWaitValue32_v2", stream, word.seen, 1U, 4U), 1);
  EXPECT_EQ(cuda("cuStreamWriteValue32_v2", stream, word.seen, 1U, 2U), 1);
  EXPECT_EQ(cuda("cuStreamDestroy_v2", stream), 0);
}

TEST(FakeDrivers, hip_compares_all_bits_only_in_signal_memory) {
  const Driver hip("hip");
  void *stream = nullptr, *seen = nullptr, *pinned = nullptr;
  EXPECT_EQ(hip("hipSetDevice", 0), 0);
  EXPECT_EQ(hip("hipStreamCreateWithFlags", &stream, 1U), 0);
  EXPECT_EQ(hip("hipExtMallocWithFlags", &seen, std::size_t{8}, 2U), 0);
  EXPECT_EQ(hip("hipHostMalloc", &pinned, std::size_t{8}, 3U), 0);
  const auto set = [&](std::uint64_t value) { std::atomic_ref(*static_cast<std::uint64_t*>(seen)).store(value); };
  constexpr std::uint64_t all = ~std::uint64_t{0}, high = std::uint64_t{1} << 40;
  const struct {
    unsigned flags;
    std::uint64_t value, mask, too_early, over;
  } cases[] = {{0, high, all, high - 1, high + 1},
               {1, high, all, 0, high},
               {1, high, high, 7, high + 7},  // only one bit is compared
               {2, high, all, high - 1, high},
               {3, 0, all, all, high}};
  for (const auto& one : cases) {
    set(one.too_early);
    EXPECT_EQ(hip("hipStreamWaitValue64", stream, seen, one.value, one.flags, one.mask), 0);
    EXPECT_TRUE(stays(600, [&] { return hip("hipStreamQuery", stream); })) << one.flags << " " << one.value;
    set(one.over);
    EXPECT_EQ(hip("hipStreamSynchronize", stream), 0);
  }
  EXPECT_EQ(hip("hipStreamWaitValue64", stream, seen, high, 4U, all), 1);
  EXPECT_EQ(hip("hipStreamWaitValue64", stream, pinned, high, 0U, all), 1);
  EXPECT_EQ(hip("hipStreamWaitValue64", stream, static_cast<void*>(static_cast<char*>(seen) + 4), high, 0U, all), 1);
  EXPECT_EQ(hip("hipStreamDestroy", stream), 0);
  EXPECT_EQ(hip("hipFree", seen), 0);
  EXPECT_EQ(hip("hipHostFree", pinned), 0);
}

TEST(FakeDrivers, memory_is_aligned_by_256_bytes_only) {
  const auto check = [](const char* name, const void* address) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(address) % 512, 256u) << name;
  };
  const Cuda cuda;
  const Address device = cuda.allocate(100);
  check("cuda", reinterpret_cast<void*>(device));
  EXPECT_EQ(cuda("cuMemFree_v2", device - 256), 1);
  EXPECT_EQ(cuda("cuMemFree_v2", device), 0);
  const Driver hip("hip"), musa("musa"), cnrt("cnrt"), acl("acl");
  (void)acl("aclInit", static_cast<const char*>(nullptr));
  EXPECT_EQ(acl("aclrtSetDevice", 0), 0);
  void* made = nullptr;
  EXPECT_EQ(hip("hipMalloc", &made, std::size_t{100}), 0);
  check("hip", made);
  EXPECT_EQ(hip("hipFree", made), 0);
  EXPECT_EQ(musa("musaMalloc", &made, std::size_t{100}), 0);
  check("musa", made);
  EXPECT_EQ(musa("musaFree", made), 0);
  EXPECT_EQ(cnrt("cnrtMalloc", &made, std::size_t{100}), 0);
  check("cnrt", made);
  EXPECT_EQ(cnrt("cnrtFree", made), 0);
  EXPECT_EQ(acl("aclrtMalloc", &made, std::size_t{100}, 0), 0);
  check("acl", made);
  EXPECT_EQ(acl("aclrtFree", made), 0);
}

TEST(FakeDrivers, misaligned_words_are_rejected) {
  const Cuda cuda;
  const Word word(cuda);
  const Address device = cuda.allocate(64);
  void* const stream = cuda.stream(1);
  for (const Address off : {1u, 2u, 3u}) {
    EXPECT_EQ(cuda("cuStreamWaitValue32_v2", stream, word.seen + off, 0U, 0U), 1);
    EXPECT_EQ(cuda("cuStreamWriteValue32_v2", stream, device + off, 0U, 0U), 1);
  }
  EXPECT_EQ(cuda("cuStreamWriteValue32_v2", stream, device + 4, 0x01020304U, 0U), 0);
  EXPECT_EQ(cuda("cuStreamWaitValue32_v2", stream, device + 4, 0x01020304U, 1U), 0);
  EXPECT_EQ(cuda.synchronize(stream), 0);
  EXPECT_EQ(cuda.read(device + 4, 4), (std::vector<unsigned char>{4, 3, 2, 1}));
  EXPECT_EQ(cuda("cuStreamDestroy_v2", stream), 0);
  EXPECT_EQ(cuda("cuMemFree_v2", device), 0);
}

/// Calls whose names differ only in the prefix between CUDA and HIP.
template <typename Prop, typename Handle> void check_physical_memory(const Driver& driver, const std::string& prefix) {
  Prop prop{};
  prop.type = 1;
  if constexpr (requires { prop.handle_types; })
    prop.handle_types = 1;
  else
    prop.handle_type = 1;
  prop.location = {1, 0};
  Handle handle{};
  const auto create = [&](std::size_t bytes, unsigned long long flags) {
    return driver(prefix + "MemCreate", &handle, bytes, static_cast<const Prop*>(&prop), flags);
  };
  EXPECT_EQ(create(granularity - 4096, 0), 1);
  EXPECT_EQ(create(0, 0), 1);
  EXPECT_EQ(create(granularity, 1), 1);
  EXPECT_EQ(create(2 * granularity, 0), 0);
  Address at = 0;
  const auto reserve = [&](std::size_t bytes, std::size_t aligned, unsigned long long flags) {
    return driver(prefix + "MemAddressReserve", &at, bytes, aligned, Address{0}, flags);
  };
  EXPECT_EQ(reserve(granularity + 4096, 0, 0), 1);
  EXPECT_EQ(reserve(granularity, 3 * granularity, 0), 1);
  EXPECT_EQ(reserve(granularity, 0, 1), 1);
  EXPECT_EQ(reserve(2 * granularity, 16 * granularity, 0), 0);
  EXPECT_EQ(at % (16 * granularity), 0u);
  const auto map = [&](Address address, std::size_t bytes, std::size_t offset) {
    return driver(prefix + "MemMap", address, bytes, offset, handle, 0ULL);
  };
  EXPECT_NE(map(at, 2 * granularity, granularity), 0);
  EXPECT_EQ(map(at, granularity, 0), 1);
  EXPECT_EQ(map(at + 4096, 2 * granularity, 0), 1);
  EXPECT_EQ(map(at, 2 * granularity, 0), 0);
  const cuda::AccessDesc access{{1, 0}, 3};
  EXPECT_EQ(driver(prefix + "MemSetAccess", at, 2 * granularity, &access, std::size_t{1}), 0);
  // No byte of memory that wasn't written is zero.
  std::vector<unsigned char> got(2 * granularity);
  if (prefix == "cu") {
    EXPECT_EQ(
        driver("cuMemcpyDtoHAsync_v2", static_cast<void*>(got.data()), at, got.size(), static_cast<void*>(nullptr)), 0);
    EXPECT_EQ(driver("cuStreamSynchronize", static_cast<void*>(nullptr)), 0);
  } else {
    EXPECT_EQ(driver("hipMemcpyAsync", static_cast<void*>(got.data()), reinterpret_cast<const void*>(at), got.size(), 2,
                     static_cast<void*>(nullptr)),
              0);
    EXPECT_EQ(driver("hipStreamSynchronize", static_cast<void*>(nullptr)), 0);
  }
  EXPECT_EQ(std::count(got.begin(), got.end(), 0), 0) << prefix;
  EXPECT_EQ(driver(prefix + "MemUnmap", at, 2 * granularity), 0);
  EXPECT_EQ(driver(prefix + "MemAddressFree", at, 2 * granularity), 0);
  EXPECT_EQ(driver(prefix + "MemRelease", handle), 0);
}

TEST(FakeDrivers, physical_memory_has_whole_granules_and_is_not_zeroed) {
  check_physical_memory<cuda::AllocationProp, unsigned long long>(Cuda(), "cu");
  const Driver hip("hip");
  EXPECT_EQ(hip("hipSetDevice", 0), 0);
  check_physical_memory<runtime_api::AllocationProp, void*>(hip, "hip");
}

TEST(FakeDrivers, stream_ordered_memory_is_valid_in_stream_order) {
  const Cuda cuda;
  const Word word(cuda);
  const long before = cuda.fake.live("memory");
  void* const stream = cuda.stream(1);
  Address memory = 0;
  EXPECT_EQ(cuda("cuMemAllocAsync", &memory, std::size_t{64}, stream), 0);
  EXPECT_EQ(cuda.synchronize(stream), 0);
  std::vector<unsigned char> got(64);
  EXPECT_EQ(cuda.read(memory, 64), std::vector<unsigned char>(64, 0xA5));
  EXPECT_EQ(cuda("cuStreamWaitValue32_v2", stream, word.seen, 1U, 0U), 0);
  EXPECT_EQ(cuda("cuMemcpyDtoHAsync_v2", static_cast<void*>(got.data()), memory, std::size_t{64}, stream), 0);
  EXPECT_EQ(cuda("cuMemFreeAsync", memory, stream), 0);
  EXPECT_EQ(cuda("cuMemFreeAsync", memory, stream), 1);  // again
  EXPECT_EQ(cuda("cuMemcpyDtoHAsync_v2", static_cast<void*>(got.data()), memory, std::size_t{64}, stream), 1);
  EXPECT_EQ(cuda.fake.live("memory"), before + 1);
  word.set(1);
  EXPECT_EQ(cuda.synchronize(stream), 0);
  EXPECT_EQ(got, std::vector<unsigned char>(64, 0xA5));  // the copy came before the free
  EXPECT_EQ(cuda.fake.live("memory"), before);
  EXPECT_EQ(cuda("cuStreamDestroy_v2", stream), 0);
}

TEST(FakeDrivers, ascendcl_malloc_policy_is_respected) {
  const Driver acl("acl");
  (void)acl("aclInit", static_cast<const char*>(nullptr));
  EXPECT_EQ(acl("aclrtSetDevice", 0), 0);
  const auto allocate = [&](int policy) {
    void* made = nullptr;
    const int code = acl("aclrtMalloc", &made, std::size_t{100}, policy);
    if (code == 0) {
      EXPECT_EQ(acl("aclrtFree", made), 0);
    }
    return code;
  };
  for (const int pages : {0, 1, 2})
    for (const int kind : {0, 0x100, 0x1000}) EXPECT_EQ(allocate(pages | kind), 0) << pages << " " << kind;
  for (const int p2p : {3, 4, 5}) EXPECT_EQ(allocate(p2p), 200006) << p2p;
  for (const int other : {6, 0x10, 0x2000, -1}) EXPECT_EQ(allocate(other), 100000) << other;
}

}  // namespace

}  // namespace hmc::memory
