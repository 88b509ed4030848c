// SignalMask: keeps signals away from threads that are started while it lives.
#pragma once

#include <csignal>

namespace hmc::transport::am {

/// A thread inherits its creator's mask. Signals are for the user's threads: a handler of theirs must
/// not run on one of ours or a library's.
class SignalMask {
 public:
  SignalMask() noexcept {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &saved_);
  }
  ~SignalMask() { ::pthread_sigmask(SIG_SETMASK, &saved_, nullptr); }
  SignalMask(const SignalMask&) = delete;
  SignalMask& operator=(const SignalMask&) = delete;

 private:
  sigset_t saved_;
};

}  // namespace hmc::transport::am
