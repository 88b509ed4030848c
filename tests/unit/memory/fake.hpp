// A test's control over the fake drivers.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "runtime/memory/device_provider.hpp"
#include "runtime/memory/vendor.hpp"

namespace hmc::memory {

/// A vendor and the source of its library.
struct Which {
  const char* name;
  const char* variable;
  std::unique_ptr<Vendor> (*open)();
  bool is_fake;
};
inline constexpr Which whiches[] = {
    {"cuda", "HMC_CUDA_LIBRARY", &open_cuda, true}, {"hip", "HMC_HIP_LIBRARY", &open_hip, true},
    {"musa", "HMC_MUSA_LIBRARY", &open_musa, true}, {"cnrt", "HMC_CNRT_LIBRARY", &open_cnrt, true},
    {"acl", "HMC_ACL_LIBRARY", &open_acl, true},    {"opencl", "HMC_OPENCL_LIBRARY", &open_opencl, false}};
inline void PrintTo(const Which& which, std::ostream* out) { *out << which.name; }
inline std::string fake_path(const std::string& name) { return HMC_FAKE_DRIVERS "/libfake_" + name + ".so"; }
/// Sets every HMC_*_LIBRARY to its fake.
inline void use_fakes() {
  for (const Which& which : whiches)
    if (which.is_fake) ::setenv(which.variable, fake_path(which.name).c_str(), 1);
}

class Fake {
 public:
  explicit Fake(const std::string& name) : handle_(::dlopen(fake_path(name).c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) ADD_FAILURE() << ::dlerror();
  }
  void arm(const std::string& spec) const { get<void (*)(const char*)>("fake_arm")(spec.c_str()); }
  void set_delay_us(int us) const { get<void (*)(int)>("fake_set_delay_us")(us); }
  void set_hip_version(int version) const { get<void (*)(int)>("fake_set_hip_version")(version); }
  void set_fabric(int has) const { get<void (*)(int)>("fake_set_fabric")(has); }
  void set_peers(int are_so) const { get<void (*)(int)>("fake_set_peers")(are_so); }
  void set_one_function(int is_so) const { get<void (*)(int)>("fake_set_one_function")(is_so); }
  long live(const char* kind = "all") const { return get<long (*)(const char*)>("fake_live")(kind); }
  /// The calls since the last arm(), each with its count.
  std::vector<std::pair<std::string, int>> seen() const {
    std::string text(16384, '\0');
    get<void (*)(char*, std::size_t)>("fake_seen")(text.data(), text.size());
    std::vector<std::pair<std::string, int>> calls;
    text.resize(std::char_traits<char>::length(text.c_str()));
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t colon = text.find(':', at);
      const std::size_t end = std::min(text.find(',', colon), text.size());
      calls.emplace_back(text.substr(at, colon - at), std::atoi(text.c_str() + colon + 1));
      at = end + 1;
    }
    return calls;
  }

 private:
  template <typename F> F get(const char* name) const { return reinterpret_cast<F>(::dlsym(handle_, name)); }
  void* handle_;
};

/// Bytes that depend on their offset and on `seed`.
inline std::vector<unsigned char> pattern(std::size_t bytes, unsigned seed) {
  std::vector<unsigned char> made(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    made[i] = static_cast<unsigned char>((i * 131 + (i >> 8) * 7 + seed * 29) & 0xff);
  return made;
}
inline std::vector<unsigned char> read_back(const Provider& provider, const void* address, std::size_t bytes) {
  std::vector<unsigned char> got(bytes, 0xEE);
  const auto status = provider.copy_to_host(got.data(), address, bytes);
  EXPECT_TRUE(status.ok()) << status.what;
  return got;
}
inline void write(const Provider& provider, void* address, const std::vector<unsigned char>& bytes) {
  const auto status = provider.copy_from_host(address, bytes.data(), bytes.size());
  ASSERT_TRUE(status.ok()) << status.what;
}

constexpr std::size_t granularity = std::size_t{2} << 20;

}  // namespace hmc::memory
