// Connection: one authenticated, buffered, non-blocking conversation.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bootstrap/tcp/frame.hpp"
#include "bootstrap/tcp/messages.hpp"
#include "bootstrap/tcp/secret.hpp"
#include "runtime/base/fd.hpp"

namespace hmc::bootstrap {

using SharedFd = std::shared_ptr<base::UniqueFd>;

/// Both sides first exchange a hello with a nonce, signed with the job's secret; the frames after it
/// are signed with keys made of the secret and both nonces. What is sent before that waits. Used by
/// the store, the agents and the ranks alike; the caller polls. Owns the socket. One thread at a time.
class Connection {
 public:
  enum class Side { client, server };
  Connection(base::UniqueFd socket, const Secret& secret, Side side);

  int fd() const noexcept { return socket_.get(); }
  /// The other side has shown that it knows the secret, in this conversation and not in a recorded one.
  bool proven() const noexcept { return proven_; }

  template <typename Message> void send(const Message& message, std::vector<SharedFd> fds = {}) {
    send_encoded(Message::type, encode(message), std::move(fds));
  }
  /// For one message to many: encoded once, signed for each.
  void send_encoded(MessageType type, const base::Bytes& payload, std::vector<SharedFd> fds = {});

  /// Move what can be moved without waiting.
  void read();
  void write();
  /// The next whole message; its descriptors, as many as it has, are added to `fds`.
  std::optional<Frame> next(std::vector<base::UniqueFd>& fds);

  bool wants_write() const noexcept { return !out_.empty(); }
  /// The kernel takes no more descriptors for now, and poll can't tell when: try again soon.
  bool stalled() const noexcept { return stalled_; }
  /// Nothing will come any more. What had come before can still be taken by next().
  bool ended() const noexcept { return ended_; }
  /// Why it ended, for people; empty if the other side just closed.
  const std::string& fault() const noexcept { return fault_; }
  /// It ended because this process had no descriptor left for those that came.
  bool lost_descriptors() const noexcept { return lost_descriptors_; }
  /// The other side gets everything that was sent, then the end.
  void finish() noexcept;

 private:
  struct Outgoing {
    base::Bytes bytes;
    std::size_t sent = 0;
    std::vector<SharedFd> fds;  // go with the first byte
  };
  struct Waiting {
    MessageType type;
    base::Bytes payload;
    std::vector<SharedFd> fds;
  };

  void send_hello();
  bool take_hello(const Frame& frame);
  void push(MessageType type, const base::Bytes& payload, std::vector<SharedFd> fds);
  void end(std::string fault);
  void end_for_frame_fault();

  base::UniqueFd socket_;
  Secret secret_;
  Side side_;
  std::array<std::byte, 32> my_nonce_;
  FrameSealer sealer_;
  FrameOpener opener_;
  bool keyed_ = false;
  bool proven_ = false;
  bool stalled_ = false;
  bool ended_ = false;
  bool lost_descriptors_ = false;
  std::string fault_;
  std::vector<Waiting> waiting_;  // for the key
  std::deque<Outgoing> out_;
  std::deque<base::UniqueFd> fds_in_;
};

}  // namespace hmc::bootstrap
