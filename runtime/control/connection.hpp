// Connection: an authenticated, buffered, non-blocking connection.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <hmc/error.hpp>

#include "runtime/base/fd.hpp"
#include "runtime/base/fields.hpp"
#include "runtime/base/tls.hpp"
#include "runtime/control/frame.hpp"
#include "runtime/control/secret.hpp"
#include "runtime/control/socket.hpp"

namespace hmc::control {

using SharedFd = std::shared_ptr<base::UniqueFd>;

/// Both sides first exchange a hello with a nonce, signed with the job's secret. Later frames are signed with keys that
/// are derived from the secret and both nonces; messages sent before that are queued. The store, the agents and the
/// ranks use it; the caller polls. Owns the socket. HMC_TLS=1 encrypts TCP sockets. One thread at a time.
class Connection {
 public:
  enum class Side { client, server };
  Connection(base::UniqueFd socket, const Secret& secret, Side side, PayloadLimit limit);

  int fd() const noexcept { return socket_.get(); }
  /// True if the peer has proved in this session, not by a replay, that it has the secret.
  bool authenticated() const noexcept { return authenticated_; }

  /// Message::type is its protocol's.
  template <typename Message> void send(const Message& message, std::vector<SharedFd> fds = {}) {
    send_encoded(static_cast<MessageType>(Message::type), base::encode(message), std::move(fds));
  }
  /// For one message to several peers: the message is encoded once and signed for each.
  void send_encoded(MessageType type, const base::Bytes& payload, std::vector<SharedFd> fds = {});

  /// Transfer as much as possible without waiting.
  void read();
  void write();
  /// The next complete message. Its descriptors are added to `fds`.
  std::optional<Frame> next(std::vector<base::UniqueFd>& fds);

  bool wants_write() const noexcept { return !out_.empty(); }
  std::size_t unsent_bytes() const noexcept { return unsent_; }  ///< with an authenticated peer
  std::uint64_t sent_bytes() const noexcept { return sent_; }    ///< since the construction
  /// True if the kernel currently accepts no descriptors. poll doesn't report when it does again, so the caller must
  /// retry soon.
  bool stalled() const noexcept { return stalled_; }
  /// True if no more data will arrive. next() still returns messages that arrived before.
  bool ended() const noexcept { return ended_; }
  /// The reason of the end; empty if the peer closed the connection normally.
  const std::string& fault() const noexcept { return fault_; }
  /// For an error about the fault.
  Code fault_code() const noexcept {
    return opener_.fault() == FrameFault::version ? Code::invalid_config : Code::refused;
  }
  /// True if it ended because this process had no free descriptors to receive those of a message.
  bool lost_descriptors() const noexcept { return lost_descriptors_; }
  /// Shuts down the sending side. The peer receives all sent data, then the end of the stream.
  void finish() noexcept;

 private:
  struct Outgoing {
    base::Bytes bytes;
    std::size_t sent = 0;
    std::vector<SharedFd> fds;  // sent with the first byte
  };
  struct Waiting {
    MessageType type;
    base::Bytes payload;
    std::vector<SharedFd> fds;
  };

  /// By TLS, or directly.
  IoResult transmit(base::ByteView bytes, const std::vector<SharedFd>& fds);
  IoResult receive(std::span<std::byte> into, std::vector<base::UniqueFd>& fds);
  void send_hello();
  bool receive_hello(const Frame& frame);
  void push(MessageType type, const base::Bytes& payload, std::vector<SharedFd> fds);
  void end(std::string fault);

  base::UniqueFd socket_;
  std::optional<base::Tls> tls_;
  Secret secret_;
  Side side_;
  std::array<std::byte, 32> my_nonce_;
  FrameSealer sealer_;
  FrameOpener opener_;
  bool keyed_ = false;
  bool authenticated_ = false;
  bool stalled_ = false;
  bool ended_ = false;
  bool lost_descriptors_ = false;
  std::string fault_;
  std::vector<Waiting> waiting_;  // messages that wait for the key
  std::deque<Outgoing> out_;
  std::size_t unsent_ = 0;  // bytes in out_
  std::uint64_t sent_ = 0;
  std::deque<base::UniqueFd> fds_in_;
};

/// For code without a PeerLoop: sleeps until the connection is ready, at most for `timeout_ms`; then reads and writes.
void move_or_sleep(Connection& connection, int timeout_ms);

}  // namespace hmc::control
