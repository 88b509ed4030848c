// What the system still gives to this process: memory, descriptors, threads.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <system_error>

namespace hmc::base {

/// The memory that a rank can still take on its machine and in its cgroup, swap included, before the kernel kills a
/// process. UINT64_MAX: no limit is known.
struct MemoryRoom {
  std::uint64_t machine = 0;  ///< equal for processes of one running kernel
  std::uint64_t machine_bytes = UINT64_MAX;
  std::uint64_t group = 0;  ///< equal for processes whose room has one cgroup's limit
  std::uint64_t group_bytes = UINT64_MAX;
};
MemoryRoom memory_room();

/// What several ranks ask for together.
struct MemoryDemand {
  int rank = -1;
  std::uint64_t bytes = 0;
  MemoryRoom room;
};
/// "ranks 0-3 need ... bytes in all, and ... bytes are available on their machine"; nothing if there is room for all.
/// The same on every rank that gives the same demands.
std::optional<std::string> memory_shortage(std::span<const MemoryDemand> demands);

/// Whether `count` more descriptors can be had. `any`: an open one.
bool has_descriptors(int count, int any) noexcept;
/// The limit that a call met: "RLIMIT_NOFILE (ulimit -n) is 64" for EMFILE, the system's own for ENFILE.
std::string descriptor_limit(int error = EMFILE);

/// "the progress thread can't be started: Resource temporarily unavailable; RLIMIT_NPROC (ulimit -u) is 1".
std::string no_thread_text(const char* purpose, const std::system_error& error);
/// Error{error} that names the limit where there is one. `purpose`: "the progress thread".
[[noreturn]] void throw_no_thread(const char* purpose, const std::system_error& error);

}  // namespace hmc::base
