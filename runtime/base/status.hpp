// Status: the result of functions on the data path, which is noexcept.
#pragma once

#include <hmc/error.hpp>

namespace hmc::base {

/// Small and trivially copyable. `what` is a string literal or null. The public API converts a failure to an Error and
/// adds operation, rank, offset and size.
struct [[nodiscard]] Status {
  Code code = Code::success;
  int peer = -1;
  int sys_errno = 0;
  const char* what = nullptr;

  constexpr bool ok() const noexcept { return code == Code::success; }
  constexpr explicit operator bool() const noexcept { return ok(); }

  static constexpr Status failure(Code code, const char* what, int peer = -1, int sys_errno = 0) noexcept {
    return Status{code, peer, sys_errno, what};
  }
  static constexpr Status in_progress() noexcept { return Status{Code::in_progress, -1, 0, nullptr}; }
};

}  // namespace hmc::base
