// The device kernels on the fake drivers: the host's reductions are the reference, bit for bit.
#include "runtime/memory/kernels.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "collectives/reduce/reduce.hpp"
#include "tests/unit/memory/fake.hpp"

namespace hmc::memory {
namespace {

std::shared_ptr<const DeviceProvider> provider_of(const char* name) {
  use_fakes();
  ::setenv("HMC_NVRTC_LIBRARY", fake_path("nvrtc").c_str(), 1);
  ::setenv("HMC_HIPRTC_LIBRARY", fake_path("hiprtc").c_str(), 1);
  return std::make_shared<const DeviceProvider>(std::string_view(name) == "cuda" ? open_cuda() : open_hip());
}

/// Bits of all kinds: numbers near each other, zeros of both signs, NaNs, infinities, subnormals.
std::vector<std::byte> contribution(DType type, std::size_t count, int rank) {
  std::mt19937_64 random(static_cast<std::uint64_t>(rank) * 977 + static_cast<std::uint64_t>(type));
  std::vector<std::byte> bytes(count * size_of(type));
  for (std::byte& each : bytes) each = static_cast<std::byte>(random());
  // Half of the elements are near 1, so that sums neither overflow nor vanish.
  for (std::size_t i = 0; i < count; i += 2) {
    std::byte* const at = bytes.data() + i * size_of(type);
    const float near = 1.0F + static_cast<float>(random() % 1000) / 300.0F;
    const double wide = near;
    const std::uint16_t half = float16(near).bits, brain = bfloat16(near).bits;
    const std::uint8_t e4m3 = float8_e4m3(near).bits, e5m2 = float8_e5m2(near).bits;
    if (type == DType::f32 || type == DType::located_f32) std::memcpy(at, &near, 4);
    if (type == DType::f64 || type == DType::located_f64) std::memcpy(at, &wide, 8);
    if (type == DType::f16) std::memcpy(at, &half, 2);
    if (type == DType::bf16) std::memcpy(at, &brain, 2);
    if (type == DType::e4m3) std::memcpy(at, &e4m3, 1);
    if (type == DType::e5m2) std::memcpy(at, &e5m2, 1);
  }
  return bytes;
}

struct OnDeviceBuffer {
  OnDeviceBuffer(const Provider& from, const std::vector<std::byte>& bytes, std::size_t shift)
      : provider(from), allocation(from.allocate(0, bytes.size() + shift)), size(bytes.size()), start(shift) {
    EXPECT_TRUE(from.copy_from_host(at(), bytes.data(), size).ok());
  }
  std::byte* at() const { return allocation->address + start; }
  std::vector<std::byte> read() const {
    std::vector<std::byte> bytes(size);
    EXPECT_TRUE(provider.copy_to_host(bytes.data(), at(), size).ok());
    return bytes;
  }
  const Provider& provider;
  std::shared_ptr<Allocation> allocation;
  std::size_t size, start;
};

/// `shift` elements past the allocation's start. Outputs: the first input's own buffer, and another.
void check(const DeviceProvider& provider, DType type, Op op, int ranks, std::size_t count, std::size_t shift) {
  std::vector<std::vector<std::byte>> inputs;
  std::vector<const void*> host_ins;
  for (int rank = 0; rank < ranks; ++rank) inputs.push_back(contribution(type, count, rank));
  for (const auto& each : inputs) host_ins.push_back(each.data());
  std::vector<std::byte> expected(inputs[0].size());
  void* const host_out = expected.data();
  collectives::reduce_kernel(type, op)(&host_out, 1, host_ins.data(), ranks, count);

  std::vector<std::unique_ptr<OnDeviceBuffer>> buffers;
  ReduceArguments call{};
  for (const auto& each : inputs) {
    buffers.push_back(std::make_unique<OnDeviceBuffer>(provider, each, shift * size_of(type)));
    call.ins[call.in_count++] = buffers.back()->at();
  }
  const OnDeviceBuffer other(provider, std::vector<std::byte>(expected.size()), shift * size_of(type));
  call.outs[call.out_count++] = buffers[0]->at();
  call.outs[call.out_count++] = other.at();
  call.op = static_cast<int>(op);
  call.count = count;
  const auto stream = provider.make_stream(0);
  ASSERT_TRUE(provider.kernels()->reduce(0, type, call, stream->native()).ok());
  ASSERT_TRUE(stream->synchronize().ok());
  EXPECT_EQ(other.read(), expected) << name_of(type) << " " << name_of(op) << " of " << ranks;
  EXPECT_EQ(buffers[0]->read(), expected) << name_of(type) << " " << name_of(op) << " in place";
}

}  // namespace

TEST(Kernels, kernels_reduce_like_the_host_for_every_type_and_operation) {
  for (const char* name : {"cuda", "hip"}) {
    const auto provider = provider_of(name);
    ASSERT_EQ(provider->kernels()->why_not(0), "");
    for (int type = 0; type < dtype_count; ++type)
      for (int op = 0; op < op_count; ++op)
        if (collectives::reduce_kernel(static_cast<DType>(type), static_cast<Op>(op)) != nullptr)
          for (const int ranks : {1, 2, 3, 8})
            check(*provider, static_cast<DType>(type), static_cast<Op>(op), ranks, 333,
                  static_cast<std::size_t>(ranks) % 2);
  }
}

TEST(Kernels, device_without_a_compiler_reports_the_reason) {
  const auto provider = provider_of("cuda");
  ::setenv("HMC_NVRTC_LIBRARY", "none", 1);
  ::setenv("HMC_DEVICE_KERNELS", "runtime", 1);
  EXPECT_NE(provider->kernels()->why_not(0).find("turned off by HMC_NVRTC_LIBRARY"), std::string::npos)
      << provider->kernels()->why_not(0);
  ::setenv("HMC_NVRTC_LIBRARY", fake_path("nvrtc").c_str(), 1);
  ::setenv("FAKE_COMPILER_FAILS", "1", 1);
  const auto second = provider_of("cuda");
  EXPECT_NE(second->kernels()->why_not(0).find("device_kernels.inl(7): error: no such thing"), std::string::npos)
      << second->kernels()->why_not(0);
  ::unsetenv("FAKE_COMPILER_FAILS");
  const auto third = provider_of("cuda");
  EXPECT_EQ(third->kernels()->why_not(0), "");
  EXPECT_EQ(third->kernels()->origin(0), "NVRTC 13.0");
  ::setenv("HMC_DEVICE_KERNELS", "none", 1);
  EXPECT_EQ(provider_of("cuda")->kernels()->why_not(0), kernels_off);
  ::unsetenv("HMC_DEVICE_KERNELS");
}

TEST(Kernels, failed_load_names_the_call_without_leaks) {
  // With built-in kernels as a fallback, a single failure would have no effect.
  ::setenv("HMC_DEVICE_KERNELS", "runtime", 1);
  const auto provider = provider_of("hip");
  const Fake fake("hip");
  fake.arm("hipModuleGetFunction:3");
  EXPECT_NE(provider->kernels()->why_not(0).find("hipModuleGetFunction answered hipErrorUnknown"), std::string::npos)
      << provider->kernels()->why_not(0);
  fake.arm("");
  ::unsetenv("HMC_DEVICE_KERNELS");
  EXPECT_EQ(fake.live("module"), 0);
}

// No device is needed to compile for one.
TEST(Kernels, real_compiler_accepts_the_source) {
  if (std::string_view(HMC_REAL_NVRTC).empty()) GTEST_SKIP() << "there is no NVRTC here";
  ::setenv("HMC_NVRTC_LIBRARY", HMC_REAL_NVRTC, 1);
  for (const char* architecture : {"sm_80", "sm_90"}) {
    const CompiledKernels made = compile_kernels(MemoryType::NVIDIA_GPU, architecture);
    EXPECT_EQ(made.why_not, "");
    ASSERT_GT(made.image.size(), 4U);
    EXPECT_EQ(made.image.substr(1, 3), "ELF");
    EXPECT_NE(made.image.find("hmc_reduce_located_f64"), std::string::npos);
  }
  EXPECT_NE(compile_kernels(MemoryType::NVIDIA_GPU, "sm_1").why_not, "");
}

}  // namespace hmc::memory
