#include "runtime/transport/am/tcp/connection.hpp"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <string_view>
#include <utility>

#include "runtime/base/deadline.hpp"
#include "runtime/base/interfaces.hpp"
#include "runtime/base/outage.hpp"
#include "runtime/transport/am/peers.hpp"
#include "runtime/transport/am/tsan_order.hpp"

namespace hmc::transport::tcp {

using am::Message;
using am::Sending;
using base::Status;

namespace {

/// Maximum number of consecutive reads from one connection before others are served.
constexpr int reads_in_a_turn = 4;
/// A message of at least this size ends the round: the rank that waits for it may register a direct receive for the
/// next message (Wire::receive_into).
constexpr std::uint64_t ends_a_turn = 32 * 1024;

/// The network may be away for a while.
bool may_answer_later(int error) noexcept {
  return error == ETIMEDOUT || error == ENETUNREACH || error == EHOSTUNREACH || error == ENETDOWN;
}

/// Before the addresses are tried again.
constexpr std::int64_t pause_ns = 100'000'000;

constexpr std::size_t header_bytes = sizeof(std::uint64_t) + sizeof(Message);
static_assert(offsetof(Sending, message) == offsetof(Sending, bytes) + sizeof(std::uint64_t) &&
                  offsetof(Sending, data) == offsetof(Sending, message) + sizeof(Message),
              "a small frame lies in one piece");

bool would_block(int error) noexcept { return error == EAGAIN || error == EWOULDBLOCK; }

}  // namespace

bool prefers_reno(std::string_view current, Distance distance, Bbr bbr) noexcept {
  return distance != Distance::further && bbr == Bbr::replace && current.starts_with("bbr");
}

void prepare(int fd, Distance distance, Bbr bbr, int lost_host_s) noexcept {
  const int one = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  std::array<char, 16> control{};
  socklen_t length = control.size();
  // Linux allows reno for unprivileged processes.
  if (::getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, control.data(), &length) == 0 &&
      prefers_reno({control.data(), length}, distance, bbr))
    ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
  if (distance == Distance::machine) return;
  base::repeat_lost_data(fd, lost_host_s);
  // A machine that disappears is detected within a minute, if the control plane doesn't detect it before.
  const int idle_s = 30, between_s = std::max(10, lost_host_s / 100),
            questions = std::max(3, lost_host_s / between_s + 1);
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between_s, sizeof between_s);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &questions, sizeof questions);
}

std::string AmConnection::describe() const {
  if (awaits_call()) return "waiting for a connection from the peer";
  return next_candidate_ == 0 ? "a connection that it made" : base::text_of(candidates_[next_candidate_ - 1].address);
}

void AmConnection::await_call() noexcept { connect_until_ = base::now_ns() + patience_.call_ns; }

bool AmConnection::connect_next() noexcept {
  if (give_up_at_ == 0) give_up_at_ = base::now_ns() + patience_.whole_ns;
  while (next_candidate_ < candidates_.size()) {
    const Candidate& candidate = candidates_[next_candidate_++];
    tls_.reset();
    socket_.reset(::socket(candidate.address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket_) {
      error_ = errno;
      continue;
    }
    try {
      if (key_ != nullptr) tls_.emplace(fd(), base::Tls::Side::client, *key_);
    } catch (const std::exception&) {  // out of memory: TcpLink has loaded OpenSSL
      error_ = ENOMEM;
      continue;
    }
    prepare(fd(), candidate.distance, bbr_, patience_.lost_host_s);
    connect_until_ = std::min(base::now_ns() + patience_.each_ns, give_up_at_);
    if (::connect(fd(), reinterpret_cast<const sockaddr*>(&candidate.address), candidate.length) == 0) {
      open_ = true;
      return true;
    }
    if (errno == EINPROGRESS) return true;
    attempt_failed(errno);
  }
  socket_.reset();
  connect_until_ = base::now_ns() + pause_ns;
  const bool refused = std::exchange(refused_, false), later = std::exchange(later_, false);
  if (refused) error_ = ECONNREFUSED;  // the peer's machine has answered
  if (refused || !later || connect_until_ >= give_up_at_) return false;
  next_candidate_ = 0;
  return true;
}

void AmConnection::attempt_failed(int error) noexcept {
  error_ = error;
  refused_ = refused_ || error == ECONNREFUSED;
  later_ = later_ || may_answer_later(error);
}

bool AmConnection::connected() noexcept {
  int error = 0;
  socklen_t length = sizeof error;
  if (::getsockopt(fd(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  open_ = error == 0;
  if (open_)
    error_ = 0;
  else
    attempt_failed(error);
  return open_;
}

void AmConnection::timed_out() noexcept {
  if (!awaits_call()) attempt_failed(ETIMEDOUT);
}

ssize_t AmConnection::transmit(iovec* parts, std::size_t count) noexcept {
  if (tls_) return tls_->write(parts[0].iov_base, parts[0].iov_len);  // the caller continues with the rest
  constexpr int flags = MSG_NOSIGNAL | MSG_DONTWAIT;
  if (count == 1) return ::send(fd(), parts[0].iov_base, parts[0].iov_len, flags);
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = count;
  return ::sendmsg(fd(), &message, flags);
}

ssize_t AmConnection::receive(iovec* parts, std::size_t count) noexcept {
  if (!tls_) {
    if (count == 1) return ::recv(fd(), parts[0].iov_base, parts[0].iov_len, MSG_DONTWAIT);
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = count;
    return ::recvmsg(fd(), &message, MSG_DONTWAIT);
  }
  // A TLS read returns at most one record, of 16 KiB.
  ssize_t total = 0;
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t at = 0; at < parts[i].iov_len;) {
      const ssize_t got = tls_->read(static_cast<std::byte*>(parts[i].iov_base) + at, parts[i].iov_len - at);
      if (got <= 0) return total > 0 ? total : got;  // the next call reports the end again
      at += static_cast<std::size_t>(got);
      total += got;
    }
  }
  return total;
}

Status AmConnection::write(Sending& record) noexcept {
  hold(record);
  return open_ ? write_on() : Status::in_progress();
}

Status AmConnection::write_on() noexcept {
  const Sending& record = *current_;
  const std::uint64_t whole = header_bytes + record.bytes;
  const auto* const header = reinterpret_cast<const std::byte*>(&record.bytes);
  const am::KernelReads unseen;
  while (written_ < whole) {
    ssize_t count = 0;
    if (record.bytes == 0 || record.has_data_inside()) {
      iovec part{const_cast<std::byte*>(header) + written_, whole - written_};
      count = transmit(&part, 1);
    } else {
      const std::uint64_t of_header = std::min<std::uint64_t>(written_, header_bytes);
      const std::uint64_t of_data = written_ - of_header;
      iovec parts[2] = {{const_cast<std::byte*>(header) + of_header, header_bytes - of_header},
                        {const_cast<std::byte*>(record.source) + of_data, record.bytes - of_data}};
      const bool without_header = of_header == header_bytes;
      count = transmit(parts + (without_header ? 1 : 0), without_header ? 1 : 2);
    }
    if (count >= 0) {
      written_ += static_cast<std::uint64_t>(count);
    } else if (would_block(errno)) {
      return Status::in_progress();
    } else if (errno != EINTR) {
      return Status::failure(Code::peer_failed, "the connection broke", rank_, errno);
    }
  }
  current_ = nullptr;
  return {};
}

bool AmConnection::has_unsent() const noexcept {
  int bytes = 0;
  return writes() || (!dead_ && open_ && ::ioctl(fd(), SIOCOUTQ, &bytes) == 0 && bytes > 0);
}

void AmConnection::end_writing() noexcept {
  ending = true;
  if (open_) ::shutdown(fd(), SHUT_WR);
}

AmConnection::Outcome AmConnection::read(am::LinkUser& user, std::vector<std::byte>& waste) noexcept {
  Outcome outcome = Outcome::idle;
  for (int i = 0; i < reads_in_a_turn; ++i) {
    const Outcome one = read_once(user, waste);
    if (one == Outcome::idle) return outcome == Outcome::more ? Outcome::moved : outcome;
    outcome = one;
    if (one != Outcome::more) break;
  }
  return outcome;
}

AmConnection::Outcome AmConnection::read_once(am::LinkUser& user, std::vector<std::byte>& waste) noexcept {
  iovec parts[2];
  std::size_t count = 0, asked = 0;
  std::uint64_t of_large = 0;
  bool wasted = false;
  if (large_) {
    const am::LinkUser::Place place = user.place(message_, at_);
    wasted = place.to == nullptr;
    of_large = wasted ? std::min<std::uint64_t>(place.bytes, waste.size()) : place.bytes;
    parts[count++] = {wasted ? waste.data() : place.to, of_large};
    asked += of_large;
  }
  // This read may also return the start of the next frame, after the last byte of the large frame.
  if (!large_ || of_large == message_.bytes - at_) {
    parts[count++] = {buffer_.data() + end_, buffer_.size() - end_};
    asked += buffer_.size() - end_;
  }
  const ssize_t got = receive(parts, count);
  if (got < 0 && (would_block(errno) || errno == EINTR)) return Outcome::idle;
  if (got <= 0) {
    error_ = got < 0 ? errno : 0;
    return Outcome::ended;
  }
  std::size_t left = static_cast<std::size_t>(got);
  const bool was_large = large_;
  if (large_) {
    const std::size_t taken = std::min<std::size_t>(left, of_large);
    if (!wasted) user.filled(message_, at_, taken);
    at_ += taken;
    left -= taken;
    if (at_ == message_.bytes) {
      large_ = false;
      user.arrived(message_);
    }
  }
  end_ += left;
  const bool long_one_is_here = was_large && !large_ && message_.bytes >= ends_a_turn;
  if (!large_ && !take_frames(user)) return Outcome::strange;
  return static_cast<std::size_t>(got) == asked && !long_one_is_here ? Outcome::more : Outcome::moved;
}

bool AmConnection::take_frames(am::LinkUser& user) noexcept {
  while (end_ - begin_ >= header_bytes) {
    std::uint64_t bytes = 0;  // bytes after the header
    Message message;
    std::memcpy(&bytes, buffer_.data() + begin_, sizeof bytes);
    std::memcpy(&message, buffer_.data() + begin_ + sizeof bytes, sizeof message);
    // Before the message is used: it must have its tag, and its origin must be the rank of this connection. A rank
    // sends all its messages on one connection: on another one, an observer repeats a tag that this rank hasn't read
    // yet.
    if (rank_ < 0 && message.sequence != 0) return false;
    if (!user.knows(message)) return false;
    const int origin = static_cast<int>(message.origin);
    if (rank_ < 0) rank_ = origin;
    if (rank_ != origin) return false;
    const std::size_t there = end_ - begin_ - header_bytes;
    if (bytes > buffer_.size() - header_bytes) {
      if (bytes != message.bytes) return false;
      begin_ += header_bytes;
      return begin_large(user, message, there);
    }
    if (there < bytes) break;
    const std::byte* const data = buffer_.data() + begin_ + header_bytes;
    begin_ += header_bytes + bytes;
    user.received(message, data, bytes);
  }
  // Move the incomplete frame to the front of the buffer, so that the whole frame fits.
  if (begin_ == end_) {
    begin_ = end_ = 0;
  } else if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  return true;
}

bool AmConnection::begin_large(am::LinkUser& user, const Message& message, std::size_t there) noexcept {
  if (!user.begins(message)) return false;
  large_ = true;
  message_ = message;
  // The buffer holds only a part of the message, because the message is larger than the buffer.
  for (at_ = 0; at_ < there;) {
    const am::LinkUser::Place place = user.place(message_, at_);
    const std::uint64_t part = std::min<std::uint64_t>(place.bytes, there - at_);
    if (place.to != nullptr) {
      std::memcpy(place.to, buffer_.data() + begin_ + at_, part);
      user.filled(message_, at_, part);
    }
    at_ += part;
  }
  begin_ = end_ = 0;
  return true;
}

}  // namespace hmc::transport::tcp
