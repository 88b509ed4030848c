#include "runtime/base/process_stat.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <string>

namespace hmc::base {

std::optional<ProcessStat> stat_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  // "N (name) state parent group session terminal foreground flags ...". The name may contain any character.
  const std::size_t name_end = text.rfind(')');
  ProcessStat stat;
  unsigned flags = 0;
  if (name_end == std::string::npos ||
      std::sscanf(text.c_str() + name_end + 1, " %c %d %*d %*d %*d %*d %u", &stat.state, &stat.parent, &flags) != 3)
    return std::nullopt;
  constexpr unsigned exiting = 4;  // the kernel's PF_EXITING: set before the process's descriptors are closed
  stat.is_over = (flags & exiting) != 0 || stat.state == 'Z' || stat.state == 'X';
  return stat;
}

}  // namespace hmc::base
