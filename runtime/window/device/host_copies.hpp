// HostCopies: a collective's buffers where the host can read and write them.
#pragma once

#include <cstddef>

#include "runtime/memory/pointer_lookup.hpp"
#include "runtime/window/fabric.hpp"

namespace hmc::window {

/// Whether the host can't reach one of them; one load while this process has no devices.
inline bool need_host_copies(const void* in, const void* out) noexcept {
  return memory::devices_present() && !(memory::host_reaches(in) && memory::host_reaches(out));
}

/// What a collective does to this rank's output.
enum class Output {
  whole,      ///< writes all of it: what lies there needn't be copied
  parts,      ///< writes some, and leaves the rest alone
  unchanged,  ///< leaves all of it alone
};

/// A buffer that the host reaches stands for itself, another is copied to host memory, which is pinned where there is
/// such and kept by its provider for the next call. Where one buffer lies in the other (in place), its copy lies in
/// the other's copy. One collective is one copy in and one out, not cut into pieces that overlap: peers whose buffers
/// are the host's make one call, and so must this rank.
///
/// Made, filled with take() before the call, emptied with finish() after it; both again for each run of a plan. One
/// thread at a time, any of them. Making it throws Error.
class HostCopies {
 public:
  HostCopies(const Fabric& fabric, const char* operation, const void* in, std::size_t in_bytes, void* out,
             std::size_t out_bytes, Output output);
  HostCopies(const HostCopies&) = delete;
  HostCopies& operator=(const HostCopies&) = delete;
  ~HostCopies();
  const void* in() const noexcept { return in_; }
  void* out() const noexcept { return out_; }
  /// Copies what the collective reads, or leaves alone.
  base::Status take() const noexcept;
  /// The collective is over: the output goes where the caller wanted it.
  base::Status finish() const noexcept;

 private:
  struct Copy {
    memory::Owner owner;
    memory::HostBlock block;
  };
  struct Taken {
    std::byte* to;
    const void* from;
    std::size_t bytes;
    const Copy* of;
  };
  std::byte* room(Copy& copy, std::size_t bytes) const;
  void takes(std::byte* to, const void* from, std::size_t bytes, const Copy& of) noexcept {
    taken_[taken_count_++] = {to, from, bytes, &of};
  }
  void place(const void* in, std::size_t in_bytes, void* out, std::size_t out_bytes, Output output);

  const Fabric& fabric_;
  const char* operation_;
  const void* in_;
  void* out_;
  void* user_out_;
  std::size_t out_bytes_;
  Copy in_copy_;
  Copy out_copy_;
  Taken taken_[2] = {};
  std::size_t taken_count_ = 0;
  const memory::Provider* gives_back_ = nullptr;  ///< the output's, if it is to be copied back
  std::byte nothing_{};                           ///< what a buffer of 0 bytes on a device becomes
};

}  // namespace hmc::window
