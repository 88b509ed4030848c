// Peers: the peers of one Communicator: their identities, the handshake that connects them, and the thread that serves
// handshakes.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <hmc/conn_buffer.hpp>

#include "compat/hmc/control.hpp"
#include "compat/hmc/handshake.hpp"
#include "runtime/base/env.hpp"
#include "runtime/base/log.hpp"
#include "runtime/control/peer_loop.hpp"
#include "runtime/rma/endpoint.hpp"

namespace hmc::compat {

/// The name of a peer in calls. For a server it is the address that was passed to connectTo(), for a client the address
/// that the client declares. It is never the source address of a socket.
struct PeerName {
  std::string ip;
  std::uint16_t port = 0;  ///< 0: a client without a server; a call finds it by IP and any port
  friend bool operator==(const PeerName&, const PeerName&) = default;
};

/// The state of the paired calls of one kind and direction with one peer; DataPlane uses it.
struct Stream {
  std::timed_mutex lock;  ///< held during a call
  std::uint64_t messages = 0;
  std::uint64_t chunks = 0;  ///< of all messages
  bool broken = false;       ///< a call failed after a part of its message
};

struct Peer {
  enum class State { connecting, connected, failed };
  State state = State::connecting;
  Uid uid{};                        ///< of the peer's Communicator
  std::optional<std::uint32_t> id;  ///< on which both sides agreed
  std::vector<PeerName> names;
  int number = -1;        ///< its number in the Endpoint
  bool outgoing = false;  ///< this side opened the connection
  std::string why_failed;
  Stream data_send, data_receive, send, receive;
  Stream relay;  ///< of transfers to and from the peer's device memory; each is a message
};

/// Each pair of Communicators has one connection, authenticated with HMC_SECRET. Without HMC_SECRET only processes of
/// this user on this machine connect. If both sides connect at once, the connection of the side with the lower uid
/// remains.
/// Threads: any. One service thread accepts connections and detects the end of peers.
class Peers final : private control::PeerLoop::Handler {
 public:
  /// `wires`: the names in order of preference. `channels`: see job::make_open_wires. Throws Error.
  Peers(std::shared_ptr<ConnBuffer> buffer, const std::vector<std::string>& wires, std::size_t channels,
        const base::Env& env, base::Log log);
  ~Peers() override;

  /// Accepts peers at ip:port. Throws Error.
  void listen(const std::string& ip, std::uint16_t port);
  /// Closes the listener. Connected peers stay.
  void stop_listening();
  std::uint16_t port() const;  ///< of the listener

  struct Ids {
    std::uint32_t self = 0;
    std::uint32_t peer = 0;
  };
  /// Returns the peer; at once if it is connected already. Throws Error{timeout, refused, invalid_config, unavailable}.
  std::shared_ptr<Peer> connect(const PeerName& server, std::optional<Ids> ids, base::Deadline deadline);
  void disconnect(const std::shared_ptr<Peer>& peer);

  /// Null if there is no such peer, or if several peers have the ip.
  std::shared_ptr<Peer> find(const PeerName& name) const;
  std::shared_ptr<Peer> find(const std::string& ip) const;
  /// True if one or more peers have the ip.
  bool knows(const std::string& ip) const;
  std::vector<std::shared_ptr<Peer>> connected() const;
  bool has_name(const Peer& peer, const PeerName& name) const;
  /// ok, or the reason of the peer's failure.
  base::Status status(const Peer& peer) const;

  rma::Endpoint& endpoint() noexcept { return endpoint_; }
  const ConnBuffer& buffer() const noexcept { return *buffer_; }

 private:
  struct Accepting {  // the server's side of a handshake
    std::shared_ptr<Peer> peer;
    base::Bytes offer;
    std::string wire;
    Token token{};
    rma::Endpoint::Mapped mapped;
    base::Deadline commit_by;
  };

  std::string refusal_of(int socket) override;
  void on_frame(control::Peer& from, const control::Frame& frame, std::vector<base::UniqueFd> fds) override;
  void on_end(control::Peer& gone) override;
  int on_turn() override;

  void handle(control::Peer& from, const ConnectRequest& request);
  void handle(control::Peer& from, const ShareMemory& message, std::vector<base::UniqueFd>& fds);
  void handle(control::Peer& from, const Commit& message);
  void refuse(control::Peer& to, Code code, std::string text);
  rma::Endpoint::Mapped share_with(const Accepted& accepted, base::Deadline deadline);
  ShareMemory own_memory(std::vector<control::SharedFd>& fds) const;
  rma::Endpoint::Mapped map(const ShareMemory& message, std::vector<base::UniqueFd>& fds) const;
  static bool answers_to(const Peer& peer, const std::string& ip);
  std::shared_ptr<Peer> with_uid(const Uid& uid) const;
  /// Null: the server has another connection to this process, and a new attempt is needed.
  std::shared_ptr<Peer> try_connect(const PeerName& server, std::optional<Ids> ids, base::Deadline deadline);
  std::shared_ptr<Peer> await_connected(const Uid& uid, const PeerName& name, std::optional<Ids> ids,
                                        base::Deadline deadline);
  std::string refusal_of(const Uid& uid, std::int64_t claimed) const;
  void take_over(const std::shared_ptr<Peer>& peer);
  void forget(const std::shared_ptr<Peer>& peer);
  void fail(Peer& peer, std::string why);

  const std::shared_ptr<ConnBuffer> buffer_;
  const std::shared_ptr<memory::Allocation> relay_;  // null if the CPU can access the buffer
  const base::Log log_;
  const bool shares_memory_;
  const Access access_;
  const Uid uid_;
  std::uint64_t nonce_ = 0;  // in the control memory: proves that a mapping is this process's
  rma::Endpoint endpoint_;

  mutable std::mutex lock_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Peer>> peers_;  // under lock_
  std::optional<std::uint32_t> self_id_;      // under lock_
  PeerName server_;                           // under lock_; the listener
  std::string unix_name_;                     // under lock_

  // Only on the service thread.
  std::map<control::Peer*, Accepting> accepting_;
  std::map<control::Peer*, std::shared_ptr<Peer>> links_;
  control::PeerLoop loop_;  // last: its thread uses the other members
};

}  // namespace hmc::compat
