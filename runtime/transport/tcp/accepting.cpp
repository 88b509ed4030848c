// TcpLink's door: who is let in, who is turned away, and strangers who say nothing.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <new>

#include "runtime/base/deadline.hpp"
#include "runtime/base/limits.hpp"
#include "runtime/transport/tcp/tcp_link.hpp"

namespace hmc::transport::tcp {

namespace {

/// Connections that haven't said whose they are, beyond one for each rank.
constexpr std::size_t most_strangers = 64;
/// Accepted in a row, before ranks that are let in already have their turn.
constexpr int most_accepted = 64;
/// How long a listener waits for a descriptor or memory to come free.
constexpr std::int64_t deaf_ns = 100'000'000;

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
      if (has_no_memory || (has_no_descriptor && !turn_away())) close_ears();
      return happened;
    }
    ++happened;
    prepare(socket.get(), distance_of(own_, from));
    try {
      connections_.push_back(std::make_unique<Connection>(std::move(socket)));
    } catch (const std::bad_alloc&) {
      return happened;  // who came is turned away
    }
    if (watch(*connections_.back(), EPOLL_CTL_ADD, false))
      drop_strangers();
    else
      connections_.pop_back();
  }
  return happened;
}

bool TcpLink::turn_away() noexcept {
  const std::uint64_t count = ++turned_away_;
  if ((count & (count - 1)) == 0)  // ever more seldom: who knocks and knocks shall not fill the log
    log_.error("tcp: no descriptor is left for {} connections; raise the limit (ulimit -n)", count);
  // The peer has sent into this connection already, and would wait for an answer until the deadline.
  if (waiter_ != nullptr && count == 1) {
    try {
      waiter_->page().raise_abort(
          Code::peer_failed, rank_,
          fmt::format("rank {}: no descriptor is left for a connection: {}", rank_, base::descriptor_limit()));
    } catch (const std::bad_alloc&) {  // it stands in the log
    }
  }
  spare_.reset();
  base::UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const bool was_let_in = socket.get() >= 0;
  socket.reset();
  spare_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));  // unless another thread was quicker
  return was_let_in;
}

void TcpLink::close_ears() noexcept {
  ::epoll_ctl(poll_set_.get(), EPOLL_CTL_DEL, listener_.get(), nullptr);
  deaf_until_ = base::now_ns() + deaf_ns;
}

void TcpLink::open_ears() noexcept {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = nullptr;
  const bool good = ::epoll_ctl(poll_set_.get(), EPOLL_CTL_ADD, listener_.get(), &event) == 0;
  deaf_until_ = good ? 0 : base::now_ns() + deaf_ns;
}

/// Of those who haven't said who they are the oldest goes, if there are more than ranks could be.
void TcpLink::drop_strangers() noexcept {
  const auto nobody = [](const auto& connection) { return !connection->dead() && connection->rank() < 0; };
  if (static_cast<std::size_t>(std::ranges::count_if(connections_, nobody)) <= by_rank_.size() + most_strangers) return;
  Connection& oldest = **std::ranges::find_if(connections_, nobody);
  if (read(oldest); oldest.dead() || oldest.rank() >= 0) return;  // it had spoken, and wasn't heard yet
  user_->stranger();
  lose(oldest, "it hasn't said who it is");
}

}  // namespace hmc::transport::tcp
