#include "tests/gpu/user_kernels.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "runtime/memory/device_stream.hpp"
#include "tests/fake_drivers/kernel_thread.hpp"
#include "tests/support/check.hpp"

namespace {

thread_local const FakeThread* present_thread = nullptr;
template <typename T> T* reach(T* pointer) {
  return static_cast<T*>(present_thread->reach(const_cast<const void*>(static_cast<const volatile void*>(pointer))));
}

// The fake driver's blocks have one dimension. A kernel that sets `width` sees its block in rows of that many threads.
thread_local unsigned present_width = 0;
struct Three {
  unsigned x, y, z;
};
Three present_index() { return {present_thread->thread % present_width, present_thread->thread / present_width, 0}; }
Three present_block() { return {present_width, present_thread->threads / present_width, 1}; }

}  // namespace

#define HMC_DEVICE_FUNCTION inline
#define HMC_DEVICE_REACH(pointer) (::reach(pointer))
#define HMC_DEVICE_THREAD (present_index())
#define HMC_DEVICE_BLOCK (present_block())
#define HMC_DEVICE_LANES 32U
#define HMC_DEVICE_SYNC_BLOCK() present_thread->meet(present_thread->meeting)
#define HMC_DEVICE_SYNC_WARP() present_thread->meet(present_thread->meeting)
#define HMC_DEVICE_FENCE() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#define HMC_DEVICE_ADD(pointer, value) __atomic_fetch_add(pointer, value, __ATOMIC_RELAXED)
#define HMC_TEST_KERNEL static void
#define HMC_TEST_FUNCTION static
#define HMC_TEST_BLOCK (present_thread->block)
#define HMC_TEST_BLOCKS (present_thread->blocks)
#define HMC_TEST_THREAD (present_thread->thread)  // index in a block of any shape
#define HMC_TEST_REACH(pointer) (::reach(pointer))
#include "tests/gpu/device_kernels.cu"

namespace hmc::gpu {

namespace {

template <void (*kernel)(RingArguments)> void run_one(const void* argument, const FakeThread* thread) {
  const auto& call = *static_cast<const RingArguments*>(argument);
  present_thread = thread;
  present_width = call.width != 0 ? static_cast<unsigned>(call.width) : thread->threads;
  kernel(call);
}

/// Null if the driver isn't the fake one.
FakeAddKernel fake_add_kernel() {
  const char* const given = std::getenv("HMC_CUDA_LIBRARY");
  void* const library = ::dlopen(given != nullptr ? given : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return library == nullptr ? nullptr : reinterpret_cast<FakeAddKernel>(::dlsym(library, "fake_add_kernel"));
}

std::string image_of_kernels(const spmd::TestRank& me) {
  if (const FakeAddKernel add = fake_add_kernel()) {
    add("hmc_test_ring", sizeof(RingArguments), true, &run_one<hmc_test_ring>);
    add("hmc_test_take", sizeof(RingArguments), true, &run_one<hmc_test_take>);
    add("hmc_test_groups", sizeof(RingArguments), true, &run_one<hmc_test_groups>);
    add("hmc_test_put_grid", sizeof(RingArguments), true, &run_one<hmc_test_put_grid>);
    add("hmc_test_get_grid", sizeof(RingArguments), true, &run_one<hmc_test_get_grid>);
    return "fake kernels\nhmc_test_ring\nhmc_test_take\nhmc_test_groups\nhmc_test_put_grid\nhmc_test_get_grid\n";
  }
  std::ifstream file(me.options.setting("kernels", HMC_TEST_FATBIN), std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  if (bytes.str().empty()) spmd::skip("absent: the test's kernels: nvcc wasn't there when this was built");
  return bytes.str();
}

}  // namespace

bool driver_runs_host_kernels() { return fake_add_kernel() != nullptr; }

UserKernels::UserKernels(const spmd::TestRank& me, const memory::Provider& provider)
    : provider_(provider), calls_(provider.kernels()->calls()), vendor_(provider.kernels()->vendor()) {
  const std::string image = image_of_kernels(me);
  check([&] { return calls_.load(module_, image.data()); });
  stream_ = provider.make_stream(0);
}

UserKernels::~UserKernels() {
  (void)memory::on_device(vendor_, 0, [&] { return calls_.unload(module_); });
}

void UserKernels::run(const char* name, RingArguments call, unsigned blocks, unsigned threads) {
  void*& function = functions_[name];
  if (function == nullptr) check([&] { return calls_.function(function, module_, name); });
  void* arguments[] = {&call};
  check([&] { return calls_.launch(function, blocks, threads, arguments, stream_->native()); });
  HMC_CHECK(stream_->synchronize().ok());
}

template <typename Call> void UserKernels::check(Call&& call) {
  const auto answer = memory::on_device(vendor_, 0, call);
  HMC_CHECK_MSG(answer.ok(), "{}", provider_.kernels()->failures().text_of(answer));
}

}  // namespace hmc::gpu
