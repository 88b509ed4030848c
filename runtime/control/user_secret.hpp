// The secret of one user on one machine, for processes without HMC_SECRET.
#pragma once

#include "runtime/control/secret.hpp"

namespace hmc::control {

/// Reads the user's secret from a file of mode 0600, which the first process makes. The file is in the first of:
///   - XDG_RUNTIME_DIR
///   - /run/user/<uid>
///   - /tmp/hmc-<uid>, which is made if necessary
/// that is a directory of this user without access for others. A process of another user can't read it. A process in
/// another mount namespace has another file, unless the namespaces share the folder. Throws Error{invalid_config}.
Secret user_secret();

}  // namespace hmc::control
