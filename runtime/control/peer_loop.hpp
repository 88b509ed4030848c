// PeerLoop: one thread that serves connections. The store and the agents are built on it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "runtime/base/deadline.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/poller.hpp"
#include "runtime/control/connection.hpp"

namespace hmc::control {

/// One connection of a loop. Only the loop's handler uses `rank`, `registered` and `pid`, only the loop the rest.
struct Peer {
  Peer(Connection link, base::Deadline deadline) : connection(std::move(link)), authenticate_by(deadline) {}
  Connection connection;
  base::Deadline authenticate_by;
  bool registered = false;  ///< an agent at the store; a rank at its agent
  int rank = -1;            ///< at an agent: the connected rank
  int pid = 0;              ///< at the store: the agent's process
  base::Readiness watched;
  bool dropped = false;  ///< by PeerLoop::drop
  bool taken = false;    ///< by PeerLoop::take
};

/// A connection without a valid first message in time, or with malformed data, is refused: it is closed and counted,
/// and the first one is logged with its address. The handler isn't called for it. The handler is called on the loop's
/// thread.
class PeerLoop {
 public:
  class Handler {
   public:
    virtual ~Handler() = default;
    /// The reason for which this connection is refused; empty: none.
    virtual std::string refusal_of(int /*socket*/) { return {}; }
    virtual void on_frame(Peer& from, const Frame& frame, std::vector<base::UniqueFd> fds) = 0;
    /// An authenticated peer's connection has ended. The peer is destroyed after this call.
    virtual void on_end(Peer& peer) = 0;
    /// Called after each turn. Returns the time in ms after which it needs another turn; -1: none.
    virtual int on_turn() { return -1; }
  };

  /// Throws Error as Poller does.
  PeerLoop(const Secret& secret, Handler& handler, PayloadLimit limit, base::Log log = base::Log());
  ~PeerLoop();

  /// Before start(), or on the loop's thread.
  void add_listener(base::UniqueFd listener);
  void close_listeners();  ///< on the loop's thread, in a task
  /// Adds a connection that this side opened. Before start(), or on the loop's thread.
  Peer& add(Connection connection);
  /// Adds a connection that the other side opened. On the loop's thread.
  void admit(base::UniqueFd socket) { add(Connection(std::move(socket), secret_, Connection::Side::server, limit_)); }
  void start(const char* thread_name);
  /// Runs `task` on the loop's thread. From any thread.
  void post(std::function<void()> task);
  /// Ends the thread after a last turn. Then the caller may access the peers.
  void stop();

  std::vector<std::unique_ptr<Peer>>& peers() noexcept { return peers_; }
  std::size_t unknown_connections() const noexcept { return unknown_connections_.load(std::memory_order_relaxed); }

  /// Closes the connection when its unsent data is sent, or after a short time. The handler is called only for its end.
  void drop(Peer& peer);
  /// Takes an authenticated connection out of the loop; on_end isn't called for it. In on_frame only.
  Connection take(Peer& peer);
  /// Reads all data that has arrived from this peer and passes it to the handler.
  void drain(Peer& peer);

 private:
  void run();
  int turn(int timeout_ms);
  int prepare(int timeout_ms);
  void serve(Peer& peer, base::Readiness ready);
  void accept_from(int listener);
  void run_tasks();
  void sweep();
  bool is_over(const Peer& peer) const;
  void refuse(int socket, std::string_view reason);

  Secret secret_;
  Handler& handler_;
  PayloadLimit limit_;
  const base::Log log_;
  base::Poller poller_;
  std::vector<base::UniqueFd> listeners_;
  std::vector<std::unique_ptr<Peer>> peers_;
  base::Poller::Timer listen_again_;  // set while accept has no free descriptor
  std::mutex mutex_;
  std::vector<std::function<void()>> tasks_;  // under mutex_
  bool has_logged_ = false;
  std::atomic<std::size_t> unknown_connections_{0};  // relaxed: a count that orders nothing
  std::thread thread_;
};

}  // namespace hmc::control
