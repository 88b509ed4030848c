#include "runtime/base/limits.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <limits>
#include <map>
#include <string_view>
#include <vector>

#include <hmc/error.hpp>

#include "runtime/base/fd.hpp"
#include "runtime/base/machine.hpp"

namespace hmc::base {

namespace {

std::uint64_t hash_of(std::string_view text, std::uint64_t hash = 0xcbf29ce484222325U) noexcept {  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

/// The number in a file; nullopt if the file doesn't exist or contains "max".
std::optional<std::uint64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

/// The value of `name` in a file of lines "name value" or "name: value kB"; 0 if absent.
std::uint64_t field_of(const std::string& path, std::string_view name) {
  std::ifstream file(path);
  std::string word;
  std::uint64_t value = 0;
  while (file >> word) {
    if (word == name && file >> value) return value;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return 0;
}

std::uint64_t plus(std::uint64_t a, std::uint64_t b) noexcept { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }
std::uint64_t minus(std::uint64_t a, std::uint64_t b) noexcept { return a > b ? a - b : 0; }

/// File names of one cgroup version. The kernel reclaims a cgroup's clean file pages when it needs memory.
struct GroupFiles {
  const char* limit;
  const char* usage;
  const char* reclaimable;
};
constexpr GroupFiles version_2{"memory.max", "memory.current", "inactive_file"};
constexpr GroupFiles version_1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};

struct GroupRoom {
  std::uint64_t bytes = UINT64_MAX;
  std::string path;  ///< of the cgroup that has this limit
};

/// The least memory that is free under the limits of a cgroup and its ancestors, plus the swap that the cgroup may use.
GroupRoom room_in(const std::string& root, std::string path, const GroupFiles& files, std::uint64_t swap) {
  GroupRoom least;
  for (;;) {
    const std::string here = root + path + "/";
    const auto limit = number_in(here + files.limit);
    const auto usage = number_in(here + files.usage);
    if (limit && usage) {
      const std::uint64_t used = minus(*usage, field_of(here + "memory.stat", files.reclaimable));
      const std::uint64_t swap_limit = number_in(here + "memory.swap.max").value_or(UINT64_MAX);
      const std::uint64_t swap_used = number_in(here + "memory.swap.current").value_or(0);
      const std::uint64_t bytes = plus(minus(*limit, used), std::min(swap, minus(swap_limit, swap_used)));
      if (bytes < least.bytes) least = {bytes, here};
    }
    if (path.empty()) return least;
    path.erase(path.rfind('/'));
  }
}

/// Sets the group fields of `room` from this process's cgroup. Cgroups that are limited by the same ancestor have the
/// same `group`.
void look_at_group(AvailableMemory& room, std::uint64_t swap) {
  std::ifstream file("/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool is_second_version = controllers == ",,";
    if (!is_second_version && controllers.find(",memory,") == std::string::npos) continue;
    std::string path = line.substr(second + 1);
    const std::string root = is_second_version ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    // In a container the path may be a path of the host, which isn't mounted here. In that case the root of the mount
    // is the cgroup.
    struct stat status {};
    if (path == "/" || ::stat((root + path).c_str(), &status) != 0) path.clear();
    const GroupRoom group = room_in(root, path, is_second_version ? version_2 : version_1, swap);
    if (group.bytes >= room.group_bytes) continue;
    room.group_bytes = group.bytes;
    struct stat space {};
    // Two containers may have equal paths below their mounts. The namespace or the line in /proc/self/cgroup
    // distinguishes them.
    (void)::stat("/proc/self/ns/cgroup", &space);
    const std::uint64_t container = room.machine ^ static_cast<std::uint64_t>(space.st_ino);
    room.group = hash_of(group.path, path.empty() ? hash_of(line, container) : container);
  }
}

std::string ranks_text(const std::vector<int>& ranks) {
  if (ranks.front() < 0) return "this process";
  if (ranks.size() == 1) return fmt::format("rank {}", ranks.front());
  const bool run = ranks.back() - ranks.front() + 1 == static_cast<int>(ranks.size());
  if (run) return fmt::format("ranks {}-{}", ranks.front(), ranks.back());
  return fmt::format("{} ranks from {} to {}", ranks.size(), ranks.front(), ranks.back());
}

/// The demands on one machine, or in one cgroup.
struct Sum {
  std::uint64_t needed = 0;
  std::uint64_t available = UINT64_MAX;
  std::vector<int> ranks;

  void add(const MemoryDemand& demand, std::uint64_t room) {
    needed = plus(needed, demand.bytes);
    available = std::min(available, room);
    ranks.push_back(demand.rank);
  }
  std::optional<std::string> shortage(const char* where) const {
    if (needed <= available) return std::nullopt;
    return fmt::format("{} need{} {} bytes{}, and {} bytes are available {}", ranks_text(ranks),
                       ranks.size() == 1 ? "s" : "", needed, ranks.size() == 1 ? "" : " in all", available, where);
  }
};

}  // namespace

AvailableMemory available_memory() {
  constexpr const char* meminfo = "/proc/meminfo";
  AvailableMemory room;
  room.machine = machine_id();
  const std::uint64_t swap = field_of(meminfo, "SwapFree:") * 1024;
  const std::uint64_t available = field_of(meminfo, "MemAvailable:") * 1024;
  if (available > 0) room.machine_bytes = plus(available, swap);
  look_at_group(room, swap);
  return room;
}

std::optional<std::string> memory_shortage(std::span<const MemoryDemand> demands) {
  std::map<std::uint64_t, Sum> machines, groups;
  for (const MemoryDemand& each : demands) {
    if (each.bytes == 0) continue;
    machines[each.room.machine].add(each, each.room.machine_bytes);
    groups[each.room.group].add(each, each.room.group_bytes);
  }
  for (const auto& [number, sum] : machines)
    if (auto text = sum.shortage("on the machine")) return text;
  for (const auto& [number, sum] : groups)
    if (auto text = sum.shortage("in the cgroup")) return text;
  return std::nullopt;
}

void require_memory(const char* operation, std::uint64_t bytes) {
  if (bytes < worth_a_look) return;
  const MemoryDemand demand{-1, bytes, available_memory()};
  const auto shortage = memory_shortage({&demand, 1});
  if (!shortage) return;
  ErrorDetail detail;
  detail.code = Code::out_of_memory;
  detail.operation = operation;
  detail.size = bytes;
  detail.has_extent = true;
  detail.message = *shortage;
  detail.hint = memory_hint;
  throw Error(std::move(detail));
}

bool refuses_pages_at_use() noexcept {
  static const bool refuses = number_in("/proc/sys/vm/overcommit_memory").value_or(0) == 2;
  return refuses;
}

bool has_descriptors(int count, int any) noexcept {
  constexpr std::size_t most = 8;
  std::array<UniqueFd, most> taken;
  const auto wanted = std::min(static_cast<std::size_t>(count), most);
  for (std::size_t i = 0; i < wanted; ++i) {
    taken[i].reset(::fcntl(any, F_DUPFD_CLOEXEC, 0));
    if (!taken[i]) return false;
  }
  return true;
}

std::string descriptor_limit(int error) {
  if (error == ENFILE) return "the system's table of open files is full (fs.file-max)";
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return "RLIMIT_NOFILE (ulimit -n) isn't known";
  return fmt::format("RLIMIT_NOFILE (ulimit -n) is {}", limit.rlim_cur);
}

std::string no_thread_text(const char* purpose, const std::system_error& error) {
  std::string text = fmt::format("{} can't be started: {}", purpose, error.code().message());
  rlimit limit{};
  if (error.code().value() == EAGAIN && ::getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    text += fmt::format("; RLIMIT_NPROC (ulimit -u) is {}", limit.rlim_cur);
  return text;
}

void throw_no_thread(const char* purpose, const std::system_error& error) {
  ErrorDetail detail;
  detail.code = Code::error;
  detail.operation = "thread";
  detail.sys_errno = error.code().value();
  detail.message = no_thread_text(purpose, error);
  if (detail.sys_errno == EAGAIN) detail.hint = "raise `ulimit -u`, or the limit of tasks of this container or session";
  throw Error(std::move(detail));
}

}  // namespace hmc::base
