// PoolControl: the control plane of a pool, over a Store and abstract Unix sockets.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include <hmc/store.hpp>

#include "runtime/control/access.hpp"
#include "runtime/control/peer_loop.hpp"
#include "runtime/pool/control.hpp"

namespace hmc::job {

/// Owns the thread that serves the Unix socket. Threads: see pool::Control. The destructor waits for the handler's
/// functions in progress.
class PoolControl final : public pool::Control, private control::PeerLoop::Handler {
 public:
  /// `group`: of the pool in the store.
  PoolControl(std::shared_ptr<Store::Client> client, std::string group, pool::Control::Handler& handler);
  ~PoolControl() override;

  void stop() noexcept override;
  const std::string& local_name() const noexcept override { return local_name_; }
  Entry enter(int size, int wanted_rank, base::ByteView card) override;
  std::uint64_t commit() override;
  std::uint64_t leave() override;
  void post(int rank, base::ByteView bytes) override;
  void flush() override;
  pool::Shared share(const std::string& local_name, const pool::Shared& mine, base::Deadline deadline,
                     const std::atomic<bool>& stop) override;

 private:
  /// Shared with the callbacks of the client, which may run after the end of this object.
  struct Events {
    std::mutex lock;  // held during a call of the handler
    pool::Control::Handler* handler = nullptr;
  };
  std::string refusal_of(int socket) override { return access_.refusal_of(socket); }
  void on_frame(control::Peer& from, const control::Frame& frame, std::vector<base::UniqueFd> fds) override;
  void on_end(control::Peer&) override {}

  const std::shared_ptr<Store::Client> client_;
  const std::string group_;
  control::Access access_;
  std::string local_name_;
  pool::Control::Handler& handler_;
  const std::shared_ptr<Events> events_ = std::make_shared<Events>();
  std::uint64_t watch_ = 0;
  control::PeerLoop loop_;  // last: its thread uses the other members
};

}  // namespace hmc::job
