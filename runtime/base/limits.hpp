// The system's limits for this process: memory, descriptors, threads.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <tuple>

namespace hmc::base {

/// The memory, including swap, that a rank can still allocate on its machine and in its cgroup. Beyond it the kernel
/// kills a process. UINT64_MAX: no known limit.
struct AvailableMemory {
  std::uint64_t machine = 0;  ///< equal for all processes on one running kernel
  std::uint64_t machine_bytes = UINT64_MAX;
  std::uint64_t group = 0;  ///< equal for processes limited by the same cgroup
  std::uint64_t group_bytes = UINT64_MAX;
  static constexpr auto fields = std::tuple(&AvailableMemory::machine, &AvailableMemory::machine_bytes,
                                            &AvailableMemory::group, &AvailableMemory::group_bytes);
};
AvailableMemory available_memory();

/// One rank's part of a collective allocation; rank -1: an allocation of this process alone.
struct MemoryDemand {
  int rank = -1;
  std::uint64_t bytes = 0;
  AvailableMemory room;
};
/// "ranks 0-3 need ... bytes in all, and ... bytes are available on the machine"; nullopt if the memory suffices.
/// Equal demands give the same text on all ranks.
std::optional<std::string> memory_shortage(std::span<const MemoryDemand> demands);

/// A smaller demand isn't checked, because reading the system's files takes 50 us.
constexpr std::uint64_t worth_a_look = std::uint64_t{1} << 20;
inline constexpr const char* memory_hint =
    "use less memory, use fewer ranks per machine, or raise the memory limit of this container or session";
/// For memory that this process takes alone. Throws Error{out_of_memory} if `bytes` exceed the available memory.
void require_memory(const char* operation, std::uint64_t bytes);

/// True if the system refuses a page without memory for it at the first access, by SIGBUS (vm.overcommit_memory is 2).
/// Then shared memory is populated when it is created. Else a first access never fails: without memory the kernel ends
/// a process, as it does when memory is populated.
bool refuses_pages_at_use() noexcept;

/// Duplicates `any`, an open descriptor, to test whether `count` (at most 8) more descriptors can be opened.
bool has_descriptors(int count, int any) noexcept;
/// The limit that a call exceeded: "RLIMIT_NOFILE (ulimit -n) is 64" for EMFILE, the system-wide limit for ENFILE.
std::string descriptor_limit(int error = EMFILE);

/// "the progress thread can't be started: Resource temporarily unavailable; RLIMIT_NPROC (ulimit -u) is 1".
std::string no_thread_text(const char* purpose, const std::system_error& error);
/// Throws Error{error} with the limit, if there is one. `purpose`: "the progress thread".
[[noreturn]] void throw_no_thread(const char* purpose, const std::system_error& error);

}  // namespace hmc::base
