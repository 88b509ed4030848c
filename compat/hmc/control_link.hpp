// ControlLink: all connections to one peer process.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/base/deadline.hpp"
#include "runtime/base/status.hpp"
#include "runtime/control/connection.hpp"

namespace hmc::compat {

/// The messages of this layer on a Connection. `hello` (1) is the connection's own.
enum class ControlType : std::uint16_t { introduction = 64, answer, message };
constexpr control::MessageType type_of(ControlType type) noexcept { return static_cast<control::MessageType>(type); }

inline constexpr int interrupt_poll_ms = 50;  ///< then a wait checks for interrupts

/// A random number of a process. It shows that two connections belong to the same process.
using Instance = std::array<std::byte, 16>;

/// There may be several connections, because both processes may connect, and any number of
/// times. Each side sends on its first open one and receives from all that the peer hasn't closed, side by side. The
/// peer sends nothing on others. If the peer has closed its connections and connects again, the earlier ones are read
/// to their end first. So messages stay in order. Threads: any.
class ControlLink {
 public:
  explicit ControlLink(const Instance& instance) : instance_(instance) {}
  const Instance& instance() const noexcept { return instance_; }
  /// `peer_closes`: how often the peer had closed its connections to this process before.
  void add(control::Connection connection, std::uint64_t peer_closes);
  bool alive();
  /// The socket that send() uses; -1: none.
  int fd();
  /// peer_failed: the connection has ended.
  base::Status send(const base::Bytes& message, base::Deadline deadline);
  /// peer_failed: all connections have ended, and all messages were received.
  base::Status receive(base::Bytes& message, base::Deadline deadline);
  /// Wakes and fails all calls.
  void close();

 private:
  struct Line {
    Line(control::Connection opened, std::uint64_t closes) : connection(std::move(opened)), peer_closes(closes) {}
    std::mutex mutex;
    control::Connection connection;
    const std::uint64_t peer_closes;
    std::deque<base::Bytes> unread;  ///< that add() took from the connection; under `mutex`
  };
  /// The connection that send() uses; null: none is open.
  std::shared_ptr<Line> first_open();
  std::vector<std::shared_ptr<Line>> lines();

  const Instance instance_;
  std::mutex mutex_;
  bool closed_ = false;
  std::vector<std::shared_ptr<Line>> lines_;
};

}  // namespace hmc::compat
