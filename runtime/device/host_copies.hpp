// HostCopies: host copies of a collective's device buffers.
#pragma once

#include <cstddef>

#include "runtime/memory/pointer_lookup.hpp"
#include "runtime/rma/fabric.hpp"

namespace hmc::device {

/// True if the host can't access one of the buffers. Costs one load if this process has no devices.
inline bool need_host_copies(const void* in, const void* out) noexcept {
  return memory::devices_present() && !(memory::is_host_accessible(in) && memory::is_host_accessible(out));
}

/// How a collective writes this rank's output.
enum class Output {
  whole,      ///< all of it; its old content isn't copied
  parts,      ///< parts of it; the rest keeps its content
  unchanged,  ///< not at all
};

/// A buffer that the host can access is used directly. Any other buffer is copied to host memory, which is pinned if
/// the provider supports that; the provider reuses this memory. If one buffer contains the other (in place), its copy
/// contains the other's copy.
///
/// A collective has one copy in and one copy out, without overlapping pieces. Ranks with host buffers execute one
/// collective, so this rank must also execute one.
///
/// Order of use: constructor, take(), the collective, finish(). A plan repeats the last three steps in each run. One
/// thread at a time, any thread. The constructor throws Error.
class HostCopies {
 public:
  HostCopies(const rma::Fabric& fabric, const char* operation, const void* in, std::size_t in_bytes, void* out,
             std::size_t out_bytes, Output output);
  HostCopies(const HostCopies&) = delete;
  HostCopies& operator=(const HostCopies&) = delete;
  ~HostCopies();
  const void* in() const noexcept { return in_; }
  void* out() const noexcept { return out_; }
  /// Copies the input, and the output if parts of it keep their content.
  base::Status take() const noexcept;
  /// After the collective: copies the output to the caller's buffer.
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

  const rma::Fabric& fabric_;
  const char* operation_;
  const void* in_;
  void* out_;
  void* user_out_;
  std::size_t out_bytes_;
  Copy in_copy_;
  Copy out_copy_;
  Taken taken_[2] = {};
  std::size_t taken_count_ = 0;
  const memory::Provider* gives_back_ = nullptr;  ///< the output's provider, if finish() copies it back
  std::byte nothing_{};                           ///< replaces a device buffer of 0 bytes
};

}  // namespace hmc::device
