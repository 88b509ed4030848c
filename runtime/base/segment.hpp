// Segment: shared memory that processes pass by file descriptor. It has no name in a file system.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>

#include "runtime/base/fd.hpp"

namespace hmc::base {

/// A memfd and its mapping. Windows and buffers share it; the last owner unmaps it.
class Segment {
 public:
  /// A new memfd of `bytes` (rounded up to pages), sealed against shrinking and growing, mapped. The file is longer by
  /// up to `reserve` bytes, which aren't mapped here (see part). Throws Error{out_of_memory}.
  static std::shared_ptr<Segment> create(std::size_t bytes, std::uint64_t reserve = 0);
  /// Maps [file_offset, file_offset + bytes) of a descriptor and takes ownership of it. Throws Error if
  /// the file is shorter. bytes == 0: to the end of the file.
  static std::shared_ptr<Segment> map(UniqueFd memfd, std::size_t bytes = 0, std::uint64_t file_offset = 0);

  /// A mapping of [file_offset, file_offset + bytes) of `file`, without a descriptor of its own. Its pages appear at
  /// their first use and are small, so unused memory costs nothing. Several callers get one mapping. Threads: any.
  static std::shared_ptr<Segment> part(const std::shared_ptr<Segment>& file, std::uint64_t file_offset,
                                       std::size_t bytes);

  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  ~Segment();

  std::byte* base() const noexcept { return base_; }
  std::size_t bytes() const noexcept { return bytes_; }
  int fd() const noexcept { return file_ != nullptr ? file_->fd() : fd_.get(); }
  std::uint64_t file_offset() const noexcept { return file_offset_; }
  /// Of the whole file.
  std::uint64_t file_bytes() const;

  /// Equal for all mappings of one file on this machine, in any process.
  struct Identity {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    static constexpr auto fields = std::tuple(&Identity::device, &Identity::inode);
    friend bool operator==(const Identity&, const Identity&) = default;
  };
  Identity identity() const noexcept { return identity_; }

  /// Allocates the pages now, by default on the NUMA node of the calling thread. Throws Error{out_of_memory}, before it
  /// allocates any, if the machine or the cgroup lacks the memory: then the kernel would kill a process.
  void populate(std::size_t offset, std::size_t bytes);
  /// Frees the pages of a range of the file: it reads as zero again. False if the system can't.
  bool clear(std::uint64_t file_offset, std::size_t bytes) const noexcept;

 private:
  Segment();
  void map_now(std::size_t bytes, std::uint64_t file_offset, int advice);

  UniqueFd fd_;
  std::shared_ptr<Segment> file_;  // of a part
  struct Parts;
  std::unique_ptr<Parts> parts_;  // the mappings of parts of this file
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
  std::uint64_t file_offset_ = 0;
  Identity identity_;
};

std::size_t page_size() noexcept;
inline std::size_t round_up(std::size_t value, std::size_t to) noexcept { return (value + to - 1) / to * to; }

}  // namespace hmc::base
