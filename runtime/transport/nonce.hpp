// Random numbers for secrets and keys.
#pragma once

#include <sys/random.h>

#include <cerrno>
#include <cstdint>

#include <hmc/error.hpp>

namespace hmc::transport {

/// 64 random bits from the kernel, never 0. Throws Error.
inline std::uint64_t make_nonce() {
  std::uint64_t nonce = 0;
  while (nonce == 0) {
    if (::getrandom(&nonce, sizeof nonce, 0) == sizeof nonce) continue;
    nonce = 0;
    if (errno == EINTR) continue;
    ErrorDetail detail;
    detail.operation = "wire";
    detail.sys_errno = errno;
    detail.message = "getrandom failed";
    throw Error(std::move(detail));
  }
  return nonce;
}

}  // namespace hmc::transport
