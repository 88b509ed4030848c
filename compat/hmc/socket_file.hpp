// SocketFile: a listening Unix socket with a name in the file system.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "runtime/base/fd.hpp"

namespace hmc::compat {

/// The destructor removes the file.
class SocketFile {
 public:
  /// Replaces a file that no process listens on. Throws Error if a process listens, or the file isn't a socket.
  explicit SocketFile(const std::string& path);
  ~SocketFile();
  SocketFile(const SocketFile&) = delete;
  SocketFile& operator=(const SocketFile&) = delete;
  base::UniqueFd take() noexcept { return std::move(socket_); }
  /// Empty if no process listens.
  static base::UniqueFd connect(const std::string& path);

 private:
  std::string path_;
  base::UniqueFd socket_;
  std::uint64_t device_ = 0, inode_ = 0;  // the file is removed only while it is still this one
};

}  // namespace hmc::compat
