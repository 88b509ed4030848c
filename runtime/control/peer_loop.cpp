#include "runtime/control/peer_loop.hpp"

#include <algorithm>
#include <utility>

#include "runtime/base/interfaces.hpp"
#include "runtime/control/service_thread.hpp"
#include "runtime/control/socket.hpp"

namespace hmc::control {

namespace {

constexpr auto prove_within = std::chrono::seconds(2);
constexpr std::size_t most_unproven = 4096;

}  // namespace

PeerLoop::PeerLoop(const Secret& secret, Handler& handler, PayloadLimit limit, base::Log log)
    : secret_(secret), handler_(handler), limit_(limit), log_(log), listen_again_(poller_, [this] {
        for (const base::UniqueFd& listener : listeners_) poller_.set(listener.get(), {.read = true});
      }) {}

PeerLoop::~PeerLoop() { stop(); }

void PeerLoop::add_listener(base::UniqueFd listener) {
  const int fd = listener.get();
  listeners_.push_back(std::move(listener));
  poller_.add(fd, {.read = true}, [this, fd](base::Readiness) { accept_from(fd); });
}

void PeerLoop::close_listeners() {
  for (const base::UniqueFd& listener : listeners_) poller_.remove(listener.get());
  listeners_.clear();
}

Peer& PeerLoop::add(Connection connection) {
  peers_.push_back(std::make_unique<Peer>(std::move(connection), base::Deadline::after(prove_within)));
  Peer& peer = *peers_.back();
  try {
    poller_.add(peer.connection.fd(), peer.watched, [this, &peer](base::Readiness ready) { serve(peer, ready); });
  } catch (const std::bad_alloc&) {
    peers_.pop_back();
    throw;
  }
  return peer;
}

void PeerLoop::start(const char* thread_name) {
  thread_ = service_thread(thread_name, [this] { run(); });
}

void PeerLoop::post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  poller_.wake();
}

void PeerLoop::stop() {
  if (!thread_.joinable()) return;
  poller_.stop();
  thread_.join();
}

void PeerLoop::run() {
  int timeout_ms = -1;
  while (!poller_.stopped()) timeout_ms = turn(timeout_ms);
  (void)turn(0);  // the tasks that were posted before stop()
}

int PeerLoop::turn(int timeout_ms) {
  (void)poller_.wait(prepare(timeout_ms));  // also when the program has closed the descriptors: there may be tasks
  run_tasks();
  sweep();
  return handler_.on_turn();
}

/// Returns the time until the next turn. Tasks and handlers may have sent to any peer.
int PeerLoop::prepare(int timeout_ms) {
  const auto at_most = [&](int limit) { timeout_ms = timeout_ms < 0 ? limit : std::min(timeout_ms, limit); };
  for (const auto& peer : peers_) {
    const bool stalled = peer->connection.stalled();
    const base::Readiness wanted{!peer->dropped, peer->connection.wants_write() && !stalled};
    if (wanted != peer->watched) poller_.set(peer->connection.fd(), peer->watched = wanted);
    if (stalled) at_most(1);
    if (!peer->connection.authenticated() || peer->dropped) at_most(peer->authenticate_by.left_ms());
  }
  return timeout_ms;
}

void PeerLoop::serve(Peer& peer, base::Readiness ready) {
  if (ready.write) peer.connection.write();
  if (ready.read) drain(peer);
}

void PeerLoop::drop(Peer& peer) {
  peer.dropped = true;
  peer.authenticate_by = base::Deadline::after(std::chrono::seconds(1));
}

Connection PeerLoop::take(Peer& peer) {
  peer.taken = peer.dropped = true;
  poller_.remove(peer.connection.fd());
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
    bool exhausted = false;
    base::UniqueFd socket = accept_one(listener, exhausted);
    if (exhausted) {  // no free descriptor: don't wait for the listeners for a short time
      for (const base::UniqueFd& each : listeners_) poller_.set(each.get(), {});
      listen_again_.set(std::chrono::milliseconds(10));
    }
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
    if (peers_[i]->connection.stalled()) peers_[i]->connection.write();
    if (!is_over(*peers_[i])) {
      ++i;
      continue;
    }
    const std::unique_ptr<Peer> gone = std::move(peers_[i]);
    peers_.erase(peers_.begin() + static_cast<std::ptrdiff_t>(i));
    if (gone->taken) continue;
    poller_.remove(gone->connection.fd());
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
