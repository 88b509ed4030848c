// Segment: memory that processes share by descriptor, without a name in a file system.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "runtime/base/fd.hpp"

namespace hmc::base {

/// A memfd and its mapping. Windows and buffers share it; the last owner unmaps it.
class Segment {
 public:
  /// A new memfd of `bytes` (rounded up to pages), sealed against shrinking and growing, mapped.
  /// Throws Error{out_of_memory}.
  static std::shared_ptr<Segment> create(std::size_t bytes);
  /// Maps [file_offset, file_offset + bytes) of a descriptor and takes its ownership. Throws Error if
  /// the file is shorter. bytes == 0: to the end of the file.
  static std::shared_ptr<Segment> map(UniqueFd memfd, std::size_t bytes = 0, std::uint64_t file_offset = 0);

  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  ~Segment();

  std::byte* base() const noexcept { return base_; }
  std::size_t bytes() const noexcept { return bytes_; }
  int fd() const noexcept { return fd_.get(); }
  std::uint64_t file_offset() const noexcept { return file_offset_; }

  /// Equal for all mappings of one file on this machine, in any process.
  struct Identity {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    friend bool operator==(const Identity&, const Identity&) = default;
  };
  Identity identity() const noexcept { return identity_; }

  /// Allocates the pages now, near the calling thread. Throws Error{out_of_memory}.
  void populate(std::size_t offset, std::size_t bytes);

 private:
  Segment() = default;
  void map_now(std::size_t bytes, std::uint64_t file_offset);

  UniqueFd fd_;
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
  std::uint64_t file_offset_ = 0;
  Identity identity_;
};

std::size_t page_size() noexcept;
inline std::size_t round_up(std::size_t value, std::size_t to) noexcept { return (value + to - 1) / to * to; }

}  // namespace hmc::base
