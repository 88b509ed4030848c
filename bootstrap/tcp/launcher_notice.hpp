// tell_launcher: names the cause of this process's failure to hmcrun.
#pragma once

#include <sys/types.h>

#include <string>

#include "runtime/base/env.hpp"

namespace hmc::bootstrap {

/// True if hmcrun started this process. A Runtime over a key-value store isn't served by hmcrun's control plane, so
/// hmcrun sees only the exits of its ranks, in any order.
bool has_launcher(const base::Env& env) noexcept;

/// Tells hmcrun that this process fails because process `cause` of this machine has failed. Then hmcrun exits with the
/// status of `cause`, even if this process exits first. Returns hmcrun's text about the first rank that has failed,
/// which has the signal; empty if that process doesn't end within half a second.
std::string tell_launcher(const base::Env& env, pid_t cause) noexcept;

}  // namespace hmc::bootstrap
