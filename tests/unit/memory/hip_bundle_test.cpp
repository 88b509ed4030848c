// The code objects for AMD devices that hipcc built in, read without a device. Skipped in builds without hipcc.
#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "runtime/memory/kernels/device_kernels.hpp"
#include "tests/unit/memory/fake.hpp"

namespace hmc::memory {
namespace {

template <typename T> T read(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// The bundle's entries by target, "hipv4-amdgcn-amd-amdhsa--gfx90a".
std::map<std::string, std::string_view> objects_of(const char* bundle) {
  constexpr std::string_view mark = "__CLANG_OFFLOAD_BUNDLE__";
  std::map<std::string, std::string_view> objects;
  if (std::string_view(bundle, mark.size()) != mark) return objects;
  const char* entry = bundle + mark.size() + 8;
  for (auto left = read<std::uint64_t>(entry - 8); left > 0; --left) {
    const auto offset = read<std::uint64_t>(entry), bytes = read<std::uint64_t>(entry + 8);
    const auto letters = read<std::uint64_t>(entry + 16);
    objects[std::string(entry + 24, letters)] = {bundle + offset, bytes};
    entry += 24 + letters;
  }
  return objects;
}

/// Names of the symbols that a loader finds, with their types.
std::map<std::string, unsigned> symbols_of(std::string_view object) {
  std::map<std::string, unsigned> symbols;
  const auto head = read<Elf64_Ehdr>(object.data());
  EXPECT_LE(head.e_shoff + head.e_shnum * sizeof(Elf64_Shdr), object.size());
  const auto section = [&](std::size_t i) {
    return read<Elf64_Shdr>(object.data() + head.e_shoff + i * sizeof(Elf64_Shdr));
  };
  for (std::size_t i = 0; i < head.e_shnum; ++i) {
    const Elf64_Shdr table = section(i);
    if (table.sh_type != SHT_DYNSYM) continue;
    const Elf64_Shdr names = section(table.sh_link);
    for (std::size_t at = 0; at < table.sh_size; at += sizeof(Elf64_Sym)) {
      const auto symbol = read<Elf64_Sym>(object.data() + table.sh_offset + at);
      if (symbol.st_shndx == SHN_UNDEF) continue;
      symbols[object.data() + names.sh_offset + symbol.st_name] = ELF64_ST_TYPE(symbol.st_info);
    }
  }
  return symbols;
}

const char* bundle() { return static_cast<const char*>(embedded_kernels(MemoryType::AMD_GPU)); }

std::set<std::string> kernels_in_source() {
  std::set<std::string> names;
  const std::string source = kernels_source();
  // HMC_KERNEL hmc_name(, and the reductions, which a macro names.
  for (const char* const before : {"HMC_KERNEL ", "HMC_REDUCE("}) {
    for (std::size_t at = source.find(before); at != std::string::npos; at = source.find(before, at + 1)) {
      const std::size_t start = at + std::strlen(before), end = source.find_first_of("(,", start);
      const std::string name = source.substr(start, end - start);
      if (name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string::npos)
        names.insert(name.substr(0, 4) == "hmc_" ? name : "hmc_reduce_" + name);
    }
  }
  return names;
}

class HipBundle : public testing::Test {
 protected:
  void SetUp() override {
    if (bundle() == nullptr) GTEST_SKIP() << why_no_embedded_kernels(MemoryType::AMD_GPU);
    use_fakes();
    ::setenv("HMC_HIPRTC_LIBRARY", fake_path("hiprtc").c_str(), 1);
  }
  void TearDown() override { ::unsetenv("HMC_DEVICE_KERNELS"); }
};

TEST_F(HipBundle, object_has_every_kernel_for_each_device_kind) {
  std::size_t devices = 0;
  for (const auto& [target, object] : objects_of(bundle())) {
    if (target.find("amdgcn") == std::string::npos) continue;  // the host's entry is empty
    ++devices;
    EXPECT_NE(target.find("gfx"), std::string::npos) << target;
    ASSERT_GT(object.size(), sizeof(Elf64_Ehdr)) << target;
    const auto head = read<Elf64_Ehdr>(object.data());
    ASSERT_EQ(std::memcmp(head.e_ident, ELFMAG, SELFMAG), 0) << target;
    EXPECT_EQ(head.e_machine, 224) << target;  // EM_AMDGPU
    EXPECT_EQ(head.e_type, ET_DYN) << target;
    const auto symbols = symbols_of(object);
    std::size_t kernels = 0;
    for (const auto& [name, type] : symbols) {
      if (type != STT_FUNC || name.compare(0, 4, "hmc_") != 0) continue;
      ++kernels;
      EXPECT_EQ(symbols.count(name + ".kd"), 1U)
          << target << " " << name;  // the kernel descriptor, which a launch reads
    }
    const std::set<std::string> wanted = kernels_in_source();
    EXPECT_EQ(kernels, wanted.size()) << target;
    for (const std::string& name : wanted) EXPECT_EQ(symbols.count(name), 1U) << target << " " << name;
  }
  EXPECT_GE(devices, 1U);
}

TEST_F(HipBundle, device_loads_the_bundle_first) {
  const DeviceProvider provider(open_hip());
  EXPECT_EQ(provider.kernels()->why_not(0), "");
  EXPECT_EQ(provider.kernels()->origin(0), "built in");
}

TEST_F(HipBundle, library_compiles_if_a_driver_rejects_the_bundle) {
  const Fake fake("hip");
  for (const char* const call : {"hipModuleLoadData", "hipModuleGetFunction"}) {
    const DeviceProvider provider(open_hip());
    fake.arm(std::string(call) + ":1");
    EXPECT_EQ(provider.kernels()->why_not(0), "");
    fake.arm("");
    const std::string origin = provider.kernels()->origin(0);
    EXPECT_EQ(origin.compare(0, 6, "hipRTC"), 0) << origin;
    EXPECT_NE(origin.find(std::string("not built in: ") + call), std::string::npos) << origin;
  }
  EXPECT_EQ(fake.live("module"), 0);
  ::setenv("HMC_DEVICE_KERNELS", "runtime", 1);
  const DeviceProvider provider(open_hip());
  EXPECT_EQ(provider.kernels()->why_not(0), "");
  EXPECT_EQ(provider.kernels()->origin(0).find("not built in"), std::string::npos);  // requested, not a fallback
}

}  // namespace

TEST(HipKernels, missing_kernels_are_reported) {
  EXPECT_EQ(embedded_kernels(MemoryType::AMD_GPU) == nullptr,
            std::string_view(why_no_embedded_kernels(MemoryType::AMD_GPU)) != "");
  EXPECT_EQ(embedded_kernels(MemoryType::NVIDIA_GPU) == nullptr,
            std::string_view(why_no_embedded_kernels(MemoryType::NVIDIA_GPU)) != "");
  EXPECT_NE(std::string_view(why_no_embedded_kernels(MemoryType::MOORE_GPU)), "");
}

}  // namespace hmc::memory
