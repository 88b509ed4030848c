// The state of a Communicator.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include <hmc/communicator.hpp>

#include "compat/hmc/data_plane.hpp"
#include "compat/hmc/peers.hpp"

namespace hmc {

/// The Endpoint and the peers are created by the first initServer() or connectTo(), whose ConnType chooses the wires.
struct Communicator::Core {
  /// If the environment is invalid, `env` contains the defaults, and open() reports the error.
  Core(std::shared_ptr<ConnBuffer> its_buffer, std::size_t its_channels, const base::Env& env)
      : buffer(std::move(its_buffer)),
        channels(its_channels),
        log(env.log),
        timeout(env.timeout_or(compat::default_timeout)) {}

  struct Plane {
    Plane(std::shared_ptr<ConnBuffer> of, const std::vector<std::string>& wires, std::size_t channels,
          const base::Env& env, base::Log log)
        : peers(std::move(of), wires, channels, env, log), data(peers) {}
    compat::Peers peers;
    compat::DataPlane data;
  };

  /// Throws Error.
  Plane& open(ConnType type);
  status_t listen(const std::string& ip, std::uint16_t port, ConnType type) noexcept;
  /// Runs `body`, which returns base::Status, and reports its failure. Nothing is thrown.
  template <typename Body> status_t run(const char* operation, Body&& body) noexcept;
  /// As run(); `body` gets the plane and the peer. NOT_FOUND if no peer has the name.
  template <typename Name, typename Body>
  status_t with_peer(const char* operation, const Name& name, Body&& body) noexcept;
  /// `call` gets the process's CtrlSocketManager and returns the result. Nothing is thrown.
  template <typename Call> status_t with_manager(const char* operation, Call&& call) noexcept;
  /// put and get: the peer of the thread's last call is found without a lock.
  status_t move(const char* operation, compat::Move move, const std::string& ip, std::uint16_t port,
                const compat::Range& range) noexcept;
  static std::uint64_t next_id() noexcept;
  status_t report(const char* operation, Code code, std::string_view what) noexcept;

  base::Deadline deadline() const noexcept { return base::Deadline::after(timeout); }

  const std::uint64_t id = next_id();  ///< unique in this process, over time
  const std::shared_ptr<ConnBuffer> buffer;
  const std::size_t channels;  // num_chs
  std::mutex lock;
  std::unique_ptr<Plane> plane;         // created under lock, then constant
  std::atomic<Plane*> opened{nullptr};  // release after `plane` is complete
  const base::Log log;
  const std::chrono::nanoseconds timeout;
  std::atomic<bool> runs_ctrl_server{false};  // by initServer or initCtrlServer of this object
  std::atomic<bool> has_older_server{false};  // initServer without a control port
};

}  // namespace hmc
