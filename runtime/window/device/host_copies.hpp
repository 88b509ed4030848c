// HostCopies: a collective's buffers where the host can read and write them.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/memory/presence.hpp"
#include "runtime/window/fabric.hpp"

namespace hmc::window {

/// Whether the host can't reach one of them; one load while this process has no devices.
inline bool need_host_copies(const void* in, const void* out) noexcept {
  return memory::devices_present() && !(memory::host_reaches(in) && memory::host_reaches(out));
}

/// A buffer that the host reaches stands for itself, another is copied to host memory for as long as this
/// lives. Where one buffer lies in the other (in place), its copy lies in the other's copy. Throws Error.
class HostCopies {
 public:
  HostCopies(const Fabric& fabric, const char* operation, const void* in, std::size_t in_bytes, void* out,
             std::size_t out_bytes);
  const void* in() const noexcept { return in_; }
  void* out() const noexcept { return out_; }
  /// The collective is over: the output goes where the caller wanted it.
  void finish() const;

 private:
  void take(std::vector<std::byte>& copy, const void* from, std::size_t bytes) const;

  const Fabric& fabric_;
  const char* operation_;
  const void* in_;
  void* out_;
  void* user_out_;
  std::size_t out_bytes_;
  std::vector<std::byte> in_copy_;
  std::vector<std::byte> out_copy_;
  bool gives_back_ = false;
};

}  // namespace hmc::window
