#include "collectives/direct/peer_reads.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

namespace hmc::collectives {

using base::Status;

namespace {

/// At nobody else's address stands the same: a process whose number means another one there is found out.
std::uint64_t draw_nonce(const void* self, std::int32_t process) noexcept {
  const auto now = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  return (now ^ reinterpret_cast<std::uintptr_t>(self)) * 0x9e3779b97f4a7c15U + static_cast<std::uint64_t>(process);
}

/// 0: whoever is the same user may read. Without Yama there is no such file.
bool yama_confines() noexcept {
  const int file = ::open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  char scope = '0';
  const bool known = ::read(file, &scope, 1) == 1;
  ::close(file);
  return known && scope != '0';
}

bool wants(std::string_view wish) noexcept {
  if (wish == "staged") return false;
  return wish == "read" || wish == "allow" || !yama_confines();
}

void* pointer(std::uint64_t address) noexcept { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)); }

}  // namespace

PeerReads::PeerReads(std::string_view wish) noexcept
    : wanted_(wants(wish)), forced_(wish == "read"), process_(::getpid()), nonce_(draw_nonce(this, process_)) {
  // Where Yama asks a process to name who may read it. It stays said, and names everybody of this user's: so only if
  // the user wants it. Elsewhere the call fails, and nothing needs it.
  if (wish == "allow") ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
}

void PeerReads::show(ProbeLine& line) const noexcept {
  line.process = process_;
  line.address = reinterpret_cast<std::uintptr_t>(&nonce_);
  line.nonce = nonce_;
}

bool PeerReads::try_on(const ProbeLine& theirs) const noexcept {
  std::uint64_t found = 0;
  return read(theirs.process, theirs.address, &found, sizeof found, -1).ok() && found == theirs.nonce;
}

bool PeerReads::is_readable(const void* memory, std::size_t bytes) const noexcept {
  char ends[2];
  iovec to{ends, sizeof ends};
  char* const first = const_cast<char*>(static_cast<const char*>(memory));
  const iovec from[2] = {{first, 1}, {first + bytes - 1, 1}};
  return ::process_vm_readv(process_, &to, 1, from, 2, 0) == 2;
}

Status PeerReads::read(std::int32_t process, std::uint64_t address, void* to, std::size_t bytes, int peer) noexcept {
  auto* const out = static_cast<std::byte*>(to);
  for (std::size_t done = 0; done < bytes;) {
    iovec here{out + done, bytes - done};
    iovec there{pointer(address + done), bytes - done};
    const ssize_t got = ::process_vm_readv(process, &here, 1, &there, 1, 0);  // up to 2 GiB at once
    if (got > 0) {
      done += static_cast<std::size_t>(got);
      continue;
    }
    const int error = got < 0 ? errno : EFAULT;
    if (error == ESRCH) return Status::failure(Code::peer_failed, "its process is gone", peer, error);
    return Status::failure(Code::error, "a peer's buffer couldn't be read; HMC_COLL_PRIVATE=staged copies it", peer,
                           error);
  }
  return {};
}

}  // namespace hmc::collectives
