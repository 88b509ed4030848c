#include "launcher/report.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <string>

namespace hmc::launcher {

UsageError::UsageError(const std::string& text)
    : LaunchError(exit_usage,
                  text + "\nusage: hmcrun -np N [options] program [arguments]   (hmcrun --help lists the options)") {}

int status_of(int wait_status) noexcept {
  return WIFSIGNALED(wait_status) ? exit_signal_base + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

std::string signal_name(int signal) {
  const char* const name = ::sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", name);
}

std::string describe_end(int wait_status) {
  if (!WIFSIGNALED(wait_status)) return fmt::format("exited with status {}", WEXITSTATUS(wait_status));
  const int signal = WTERMSIG(wait_status);
  return fmt::format("was killed by signal {} ({}){}", signal, signal_name(signal),
                     WCOREDUMP(wait_status) ? ", core dumped" : "");
}

void print_text(std::string_view text) noexcept {
  try {
    std::string line = "hmcrun: ";
    for (const char c : text) {
      line += c;
      if (c == '\n') line += "hmcrun: ";
    }
    line += '\n';
    // Ignore errors: stderr may be closed.
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
  } catch (...) {  // no memory for the message: the exit status still reports the failure
  }
}

}  // namespace hmc::launcher
