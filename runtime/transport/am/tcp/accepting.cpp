// The passive side of TcpLink: accepted connections, the spare descriptor, and connections that don't prove their rank.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <new>

#include "runtime/base/deadline.hpp"
#include "runtime/base/limits.hpp"
#include "runtime/transport/am/tcp/tcp_link.hpp"

namespace hmc::transport::tcp {

namespace {

/// Limit of connections of unknown rank, in addition to one for each rank.
constexpr std::size_t most_strangers = 64;
/// Maximum number of consecutive accepts before other connections are served.
constexpr int most_accepted = 64;
/// Time for which the listener is disabled when no descriptor or memory is free.
constexpr std::int64_t deaf_ns = 100'000'000;
/// Time limit for the first message on the spare descriptor. A rank sends it as soon as it is connected.
constexpr std::int64_t spare_ns = 500'000'000;

}  // namespace

int TcpLink::accept_all() noexcept {
  int happened = 0;
  while (happened < most_accepted) {
    sockaddr_storage from{};
    socklen_t length = sizeof from;
    base::UniqueFd socket(
        ::accept4(listener_.get(), reinterpret_cast<sockaddr*>(&from), &length, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      const bool has_no_descriptor = errno == EMFILE || errno == ENFILE;
      const bool has_no_memory = errno == ENOBUFS || errno == ENOMEM;
      if (has_no_memory) disable_listener(deaf_ns);
      if (has_no_descriptor) accept_by_spare(errno);
      return happened;
    }
    ++happened;
    prepare(socket.get(), distance_of(own_, from), bbr_, patience_.lost_host_s);
    try {
      connections_.push_back(std::make_unique<AmConnection>(std::move(socket), tls_key()));
    } catch (const std::exception&) {  // out of memory
      return happened;                 // the new connection is closed
    }
    if (watch(*connections_.back(), EPOLL_CTL_ADD, false))
      drop_strangers();
    else
      connections_.pop_back();
  }
  return happened;
}

void TcpLink::accept_by_spare(int error) noexcept {
  const std::uint64_t count = ++rejected_connections_;
  if ((count & (count - 1)) == 0)  // log with decreasing frequency, so that repeated attempts don't fill the log
    log_.error("tcp: no descriptor is left for {} connections: {}", count,
               error == ENFILE ? "the system's table of open files is full" : "raise the limit (ulimit -n)");
  spare_error_ = error;
  spare_.reset();
  base::UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket && (errno == EMFILE || errno == ENFILE) && ++without_spare_ > 1) report_no_descriptor(errno);
  if (socket) {
    without_spare_ = 0;
    try {
      connections_.push_back(std::make_unique<AmConnection>(std::move(socket), tls_key()));
      by_spare_ = connections_.back().get();
      if (!watch(*connections_.back(), EPOLL_CTL_ADD, false)) free_spare();
    } catch (const std::exception&) {  // out of memory
    }
  }
  disable_listener(by_spare_ != nullptr ? spare_ns
                                        : deaf_ns);  // when that time is over, enable_listener() calls free_spare()
}

void TcpLink::free_spare() noexcept {
  for (const auto& connection : connections_) {
    if (connection.get() != by_spare_) continue;
    (void)read(*connection);  // its first message may have arrived
    if (!connection->dead()) lose(*connection, "no descriptor is left for it");
  }
  by_spare_ = nullptr;
  if (!spare_) spare_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));  // may fail: another thread opened a file
}

void TcpLink::report_no_descriptor(int error) const noexcept {
  // Otherwise the peer would wait until its timeout for an answer or a connection from this rank.
  if (waiter_ == nullptr) return;
  try {
    waiter_->page().raise_abort(
        Code::peer_failed, rank_,
        fmt::format("rank {}: no descriptor is left for a connection: {}", rank_, base::descriptor_limit(error)));
  } catch (const std::bad_alloc&) {  // this rank reports the failure by its status
  }
}

const char* TcpLink::connect_failure(int error) const noexcept {
  // Firewalls drop packets, or answer in the host's place that it or its port can't be reached.
  if (error == ETIMEDOUT || error == EHOSTUNREACH)
    return "none of its addresses answers: is there a firewall between the hosts?";
  if (error == ECONNREFUSED)
    return "none of its addresses accepts a connection: the rank has ended, or a firewall refuses it";
  if (error != EMFILE && error != ENFILE) return "none of its addresses can be reached";
  report_no_descriptor(error);
  return "this rank has no descriptor left for a connection";
}

void TcpLink::disable_listener(std::int64_t span_ns) noexcept {
  ::epoll_ctl(poll_set_.get(), EPOLL_CTL_DEL, listener_.get(), nullptr);
  listener_disabled_until_ = base::now_ns() + span_ns;
}

void TcpLink::enable_listener() noexcept {
  free_spare();
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = nullptr;
  const bool good = ::epoll_ctl(poll_set_.get(), EPOLL_CTL_ADD, listener_.get(), &event) == 0;
  listener_disabled_until_ = good ? 0 : base::now_ns() + deaf_ns;
}

/// Closes the oldest connection of unknown rank if there are more of them than the ranks can need.
void TcpLink::drop_strangers() noexcept {
  const auto nobody = [](const auto& connection) { return !connection->dead() && connection->rank() < 0; };
  if (static_cast<std::size_t>(std::ranges::count_if(connections_, nobody)) <= by_rank_.size() + most_strangers) return;
  AmConnection& oldest = **std::ranges::find_if(connections_, nobody);
  if (read(oldest); oldest.dead() || oldest.rank() >= 0) return;  // its first message had arrived, but wasn't read
  user_->stranger(oldest.fd());
  lose(oldest, "it hasn't proved its rank");
}

}  // namespace hmc::transport::tcp
