#include "launcher/streams.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "launcher/exit_status.hpp"

namespace hmc::launcher {

namespace {

[[noreturn]] void fail(const std::string& what) {
  throw LaunchError(exit_own_failure, fmt::format("{}: {}", what, std::strerror(errno)));
}

std::pair<base::UniqueFd, base::UniqueFd> open_pipe() {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) fail("a pipe for the ranks' output (ulimit -n)");
  return {base::UniqueFd(ends[0]), base::UniqueFd(ends[1])};
}

base::UniqueFd create_file(const std::string& path) {
  base::UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file) fail(path);
  return file;
}

void create_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw LaunchError(exit_own_failure, fmt::format("--output-filename {}: {}", path, error.message()));
}

/// One output of one rank: inherited, a file, a pipe, or a pipe whose bytes also go to a file.
void open_output(JobStreams& job, const Options& options, int rank, bool is_stderr) {
  RankStreams& streams = job.ranks[static_cast<std::size_t>(rank)];
  std::string& file = is_stderr ? streams.err_file : streams.out_file;
  if (!options.output_dir.empty()) {
    const std::string folder = fmt::format("{}/rank.{}", options.output_dir, rank);
    if (!is_stderr) create_folder(folder);
    file = folder + (is_stderr ? "/stderr" : "/stdout");
    base::UniqueFd created = create_file(file);  // reports a full or read-only disk before the start
    if (!options.tag_output) return;
    job.sources.push_back({rank, is_stderr, {}, std::move(created)});
    file.clear();
  } else if (options.tag_output) {
    job.sources.push_back({rank, is_stderr, {}, {}});
  } else {
    return;
  }
  auto [read_end, write_end] = open_pipe();
  job.sources.back().pipe = std::move(read_end);
  (is_stderr ? streams.err : streams.out) = std::move(write_end);
}

}  // namespace

JobStreams open_streams(const Options& options) {
  JobStreams job;
  job.ranks.resize(static_cast<std::size_t>(options.ranks));
  job.null.reset(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!job.null) fail("/dev/null");
  for (std::size_t rank = 1; rank < job.ranks.size(); ++rank) job.ranks[rank].in = job.null.get();
  // Each rank has its own process group, so no rank is in the foreground and may read the terminal. hmcrun reads the
  // terminal for rank 0. Rank 0 inherits a file or a pipe.
  if (::isatty(STDIN_FILENO) == 1) {
    auto [read_end, write_end] = open_pipe();
    job.terminal_in = std::move(read_end);
    job.terminal_feed = std::move(write_end);
    ::fcntl(job.terminal_feed.get(), F_SETFL, O_NONBLOCK);
    job.ranks.front().in = job.terminal_in.get();
  }
  for (int rank = 0; rank < options.ranks; ++rank) {
    open_output(job, options, rank, false);
    open_output(job, options, rank, true);
  }
  return job;
}

void raise_descriptor_limit() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

void require_descriptors(int ranks, int nodes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  // The store: listener and wake-up. An agent: the same, two ends of a connection to the store, the node page, a copy
  // of it, and a message's descriptor. A rank: a connection. Keeper, signals and mailbox: 5.
  const auto needed = static_cast<rlim_t>(2 + 7 * nodes + ranks + 5);
  rlim_t open = 0;
  std::error_code error;
  for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator("/proc/self/fd", error)) ++open;
  if (open + needed <= limit.rlim_cur) return;
  throw LaunchError(
      exit_own_failure,
      fmt::format("a job of {} ranks on {} nodes needs {} descriptors in hmcrun, which has {} open already; "
                  "RLIMIT_NOFILE (ulimit -n) is {}: raise it to {}",
                  ranks, nodes, needed, open, limit.rlim_cur, open + needed));
}

void fill_standard_descriptors() noexcept {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0) (void)!::open("/dev/null", O_RDWR);  // returns the lowest free number: fd
  }
}

}  // namespace hmc::launcher
