// hamr::buffer on fake drivers: HAMR's scenarios, and each function against std::vector.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <new>
#include <numeric>
#include <ostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <hamr_allocators.h>
#include <hamr_buffer.h>
#include <hamr_buffer_pointer.h>
#include <hamr_buffer_util.h>
#include <hamr_env.h>
#include <hamr_launch.h>
#include <hamr_openmp_print.h>

#include "tests/unit/memory/fake.hpp"

namespace hmc::compat {

namespace {

[[maybe_unused]] const bool with_fakes = [] {  // each test may be the first
  memory::use_fakes();
  ::setenv("HMC_OPENMP_LIBRARY", memory::fake_path("openmp_cuda").c_str(), 1);
  return true;
}();

using hamr::buffer;
using A = hamr::buffer_allocator;
using Transfer = hamr::buffer_transfer;

constexpr A allocators[] = {A::cpp,       A::malloc, A::cuda,    A::cuda_async, A::cuda_uva,
                            A::cuda_host, A::hip,    A::hip_uva, A::openmp};

/// The program's own use of a vendor's library.
class Driver {
 public:
  explicit Driver(const char* variable) : library_(::dlopen(std::getenv(variable), RTLD_NOW)) {}
  template <typename... Args> int operator()(const char* name, Args... args) const {
    return reinterpret_cast<int (*)(Args...)>(::dlsym(library_, name))(args...);
  }
  void set_delay_us(int us) const { reinterpret_cast<void (*)(int)>(::dlsym(library_, "fake_set_delay_us"))(us); }
  long live() const { return memory() + live({"stream"}); }
  /// HMC keeps the stream of its first blocking copy.
  long memory() const { return live({"memory", "physical", "host"}); }

 private:
  long live(std::initializer_list<const char*> kinds) const {
    long count = 0;
    for (const char* const kind : kinds)
      count += reinterpret_cast<long (*)(const char*)>(::dlsym(library_, "fake_live"))(kind);
    return count;
  }

  void* library_;
};

/// cudaSetDevice, for the current scope.
class Cuda : public Driver {
 public:
  explicit Cuda(int device = 0) : Driver("HMC_CUDA_LIBRARY"), device_(device) {
    void* context = nullptr;
    EXPECT_EQ((*this)("cuInit", 0U), 0);
    EXPECT_EQ((*this)("cuDevicePrimaryCtxRetain", &context, device), 0);
    EXPECT_EQ((*this)("cuCtxPushCurrent_v2", context), 0);
  }
  ~Cuda() {
    set_delay_us(0);
    void* popped = nullptr;
    EXPECT_EQ((*this)("cuCtxPopCurrent_v2", &popped), 0);
    EXPECT_EQ((*this)("cuDevicePrimaryCtxRelease_v2", device_), 0);
  }
  Cuda(const Cuda&) = delete;
  Cuda& operator=(const Cuda&) = delete;
  /// As a kernel on the legacy default stream: stores the values after the stream's earlier work. The values must
  /// outlive it.
  template <typename T> void launch(T* to, const std::vector<T>& values) const {
    EXPECT_EQ((*this)("cuMemcpyHtoDAsync_v2", reinterpret_cast<std::uintptr_t>(to),
                      static_cast<const void*>(values.data()), values.size() * sizeof(T), static_cast<void*>(nullptr)),
              0);
  }

 private:
  int device_;
};

template <typename T> std::vector<T> all_of(const buffer<T>& of) {
  const auto [handle, values] = hamr::get_host_accessible(of);
  return std::vector<T>(values, values + of.size());
}

template <typename T> std::vector<T> counted(std::size_t count, int seed) {
  std::vector<T> made(count);
  for (std::size_t i = 0; i < count; ++i) made[i] = static_cast<T>((i * 7 + static_cast<std::size_t>(seed)) % 101);
  return made;
}

/// Computes on the host what HAMR's example computes by a kernel: the result is in `alloc`'s memory.
template <typename T, typename U, typename F> buffer<T> apply(A alloc, const buffer<T>& a, const buffer<U>& b, F&& f) {
  const auto [handle_a, first] = hamr::get_host_accessible(a);
  const auto [handle_b, second] = hamr::get_host_accessible(b);
  std::vector<T> values(a.size());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(f(first[i], second[i]));
  return buffer<T>(alloc, values.size(), values.data());
}

TEST(Hamr, chain_over_every_two_allocators_computes_4300) {
  constexpr std::size_t count = 1000;
  const auto times = [](auto x, auto y) { return x * y; };
  const auto plus = [](auto x, auto y) { return x + y; };
  for (const A one : allocators) {
    for (const A two : allocators) {
      const std::string what = std::string(hamr::get_allocator_name(one)) + " " + hamr::get_allocator_name(two);
      buffer<float> ones(one, count, 1.0f);
      buffer<float> twos = apply(two, ones, buffer<float>(one, count, 2.0f), times);
      ones.free();
      EXPECT_EQ(ones.size(), 0U);
      buffer<double> fours = apply(one, buffer<double>(two, count, 2.0), twos, plus);
      buffer<double> thousands = apply(two, fours, buffer<int>(one, count, 1000), times);
      buffer<float> hundreds = apply(two, buffer<float>(one, count, 3.0f), buffer<float>(two, count, 100.0f), times);
      buffer<float> copy(A::malloc, count);
      copy.set(hundreds);
      const buffer<double> sum = apply(one, thousands, copy, plus);
      buffer<int> whole(sum.get_allocator(), count);
      sum.get(whole);  // casts
      EXPECT_EQ(all_of(whole), std::vector<int>(count, 4300)) << what;
    }
  }
}

// The program launches kernels on the legacy default stream, as nvcc's and hipcc's <<<>>> do, and doesn't synchronize.
template <typename Launch> void check_order(const Driver& driver, A alloc, const Launch& start) {
  constexpr std::size_t count = 500;
  const auto one = counted<int>(count, 1), two = counted<int>(count, 2), other = counted<int>(count, 3);
  const auto launch = [&](int* to, const std::vector<int>& values) {
    for (int i = 0; i < 3; ++i) start(to, other);  // so that the values are later than a copy that doesn't wait
    start(to, values);
  };
  for (const Transfer mode : {Transfer::async, Transfer::sync_host, Transfer::sync}) {
    driver.set_delay_us(5'000);
    buffer<int> on_device(alloc, hamr::stream(), mode, count, -1);
    launch(on_device.data(), one);
    EXPECT_EQ(all_of(on_device), one);
    buffer<int> on_host(A::malloc, count);
    launch(on_device.data(), two);
    on_host.set(on_device);
    EXPECT_EQ(std::vector<int>(on_host.data(), on_host.data() + count), two);
    launch(on_device.data(), one);
    std::vector<int> got(count);
    on_device.get(0, got.data(), 0, count);
    EXPECT_EQ(got, one);
    const buffer<int> elsewhere(A::malloc, on_device);
    EXPECT_EQ(all_of(elsewhere), one);
    driver.set_delay_us(0);
  }
}

TEST(Hamr, copies_are_ordered_with_kernels_of_cudas_default_stream) {
  const Cuda cuda;
  check_order(cuda, A::cuda, [&](int* to, const std::vector<int>& values) { cuda.launch(to, values); });
}

TEST(Hamr, copies_are_ordered_with_kernels_of_hips_default_stream) {
  const Driver hip("HMC_HIP_LIBRARY");
  check_order(hip, A::hip, [&](int* to, const std::vector<int>& values) {
    constexpr int host_to_device = 1;
    EXPECT_EQ(hip("hipMemcpyAsync", static_cast<void*>(to), static_cast<const void*>(values.data()),
                  values.size() * sizeof(int), host_to_device, static_cast<void*>(nullptr)),
              0);
  });
}

TEST(Hamr, host_buffer_has_a_complete_copy_for_kernels) {
  const Cuda cuda;
  const auto values = counted<std::int64_t>(300, 5);
  const buffer<std::int64_t> on_host(A::malloc, values.size(), values.data());
  cuda.set_delay_us(20'000);
  const auto [handle, address] = hamr::get_cuda_accessible(on_host);
  std::vector<std::int64_t> got(values.size());
  void* apart = nullptr;  // a stream that isn't ordered with any other
  cuda.set_delay_us(0);
  EXPECT_EQ(cuda("cuStreamCreate", &apart, 1U), 0);
  EXPECT_EQ(cuda("cuMemcpyDtoHAsync_v2", static_cast<void*>(got.data()), reinterpret_cast<std::uintptr_t>(address),
                 got.size() * sizeof got[0], apart),
            0);
  EXPECT_EQ(cuda("cuStreamSynchronize", apart), 0);
  EXPECT_EQ(cuda("cuStreamDestroy_v2", apart), 0);
  EXPECT_EQ(got, values);
  EXPECT_NE(static_cast<const void*>(address), on_host.data());
}

TEST(Hamr, users_stream_executes_the_transfers) {
  const Cuda cuda;
  void* users = nullptr;
  EXPECT_EQ(cuda("cuStreamCreate", &users, 1U), 0);
  {
    const hamr::stream stream(static_cast<CUstream_st*>(users));
    EXPECT_EQ(stream.get_stream(), reinterpret_cast<std::uintptr_t>(users));
    const auto values = counted<float>(400, 3);
    cuda.set_delay_us(50'000);
    buffer<float> made(A::cuda, stream, Transfer::async, values.size(), values.data());
    EXPECT_EQ(cuda("cuStreamQuery", users), 600);  // in flight
    EXPECT_EQ(stream.synchronize(), 0);
    EXPECT_EQ(cuda("cuStreamQuery", users), 0);
    EXPECT_EQ(static_cast<CUstream_st*>(made.get_stream()), users);
    cuda.set_delay_us(0);
    EXPECT_EQ(all_of(made), values);
    made.set_stream(hamr::stream(), Transfer::sync);
    EXPECT_EQ(made.get_transfer_mode(), Transfer::sync);
    EXPECT_EQ(made.get_stream().get_stream(), 2U);
    made.set_transfer_sycnhronous_host();
    EXPECT_EQ(made.get_transfer_mode(), Transfer::sync_host);
    EXPECT_EQ(all_of(made), values);
  }
  EXPECT_EQ(cuda("cuStreamDestroy_v2", users), 0);
}

TEST(Hamr, buffers_are_on_the_current_device) {
  const Cuda first(0);
  buffer<int> made(A::cuda, 10, 4);
  EXPECT_EQ(made.get_owner(), 0);
  EXPECT_EQ(buffer<int>(A::malloc, 1).get_owner(), -1);
  const int* const address = made.data();
  {
    const Cuda second(1);
    EXPECT_NE(made.get_cuda_accessible().get(), address);
    EXPECT_EQ(Place::of(made.get_cuda_accessible().get()).device, 1);
    buffer<int> copy(A::cuda, made);
    EXPECT_EQ(copy.get_owner(), 1);
    EXPECT_EQ(buffer<int>(made).get_owner(), 1);
    EXPECT_EQ(all_of(buffer<int>(made)), std::vector<int>(10, 4));
    EXPECT_EQ(made.move(A::cuda), 0);
    EXPECT_EQ(made.get_owner(), 1);
    EXPECT_NE(made.data(), address);
    EXPECT_EQ(all_of(made), std::vector<int>(10, 4));
    EXPECT_EQ(made.move(A::hip), 0);
    EXPECT_EQ(made.get_allocator(), A::hip);
    EXPECT_EQ(made.get_owner(), 0);  // HIP's current device
    EXPECT_EQ(all_of(made), std::vector<int>(10, 4));
    EXPECT_EQ(made.move(A::malloc), 0);
    EXPECT_EQ(std::vector<int>(made.data(), made.data() + 10), std::vector<int>(10, 4));
  }
}

bool is_one_of(A alloc, std::initializer_list<A> all) { return std::find(all.begin(), all.end(), alloc) != all.end(); }

TEST(Hamr, accessors_are_true_for_the_allocators_of_a_technology) {
  for (const A alloc : allocators) {
    const buffer<short> made(alloc, 5, short{3});
    const bool on_host = is_one_of(alloc, {A::cpp, A::malloc, A::cuda_uva, A::cuda_host, A::hip_uva});
    const bool on_hip = is_one_of(alloc, {A::cuda, A::cuda_async, A::cuda_uva, A::hip, A::hip_uva});
    const bool on_openmp = is_one_of(alloc, {A::cuda, A::cuda_async, A::cuda_uva, A::openmp});
    const std::string name = hamr::get_allocator_name(alloc);
    EXPECT_EQ(made.host_accessible(), on_host) << name;
    EXPECT_EQ(made.hip_accessible(), on_hip) << name;
    EXPECT_EQ(made.cuda_accessible(), on_hip || alloc == A::openmp) << name;
    EXPECT_EQ(made.openmp_accessible(), on_openmp) << name;
    EXPECT_EQ(made.device_accessible(), made.cuda_accessible()) << name;  // the machine's first accelerator
    EXPECT_EQ(hamr::host_accessible(alloc), made.host_accessible()) << name;
    EXPECT_EQ(hamr::cuda_accessible(alloc), made.cuda_accessible()) << name;
    EXPECT_EQ(hamr::hip_accessible(alloc), made.hip_accessible()) << name;
    EXPECT_EQ(hamr::openmp_accessible(alloc), made.openmp_accessible()) << name;
  }
  EXPECT_EQ(hamr::openmp_accessible(A::none), 0);
  EXPECT_STREQ(hamr::get_allocator_name(A::cuda_async), "cuda_malloc_async_allocator");
  EXPECT_STREQ(hamr::get_allocator_name(A::none), "the allocator name is not known");
}

TEST(Hamr, memory_is_shared_with_the_code_that_can_access_it) {
  const Cuda cuda;
  for (const A alloc : allocators) {
    const buffer<short> made(alloc, 5, short{3});
    const std::string name = hamr::get_allocator_name(alloc);
    const bool on_gpu = is_one_of(alloc, {A::cuda, A::cuda_async, A::cuda_uva, A::openmp});
    EXPECT_EQ(made.get_host_accessible().get() == made.data(), made.host_accessible()) << name;
    EXPECT_EQ(made.get_cuda_accessible().get() == made.data(), on_gpu) << name;
    EXPECT_EQ(made.get_device_accessible().get() == made.data(), on_gpu) << name;
    EXPECT_EQ(made.get_openmp_accessible().get() == made.data(), on_gpu) << name;  // OpenMP's device is CUDA's
    EXPECT_EQ(made.get_hip_accessible().get() == made.data(), is_one_of(alloc, {A::hip, A::hip_uva})) << name;
    EXPECT_EQ(Place::of(made.get_cuda_accessible().get()).device, 0) << name;
    const auto values_at = [](A at, const std::shared_ptr<const short>& handle) {
      return all_of(buffer<short>(at, 5, at == A::malloc ? -1 : 0, std::const_pointer_cast<short>(handle)));
    };
    const std::vector<short> expected(5, 3);
    EXPECT_EQ(values_at(A::malloc, made.get_host_accessible()), expected) << name;
    EXPECT_EQ(values_at(A::cuda, made.get_cuda_accessible()), expected) << name;
    EXPECT_EQ(values_at(A::openmp, made.get_openmp_accessible()), expected) << name;
    EXPECT_EQ(values_at(A::hip, made.get_hip_accessible()), expected) << name;
  }
  const Cuda other(1);
  const buffer<int> elsewhere(A::cuda, 4, 6);
  const auto for_openmp = elsewhere.get_openmp_accessible();  // OpenMP's device 0
  EXPECT_NE(for_openmp.get(), elsewhere.data());
  EXPECT_EQ(Place::of(for_openmp.get()).device, 0);
  EXPECT_EQ(buffer<int>(A::cuda).get_host_accessible(), nullptr);
  EXPECT_EQ(buffer<int>(A::cuda).get_openmp_accessible(), nullptr);
  EXPECT_EQ(hamr::get_device_allocator(), A::cuda_async);
  EXPECT_EQ(hamr::get_host_allocator(), A::cuda_host);
  EXPECT_THROW((void)buffer<int>(A::none), hmc::Error);
}

TEST(Hamr, foreign_memory_is_used_without_a_copy) {
  const Cuda cuda;
  const long before = cuda.live();
  std::vector<double> users = counted<double>(20, 1);
  {
    buffer<double> over(A::malloc, hamr::stream(), Transfer::async, users.size(), -1, users.data(), 0);
    EXPECT_EQ(over.data(), users.data());
    over.data()[3] = 77;
  }
  EXPECT_EQ(users[3], 77);

  std::uintptr_t address = 0;
  ASSERT_EQ(cuda("cuMemAlloc_v2", &address, std::size_t{80}), 0);
  const auto values = counted<double>(10, 4);
  cuda.launch(reinterpret_cast<double*>(address), values);
  int freed = 0;
  {
    auto* const at = reinterpret_cast<double*>(address);
    buffer<double> over(A::cuda, 10, -1, at, [&](double*) { ++freed; });
    EXPECT_EQ(over.get_owner(), 0);
    EXPECT_EQ(over.get_cuda_accessible().get(), at);
    EXPECT_EQ(all_of(over), values);
    const auto kept = over.pointer();
    over.free();
    EXPECT_EQ(freed, 0);
  }
  EXPECT_EQ(freed, 1);
  { buffer<double> taken(A::cuda, 10, -1, reinterpret_cast<double*>(address)); }  // frees it
  EXPECT_EQ(cuda.live(), before);
  const Driver hip("HMC_HIP_LIBRARY");
  const long before_hip = hip.live();
  void *on_device = nullptr, *managed = nullptr;
  ASSERT_EQ(hip("hipMalloc", &on_device, std::size_t{80}), 0);
  ASSERT_EQ(hip("hipMallocManaged", &managed, std::size_t{80}, 1U), 0);
  { buffer<double> taken(A::hip, 10, 0, static_cast<double*>(on_device)); }
  { buffer<double> taken(A::hip_uva, 10, -1, static_cast<double*>(managed)); }
  EXPECT_EQ(hip.live(), before_hip);
  { buffer<int> taken(A::cpp, 5, -1, new int[5]()); }
  { buffer<int> taken(A::malloc, 5, -1, static_cast<int*>(std::malloc(20))); }
  const auto shared = std::make_shared<int>(5);
  { EXPECT_EQ(all_of(buffer<int>(A::malloc, 1, -1, shared)), std::vector<int>{5}); }
  EXPECT_EQ(shared.use_count(), 1);
}

TEST(Hamr, ranges_are_copied_and_cast) {
  const std::vector<float> host = counted<float>(30, 2);
  for (const A one : allocators) {
    for (const A two : allocators) {
      const std::string what = std::string(hamr::get_allocator_name(one)) + " " + hamr::get_allocator_name(two);
      std::vector<float> expected = host;
      buffer<float> a(one, host.size(), host.data());
      buffer<float> b(two);
      b.assign(a, 5, 10);
      EXPECT_EQ(all_of(b), std::vector<float>(host.begin() + 5, host.begin() + 15)) << what;
      b.append(host.data(), 20, 10);
      b.append(a, 1, 3);
      std::vector<float> joined(host.begin() + 5, host.begin() + 15);
      joined.insert(joined.end(), host.begin() + 20, host.end());
      joined.insert(joined.end(), host.begin() + 1, host.begin() + 4);
      EXPECT_EQ(all_of(b), joined) << what;
      a.set(2, b, 20, 3);
      std::copy_n(joined.begin() + 20, 3, expected.begin() + 2);
      EXPECT_EQ(all_of(a), expected) << what;

      buffer<std::int64_t> longs(two, std::size_t{4}, std::int64_t{9});
      const short shorts[] = {-1, -2, -3};
      longs.set(1, shorts, 1, 2);
      EXPECT_EQ(all_of(longs), (std::vector<std::int64_t>{9, -2, -3, 9})) << what;
      longs.append(a, 0, 2);
      EXPECT_EQ(longs.size(), 6U);
      int ints[4] = {};
      longs.get(1, ints, 2, 2);
      EXPECT_EQ(std::vector<int>(ints, ints + 4), (std::vector<int>{0, 0, -2, -3})) << what;
      buffer<double> doubles(one, longs);
      longs.get(0, doubles, 3, 2);
      EXPECT_EQ(all_of(doubles)[3], 9.0) << what;
      EXPECT_EQ(all_of(doubles)[4], -2.0) << what;
      EXPECT_THROW(a.set(29, b, 0, 2), hmc::Error);
      EXPECT_THROW(a.set(0, b, b.size() - 1, 2), hmc::Error);
    }
  }
}

TEST(Hamr, assignment_keeps_allocator_and_stream) {
  buffer<int> on_host(A::malloc, 3, 5);
  buffer<int> on_device(A::cuda, 2, 8);
  const int* const address = on_device.data();
  on_host = on_device;
  EXPECT_EQ(on_host.get_allocator(), A::malloc);
  EXPECT_EQ(all_of(on_host), std::vector<int>(2, 8));
  buffer<int> other(A::cuda, 1, 1);
  other = std::move(on_device);  // NOLINT: the same place, so its memory moves
  EXPECT_EQ(other.data(), address);
  on_host = std::move(other);
  EXPECT_EQ(on_host.get_allocator(), A::malloc);
  buffer<int> moved(A::cuda, std::move(on_host));
  EXPECT_EQ(moved.get_allocator(), A::cuda);
  EXPECT_EQ(all_of(moved), std::vector<int>(2, 8));
  buffer<float> floats(A::malloc);
  floats = moved;
  EXPECT_EQ(all_of(floats), std::vector<float>(2, 8));
  moved.resize(4, 6);
  EXPECT_EQ(all_of(moved), (std::vector<int>{8, 8, 6, 6}));
  moved.reserve(100);
  EXPECT_EQ(moved.size(), 4U);
}

TEST(Hamr, helpers_return_tuples) {
  auto [made, first] = hamr::make_buffer<int>(A::malloc, 3, 7);
  EXPECT_EQ(first, made.data());
  first[1] = 9;
  EXPECT_EQ(all_of(made), (std::vector<int>{7, 9, 7}));
  const buffer<float> other(A::cuda, 2, 1.5f);
  const auto [a, pa, b, pb] = hamr::get_host_accessible(made, other);
  EXPECT_EQ(pa[1] + static_cast<int>(2 * pb[1]), 12);
  EXPECT_EQ(std::get<1>(hamr::data(made, other)), other.data());
  EXPECT_EQ(std::get<0>(hamr::pointer(made)).get(), made.data());
  hamr::synchronize(made, other);
  const hamr::p_buffer<int> shared = std::make_shared<buffer<int>>(A::malloc, 1, 4);
  EXPECT_EQ(hamr::ref_to(hamr::const_ptr(shared)).size(), 1U);
  testing::internal::CaptureStderr();
  made.print();
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "m_alloc = malloc, m_owner = -1, m_size = 3, m_capacity = 3, m_data = 7, 9, 7\n");
}

TEST(Hamr, resize_keeps_the_elements_of_reserved_memory) {
  for (const A alloc : {A::malloc, A::cuda_host, A::cuda_uva}) {
    buffer<int> made(alloc);
    made.reserve(10);
    EXPECT_EQ(made.size(), 0U);
    int* const first = made.data();
    std::iota(first, first + 10, 5);  // as a program that fills reserved memory itself
    made.resize(4);
    EXPECT_EQ(made.data(), first);
    made.resize(10);
    EXPECT_EQ(all_of(made), (std::vector<int>{5, 6, 7, 8, 9, 10, 11, 12, 13, 14}));
    made.resize(2);
    made.resize(4, 77);
    EXPECT_EQ(all_of(made), (std::vector<int>{5, 6, 77, 77}));
    made.resize(12);
    EXPECT_EQ(all_of(made)[3], 77);
    EXPECT_EQ(all_of(made)[11], 0);
    made.reserve(20, 3);
    made.resize(20);
    EXPECT_EQ(all_of(made)[11], 0);
    EXPECT_EQ(all_of(made)[12], 3);
  }
  constexpr std::size_t count = 1'500'000;  // several pieces
  const buffer<float> large(A::cuda, count, 2.5f);
  EXPECT_EQ(all_of(large), std::vector<float>(count, 2.5f));
}

TEST(Hamr, references_change_the_buffer) {
  const Cuda cuda;
  void* users = nullptr;
  EXPECT_EQ(cuda("cuStreamCreate", &users, 1U), 0);
  {
    buffer<int> made(A::cuda, 100, 5);
    made.get_stream() = hamr::stream(static_cast<CUstream_st*>(users));
    cuda.set_delay_us(50'000);
    made.resize(200, 6);
    EXPECT_EQ(cuda("cuStreamQuery", users), 600);  // in flight
    cuda.set_delay_us(0);
    EXPECT_EQ(all_of(made)[199], 6);
    std::shared_ptr<int>& memory = made.pointer();
    const std::shared_ptr<int> kept = memory;
    EXPECT_EQ(&memory, &std::as_const(made).pointer());
    EXPECT_EQ(memory.get(), made.data());
    memory = buffer<int>(A::cuda, 200, 8).pointer();
    EXPECT_EQ(all_of(made)[0], 8);
  }
  EXPECT_EQ(cuda("cuStreamDestroy_v2", users), 0);
  const hamr::stream unset;
  const bool is_set = unset;
  EXPECT_TRUE(is_set);  // the machine has CUDA
  testing::internal::CaptureStderr();
  unset.print();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "cudaStream_t m_stream = 0x2\n");
}

TEST(Hamr, allocators_serve_programs_without_a_buffer) {
  const Cuda cuda;
  const long before = cuda.memory();
  {
    const int values[] = {4, 5, 6};
    const auto check = [](A alloc, const auto& memory, const std::vector<int>& expected) {
      const int owner = hamr::host_accessible(alloc) ? -1 : 0;
      EXPECT_EQ(all_of(buffer<int>(alloc, expected.size(), owner, memory)), expected)
          << hamr::get_allocator_name(alloc);
    };
    check(A::cpp, hamr::new_allocator<int>::allocate(2), {0, 0});
    check(A::malloc, hamr::malloc_allocator<int>::allocate(2, 7), {7, 7});
    check(A::cuda_host, hamr::cuda_malloc_host_allocator<int>::allocate(3, values), {4, 5, 6});
    check(A::hip, hamr::hip_malloc_allocator<int>::allocate(3, values), {4, 5, 6});
    const double halves[] = {4.5, 5.5};
    check(A::cuda, hamr::cuda_malloc_allocator<int>::allocate(2, halves), {4, 5});
    const hamr::stream strm;
    const auto on_device = hamr::cuda_malloc_async_allocator<int>::allocate(strm, 3, values);
    check(A::cuda_async, on_device, {4, 5, 6});
    check(A::cuda, hamr::cuda_malloc_allocator<int>::allocate(strm, 3, on_device.get(), true), {4, 5, 6});
    const auto for_openmp = hamr::openmp_allocator<int>::allocate(2, 31);
    testing::internal::CaptureStderr();
    EXPECT_EQ(hamr::openmp_print(for_openmp.get(), 2), 0);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "31, 31\n");
    EXPECT_EQ(hamr::malloc_allocator<std::string>::allocate(2, std::string("text")).get()[1], "text");
  }
  EXPECT_EQ(cuda.memory(), before);
}

TEST(Hamr, grids_have_a_thread_per_element) {
  const int most[] = {1000, 20, 5}, warp = 32;
  for (const std::size_t size :
       {0UL, 1UL, 31UL, 32UL, 33UL, 255UL, 256UL, 257UL, 100'000UL, 256'001UL, 5'120'001UL, 25'600'000UL}) {
    const hamr::detail::grid grid = hamr::detail::partition(size, 8, warp, most);
    const std::size_t blocks = std::size_t{grid.x} * grid.y * grid.z;
    EXPECT_GE(blocks, std::max<std::size_t>(1, static_cast<std::size_t>(grid.blocks))) << size;
    EXPECT_EQ(static_cast<std::size_t>(grid.blocks), (size + grid.threads - 1) / grid.threads) << size;
    EXPECT_TRUE(grid.x <= 1000 && grid.y <= 20 && grid.z <= 5) << size;
    EXPECT_EQ(grid.threads, std::clamp<std::size_t>(size / warp, 1, 8) * warp) << size;
  }
  EXPECT_THROW((void)hamr::detail::partition(25'600'001, 8, warp, most), hmc::Error);
}

// ---- elements of classes

/// Counts what happens to its objects.
struct Counted {
  static inline int made = 0, copied = 0, assigned = 0, live = 0, until_failure = -1;
  static void reset() { made = copied = assigned = 0; }

  Counted() : Counted(0) {}
  Counted(int with) : value(with) {
    if (until_failure >= 0 && until_failure-- == 0) throw std::runtime_error("Counted");
    ++made;
    ++live;
  }
  Counted(const Counted& other) : value(other.value), self(this) {
    EXPECT_EQ(other.self, &other);
    if (until_failure >= 0 && until_failure-- == 0) throw std::runtime_error("Counted");
    ++copied;
    ++live;
  }
  Counted& operator=(const Counted& other) {
    EXPECT_EQ(self, this);  // a constructed object
    EXPECT_EQ(other.self, &other);
    value = other.value;
    ++assigned;
    return *this;
  }
  ~Counted() {
    EXPECT_EQ(self, this);
    self = nullptr;
    --live;
  }
  explicit operator int() const { return value; }

  int value;
  const Counted* self = this;
};

struct Counts {
  int made, copied, assigned, live;
  bool operator==(const Counts&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Counts& counts) {
  return out << counts.made << " made, " << counts.copied << " copied, " << counts.assigned << " assigned, "
             << counts.live << " live";
}
/// Since the last call.
Counts counts() {
  const Counts now{Counted::made, Counted::copied, Counted::assigned, Counted::live};
  Counted::reset();
  return now;
}
std::vector<int> values_of(const buffer<Counted>& of) {
  std::vector<int> made(of.size());
  of.get(0, made.data(), 0, made.size());
  return made;
}

constexpr A host_allocators[] = {A::cpp, A::malloc, A::cuda_uva, A::cuda_host, A::hip_uva};

TEST(Hamr, objects_are_constructed_copied_and_destroyed) {
  for (const A alloc : host_allocators) {
    SCOPED_TRACE(hamr::get_allocator_name(alloc));
    counts();
    {
      buffer<Counted> made(alloc, 5);
      EXPECT_EQ(counts(), (Counts{5, 0, 0, 5}));
      made.reserve(8);
      EXPECT_EQ(counts(), (Counts{3, 5, 0, 8}));
      made.resize(7);
      EXPECT_EQ(counts(), (Counts{0, 0, 0, 8}));
      const Counted nine(9);
      counts();
      made.resize(8, nine);
      EXPECT_EQ(counts(), (Counts{0, 0, 1, 9}));
      EXPECT_EQ(values_of(made), (std::vector<int>{0, 0, 0, 0, 0, 0, 0, 9}));
      made.resize(10, nine);
      EXPECT_EQ(counts(), (Counts{0, 10, 0, 11}));
      made.append(&nine, 0, 1);  // doubles the memory
      EXPECT_EQ(counts(), (Counts{10, 10, 1, 21}));
      EXPECT_EQ(made.size(), 11U);
      made.free();
      EXPECT_EQ(counts(), (Counts{0, 0, 0, 1}));
    }
    EXPECT_EQ(counts(), (Counts{0, 0, 0, 0}));
    {
      const Counted some[] = {1, 2, 3};
      counts();
      buffer<Counted> made(alloc, 3, some);
      EXPECT_EQ(counts(), (Counts{0, 3, 0, 6}));
      const buffer<Counted> filled(alloc, 4, some[1]);
      EXPECT_EQ(counts(), (Counts{0, 4, 0, 10}));
      buffer<Counted> copy(made);
      EXPECT_EQ(counts(), (Counts{0, 3, 0, 13}));
      buffer<Counted> moved(std::move(copy));
      EXPECT_EQ(counts(), (Counts{0, 0, 0, 13}));
      EXPECT_EQ(copy.size(), 0U);  // NOLINT: it is empty
      moved = filled;
      EXPECT_EQ(counts(), (Counts{0, 4, 0, 14}));
      EXPECT_EQ(values_of(moved), std::vector<int>(4, 2));
      moved.assign(some, 1, 2);
      EXPECT_EQ(counts(), (Counts{0, 0, 2, 14}));
      EXPECT_EQ(values_of(moved), (std::vector<int>{2, 3}));
      moved.set(1, made, 0, 1);
      EXPECT_EQ(counts(), (Counts{0, 0, 1, 14}));
      const auto handle = made.get_host_accessible();
      EXPECT_EQ(handle.get(), made.data());
      made.reserve(4);  // the handle keeps the old objects
      EXPECT_EQ(counts(), (Counts{1, 3, 0, 18}));
      EXPECT_EQ(handle.get()[2].value, 3);
      const int numbers[] = {5, 6, 7};
      made.set(0, numbers, 1, 2);
      EXPECT_EQ(values_of(made), (std::vector<int>{6, 7, 3}));
      const buffer<Counted> of_numbers(alloc, buffer<int>(A::cuda, 3, numbers));
      EXPECT_EQ(values_of(of_numbers), (std::vector<int>{5, 6, 7}));
    }
    EXPECT_EQ(Counted::live, 0);
    { const buffer<Counted> taken(A::malloc, 2, -1, new (std::malloc(2 * sizeof(Counted))) Counted[2]); }
    { const buffer<Counted> taken(A::cpp, 2, -1, new Counted[2]); }
    EXPECT_EQ(Counted::live, 0);
  }
}

TEST(Hamr, failing_constructor_destroys_the_objects_before_it) {
  buffer<Counted> made(A::malloc, 4, Counted(6));
  for (const int until : {0, 1, 5, 9}) {
    const auto fails = [&](const auto& call) {
      Counted::until_failure = until;
      EXPECT_THROW(call(), std::runtime_error) << until;
      Counted::until_failure = -1;
      EXPECT_EQ(Counted::live, 4) << until;
      EXPECT_EQ(values_of(made), std::vector<int>(4, 6));
    };
    fails([] { buffer<Counted>(A::cpp, 10); });
    fails([&] { made.reserve(10); });
    fails([&] { made.reserve(10, made.data()[1]); });
    fails([&] { buffer<Counted>(A::malloc, buffer<int>(A::malloc, 10, 1)); });
  }
}

TEST(Hamr, strings_are_in_memory_of_the_host) {
  const std::string other = "a text that is longer than what a string holds in itself";
  for (const A alloc : host_allocators) {
    SCOPED_TRACE(hamr::get_allocator_name(alloc));
    std::vector<std::string> model(3, "one");
    buffer<std::string> made(alloc, 3, "one");
    made.append(&other, 0, 1);
    model.push_back(other);
    made.append(made);
    const std::vector<std::string> before = model;
    model.insert(model.end(), before.begin(), before.end());
    made.set(1, made, 3, 4);  // the ranges overlap
    std::copy(model.begin() + 3, model.begin() + 7, model.begin() + 1);
    EXPECT_EQ(all_of(made), model);
    const char* const texts[] = {"x", "yy", "zzz"};
    made.assign(texts, 1, 2);
    EXPECT_EQ(all_of(made), (std::vector<std::string>{"yy", "zzz"}));
    const buffer<std::string> copy(A::cpp, made);
    EXPECT_EQ(all_of(copy), all_of(made));
    EXPECT_EQ(made.move(A::cuda_host), 0);
    EXPECT_EQ(made.get_allocator(), A::cuda_host);
    EXPECT_EQ(all_of(copy), all_of(made));
  }
  for (const A alloc : {A::cuda, A::cuda_async, A::hip, A::openmp}) {
    buffer<std::string> none(alloc);  // it has no memory yet
    EXPECT_EQ(none.size(), 0U);
    buffer<std::string> made(A::malloc, 2, other);
    const auto refused = [&](const auto& call) {
      try {
        call();
        ADD_FAILURE() << hamr::get_allocator_name(alloc);
      } catch (const hmc::Error& error) {
        EXPECT_EQ(error.code(), hmc::Code::unsupported) << error.what();
      }
    };
    refused([&] { none.resize(1); });
    refused([&] { none = made; });
    refused([&] { made.move(alloc); });
    refused([&] { (void)made.get_cuda_accessible(); });
    EXPECT_EQ(all_of(made), std::vector<std::string>(2, other));
  }
}

TEST(Hamr, operations_that_a_class_lacks_arent_needed) {
  buffer<std::unique_ptr<int>> only_moves(A::cpp, 3);
  only_moves.data()[2] = std::make_unique<int>(7);
  buffer<std::unique_ptr<int>> moved(std::move(only_moves));
  EXPECT_EQ(*moved.get_host_accessible().get()[2], 7);
  struct NoDefault {
    explicit NoDefault(int with) : value(with) {}
    int value;
    std::string name = "none";
  };
  const buffer<NoDefault> made(A::malloc, 2, NoDefault(4));
  EXPECT_EQ(buffer<NoDefault>(made).data()[1].value, 4);
  struct alignas(256) Wide {
    float values[4] = {1, 2, 3, 4};
  };
  for (const A alloc : {A::malloc, A::cpp}) {
    buffer<Wide> wide(alloc, 3);
    wide.resize(9);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(wide.data()) % alignof(Wide), 0U);
    EXPECT_EQ(wide.data()[8].values[3], 4.0f);
  }
  const buffer<bool> flags(A::cuda, buffer<int>(A::malloc, 3, 5));
  EXPECT_EQ(all_of(flags), std::vector<bool>(3, true));
}

// ---- array classes in the form of TECA's: a buffer is the member of a class template with virtual functions
class AnyArray {
 public:
  virtual ~AnyArray() = default;
  virtual std::size_t size() const noexcept = 0;
  virtual void resize(std::size_t count) = 0;
  virtual void clear() noexcept = 0;
  virtual std::shared_ptr<AnyArray> copy(A alloc) const = 0;
  virtual int cuda_accessible() const noexcept = 0;
};

template <typename T> class Array final : public AnyArray {
 public:
  explicit Array(A alloc) : data_(alloc) {}
  Array(A alloc, std::size_t count, const T& value) : data_(alloc, count, value) {}
  template <typename U> Array(A alloc, const std::shared_ptr<const Array<U>>& other) : data_(alloc, other->data_) {}
  template <typename Deleter>
  Array(A alloc, std::size_t count, int owner, T* values, Deleter deleter)
      : data_(alloc, count, owner, values, deleter) {}

  std::size_t size() const noexcept override { return data_.size(); }
  void resize(std::size_t count) override { data_.resize(count); }
  void clear() noexcept override { data_.free(); }
  std::shared_ptr<AnyArray> copy(A alloc) const override {
    auto made = std::make_shared<Array>(alloc);
    made->data_.assign(data_, 0, data_.size());
    return made;
  }
  int cuda_accessible() const noexcept override { return data_.cuda_accessible(); }
  std::shared_ptr<T>& pointer() { return data_.pointer(); }
  const std::shared_ptr<T>& pointer() const { return data_.pointer(); }
  std::shared_ptr<const T> get_host_accessible() const { return data_.get_host_accessible(); }
  template <typename U> void append(const std::shared_ptr<const Array<U>>& from, std::size_t start, std::size_t count) {
    data_.append(from->data_, start, count);
  }
  void set_allocator(A alloc) {
    buffer<T> elsewhere(alloc, data_);
    data_.swap(elsewhere);
  }

 private:
  template <typename U> friend class Array;
  buffer<T> data_;
};

struct Named;  // incomplete where its array is a member
struct Names {
  explicit Names(std::size_t count);
  ~Names();
  Array<Named> all;
};
struct Named {
  std::string name = "none";
  std::vector<int> values;
};
Names::Names(std::size_t count) : all(A::malloc, count, Named{"named", {1, 2}}) {}
Names::~Names() = default;

TEST(Hamr, array_classes_have_buffers_of_numbers_strings_and_pointers) {
  const auto numbers = std::make_shared<const Array<double>>(A::cuda, 3, 2.5);
  auto strings = std::make_shared<Array<std::string>>(A::malloc, 2, "text");
  Array<std::shared_ptr<const AnyArray>> arrays(A::malloc, 1, numbers);
  arrays.append(std::make_shared<const Array<std::shared_ptr<const AnyArray>>>(A::malloc, 1, strings), 0, 1);
  EXPECT_EQ(arrays.pointer().get()[1]->size(), 2U);
  EXPECT_EQ(numbers.use_count(), 2);
  arrays.clear();
  EXPECT_EQ(numbers.use_count(), 1);

  Array<float> whole(A::malloc, numbers);
  whole.append(numbers, 1, 2);
  EXPECT_EQ(whole.size(), 5U);
  EXPECT_EQ(whole.get_host_accessible().get()[4], 2.5f);
  whole.set_allocator(A::hip);
  EXPECT_EQ(whole.cuda_accessible(), 1);
  EXPECT_EQ(whole.get_host_accessible().get()[4], 2.5f);

  const auto copy = strings->copy(A::cpp);
  strings->pointer().get()[0] = "changed";
  EXPECT_EQ(dynamic_cast<Array<std::string>&>(*copy).pointer().get()[0], "text");
  strings->resize(3);
  EXPECT_EQ(strings->get_host_accessible().get()[2], "");
  int deleted = 0;
  {
    Array<std::string> lent(A::malloc, 1, -1, strings->pointer().get(), [&](std::string*) { ++deleted; });
  }
  EXPECT_EQ(deleted, 1);

  Names names(2);
  names.all.resize(3);
  EXPECT_EQ(names.all.pointer().get()[1].values[1], 2);
  EXPECT_EQ(names.all.pointer().get()[2].name, "none");
}

}  // namespace

}  // namespace hmc::compat
