// Ranks with window parts in different kinds of memory, on the fake drivers and on PoCL.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <hmc/hmc.hpp>

#include "tests/support/pattern.hpp"
#include "tests/support/spmd.hpp"

namespace hmc::spmd {

struct MemoryKind {
  std::string_view name;
  MemoryType type;
};
inline constexpr MemoryKind all_kinds[] = {
    {"cpu", MemoryType::CPU},        {"cuda", MemoryType::NVIDIA_GPU},    {"hip", MemoryType::AMD_GPU},
    {"musa", MemoryType::MOORE_GPU}, {"cnrt", MemoryType::CAMBRICON_MLU}, {"acl", MemoryType::ASCEND_NPU},
    {"opencl", MemoryType::OPENCL}};

/// The kinds of `--set kinds=cpu,cuda` that this machine has; the same on every rank.
inline std::vector<MemoryKind> kinds_of(const TestRank& me) {
  const std::string wanted = fmt::format(",{},", me.options.setting("kinds", "cpu,cuda,hip,musa,cnrt,acl"));
  std::vector<MemoryKind> found;
  for (const MemoryKind& kind : all_kinds) {
    if (wanted.find(fmt::format(",{},", kind.name)) == std::string::npos) continue;
    try {
      const ConnBuffer trial(0, 1, kind.type);
      found.push_back(kind);
    } catch (const Error&) {
      if (kind.type != MemoryType::OPENCL) throw;  // PoCL may be missing, a fake driver may not
    }
  }
  if (found.empty()) skip("this machine has none of the kinds of memory");
  return found;
}

/// Tests inject failures and expect a certain sharing only on the fake drivers. On a real driver (./dev gpu-test) both
/// depend on the machine. HMC_CUDA_LIBRARY may also name a real driver.
inline bool drivers_are_fake() {
  const char* const library = std::getenv("HMC_CUDA_LIBRARY");
  return library != nullptr && std::string_view(library).find("libfake_") != std::string_view::npos;
}

/// Controls one vendor's fake driver in this process.
class Fake {
 public:
  explicit Fake(std::string_view vendor) {
    std::string variable = fmt::format("HMC_{}_LIBRARY", vendor);
    for (char& each : variable) each = static_cast<char>(std::toupper(each));
    const char* const path = std::getenv(variable.c_str());
    if (path != nullptr) library_ = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
    HMC_CHECK_MSG(library_ != nullptr, "{}", variable);
  }
  void set_delay_us(int us) const { call<void (*)(int)>("fake_set_delay_us")(us); }
  void arm(const std::string& what) const { call<void (*)(const char*)>("fake_arm")(what.c_str()); }
  long live() const {
    long count = 0;
    for (const char* kind : {"memory", "physical", "reservation", "mapping", "import", "host"})
      count += call<long (*)(const char*)>("fake_live")(kind);
    return count;
  }
  /// Functions called since the last arm().
  std::vector<std::string> seen() const {
    std::vector<std::string> names;
    for (const auto& [name, times] : counts()) names.push_back(name);
    return names;
  }
  int times(std::string_view name) const {
    for (const auto& [each, times] : counts())
      if (each == name) return times;
    return 0;
  }

 private:
  std::vector<std::pair<std::string, int>> counts() const {
    std::string text(16384, '\0');
    call<void (*)(char*, std::size_t)>("fake_seen")(text.data(), text.size());
    std::vector<std::pair<std::string, int>> found;
    const std::string list = text.c_str();
    for (std::size_t at = 0; at < list.size();) {
      const std::size_t colon = list.find(':', at), end = std::min(list.find(',', at), list.size());
      found.emplace_back(list.substr(at, colon - at), std::atoi(list.c_str() + colon + 1));
      at = end + 1;
    }
    return found;
  }
  template <typename F> F call(const char* name) const { return reinterpret_cast<F>(::dlsym(library_, name)); }
  void* library_ = nullptr;
};

/// Delays the work of a vendor's streams during its lifetime.
struct Late {
  Late(const Fake& on, int us) : fake(on) { fake.set_delay_us(us); }
  ~Late() { fake.set_delay_us(0); }
  const Fake& fake;
};

/// Collective. Ranks that are threads share a driver: the barriers prevent a rank from removing the delay while another
/// rank needs it.
class AllLate {
 public:
  AllLate(const TestRank& me, const Fake& fake, int us) : me_(me), late_(fake, us) { me_.runtime->world().barrier(); }
  ~AllLate() noexcept(false) {
    if (std::uncaught_exceptions() == 0) me_.runtime->world().barrier();
  }
  AllLate(const AllLate&) = delete;
  AllLate& operator=(const AllLate&) = delete;

 private:
  const TestRank& me_;
  Late late_;
};

/// A buffer of this rank's kind and a window over the buffers of all ranks. The owner accesses its bytes through the
/// buffer, independently of the window.
struct Mixed {
  Mixed(TestRank& me, MemoryKind kind, std::size_t bytes)
      : buffer(0, bytes, kind.type), window(Window::create(me.runtime->world(), buffer)) {}

  std::vector<std::byte> bytes(std::size_t offset, std::size_t count) const {
    std::vector<std::byte> got(count, std::byte{0xEE});
    HMC_CHECK_EQ(buffer.readToCpu(got.data(), count, offset), status_t::SUCCESS);
    return got;
  }
  void write(std::size_t offset, std::span<const std::byte> bytes) {
    HMC_CHECK_EQ(buffer.writeFromCpu(bytes.data(), bytes.size(), offset), status_t::SUCCESS);
  }
  std::uint64_t word(std::size_t offset) const {
    std::uint64_t value = 0;
    HMC_CHECK_EQ(buffer.readToCpu(&value, sizeof value, offset), status_t::SUCCESS);
    return value;
  }

  ConnBuffer buffer;
  Window window;
};

inline std::vector<std::byte> made(const Pattern& pattern, std::size_t bytes) {
  std::vector<std::byte> all(bytes);
  pattern.fill(all);
  return all;
}

/// Calls `body(kind of this rank, round)`. Over all rounds, neighbours have every pair of kinds.
template <typename Body> void over_every_pair(TestRank& me, Body&& body) {
  const std::vector<MemoryKind> kinds = kinds_of(me);
  std::uint64_t round = 0;
  for (std::size_t first = 0; first < kinds.size(); ++first) {
    for (std::size_t second = 0; second < kinds.size(); ++second) {
      // Ranks alternate between the two kinds. With four or more ranks, some use a third kind.
      const std::size_t choice[] = {first, second, second, (first + second) % kinds.size()};
      body(kinds[choice[static_cast<std::size_t>(me.rank) % 4]], ++round);
    }
  }
}

}  // namespace hmc::spmd
