// Non-blocking sends and receives of a socket, with file descriptors.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/fd.hpp"

namespace hmc::base {

/// The kernel passes at most this many descriptors with one message (SCM_MAX_FD).
inline constexpr std::size_t most_fds_per_message = 253;

enum class Io { some, would_block, ended, failed };
struct IoResult {
  Io io = Io::would_block;
  std::size_t bytes = 0;
  int error = 0;
};
/// Descriptors are sent with the first byte.
IoResult send_some(int socket, ByteView bytes, const std::vector<int>& fds) noexcept;
/// Appends received descriptors to `fds`; they are close-on-exec. Fails with EMFILE if some couldn't be received.
IoResult receive_some(int socket, std::span<std::byte> into, std::vector<UniqueFd>& fds);

}  // namespace hmc::base
