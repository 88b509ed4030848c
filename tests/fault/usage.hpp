// Usage: system resources that this process holds. Tests compare two of them.
#pragma once

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <thread>

namespace hmc::fault {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool memory_is_ours =
    false;  // a sanitizer keeps freed memory to itself, and maps more for its own use
#else
inline constexpr bool memory_is_ours = true;
#endif

/// Files named after HMC or UCX. Other programs create and remove other files.
inline std::set<std::string> our_files() {
  std::set<std::string> names;
  for (const char* folder : {"/dev/shm", "/tmp"}) {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
      const std::string name = entry.path().filename();
      if (name.find("hmc") != std::string::npos || name.find("ucx") != std::string::npos) names.insert(entry.path());
    }
  }
  return names;
}

/// malloc keeps freed memory and may add arenas, which could hide or imitate a leak. With one arena, trimmed before
/// each measurement, the resident size shows what the program holds.
inline const bool one_arena = ::mallopt(M_ARENA_MAX, 1) == 1;

struct Usage {
  std::size_t descriptors = entries("/proc/self/fd");
  std::size_t threads = entries("/proc/self/task");
  std::set<std::string> files = our_files();
  std::size_t resident = 0;
  std::size_t mappings = 0;

  Usage() {
    ::malloc_trim(0);
    std::size_t total = 0;
    std::ifstream("/proc/self/statm") >> total >> resident;
    resident *= static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);)
      if (memory_is_ours || !is_private_and_nameless(line)) ++mappings;
  }

  /// Returns an empty string if nothing grew. A leak of 300 bytes per round shows after a thousand rounds.
  std::string growth_since(const Usage& before, bool count_memory) const {
    std::string grown;
    const auto note = [&](const char* what, std::size_t was, std::size_t is, std::size_t allowed) {
      if (is > was + allowed)
        grown += std::string(what) + " " + std::to_string(was) + " -> " + std::to_string(is) + "; ";
    };
    note("descriptors", before.descriptors, descriptors, 0);
    note("threads", before.threads, threads, 0);
    note("mappings", before.mappings, mappings, 8);
    if (count_memory) note("resident bytes", before.resident, resident, std::size_t{256} << 10);
    std::set<std::string> left;
    std::set_difference(files.begin(), files.end(), before.files.begin(), before.files.end(),
                        std::inserter(left, left.end()));
    for (const std::string& name : those_that_stay(left)) grown += name + " was left; ";
    return grown;
  }

 private:
  /// Files of a test that runs concurrently disappear within seconds.
  static std::set<std::string> those_that_stay(std::set<std::string> names) {
    for (int look = 0; look < 100 && !names.empty(); ++look) {
      for (auto name = names.begin(); name != names.end();)
        name = std::filesystem::exists(*name) ? std::next(name) : names.erase(name);
      if (!names.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return names;
  }
  /// "7f00-7f10 rw-p 00000000 00:00 0": private anonymous mappings of malloc and the sanitizers. Windows are shared
  /// mappings.
  static bool is_private_and_nameless(const std::string& mapping) {
    std::istringstream fields(mapping);
    std::string range, rights, offset, device, inode, name;
    fields >> range >> rights >> offset >> device >> inode >> name;
    return rights.size() == 4 && rights[3] == 'p' && name.empty();
  }
  static std::size_t entries(const char* folder) {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
    return count;
  }
};

}  // namespace hmc::fault
