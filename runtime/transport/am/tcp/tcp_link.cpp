#include "runtime/transport/am/tcp/tcp_link.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>

#include <hmc/error.hpp>

#include "runtime/base/deadline.hpp"
#include "runtime/base/limits.hpp"
#include "runtime/transport/am/peers.hpp"

namespace hmc::transport::tcp {

using am::Sending;
using base::Status;

namespace {

/// A put is split into chunks, so that an abandoned put ends in bounded time and answers are sent in between. Only one
/// message per peer is in flight: the next one is written after the socket has accepted it. Small verbs that wait are
/// joined.
constexpr am::ByteLink::Traits tcp_traits{.name = "tcp", .chunk_bytes = 512 * 1024, .most_in_flight = 1};

/// Up to this number of connections are read without epoll_wait: an empty read costs no more than epoll_wait.
constexpr std::size_t few_connections = 2;
/// In that case epoll_wait, which also reports new connections, is called once per this number of progress() calls.
constexpr unsigned turns_between_polls = 64;
/// Maximum number of last reads from a connection before its rank is reported lost: enough for all data that a kernel
/// buffers.
constexpr int most_last_turns = 1024;
/// A socket may accept bytes as fast as this rank sends them, and never be full. After this number of bytes the link
/// serves other connections and reads received bytes, and the lock is released for a moment.
constexpr std::uint64_t longest_turn_bytes = 4 << 20;
constexpr std::size_t waste_bytes = 64 * 1024;

[[noreturn]] void fail(const char* what) {
  ErrorDetail detail;
  detail.code = Code::unavailable;
  detail.operation = "tcp";
  detail.sys_errno = errno;
  detail.message = what;
  if (detail.sys_errno == EMFILE) detail.message += ": " + base::descriptor_limit();
  throw Error(std::move(detail));
}

}  // namespace

TcpLink::TcpLink(base::Log log, Patience patience, Reachable reachable, const base::Waiter* waiter, Bbr bbr,
                 const std::optional<base::TlsKey>& tls)
    : log_(log),
      patience_(patience),
      waiter_(waiter),
      bbr_(bbr),
      tls_(tls),
      own_(own_address()),
      poll_set_(::epoll_create1(EPOLL_CLOEXEC)),
      spare_(::open("/dev/null", O_RDONLY | O_CLOEXEC)),
      clock_(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)),
      waste_(waste_bytes) {
  if (!poll_set_) fail("no poll set");
  if (tls_) (void)base::Tls(-1, base::Tls::Side::client, *tls_);  // throws if OpenSSL can't be loaded
  listen(reachable);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = &clock_;
  if (clock_ && ::epoll_ctl(poll_set_.get(), EPOLL_CTL_ADD, clock_.get(), &event) != 0) clock_.reset();
}

void TcpLink::listen(Reachable reachable) {
  const bool everywhere = reachable == Reachable::by_all_interfaces;
  // One socket for both families if IPv6 is available. With by_loopback peers connect to 127.0.0.1 (candidates()).
  const int six = everywhere ? ::socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0) : -1;
  sockaddr_storage address{};
  socklen_t length = sizeof(sockaddr_in6);
  const int zero = 0;
  listener_.reset(six);
  address.ss_family = AF_INET6;
  if (six < 0 || ::setsockopt(six, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero) != 0 ||
      ::bind(six, reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    listener_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    address = {};
    auto& four = reinterpret_cast<sockaddr_in&>(address);
    four.sin_family = AF_INET;
    four.sin_addr.s_addr = htonl(everywhere ? INADDR_ANY : INADDR_LOOPBACK);
    length = sizeof(sockaddr_in);
    if (!listener_ || ::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0)
      fail("no socket to listen on");
  }
  length = sizeof address;
  if (::listen(listener_.get(), SOMAXCONN) != 0 ||
      ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0)
    fail("no socket to listen on");
  own_.port = ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                                  : reinterpret_cast<const sockaddr_in&>(address).sin_port);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = nullptr;  // the listener
  if (::epoll_ctl(poll_set_.get(), EPOLL_CTL_ADD, listener_.get(), &event) != 0) fail("no poll set");
}

const am::ByteLink::Traits& TcpLink::traits() const noexcept { return tcp_traits; }
std::string TcpLink::describe() const { return tls_ ? "messages over TCP with TLS" : "messages over TCP"; }
std::string TcpLink::describe(int rank) const { return by_rank_[static_cast<std::size_t>(rank)]->describe(); }
base::Bytes TcpLink::address() const { return encode(own_); }

void TcpLink::serve(am::LinkUser& user, int rank, int ranks) {
  user_ = &user;
  rank_ = rank;
  by_rank_.resize(static_cast<std::size_t>(ranks));
}

bool TcpLink::watch(AmConnection& connection, int operation, bool writable) noexcept {
  epoll_event event{};
  event.events = EPOLLIN | (writable ? EPOLLOUT : 0U);
  event.data.ptr = &connection;
  connection.wants_writable = writable;
  return ::epoll_ctl(poll_set_.get(), operation, connection.fd(), &event) == 0;
}

void TcpLink::forget(const AmConnection& connection) noexcept {
  if (connection.fd() >= 0) ::epoll_ctl(poll_set_.get(), EPOLL_CTL_DEL, connection.fd(), nullptr);
}

Status TcpLink::connect(int rank, base::ByteView address) noexcept {
  AmConnection*& mine = by_rank_[static_cast<std::size_t>(rank)];
  if (mine != nullptr) return {};  // the peer has connected to this rank
  try {
    const std::optional<Address> theirs = decode(address);
    if (!theirs) return Status::failure(Code::refused, "its address can't be read", rank);
    auto connection = std::make_unique<AmConnection>(rank, candidates(own_, *theirs), patience_, bbr_, tls_key());
    if (rank_ > rank && patience_.call_ns > 0 && start_clock()) {
      connection->await_call();
    } else if (!connection->connect_next()) {
      return Status::failure(Code::unavailable, connect_failure(connection->error()), rank, connection->error());
    }
    connections_.push_back(std::move(connection));
  } catch (const std::bad_alloc&) {
    return Status::failure(Code::out_of_memory, "no memory for a connection", rank);
  }
  mine = connections_.back().get();
  if (mine->awaits_call()) {
    ++connecting_;
    return {};
  }
  if (!watch(*mine, EPOLL_CTL_ADD, !mine->open())) {
    const int error = errno;
    connections_.pop_back();
    mine = nullptr;
    return Status::failure(Code::unavailable, "its connection can't be watched", rank, error);
  }
  if (!mine->open()) ++connecting_;
  return {};
}

/// The timer may already run for another rank. When it expires, progress() handles all overdue connections. While other
/// connections are pending, arm() returns false, so the progress thread doesn't sleep.
bool TcpLink::start_clock() noexcept {
  const itimerspec once{{}, {patience_.call_ns / 1'000'000'000, patience_.call_ns % 1'000'000'000}};
  return clock_ && ::timerfd_settime(clock_.get(), 0, &once, nullptr) == 0;
}

Status TcpLink::send(Sending& record) noexcept {
  const int rank = record.peer->rank;
  AmConnection* const connection = by_rank_[static_cast<std::size_t>(rank)];
  if (connection == nullptr) return Status::failure(Code::peer_failed, "the connection was lost", rank);
  return hand_to(*connection, record);
}

Status TcpLink::hand_to(AmConnection& connection, Sending& record) noexcept {
  Status status = Status::in_progress();
  if (sent_in_turn_ < longest_turn_bytes) {
    sent_in_turn_ += record.bytes;
    status = connection.write(record);
  } else {
    connection.hold(record);
  }
  if (status.code == Code::in_progress) {
    if (connection.open()) ++blocked_;
    if (!connection.wants_writable && connection.fd() >= 0) watch(connection, EPOLL_CTL_MOD, true);
  } else if (!status.ok()) {
    (void)connection.drop_current();  // this call returns its status
  }
  return status;
}

int TcpLink::progress() noexcept {
  int happened = 0;
  sent_in_turn_ = 0;
  if (connections_.size() <= few_connections && connecting_ == 0 && blocked_ == 0 && listener_disabled_until_ == 0) {
    for (const auto& connection : connections_) happened += read(*connection);
    if (any_dead_) sweep();
    if (++turn_ % turns_between_polls != 0) return happened;
  }
  std::array<epoll_event, 32> events;
  const int count = ::epoll_wait(poll_set_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    if (event.data.ptr == &clock_) {
      std::uint64_t times = 0;
      (void)!::read(clock_.get(), &times, sizeof times);  // clears the event
      continue;
    }
    auto* const connection = static_cast<AmConnection*>(event.data.ptr);
    happened += connection == nullptr ? accept_all() : handle(*connection, event.events);
  }
  if (connecting_ > 0 || listener_disabled_until_ != 0) {
    const std::int64_t now = base::now_ns();
    if (listener_disabled_until_ != 0 && now >= listener_disabled_until_) enable_listener();
    for (const auto& connection : connections_)
      if (connection->overdue(now)) happened += go_on_connecting(*connection, true);
  }
  if (tls_)
    for (std::size_t i = 0; i < connections_.size(); ++i)
      if (connections_[i]->has_decrypted()) happened += read(*connections_[i]);
  if (any_dead_) sweep();
  return happened;
}

bool TcpLink::has_decrypted() const noexcept {
  return tls_ && std::ranges::any_of(connections_, [](const auto& each) { return each->has_decrypted(); });
}

/// The poll set stays readable while it has unhandled events. Connection attempts and a disabled listener have time
/// limits, so they must be polled.
bool TcpLink::arm() noexcept {
  turn_ = turns_between_polls - 1;  // the first progress() after a wake-up calls epoll_wait
  return connecting_ == 0 && listener_disabled_until_ == 0 && !has_decrypted();
}

int TcpLink::handle(AmConnection& connection, std::uint32_t events) noexcept {
  if (connection.dead()) return 0;
  if (!connection.open()) return go_on_connecting(connection, false);
  int happened = 0;
  if ((events & EPOLLOUT) != 0) happened += write(connection);
  if (!connection.dead() && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) happened += read(connection);
  return happened;
}

int TcpLink::go_on_connecting(AmConnection& connection, bool failed) noexcept {
  if (failed) connection.timed_out();
  if (failed || !connection.connected()) {
    forget(connection);
    if (!connection.connect_next()) {
      --connecting_;
      if (AmConnection* const other = other_of(connection)) {
        give_way(connection, *other);
        return 1;
      }
      lose(connection, connect_failure(connection.error()), connection.error());
      return 1;
    }
    if (connection.awaits_call()) return 1;         // a pause
    if (!watch(connection, EPOLL_CTL_ADD, true)) {  // a new socket
      const int error = errno;
      --connecting_;
      if (connection.open() && connection.writes()) ++blocked_;  // lose() decrements it
      lose(connection, "its connection can't be watched", error);
      return 1;
    }
    if (!connection.open()) return 1;
  }
  --connecting_;
  if (connection.writes()) {
    ++blocked_;
    write(connection);
  } else {
    watch(connection, EPOLL_CTL_MOD, false);
  }
  return 1;
}

/// The peer has connected to this rank. Nothing was written on `connection`, so the order of messages is kept.
void TcpLink::give_way(AmConnection& connection, AmConnection& other) noexcept {
  Sending* const record = connection.drop_current();
  connection.kill();
  any_dead_ = true;
  by_rank_[static_cast<std::size_t>(other.rank())] = &other;
  if (record == nullptr) return;
  const Status status = hand_to(other, *record);
  if (status.code != Code::in_progress) user_->sent(*record, status);
}

/// Another open connection to the same rank, or null.
AmConnection* TcpLink::other_of(const AmConnection& connection) const noexcept {
  for (const auto& other : connections_)
    if (other.get() != &connection && other->rank() == connection.rank() && other->open() && !other->dead() &&
        !other->ending)
      return other.get();
  return nullptr;
}

int TcpLink::write(AmConnection& connection) noexcept {
  if (!connection.writes()) return 0;
  // Loaded before write_on(), which clears it.
  Sending* const record = connection.current();
  const Status status = connection.write_on();
  if (status.code == Code::in_progress) return 0;
  if (!status.ok()) {
    read_the_rest(connection.rank());
    lose(connection, status.what, status.sys_errno);
    return 1;
  }
  --blocked_;
  watch(connection, EPOLL_CTL_MOD, false);
  user_->sent(*record, status);
  return 1;
}

int TcpLink::read(AmConnection& connection) noexcept {
  if (connection.dead() || !connection.open()) return 0;
  const bool was_nobodys = connection.rank() < 0;
  const AmConnection::Outcome outcome = connection.read(*user_, waste_);
  if (was_nobodys && connection.rank() >= 0) {
    AmConnection*& mine = by_rank_[static_cast<std::size_t>(connection.rank())];
    if (mine == nullptr) {
      mine = &connection;
    } else if (mine->awaits_call() && !connection.dead()) {
      --connecting_;
      give_way(*mine, connection);
    }
  }
  if (&connection == by_spare_ && connection.rank() >= 0) {
    report_no_descriptor(spare_error_);
    if (!connection.dead()) lose(connection, "no descriptor is left for it");
    return 1;
  }
  switch (outcome) {
    case AmConnection::Outcome::idle: return 0;
    case AmConnection::Outcome::moved:
    case AmConnection::Outcome::more: return 1;
    case AmConnection::Outcome::ended:
      read_the_rest(connection.rank());
      lose(connection,
           connection.error() == EFAULT ? "the destination of its data isn't writable"
           : connection.error() != 0    ? "the connection broke"
                                        : "the connection ended",
           connection.error());
      return 1;
    case AmConnection::Outcome::strange:
      if (connection.rank() < 0) user_->stranger(connection.fd());
      lose(connection, "received data that isn't a valid message");
      return 1;
  }
  return 0;
}

void TcpLink::read_the_rest(int rank) noexcept {
  if (rank < 0) return;
  for (const auto& connection : connections_) {
    if (connection->rank() != rank || connection->dead() || !connection->open()) continue;
    for (int turn = 0; turn < most_last_turns; ++turn) {
      const AmConnection::Outcome outcome = connection->read(*user_, waste_);
      if (outcome != AmConnection::Outcome::moved && outcome != AmConnection::Outcome::more) break;
    }
  }
}

void TcpLink::lose(AmConnection& connection, const char* why, int error) noexcept {
  const int rank = connection.rank();
  Sending* const record = connection.drop_current();
  if (record != nullptr && connection.open()) --blocked_;
  forget(connection);
  connection.kill();
  any_dead_ = true;
  if (&connection == by_spare_) {
    by_spare_ = nullptr;
    listener_disabled_until_ = 1;  // the next progress() reserves the spare descriptor again and enables the listener
  }
  if (rank < 0) return;
  AmConnection*& mine = by_rank_[static_cast<std::size_t>(rank)];
  if (mine == &connection) mine = nullptr;
  if (record != nullptr) user_->sent(*record, Status::failure(Code::peer_failed, why, rank, error));
  user_->lost(rank, why, error);
}

void TcpLink::sweep() noexcept {
  std::erase_if(connections_, [](const auto& connection) { return connection->dead(); });
  any_dead_ = false;
}

void TcpLink::disconnect(int rank, bool at_once) noexcept {
  if (at_once) read_the_rest(rank);
  for (const auto& connection : connections_) {
    if (connection->rank() != rank || connection->dead()) continue;
    if (!at_once && connection->open()) {
      // If there are two connections, this rank sends only on one. If it closed the other first, the peer would see
      // that end of stream before the last bytes of this one.
      if (connection.get() == by_rank_[static_cast<std::size_t>(rank)]) connection->end_writing();
      continue;
    }
    if (!connection->open()) --connecting_;
    lose(*connection, "the connection was cut");
  }
  by_rank_[static_cast<std::size_t>(rank)] = nullptr;
}

std::size_t TcpLink::ending() noexcept {
  std::size_t count = 0;
  for (const auto& connection : connections_) {
    if (!connection->ending || connection->dead()) continue;
    if (connection->has_unsent())
      ++count;
    else
      lose(*connection, "the connection was closed");
  }
  return count;
}

void TcpLink::leave(bool) noexcept {
  by_spare_ = nullptr;
  connections_.clear();
  by_rank_.assign(by_rank_.size(), nullptr);
}

}  // namespace hmc::transport::tcp
