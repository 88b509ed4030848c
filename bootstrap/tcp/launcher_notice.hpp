// name_cause, name_cause_and_ask: name the cause of this process's failure to hmcrun.
#pragma once

#include <sys/types.h>

#include <string>

#include "runtime/base/env.hpp"

namespace hmc::bootstrap {

/// True if hmcrun started this process. A Runtime over a key-value store isn't served by hmcrun's control plane, so
/// hmcrun sees only the exits of its ranks, in any order.
bool has_launcher(const base::Env& env) noexcept;

/// Tells hmcrun that this process fails because of process `cause` of this machine. Then hmcrun exits with the status
/// of `cause`, even if this process exits first. On return hmcrun knows it, unless it doesn't answer within half a
/// second.
void name_cause(const base::Env& env, pid_t cause) noexcept;
/// The same, and returns hmcrun's text about the first rank that has failed, which has the signal; empty if `cause`
/// doesn't end within half a second.
std::string name_cause_and_ask(const base::Env& env, pid_t cause) noexcept;

}  // namespace hmc::bootstrap
