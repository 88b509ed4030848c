// ProcessStat: the state of another process of this machine, from /proc.
#pragma once

#include <sys/types.h>

#include <optional>

namespace hmc::base {

struct ProcessStat {
  char state = '?';      ///< as in proc(5): R, S, T, Z, ...
  pid_t parent = 0;      ///< 0: outside of this process's pid namespace
  bool is_over = false;  ///< it exits or has exited: it executes no further instruction of its program
  bool is_stopped() const noexcept { return state == 'T' || state == 't'; }
};

/// nullopt if there is no such process (it was reaped), or without /proc.
std::optional<ProcessStat> stat_of(pid_t pid);

}  // namespace hmc::base
