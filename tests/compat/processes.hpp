// Child processes of a test.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <iterator>

namespace hmc::compat {

/// Runs `body` in a child and passes on its exit status: 0 if it returns true. Must be constructed before this process
/// uses HMC, which starts threads.
class Child {
 public:
  template <typename Body> explicit Child(Body&& body) {
#ifndef __SANITIZE_THREAD__  // which starts a thread of its own; the child of several threads couldn't start any there
    const std::filesystem::directory_iterator threads("/proc/self/task");
    EXPECT_EQ(std::distance(begin(threads), end(threads)), 1);
#endif
    pid_ = ::fork();
    if (pid_ == 0) ::_exit(body() ? 0 : 1);
  }
  ~Child() {
    if (pid_ > 0) kill();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void kill() {
    ::kill(pid_, SIGKILL);
    (void)join();
  }
  bool join() {
    int status = -1;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

 private:
  pid_t pid_ = -1;
};

/// Passes numbers between processes.
class Pipe {
 public:
  Pipe() { EXPECT_EQ(::pipe(ends_.data()), 0); }
  ~Pipe() {
    for (const int end : ends_) ::close(end);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void put(int value) const { (void)!::write(ends_[1], &value, sizeof value); }
  int get() const {
    int value = -1;
    (void)!::read(ends_[0], &value, sizeof value);
    return value;
  }

 private:
  std::array<int, 2> ends_{};
};

}  // namespace hmc::compat
