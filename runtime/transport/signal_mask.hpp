// SignalMask: blocks all signals for threads that are started during its lifetime.
#pragma once

#include <csignal>

namespace hmc::transport {

/// A thread inherits its creator's mask. Signals are for the user's threads: the user's handlers must not run on a
/// thread of HMC or of a library.
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

}  // namespace hmc::transport
