#include "launcher/output_pump.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "launcher/message.hpp"
#include "runtime/base/limits.hpp"

namespace hmc::launcher {

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
      pollfd wait{fd, POLLOUT, 0};
      ::poll(&wait, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace

OutputPump::OutputPump(std::vector<OutputSource> sources, Mailbox& mailbox) {
  for (OutputSource& source : sources) {
    std::string tag = fmt::format("[{},{}] ", source.rank, source.is_stderr ? "stderr" : "stdout");
    streams_.push_back({std::move(source), std::move(tag), {}});
  }
  if (streams_.empty()) return;
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
  std::vector<pollfd> fds(streams_.size());
  for (std::size_t open = streams_.size(); open > 0;) {
    open = 0;
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      fds[i] = {streams_[i].source.pipe.get(), POLLIN, 0};
      if (streams_[i].source.pipe) ++open;
    }
    if (open == 0) break;
    ::poll(fds.data(), fds.size(), -1);
    for (std::size_t i = 0; i < streams_.size(); ++i)
      if (fds[i].revents != 0) read_from(streams_[i]);
  }
  mailbox.post({SupervisorMessage::What::output_done, -1, 0, {}});
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

void OutputPump::finish(Stream& stream) {
  stream.source.pipe.reset();
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
    if (errno != EPIPE)
      print_message("writing {}: {}", stream.source.is_stderr ? "stderr" : "stdout", std::strerror(errno));
  }
  // Close the rank's pipe, so that the rank's next write raises SIGPIPE, as it would without hmcrun.
  if (broken && !stream.source.file) stream.source.pipe.reset();
}

}  // namespace hmc::launcher
