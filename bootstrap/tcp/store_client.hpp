// Store::Client: the connection of one process to the shared store, and its thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include <hmc/store.hpp>

#include "bootstrap/tcp/shared_store_messages.hpp"
#include "runtime/control/access.hpp"
#include "runtime/control/peer_loop.hpp"

namespace hmc {

/// Threads: any. Callbacks run on the loop's thread.
class Store::Client final : private control::PeerLoop::Handler {
 public:
  /// `event` is null when the connection has ended; the watch then exists no more.
  using OnEvent = std::function<void(const bootstrap::StoreEvent* event)>;

  /// An authenticated connection whose server has answered the hello. Throws Error.
  static std::shared_ptr<Client> connect(const std::string& address, Timeout timeout);
  Client(control::Connection connection, const control::Access& access, const base::Env& env);
  ~Client() override;

  /// Sends the call and waits for its answer. Throws Error: the answer's, or peer_failed, or timeout. `waits`: the
  /// server answers only after an event of another client; at the timeout the call is cancelled.
  bootstrap::StoreAnswer call(const char* operation, bootstrap::StoreCall call, Timeout timeout, bool waits);
  bootstrap::StoreAnswer call(const char* operation, bootstrap::StoreCall message) {
    return call(operation, std::move(message), job_timeout, false);
  }
  /// As call(), for a call that starts a watch: `number` or, if `by_id`, the call's id is that of the watch.
  bootstrap::StoreAnswer watch(const char* operation, bootstrap::StoreCall call, OnEvent on_event, bool by_id = false);
  /// The last number that watch() has assigned in this thread's last call.
  bool unwatch(std::uint64_t number);
  /// Sends a call without waiting for its answer. From any thread, callbacks included.
  void send(bootstrap::StoreCall call);

  /// The exit handler of a prefix.
  std::map<std::string, std::uint64_t>& exit_watches() noexcept { return exit_watches_; }
  std::mutex& exit_lock() noexcept { return exit_lock_; }

  bool is_connected() const;
  std::chrono::nanoseconds timeout_of(Timeout timeout) const;
  const control::Access& access() const noexcept { return access_; }
  const base::Env& env() const noexcept { return env_; }

 private:
  struct Pending {
    bool done = false;
    bootstrap::StoreAnswer answer;
  };
  void on_frame(control::Peer& from, const control::Frame& frame, std::vector<base::UniqueFd> fds) override;
  void on_end(control::Peer& peer) override;
  void on_event(const bootstrap::StoreEvent& event);
  void post(const std::shared_ptr<bootstrap::StoreCall>& call);
  void require_usable(const char* operation) const;
  bootstrap::StoreAnswer await(const char* operation, std::uint64_t id, std::chrono::nanoseconds timeout, bool waits);

  const base::Env env_;
  const control::Access access_;
  const std::uint64_t process_;
  mutable std::mutex lock_;
  std::condition_variable changed_;
  std::uint64_t last_number_ = 0;  // of calls and watches
  std::map<std::uint64_t, Pending> pending_;
  std::map<std::uint64_t, std::shared_ptr<OnEvent>> watches_;
  bool ended_ = false;
  std::string why_ended_;
  std::mutex exit_lock_;
  std::map<std::string, std::uint64_t> exit_watches_;
  control::Peer* server_ = nullptr;  // only on the loop's thread
  std::thread::id thread_;
  control::PeerLoop loop_;  // last: its thread uses the other members
};

}  // namespace hmc
