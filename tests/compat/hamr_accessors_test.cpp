// hamr::buffer's accessors: the memory that the host and devices get, the owner, references, helpers, allocators.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <hamr_allocators.h>
#include <hamr_buffer.h>
#include <hamr_buffer_pointer.h>
#include <hamr_buffer_util.h>
#include <hamr_env.h>
#include <hamr_openmp_print.h>

#include "tests/compat/hamr.hpp"

namespace hmc::compat {

namespace {

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

}  // namespace

}  // namespace hmc::compat
