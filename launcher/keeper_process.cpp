#include "launcher/keeper_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "runtime/base/poller.hpp"

namespace hmc::launcher {

namespace {

/// Written by the child; the parent reads it after vfork has returned.
struct Report {
  volatile int error = 0;
  const char* volatile step = nullptr;
};

[[noreturn]] void exit_with(Report& report, const char* step) noexcept {
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
  if (::setpgid(0, 0) != 0) exit_with(report, "setpgid");
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) exit_with(report, "prctl");
  if (::getppid() != parent) ::_exit(1);  // the parent exited before the prctl took effect
  if (request.cpus != nullptr && !request.cpus->empty() &&
      ::sched_setaffinity(0, request.cpus->bytes(), reinterpret_cast<const cpu_set_t*>(request.cpus->words())) != 0)
    exit_with(report, "sched_setaffinity");
  if (!redirect(request.in, STDIN_FILENO) || !redirect(request.out, STDOUT_FILENO) ||
      !redirect(request.err, STDERR_FILENO))
    exit_with(report, "dup2");
  if (request.folder != nullptr && ::chdir(request.folder) != 0) exit_with(report, "chdir");
  ::setrlimit(RLIMIT_NOFILE, &request.inherited->descriptors);
  restore_signals(*request.inherited);
  execute(request, shell_argv);
  exit_with(report, "execve");
}

}  // namespace

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

namespace {

/// Time for helpers that clean up after the exit of their parent (Python's resource tracker). It is less than the 2 s
/// within which hmcrun guarantees that no process of the job is left.
constexpr std::chrono::milliseconds grace{500};
/// A process in an uninterruptible system call can't be killed. After this time hmcrun is notified and may exit.
constexpr std::chrono::seconds kill_timeout{5};
constexpr int kill_again_ms = 10;

base::UniqueFd open_child_events() noexcept {
  sigset_t children;
  ::sigemptyset(&children);
  ::sigaddset(&children, SIGCHLD);
  // The keeper blocks all signals: it exits with hmcrun, or with its last descendant.
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  return base::UniqueFd(::signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK));
}

base::UniqueFd open_output_file(const std::string& path) noexcept {
  return base::UniqueFd(path.empty() ? -1 : ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
}

}  // namespace

void rename_process(std::span<char> title_area) noexcept {
  ::prctl(PR_SET_NAME, "hmc-keeper");
  if (title_area.empty()) return;
  std::fill(title_area.begin(), title_area.end(), '\0');
  constexpr std::string_view title = "hmc-keeper";
  std::copy_n(title.begin(), std::min(title.size(), title_area.size() - 1), title_area.begin());
}

KeeperProcess::KeeperProcess(const JobPlan& plan, JobStreams& streams, const Inherited& inherited,
                             base::UniqueFd socket)
    : plan_(plan),
      streams_(streams),
      inherited_(inherited),
      socket_(std::move(socket)),
      ranks_(static_cast<std::size_t>(plan.options.ranks), 0) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  child_events_ = open_child_events();
}

void KeeperProcess::run() noexcept {
  try {
    base::Poller poller;
    poller.add(socket_.get(), {.read = true}, [this, &poller](base::Readiness) {
      handle_messages();
      if (!hmcrun_alive_) poller.remove(socket_.get());
    });
    poller.add(child_events_.get(), {.read = true}, [this](base::Readiness) {
      signalfd_siginfo info;
      while (::read(child_events_.get(), &info, sizeof(info)) > 0) {
      }
    });
    for (;;) {
      poller.wait(wait_ms());
      step();
    }
  } catch (...) {  // no memory or descriptor: exit, so that the kernel kills the ranks
  }
  ::_exit(1);
}

void KeeperProcess::step() {
  const bool childless = reap();
  if (stage_ == Stage::waiting) {
    if (!hmcrun_alive_) ::_exit(0);
    return;
  }
  if (childless || (stage_ == Stage::killing && until_.expired())) {
    send({KeeperEvent::What::gone, -1, 0, childless ? 0 : static_cast<int>(children_of_this_process().size()), {}});
    ::_exit(0);
  }
  if (stage_ == Stage::running && (running_ == 0 || !hmcrun_alive_)) begin_ending();
  if (stage_ == Stage::ending && until_.expired()) begin_killing();
  if (stage_ != Stage::killing) return;
  // Indirect descendants become children when their parents have exited. The next round kills them.
  for (const pid_t child : children_of_this_process()) ::kill(child, SIGKILL);
}

int KeeperProcess::wait_ms() const noexcept {
  if (stage_ == Stage::ending) return until_.left_ms();
  return stage_ == Stage::killing ? kill_again_ms : -1;
}

void KeeperProcess::handle_messages() {
  KeeperRequest request{};
  for (;;) {
    const ssize_t size = ::recv(socket_.get(), &request, sizeof(request), MSG_DONTWAIT);
    if (size != static_cast<ssize_t>(sizeof(request))) {
      if (size >= 0 || (errno != EAGAIN && errno != EINTR)) hmcrun_alive_ = false;
      return;
    }
    switch (request.what) {
      case KeeperRequest::What::launch: launch(request.store, 0, plan_.options.ranks); break;
      case KeeperRequest::What::launch_again:
        if (stage_ == Stage::running) launch(request.store, request.rank, request.rank + 1);
        break;
      case KeeperRequest::What::signal: signal_ranks(request.signal); break;
      case KeeperRequest::What::kill_all: begin_killing(); break;
    }
  }
}

void KeeperProcess::launch(const char* store, int first, int last) {
  stage_ = Stage::running;
  for (int rank = first; rank < last; ++rank) {
    const SpawnResult result = launch_one(rank, store);
    if (result.error == 0) {
      ranks_[static_cast<std::size_t>(rank)] = result.pid;
      ++running_;
      send({KeeperEvent::What::started, rank, result.pid, 0, {}});
      continue;
    }
    KeeperEvent event{KeeperEvent::What::spawn_failed, rank, 0, result.error, {}};
    std::strncpy(event.step, result.step, sizeof(event.step) - 1);
    send(event);
    break;
  }
  if (plan_.options.respawns > 0) return;
  // Now only the ranks hold their ends of the streams, so a stream ends when its last holder exits.
  streams_.ranks.clear();
  streams_.terminal_in.reset();
}

SpawnResult KeeperProcess::launch_one(int rank, const char* store) {
  const Place& place = plan_.places[static_cast<std::size_t>(rank)];
  RankStreams& streams = streams_.ranks[static_cast<std::size_t>(rank)];
  const ProgramPlan& program = plan_.program_of(rank);
  std::vector<char*> argv;
  for (const std::string& word : plan_.options.programs[plan_.options.program_of(plan_.options.number(rank))].command)
    argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  // A program's variable replaces the common one.
  std::string store_entry = fmt::format("HMC_STORE={}", store);
  Environment variables = plan_.rank_variables(rank);
  std::vector<char*> envp{store_entry.data()};
  for (std::string& each : variables) envp.push_back(each.data());
  for (const std::string& each : program.variables) envp.push_back(const_cast<char*>(each.c_str()));
  for (const std::string& each : plan_.common)
    if (value_of(program.variables, std::string_view(each).substr(0, each.find('='))) == nullptr)
      envp.push_back(const_cast<char*>(each.c_str()));
  envp.push_back(nullptr);

  const base::UniqueFd out_file = open_output_file(streams.out_file);
  if (!streams.out_file.empty() && !out_file) return {-1, errno, "open its stdout"};
  const base::UniqueFd err_file = open_output_file(streams.err_file);
  if (!streams.err_file.empty() && !err_file) return {-1, errno, "open its stderr"};

  SpawnRequest request;
  request.program = program.file.c_str();
  request.folder = program.folder.empty() ? nullptr : program.folder.c_str();
  request.argv = argv.data();
  request.envp = envp.data();
  request.in = streams.in;
  request.out = out_file ? out_file.get() : streams.out.get();
  request.err = err_file ? err_file.get() : streams.err.get();
  request.cpus = &place.cpus;
  request.inherited = &inherited_;
  const SpawnResult result = spawn(request);
  if (plan_.options.respawns > 0) return result;  // a further process of the rank needs them
  streams.out.reset();
  streams.err.reset();
  return result;
}

void KeeperProcess::signal_ranks(int signal) noexcept {
  for (const pid_t pid : ranks_) {
    if (pid == 0) continue;
    if (::getpgid(pid) != pid) ::kill(pid, signal);  // the rank has moved to another group
    ::kill(-pid, signal);
  }
}

bool KeeperProcess::reap() {
  for (;;) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG);
    if (pid < 0) return errno == ECHILD;
    if (pid == 0) return false;
    const auto found = std::find(ranks_.begin(), ranks_.end(), pid);
    if (found == ranks_.end()) continue;  // an adopted orphan
    *found = 0;
    --running_;
    send({KeeperEvent::What::ended, static_cast<int>(found - ranks_.begin()), pid, status, {}});
  }
}

void KeeperProcess::begin_ending() {
  stage_ = Stage::ending;
  until_ = base::Deadline::after(grace);
  signal_ranks(SIGTERM);
  signal_ranks(SIGCONT);  // TERM has no effect on a stopped process
  for (const pid_t child : children_of_this_process()) {
    if (std::find(ranks_.begin(), ranks_.end(), child) == ranks_.end()) ::kill(child, SIGTERM);
  }
}

void KeeperProcess::begin_killing() noexcept {
  if (stage_ == Stage::killing) return;
  stage_ = Stage::killing;
  until_ = base::Deadline::after(kill_timeout);
  signal_ranks(SIGKILL);
}

void KeeperProcess::send(KeeperEvent event) noexcept {
  if (!hmcrun_alive_) return;
  if (::send(socket_.get(), &event, sizeof(event), MSG_NOSIGNAL) < 0 && errno != EINTR) hmcrun_alive_ = false;
}

}  // namespace hmc::launcher
