// PeerReads: reading a buffer that lies in no window out of its owner's memory: one copy where staging takes two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "collectives/direct/board.hpp"
#include "runtime/base/status.hpp"

namespace hmc::collectives {

/// By process_vm_readv, which goes on whatever the owner does meanwhile. The system may refuse it (Yama, seccomp,
/// another user's or namespace's process), so each rank tries it on each of its team when the team is made, and what
/// it found stands in its board. Where Yama confines tracing nobody tries, as the kernel's log tells of each attempt,
/// unless the user says that peers may. Threads: as DirectTeam's.
class PeerReads {
 public:
  /// What HMC_COLL_PRIVATE says; nothing is auto. A rank that stages says that it can read from nobody.
  explicit PeerReads(std::string_view wish) noexcept;
  PeerReads(const PeerReads&) = delete;
  PeerReads& operator=(const PeerReads&) = delete;

  /// What peers need to try it; before they do.
  void show(ProbeLine& line) const noexcept;
  /// Whether it works with this peer.
  bool try_on(const ProbeLine& theirs) const noexcept;
  bool wanted() const noexcept { return wanted_; }
  /// Wherever it can be done, whether it is quicker or not.
  bool forced() const noexcept { return forced_; }

  /// Whether the system would let a peer read this memory of mine: a device's, mapped for the host, it may not.
  bool is_readable(const void* memory, std::size_t bytes) const noexcept;
  /// Takes `bytes` from `address` of that process; `peer`, a world rank, is what a failure names.
  static base::Status read(std::int32_t process, std::uint64_t address, void* to, std::size_t bytes, int peer) noexcept;

 private:
  bool wanted_;
  bool forced_;
  std::int32_t process_;
  std::uint64_t nonce_;  // what peers try to read
};

}  // namespace hmc::collectives
