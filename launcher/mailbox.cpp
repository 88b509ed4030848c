#include "launcher/mailbox.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#include "launcher/exit_status.hpp"

namespace hmc::launcher {

Mailbox::Mailbox() : bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!bell_) throw LaunchError(exit_own_failure, "eventfd: no descriptor left (ulimit -n)");
}

void Mailbox::post(SupervisorMessage message) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    messages_.push_back(std::move(message));
  } catch (...) {  // no memory: the keeper still reports the rank's exit
  }
  const std::uint64_t one = 1;
  (void)!::write(bell_.get(), &one, sizeof(one));
}

std::vector<SupervisorMessage> Mailbox::take() {
  std::uint64_t count = 0;
  (void)!::read(bell_.get(), &count, sizeof(count));
  const std::lock_guard lock(mutex_);
  return std::exchange(messages_, {});
}

}  // namespace hmc::launcher
