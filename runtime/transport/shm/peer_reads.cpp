#include "runtime/transport/shm/peer_reads.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

namespace hmc::transport {

using base::Status;

namespace {

/// Differs between processes, so a process id from another PID namespace is detected.
std::uint64_t draw_nonce(const void* self, std::int32_t process) noexcept {
  const auto now = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  return (now ^ reinterpret_cast<std::uintptr_t>(self)) * 0x9e3779b97f4a7c15U + static_cast<std::uint64_t>(process);
}

/// ptrace_scope 0: processes of the same user may read. Without Yama the file doesn't exist.
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
  // With Yama's ptrace_scope 1 a process must permit other processes to read its memory. The permission is permanent
  // and holds for all processes of the user, so it is set only on request. With other values the call has no effect or
  // fails, which isn't an error.
  if (wish == "allow") ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
}

ReadProbe PeerReads::probe() const noexcept { return {reinterpret_cast<std::uintptr_t>(&nonce_), nonce_, process_}; }

bool PeerReads::try_on(const ReadProbe& theirs) const noexcept {
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

Status PeerReads::write(std::int32_t process, std::uint64_t address, const void* from, std::size_t bytes,
                        int peer) noexcept {
  const auto* const in = static_cast<const std::byte*>(from);
  for (std::size_t done = 0; done < bytes;) {
    iovec here{const_cast<std::byte*>(in) + done, bytes - done};
    iovec there{pointer(address + done), bytes - done};
    const ssize_t put = ::process_vm_writev(process, &here, 1, &there, 1, 0);
    if (put > 0) {
      done += static_cast<std::size_t>(put);
      continue;
    }
    const int error = put < 0 ? errno : EFAULT;
    if (error == ESRCH) return Status::failure(Code::peer_failed, "its process is gone", peer, error);
    return Status::failure(Code::error, "a peer's memory couldn't be written", peer, error);
  }
  return {};
}

}  // namespace hmc::transport
