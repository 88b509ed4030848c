#include "launcher/streams.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "launcher/report.hpp"
#include "runtime/base/limits.hpp"

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
  const int number = options.number(rank);
  if (!options.output_dir.empty()) {
    const std::string folder = fmt::format("{}/rank.{}", options.output_dir, number);
    if (!is_stderr) create_folder(folder);
    file = folder + (is_stderr ? "/stderr" : "/stdout");
    base::UniqueFd created = create_file(file);  // reports a full or read-only disk before the start
    if (!options.tag_output) return;
    job.sources.push_back({number, is_stderr, {}, std::move(created), options.program_name(number)});
    file.clear();
  } else if (options.tag_output) {
    job.sources.push_back({number, is_stderr, {}, {}, options.program_name(number)});
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
  // The store: a listener and a poller's two. An agent: the same, two ends of a connection to the store, the node page,
  // a copy of it, and a message's descriptor. A rank: a connection. Keeper, signals, uncaught errors, and the pollers
  // of supervisor and output: 9.
  const auto needed = static_cast<rlim_t>(3 + 8 * nodes + ranks + 9);
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

namespace {

constexpr std::size_t read_bytes = 64 << 10;  // the capacity of a pipe
/// A longer line is split, which bounds the memory for a rank that never ends a line.
constexpr std::size_t longest_line_bytes = 64 << 20;

/// False on a write error, with errno.
bool write_all(int fd, const char* bytes, std::size_t size) {
  while (size > 0) {
    const ssize_t written = ::write(fd, bytes, size);
    if (written >= 0) {
      bytes += written;
      size -= static_cast<std::size_t>(written);
    } else if (errno == EAGAIN) {  // another process has set this output non-blocking
      (void)base::wait_for(fd, {.write = true}, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace

OutputPump::OutputPump(std::vector<OutputSource> sources, Mailbox& mailbox) {
  for (OutputSource& source : sources) {
    std::string tag = fmt::format("[{}{}{},{}] ", source.rank, source.program.empty() ? "" : ",", source.program,
                                  source.is_stderr ? "stderr" : "stdout");
    streams_.push_back({std::move(source), std::move(tag), {}});
  }
  if (streams_.empty()) return;
  poller_.emplace();
  for (Stream& stream : streams_)
    poller_->add(stream.source.pipe.get(), {.read = true}, [this, &stream](base::Readiness) { read_from(stream); });
  open_ = streams_.size();
  try {
    thread_ = std::thread([this, &mailbox] { run(mailbox); });
  } catch (const std::system_error& error) {
    base::throw_no_thread("hmcrun's output thread", error);
  }
}

OutputPump::~OutputPump() {
  if (thread_.joinable()) thread_.join();
}

void OutputPump::run(Mailbox& mailbox) {
  while (open_ > 0) poller_->wait();
  mailbox.post({SupervisorMessage::What::output_done, -1, failed_ ? 1 : 0, 0, {}});
}

void OutputPump::read_from(Stream& stream) {
  std::array<char, read_bytes> buffer;
  const ssize_t size = ::read(stream.source.pipe.get(), buffer.data(), buffer.size());
  if (size > 0) return take(stream, buffer.data(), static_cast<std::size_t>(size));
  if (size < 0 && (errno == EINTR || errno == EAGAIN)) return;
  finish(stream);
}

void OutputPump::take(Stream& stream, const char* bytes, std::size_t size) {
  if (stream.source.file && !write_all(stream.source.file.get(), bytes, size)) {
    print_message("--output-filename: rank {}: {}", stream.source.rank, std::strerror(errno));
    failed_ = true;
    stream.source.file.reset();
  }
  out_.clear();
  const char* const end = bytes + size;
  while (bytes < end) {
    const auto* const feed = static_cast<const char*>(std::memchr(bytes, '\n', static_cast<std::size_t>(end - bytes)));
    if (feed == nullptr) break;
    out_.append(stream.tag).append(stream.line).append(bytes, feed + 1);
    stream.line.clear();
    bytes = feed + 1;
  }
  stream.line.append(bytes, end);
  if (stream.line.size() > longest_line_bytes) {
    out_.append(stream.tag).append(stream.line).append("\n");
    stream.line.clear();
  }
  put_out(stream, out_);
}

void OutputPump::close(Stream& stream) {
  if (!stream.source.pipe) return;
  poller_->remove(stream.source.pipe.get());
  stream.source.pipe.reset();
  --open_;
}

void OutputPump::finish(Stream& stream) {
  close(stream);
  stream.source.file.reset();
  if (stream.line.empty()) return;
  // Add the missing line feed, so that the next tag starts a new line.
  put_out(stream, stream.tag + stream.line + "\n");
  stream.line = {};
}

void OutputPump::put_out(Stream& stream, const std::string& lines) {
  bool& broken = broken_[stream.source.is_stderr ? 1 : 0];
  if (!broken && !write_all(stream.source.is_stderr ? STDERR_FILENO : STDOUT_FILENO, lines.data(), lines.size())) {
    broken = true;
    if (errno != EPIPE) {
      print_message("writing {}: {}", stream.source.is_stderr ? "stderr" : "stdout", std::strerror(errno));
      failed_ = true;
    }
  }
  // Close the rank's pipe, so that the rank's next write raises SIGPIPE, as it would without hmcrun.
  if (broken && !stream.source.file) close(stream);
}

namespace {
/// Also true if stdin isn't a terminal.
bool in_foreground() noexcept {
  const pid_t group = ::tcgetpgrp(STDIN_FILENO);
  return group < 0 || group == ::getpgrp();
}
}  // namespace

void TerminalInput::open(base::UniqueFd feed) {
  if (!feed) return;
  feed_ = std::move(feed);
  poller_.add(feed_.get(), {}, [this](base::Readiness) { write_feed(); });
  poller_.add(STDIN_FILENO, {}, [this](base::Readiness) { read_terminal(); });
  choose();
}

/// Waits for the feed, the terminal, or the foreground.
void TerminalInput::choose() {
  if (!feed_) return;
  const bool background = pending_.empty() && !in_foreground();
  poller_.set(feed_.get(), {.write = !pending_.empty()});
  poller_.set(STDIN_FILENO, {.read = pending_.empty() && !background});
  if (background) foreground_.set(std::chrono::seconds(1));
}

void TerminalInput::read_terminal() {
  std::array<char, 4096> buffer;
  if (!in_foreground()) return choose();
  const ssize_t size = ::read(STDIN_FILENO, buffer.data(), buffer.size());
  if (size == 0 || (size < 0 && errno != EINTR && errno != EAGAIN))
    return end();  // Ctrl-D, or the terminal was closed: rank 0 reads end-of-file
  if (size < 0) return;
  pending_.assign(buffer.data(), static_cast<std::size_t>(size));
  write_feed();
}

void TerminalInput::write_feed() {
  const ssize_t size = ::write(feed_.get(), pending_.data(), pending_.size());
  if (size < 0 && errno != EAGAIN && errno != EINTR) return end();  // rank 0 has closed its stdin
  if (size > 0) pending_.erase(0, static_cast<std::size_t>(size));
  choose();
}

void TerminalInput::end() {
  poller_.remove(STDIN_FILENO);
  poller_.remove(feed_.get());
  feed_.reset();
}

}  // namespace hmc::launcher
