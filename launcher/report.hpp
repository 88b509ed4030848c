// How hmcrun reports: its exit status, and its messages on stderr, each line beginning with "hmcrun: ".
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace hmc::launcher {

inline constexpr int exit_usage = 2;          ///< the command line is wrong; nothing was started
inline constexpr int exit_timeout = 124;      ///< --timeout passed
inline constexpr int exit_own_failure = 125;  ///< hmcrun itself failed: no descriptors, no memory, ...
inline constexpr int exit_not_executable = 126;
inline constexpr int exit_not_found = 127;
inline constexpr int exit_signal_base = 128;  ///< plus the signal's number

/// Time for the surviving ranks to receive the Error and print it, before they are sent TERM.
inline constexpr std::chrono::milliseconds news_delay{200};

/// hmcrun can't continue: what() is printed on stderr, `status` is the exit status.
class LaunchError : public std::runtime_error {
 public:
  LaunchError(int status, const std::string& text) : std::runtime_error(text), status_(status) {}
  int status() const noexcept { return status_; }

 private:
  int status_;
};

/// The command line is wrong: what() ends with the usage line.
class UsageError : public LaunchError {
 public:
  explicit UsageError(const std::string& text);
};

/// From a wait(2) status: the exit code, or 128 + signal.
int status_of(int wait_status) noexcept;
/// "exited with status 3", "was killed by signal 11 (SIGSEGV), core dumped".
std::string describe_end(int wait_status);
/// "SIGTERM"; "signal 77" if the signal has no name.
std::string signal_name(int signal);

/// One write per call, so that lines of ranks aren't mixed in. Adds a line feed.
void print_text(std::string_view text) noexcept;

template <typename... Args> void print_message(fmt::format_string<Args...> text, Args&&... args) {
  print_text(fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace hmc::launcher
