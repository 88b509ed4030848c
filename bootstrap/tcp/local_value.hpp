// LocalValue: a value that one process offers to the other processes of its user on this machine.
#pragma once

#include <optional>
#include <string>

#include "runtime/base/bytes.hpp"
#include "runtime/base/deadline.hpp"
#include "runtime/base/fd.hpp"
#include "runtime/control/secret.hpp"
#include "runtime/control/watcher.hpp"

namespace hmc::bootstrap {

/// Sends the value over an abstract Unix socket, until destroyed. The secret hides the socket's name: other users can't
/// compute it, and so can't take it first. Both sides check the peer's uid (SO_PEERCRED), so no
/// other user can read or forge it, and it isn't stored in a file.
class LocalValue {
 public:
  static constexpr std::size_t longest = 4096;  // always fits into a new socket's buffer
  /// `secret` and `name`: equal for all processes of the job. Throws Error{invalid_config} if the name is in use.
  LocalValue(const control::Secret& secret, const std::string& name, base::Bytes value);

  /// Waits until another process offers the value. nullopt at the deadline. Throws Error{refused} if that process
  /// belongs to another user.
  static std::optional<base::Bytes> fetch(const control::Secret& secret, const std::string& name,
                                          base::Deadline deadline);

 private:
  base::Bytes value_;
  base::UniqueFd listener_;
  control::Watcher watcher_;  // last: its thread uses the other members
};

}  // namespace hmc::bootstrap
