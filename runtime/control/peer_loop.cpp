#include "runtime/control/peer_loop.hpp"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <hmc/error.hpp>

#include "runtime/base/interfaces.hpp"
#include "runtime/control/service_thread.hpp"
#include "runtime/control/socket.hpp"

namespace hmc::control {

namespace {

constexpr auto prove_within = std::chrono::seconds(2);
constexpr std::size_t most_unproven = 4096;

}  // namespace

PeerLoop::PeerLoop(const Secret& secret, Handler& handler, PayloadLimit limit, base::Log log)
    : secret_(secret), handler_(handler), limit_(limit), log_(log), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wake_)
    throw Error(Code::error, "eventfd", std::strerror(errno),
                errno == EPERM || errno == ENOSYS ? "does a sandbox (a seccomp filter) forbid eventfd2?" : "");
}

PeerLoop::~PeerLoop() { stop(); }

void PeerLoop::add_listener(base::UniqueFd listener) { listeners_.push_back(std::move(listener)); }

Peer& PeerLoop::add(Connection connection) {
  peers_.push_back(std::make_unique<Peer>(std::move(connection), base::Deadline::after(prove_within)));
  return *peers_.back();
}

void PeerLoop::start(const char* thread_name) {
  thread_ = service_thread(thread_name, [this] { run(); });
}

void PeerLoop::post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  const std::uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);  // a full counter also wakes the thread
}

void PeerLoop::stop() {
  if (!thread_.joinable()) return;
  post([this] { stopping_.store(true, std::memory_order_relaxed); });  // read on that thread
  thread_.join();
}

void PeerLoop::run() {
  int timeout_ms = -1;
  while (!stopping_.load(std::memory_order_relaxed)) timeout_ms = turn(timeout_ms);
}

int PeerLoop::poll_timeout(int wanted_ms) const {
  const auto sooner = [](int a, int b) { return a < 0 ? b : std::min(a, b); };
  wanted_ms = sooner(wanted_ms, base::longest_poll_ms);
  if (exhausted_) wanted_ms = sooner(wanted_ms, 10);
  for (const auto& peer : peers_) {
    if (peer->connection.stalled()) wanted_ms = sooner(wanted_ms, 1);
    if (!peer->connection.authenticated() || peer->dropped)
      wanted_ms = sooner(wanted_ms, peer->authenticate_by.left_ms());
  }
  return wanted_ms;
}

int PeerLoop::turn(int timeout_ms) {
  std::vector<pollfd> polled{{wake_.get(), POLLIN, 0}};
  const std::size_t listeners = exhausted_ ? 0 : listeners_.size();
  for (std::size_t i = 0; i < listeners; ++i) polled.push_back({listeners_[i].get(), POLLIN, 0});
  const std::size_t known = peers_.size();
  for (const auto& peer : peers_) {
    const bool writes = peer->connection.wants_write() && !peer->connection.stalled();
    const int events = (peer->dropped ? 0 : POLLIN) | (writes ? POLLOUT : 0);
    polled.push_back({peer->connection.fd(), static_cast<short>(events), 0});
  }
  (void)::poll(polled.data(), polled.size(), poll_timeout(timeout_ms));  // EINTR is treated like a timeout
  exhausted_ = false;

  for (std::size_t i = 0; i < listeners; ++i) {
    if (polled[1 + i].revents != 0) accept_from(listeners_[i].get());
  }
  for (std::size_t i = 0; i < known; ++i) {
    Peer& peer = *peers_[i];
    const short happened = polled[1 + listeners + i].revents;
    if ((happened & (POLLOUT | POLLHUP | POLLERR)) != 0 || peer.connection.stalled()) peer.connection.write();
    if ((happened & (POLLIN | POLLHUP | POLLERR)) != 0) drain(peer);
  }
  if (polled[0].revents != 0) run_tasks();
  if ((polled[0].revents & POLLNVAL) != 0) (void)::poll(nullptr, 0, 10);  // the program has closed its descriptors
  sweep();
  return handler_.on_turn();
}

void PeerLoop::drop(Peer& peer) {
  peer.dropped = true;
  peer.authenticate_by = base::Deadline::after(std::chrono::seconds(1));
}

Connection PeerLoop::take(Peer& peer) {
  peer.taken = peer.dropped = true;
  return std::move(peer.connection);
}

void PeerLoop::drain(Peer& peer) {
  if (peer.dropped) return;
  peer.connection.read();
  std::vector<base::UniqueFd> fds;
  while (auto frame = peer.connection.next(fds)) {
    handler_.on_frame(peer, *frame, std::move(fds));
    fds.clear();
    if (peer.dropped) return;
  }
}

void PeerLoop::accept_from(int listener) {
  for (;;) {
    base::UniqueFd socket = accept_one(listener, exhausted_);
    if (!socket) return;
    const auto unproven =
        std::count_if(peers_.begin(), peers_.end(), [](const auto& peer) { return !peer->connection.authenticated(); });
    if (static_cast<std::size_t>(unproven) >= most_unproven)
      refuse(socket.get(), "too many connections haven't proved yet that they belong to this job");
    else if (const std::string reason = handler_.refusal_of(socket.get()); !reason.empty())
      refuse(socket.get(), reason);
    else
      admit(std::move(socket));
  }
}

void PeerLoop::run_tasks() {
  std::uint64_t rings = 0;
  (void)!::read(wake_.get(), &rings, sizeof rings);
  std::vector<std::function<void()>> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(tasks_);
  }
  for (const auto& task : tasks) task();
}

bool PeerLoop::is_over(const Peer& peer) const {
  if (peer.taken || peer.connection.ended()) return true;
  if (peer.dropped && !peer.connection.wants_write()) return true;
  return (peer.dropped || !peer.connection.authenticated()) && peer.authenticate_by.expired();
}

void PeerLoop::sweep() {
  for (std::size_t i = 0; i < peers_.size();) {
    if (!is_over(*peers_[i])) {
      ++i;
      continue;
    }
    const std::unique_ptr<Peer> gone = std::move(peers_[i]);
    peers_.erase(peers_.begin() + static_cast<std::ptrdiff_t>(i));
    if (gone->taken) continue;
    if (gone->connection.authenticated()) {
      handler_.on_end(*gone);
    } else {
      const bool has_closed = gone->connection.ended() && gone->connection.fault().empty();
      refuse(gone->connection.fd(), has_closed ? ""
                                    : !gone->connection.fault().empty()
                                        ? gone->connection.fault()
                                        : "it hasn't proved that it belongs to this job");
    }
  }
}

/// Logs only the first connection: repeated attempts must not fill the log. A program may connect only to see whether
/// this process listens; that isn't worth a line (`reason` is empty).
void PeerLoop::refuse(int socket, std::string_view reason) {
  unknown_connections_.fetch_add(1, std::memory_order_relaxed);
  if (reason.empty() || std::exchange(has_logged_, true)) return;
  log_.warn("refused a connection from {}: {}; more of them are counted and not logged", base::peer_text(socket),
            reason);
}

}  // namespace hmc::control
