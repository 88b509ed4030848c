#include "launcher/keeper.hpp"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "launcher/keeper_process.hpp"
#include "launcher/report.hpp"
#include "runtime/base/process_stat.hpp"

namespace hmc::launcher {

namespace {

[[noreturn]] void fail(const char* what) {
  throw LaunchError(exit_own_failure, fmt::format("{}: {}", what, std::strerror(errno)));
}

template <typename Visit> void for_each_number_in(const std::string& folder, Visit visit) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(folder.c_str()), &::closedir);
  if (!dir) return;
  while (const dirent* entry = ::readdir(dir.get())) {
    if (const int number = std::atoi(entry->d_name); number > 0) visit(number);
  }
}

/// Kills and reaps the children of this process with a pid above `above`, and those that it adopts from them.
void kill_children(pid_t above) {
  for (int round = 0; round < 200; ++round) {
    bool some = false;
    for (const pid_t child : children_of_this_process()) {
      if (child <= above) continue;
      some = true;
      ::kill(child, SIGKILL);
    }
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    if (!some) return;
    ::usleep(5000);
  }
}

/// In the guard, before it forks the keeper.
void become_guard(std::span<char> title_area) noexcept {
  ::setpgid(0, 0);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  rename_process(title_area);
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);  // it ends with the keeper
}

/// The guard's life: it waits for the keeper. If the keeper was killed, the guard is the parent of what is left of the
/// job.
[[noreturn]] void guard(pid_t keeper) noexcept {
  int status = 0;
  for (pid_t ended = 0; ended != keeper;) {
    ended = ::waitpid(-1, &status, 0);
    if (ended < 0 && errno != EINTR) ::_exit(1);
  }
  try {
    if (status != 0) kill_children(0);
  } catch (...) {  // no memory: hmcrun kills them, if it lives
  }
  ::_exit(0);
}

}  // namespace

Inherited Inherited::now() noexcept {
  Inherited inherited{};
  ::sigprocmask(SIG_SETMASK, nullptr, &inherited.signal_mask);
  ::getrlimit(RLIMIT_NOFILE, &inherited.descriptors);
  return inherited;
}

Keeper Keeper::start(const JobPlan& plan, JobStreams& streams, const Inherited& inherited, std::span<char> title_area) {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) fail("socketpair");
  base::UniqueFd ours(ends[0]);
  base::UniqueFd theirs(ends[1]);
  // Set before the fork, so that this process adopts the orphans if guard and keeper are killed.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t pid = ::fork();
  if (pid < 0) fail("fork");
  if (pid == 0) {
    ours.reset();
    streams.sources.clear();  // hmcrun's ends: they must be closed when hmcrun exits
    streams.terminal_feed.reset();
    become_guard(title_area);
    const pid_t keeper = ::fork();
    if (keeper == 0) KeeperProcess(plan, streams, inherited, std::move(theirs)).run();
    theirs.reset();  // hmcrun reads end-of-file at the keeper's end
    streams = {};    // an output ends with the ranks
    if (keeper > 0) guard(keeper);
    ::_exit(1);
  }
  ::setpgid(pid, pid);  // both the parent and the child do this, in any order
  streams.ranks.clear();
  streams.terminal_in.reset();
  return {std::move(ours), pid};
}

bool Keeper::send(const KeeperRequest& request) noexcept {
  return ::send(socket_.get(), &request, sizeof(request), MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof(request));
}

void Keeper::launch(KeeperRequest::What what, std::string_view store, int rank) {
  KeeperRequest request{};
  request.what = what;
  request.rank = rank;
  if (store.size() >= sizeof(request.store)) throw LaunchError(exit_own_failure, "the store's address is too long");
  std::memcpy(request.store, store.data(), store.size());
  send(request);  // next() reports the death of the keeper
}

void Keeper::signal(int signal) noexcept {
  KeeperRequest request{};
  request.what = KeeperRequest::What::signal;
  request.signal = signal;
  send(request);
}

void Keeper::kill_all() noexcept {
  KeeperRequest request{};
  request.what = KeeperRequest::What::kill_all;
  send(request);
}

std::optional<KeeperEvent> Keeper::next() {
  KeeperEvent event{};
  ssize_t size = ::recv(socket_.get(), &event, sizeof(event), MSG_DONTWAIT);
  // The keeper has ended with a request unread, for example to start a rank again. Its last events can still be read.
  if (size < 0 && errno == ECONNRESET) size = ::recv(socket_.get(), &event, sizeof(event), MSG_DONTWAIT);
  if (size == static_cast<ssize_t>(sizeof(event))) return event;
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  event = {};
  event.what = KeeperEvent::What::lost;
  return event;
}

void Keeper::reap() noexcept {
  while (::waitpid(guard_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Keeper::end_orphans() {
  // The keeper's socket closes shortly before its children are reparented. After the guard is reaped, they have ended
  // or are this process's children.
  reap();
  // End only processes that were started after the guard. A shell's "a & exec hmcrun" leaves a child that isn't part
  // of the job; its pid is lower. If pids have wrapped, some processes of the job aren't ended.
  kill_children(guard_);
}

std::vector<pid_t> children_of_this_process() {
  std::vector<pid_t> found;
  bool readable = false;
  for_each_number_in("/proc/self/task", [&](int thread) {
    std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/children");
    readable |= file.is_open();
    for (pid_t pid = 0; file >> pid;) found.push_back(pid);
  });
  if (readable) return found;
  // A kernel without CONFIG_PROC_CHILDREN: check every process.
  const pid_t self = ::getpid();
  for_each_number_in("/proc", [&](int pid) {
    if (const auto process = base::stat_of(pid); process && process->parent == self) found.push_back(pid);
  });
  return found;
}

}  // namespace hmc::launcher
