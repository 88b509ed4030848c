// User kernels over the device-side API, compiled by nvcc where available. The fake driver runs the same source.
#if !defined(HMC_TEST_KERNEL)
#define HMC_TEST_KERNEL extern "C" __global__ void
#define HMC_TEST_FUNCTION __device__
#define HMC_TEST_THREAD threadIdx.x
#define HMC_TEST_BLOCK blockIdx.x
#define HMC_TEST_BLOCKS gridDim.x
#define HMC_TEST_REACH(pointer) (pointer)
#endif

#include <hmc/hmc_device.cuh>

#include "kernel_arguments.hpp"

/// One block. Puts to the next rank, signals it, and sums the first words of all ranks' contexts.
HMC_TEST_KERNEL hmc_test_ring(RingArguments call) {
  const hmc::DeviceWindow window(call.window);
  const int next = (window.rank() + 1) % window.size();
  const bool put = window.put_block(next, call.to, call.source, call.bytes);
  if (HMC_TEST_THREAD != 0) return;
  unsigned long long* const report = HMC_TEST_REACH(call.report);
  const bool told = window.signal(next, call.signal, call.value);
  const bool outside = window.put(next, window.bytes(next) - 3, call.source, 4);
  unsigned long long sum = 0;
  for (int rank = 0; rank < window.size(); ++rank) sum += *window.context<unsigned long long>(rank);
  report[0] = put && told && !outside;
  report[1] = sum;
  report[2] = static_cast<unsigned long long>(window.size());
  report[3] = static_cast<unsigned long long>(window.rank());
}

/// One block. Copies back the bytes that were put to this rank. The host has seen the signal, so the device doesn't
/// wait.
HMC_TEST_KERNEL hmc_test_take(RingArguments call) {
  const hmc::DeviceWindow window(call.window);
  const bool got = window.get_warp(window.rank(), call.to, const_cast<void*>(call.source), call.bytes);
  if (HMC_TEST_THREAD != 0) return;
  unsigned long long* const report = HMC_TEST_REACH(call.report);
  report[0] = got && window.wait(call.signal, call.value) == call.value;
  report[1] = window.test(call.signal);
  report[2] = window.reaches(window.rank()) ? 1 : 0;
  report[3] = *window.local<unsigned char>(call.to);
}

/// One block. The whole block puts to the next rank; each warp puts to its own offset, `value` bytes apart.
HMC_TEST_KERNEL hmc_test_groups(RingArguments call) {
  const hmc::DeviceWindow window(call.window);
  const int next = (window.rank() + 1) % window.size();
  const unsigned long long place = call.to + call.value * (1 + HMC_TEST_THREAD / 32);
  const bool by_block = window.put_block(next, call.to, call.source, call.bytes);
  const bool by_warp = window.put_warp(next, place, call.source, call.bytes);
  if (HMC_TEST_THREAD == 0) *HMC_TEST_REACH(call.report) = by_block && by_warp;
}

/// Any number of blocks. Each moves an equal piece to or from the next rank's part. A failed piece sets `report`; this
/// kernel doesn't clear it.
template <bool is_put> HMC_TEST_FUNCTION void move_pieces(const RingArguments& call) {
  const hmc::DeviceWindow window(call.window);
  const int next = (window.rank() + 1) % window.size();
  const unsigned long long piece = ((call.bytes + HMC_TEST_BLOCKS - 1) / HMC_TEST_BLOCKS + 15) / 16 * 16;
  const unsigned long long from = piece * HMC_TEST_BLOCK;
  if (from >= call.bytes) return;
  const unsigned long long left = call.bytes - from, bytes = left < piece ? left : piece;
  unsigned char* const at = static_cast<unsigned char*>(const_cast<void*>(call.source)) + from;
  const bool moved =
      is_put ? window.put_block(next, call.to + from, at, bytes) : window.get_block(next, call.to + from, at, bytes);
  if (!moved && HMC_TEST_THREAD == 0) *HMC_TEST_REACH(call.report) = 1;
}
HMC_TEST_KERNEL hmc_test_put_grid(RingArguments call) { move_pieces<true>(call); }
HMC_TEST_KERNEL hmc_test_get_grid(RingArguments call) { move_pieces<false>(call); }
