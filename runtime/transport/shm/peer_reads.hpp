// PeerReads: reads private memory of another process on the node by process_vm_readv.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "runtime/base/status.hpp"

namespace hmc::transport {

/// Published by a process, so that its peers can test whether they can read its memory.
struct ReadProbe {
  std::uint64_t address = 0;  ///< of `nonce` in the memory of `process`
  std::uint64_t nonce = 0;
  std::int32_t process = 0;
};

/// A read doesn't involve the process that owns the memory. The kernel may refuse reads (Yama, seccomp, another user or
/// namespace), so the caller tests each peer once before the first read. If Yama restricts ptrace, no process tests,
/// because the kernel logs each attempt; HMC_COLL_PRIVATE=allow permits the reads. Constant after construction; any
/// thread.
class PeerReads {
 public:
  /// `wish`: the value of HMC_COLL_PRIVATE; empty means auto.
  explicit PeerReads(std::string_view wish) noexcept;
  PeerReads(const PeerReads&) = delete;
  PeerReads& operator=(const PeerReads&) = delete;

  /// Valid while this object lives.
  ReadProbe probe() const noexcept;
  /// Reads the peer's nonce: true if this process can read the peer's memory.
  bool try_on(const ReadProbe& theirs) const noexcept;
  /// False if this rank may not read: HMC_COLL_PRIVATE=staged, or auto where Yama restricts ptrace.
  bool wanted() const noexcept { return wanted_; }
  /// HMC_COLL_PRIVATE=read: reads are used wherever they work, even where staging is faster.
  bool forced() const noexcept { return forced_; }

  /// Tests the first and the last byte of this process's memory range. False for some mappings of device memory.
  bool is_readable(const void* memory, std::size_t bytes) const noexcept;
  /// Copies `bytes` at `address` of `process` to `to`. `peer`: the world rank for the failure status.
  static base::Status read(std::int32_t process, std::uint64_t address, void* to, std::size_t bytes, int peer) noexcept;
  /// Copies `bytes` at `from` to `address` of `process`.
  static base::Status write(std::int32_t process, std::uint64_t address, const void* from, std::size_t bytes,
                            int peer) noexcept;

 private:
  bool wanted_;
  bool forced_;
  std::int32_t process_;
  std::uint64_t nonce_;
};

}  // namespace hmc::transport
