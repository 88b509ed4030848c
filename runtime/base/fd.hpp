// UniqueFd: owns a file descriptor. longest_poll_ms: for threads that sleep in poll.
#pragma once

#include <unistd.h>

#include <utility>

namespace hmc::base {

/// A thread that sleeps until a descriptor wakes it also wakes after this time: a program that closes all descriptors
/// of its process closes this one, too, and poll goes on with the closed file.
inline constexpr int longest_poll_ms = 1000;

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) noexcept : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~UniqueFd() { reset(); }

  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  int release() noexcept { return std::exchange(fd_, -1); }
  void reset(int fd = -1) noexcept {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

}  // namespace hmc::base
