// hamr::buffer beside the kernels of a program: stream order, the user's stream, grids of launches.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include <hamr_buffer.h>
#include <hamr_launch.h>

#include "tests/compat/hamr.hpp"

namespace hmc::compat {

namespace {

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

}  // namespace

}  // namespace hmc::compat
