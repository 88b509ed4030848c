#include "launcher/children.hpp"

#include <dirent.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

namespace hmc::launcher {

namespace {

template <typename Visit> void for_each_number_in(const std::string& folder, Visit visit) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(folder.c_str()), &::closedir);
  if (!dir) return;
  while (const dirent* entry = ::readdir(dir.get())) {
    if (const int number = std::atoi(entry->d_name); number > 0) visit(number);
  }
}

/// The parent of a process, from /proc/N/stat: "N (name) state parent ...". The name may contain any character.
pid_t parent_of(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');
  return name_end == std::string::npos || line.size() < name_end + 4 ? -1 : std::atoi(line.c_str() + name_end + 4);
}

}  // namespace

std::vector<pid_t> children_of_this_process() {
  std::vector<pid_t> found;
  bool readable = false;
  for_each_number_in("/proc/self/task", [&](int thread) {
    std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/children");
    readable |= file.is_open();
    for (pid_t pid = 0; file >> pid;) found.push_back(pid);
  });
  if (readable) return found;
  // A kernel without CONFIG_PROC_CHILDREN: check every process.
  const pid_t self = ::getpid();
  for_each_number_in("/proc", [&](int pid) {
    if (parent_of(pid) == self) found.push_back(pid);
  });
  return found;
}

}  // namespace hmc::launcher
