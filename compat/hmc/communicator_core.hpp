// The state of a Communicator.
#pragma once

#include <array>
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

/// The Endpoint and the peers of a ConnType are created by its first initServer() or connectTo().
struct Communicator::Core {
  /// If the environment is invalid, `env` contains the defaults, and open() reports the error.
  Core(std::shared_ptr<ConnBuffer> its_buffer, std::size_t its_channels, const base::Env& env)
      : buffer(std::move(its_buffer)),
        channels(its_channels),
        log(env.log),
        timeout(env.timeout_or(compat::default_timeout)) {}

  struct Plane {
    Plane(std::shared_ptr<ConnBuffer> of, const std::vector<std::string>& wires, std::size_t channels,
          const base::Env& env, base::Log log, compat::Halves& halves)
        : peers(std::move(of), wires, channels, env, log), data(peers, halves) {}
    compat::Peers peers;
    compat::DataPlane data;
  };
  static constexpr std::array types{ConnType::RDMA, ConnType::UCX};
  static constexpr std::size_t index_of(ConnType type) noexcept { return type == ConnType::UCX ? 1 : 0; }
  /// Null before the type's first initServer() or connectTo().
  Plane* find(ConnType type) const noexcept { return opened[index_of(type)].load(std::memory_order_acquire); }
  /// The type's plane and the other one, in this order; those that are open first. Null: not open.
  std::array<Plane*, 2> in_order(ConnType type) const noexcept;

  /// Throws Error.
  Plane& open(ConnType type);
  status_t listen(const std::string& ip, std::uint16_t port, ConnType type) noexcept;
  /// Runs `body`, which returns base::Status, and reports its failure. Nothing is thrown.
  template <typename Body> status_t run(const char* operation, Body&& body) noexcept;
  /// As run(); `body` gets the plane and the peer: of the given type, or, if no peer of this type has the name, of the
  /// other one. NOT_FOUND if no peer has the name.
  template <typename Name, typename Body>
  status_t with_peer(const char* operation, ConnType type, const Name& name, Body&& body) noexcept;
  /// `wait` is called for one or all planes, until it returns another code than not_found.
  template <typename Wait> base::Status wait_in_each(Wait&& wait) const;
  /// `call` gets the process's CtrlSocketManager and returns the result. Nothing is thrown.
  template <typename Call> status_t with_manager(const char* operation, Call&& call) noexcept;
  /// put and get: the peer of the thread's last call is found without a lock.
  status_t move(const char* operation, ConnType type, compat::Move move, const std::string& ip, std::uint16_t port,
                const compat::Range& range) noexcept;
  static std::uint64_t next_id() noexcept;
  status_t report(const char* operation, Code code, std::string_view what) noexcept;

  base::Deadline deadline() const noexcept { return base::Deadline::after(timeout); }

  const std::uint64_t id = next_id();  ///< unique in this process, over time
  const std::shared_ptr<ConnBuffer> buffer;
  const std::size_t channels;  // num_chs
  std::mutex lock;
  compat::Halves halves;
  std::array<std::unique_ptr<Plane>, 2> planes;  // by index_of(); created under lock, then constant
  std::array<std::atomic<Plane*>, 2> opened{};   // release after the plane is complete
  const base::Log log;
  const std::chrono::nanoseconds timeout;
  std::atomic<bool> runs_ctrl_server{false};  // by initServer or initCtrlServer of this object
  std::atomic<bool> has_older_server{false};  // initServer without a control port
};

}  // namespace hmc
