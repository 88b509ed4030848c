// ServiceThread: a thread of ours in a process that is somebody else's.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

#include "runtime/base/limits.hpp"

namespace hmc::bootstrap {

/// The process's signal handlers never run on it; only faults of its own code do. `name` is what ps
/// and debuggers show, at most 15 characters.
template <typename Body> std::thread service_thread(const char* name, Body&& body) {
  sigset_t ours;
  sigset_t before;
  sigfillset(&ours);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP}) sigdelset(&ours, fault);
  pthread_sigmask(SIG_SETMASK, &ours, &before);  // a new thread inherits it
  std::thread thread;
  try {
    thread = std::thread(std::forward<Body>(body));
  } catch (const std::system_error& error) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    base::throw_no_thread(name, error);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread.native_handle(), name);
  return thread;
}

}  // namespace hmc::bootstrap
