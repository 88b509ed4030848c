#include "compat/hmc/socket_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include <hmc/error.hpp>

#include "runtime/base/deadline.hpp"

namespace hmc::compat {

namespace {

constexpr auto full_queue_timeout = std::chrono::seconds(10);

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path)
    throw Error(Code::invalid_config, "control",
                fmt::format("'{}': a socket's path has 1 to {} bytes", path, sizeof address.sun_path - 1));
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

base::UniqueFd unix_socket() {
  base::UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) throw Error(Code::error, "control", fmt::format("socket: {}", std::strerror(errno)));
  return socket;
}

/// Holds the lock of a file's folder, so that processes that bind the same path do so one after another.
class FolderLock {
 public:
  explicit FolderLock(const std::string& path) {
    const auto slash = path.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
    folder_.reset(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder_) throw Error(Code::error, "control", fmt::format("{}: {}", folder, std::strerror(errno)));
    const auto limit = base::Deadline::after(std::chrono::seconds(5));
    // A process of another user may hold the lock of a shared folder forever. Then this process binds without the lock.
    while (::flock(folder_.get(), LOCK_EX | LOCK_NB) != 0 && !limit.expired()) (void)::poll(nullptr, 0, 2);
  }

 private:
  base::UniqueFd folder_;
};

}  // namespace

SocketFile::SocketFile(const std::string& path) : path_(path), socket_(unix_socket()) {
  const sockaddr_un address = address_of(path);
  const FolderLock lock(path);
  const auto bind = [&] {
    return ::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  };
  struct stat there {};
  if (!bind()) {
    if (errno != EADDRINUSE) throw Error(Code::error, "control", fmt::format("{}: {}", path, std::strerror(errno)));
    if (::lstat(path.c_str(), &there) == 0 && !S_ISSOCK(there.st_mode))
      throw Error(Code::invalid_config, "control", fmt::format("{} is a file, not a socket", path));
    if (connect(path))
      throw Error(Code::invalid_config, "control", fmt::format("another process listens on {}", path),
                  "use another path, or set a different HMC_SECRET for each job and take the path from udsPathFor");
    // Left behind by a process that was killed.
    if (::unlink(path.c_str()) != 0 || !bind())
      throw Error(Code::error, "control", fmt::format("{}: {}", path, std::strerror(errno)));
  }
  if (::lstat(path.c_str(), &there) == 0) {
    device_ = there.st_dev;
    inode_ = there.st_ino;
  }
  (void)::chmod(path.c_str(), 0600);
  if (::listen(socket_.get(), SOMAXCONN) != 0)
    throw Error(Code::error, "control", fmt::format("listen on {}: {}", path, std::strerror(errno)));
}

SocketFile::~SocketFile() {
  struct stat there {};
  if (::lstat(path_.c_str(), &there) == 0 && there.st_dev == device_ && there.st_ino == inode_)
    (void)::unlink(path_.c_str());
}

base::UniqueFd SocketFile::connect(const std::string& path) {
  base::UniqueFd socket = unix_socket();
  const sockaddr_un address = address_of(path);
  const auto limit = base::Deadline::after(full_queue_timeout);
  while (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (errno != EAGAIN && errno != EINTR) return {};  // EAGAIN: the listener's queue is full
    if (limit.expired()) return {};
    (void)::poll(nullptr, 0, 2);
  }
  return socket;
}

}  // namespace hmc::compat
