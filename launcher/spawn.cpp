#include "launcher/spawn.hpp"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace hmc::launcher {

namespace {

/// Written by the child; the parent reads it after vfork has returned.
struct Report {
  volatile int error = 0;
  const char* volatile step = nullptr;
};

[[noreturn]] void give_up(Report& report, const char* step) noexcept {
  report.error = errno;
  report.step = step;
  ::_exit(1);
}

bool redirect(int from, int to) noexcept { return from < 0 || ::dup2(from, to) == to; }

/// A script's background jobs ignore INT and QUIT. A rank must not ignore them, and neither does hmcrun. All other
/// dispositions are inherited (nohup).
void restore_signals(const Inherited& inherited) noexcept {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGQUIT, &action, nullptr);
  ::sigprocmask(SIG_SETMASK, &inherited.signal_mask, nullptr);
}

/// As execvp: executes a file without a known header as a shell script.
void execute(const SpawnRequest& request, char** shell_argv) noexcept {
  ::execve(request.program, request.argv, request.envp);
  if (errno != ENOEXEC) return;
  ::execve("/bin/sh", shell_argv, request.envp);
}

/// Runs in the child, which still shares the parent's memory, so it may only make system calls.
[[noreturn]] void become(const SpawnRequest& request, char** shell_argv, pid_t parent, Report& report) noexcept {
  if (::setpgid(0, 0) != 0) give_up(report, "setpgid");
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) give_up(report, "prctl");
  if (::getppid() != parent) ::_exit(1);  // the parent exited before the prctl took effect
  if (request.cpus != nullptr && !request.cpus->empty() &&
      ::sched_setaffinity(0, request.cpus->bytes(), reinterpret_cast<const cpu_set_t*>(request.cpus->words())) != 0)
    give_up(report, "sched_setaffinity");
  if (!redirect(request.in, STDIN_FILENO) || !redirect(request.out, STDOUT_FILENO) ||
      !redirect(request.err, STDERR_FILENO))
    give_up(report, "dup2");
  ::setrlimit(RLIMIT_NOFILE, &request.inherited->descriptors);
  restore_signals(*request.inherited);
  execute(request, shell_argv);
  give_up(report, "execve");
}

}  // namespace

Inherited Inherited::now() noexcept {
  Inherited inherited{};
  ::sigprocmask(SIG_SETMASK, nullptr, &inherited.signal_mask);
  ::getrlimit(RLIMIT_NOFILE, &inherited.descriptors);
  return inherited;
}

SpawnResult spawn(const SpawnRequest& request) noexcept {
  std::size_t words = 0;
  while (request.argv[words] != nullptr) ++words;
  char shell[] = "/bin/sh";
  auto** const shell_argv = new char*[words + 2];
  shell_argv[0] = shell;
  shell_argv[1] = const_cast<char*>(request.program);
  for (std::size_t i = 1; i <= words; ++i) shell_argv[i + 1] = request.argv[i];

  Report report;
  const pid_t parent = ::getpid();
  // The cost of vfork doesn't grow with this process's memory, and the result of exec is known when it returns.
  const pid_t pid = ::vfork();
  if (pid == 0) become(request, shell_argv, parent, report);
  const int fork_error = errno;
  delete[] shell_argv;
  if (pid < 0) return {-1, fork_error, "fork"};
  if (report.step != nullptr) {
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    return {-1, report.error, report.step};
  }
  return {pid, 0, nullptr};
}

}  // namespace hmc::launcher
