#include "runtime/control/connection.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "runtime/base/env.hpp"
#include "runtime/base/limits.hpp"
#include "runtime/base/poller.hpp"
#include "runtime/control/socket.hpp"

namespace hmc::control {

namespace {

using base::as_bytes;

// Each key has one purpose, so a frame of one phase isn't valid in another.
Secret client_hello_key(const Secret& secret) { return secret.derive({as_bytes("hmc client hello")}); }
Secret server_hello_key(const Secret& secret, base::ByteView client_nonce) {
  return secret.derive({as_bytes("hmc server hello"), client_nonce});
}
Secret session_key(const Secret& secret, base::ByteView client_nonce, base::ByteView server_nonce) {
  return secret.derive({as_bytes("hmc session"), client_nonce, server_nonce});
}

IoResult result_of(ssize_t count) noexcept {
  if (count >= 0) return {Io::some, static_cast<std::size_t>(count), 0};
  return {errno == EAGAIN ? Io::would_block : Io::failed, 0, errno};
}

std::string text_of(int error) {
  return error == EPROTO ? "it doesn't use TLS with this secret (HMC_TLS and HMC_SECRET are the same for all processes)"
                         : std::strerror(error);
}

}  // namespace

Connection::Connection(base::UniqueFd socket, const Secret& secret, Side side, PayloadLimit limit)
    : socket_(std::move(socket)), secret_(secret), side_(side), my_nonce_(random_bytes()), opener_(limit) {
  if (base::Env::uses_tls() && is_tcp(socket_.get()))
    tls_.emplace(socket_.get(), side == Side::client ? base::Tls::Side::client : base::Tls::Side::server,
                 secret.derive({as_bytes("hmc tls")}).key());
  if (side_ == Side::client) {
    sealer_.rekey(client_hello_key(secret_), Direction::to_server);
    opener_.rekey(server_hello_key(secret_, my_nonce_), Direction::to_client);
    send_hello();
  } else {
    opener_.rekey(client_hello_key(secret_), Direction::to_server);
  }
}

void Connection::send_hello() {
  push(MessageType::hello, base::Bytes(my_nonce_.begin(), my_nonce_.end()), {});
  write();
}

bool Connection::receive_hello(const Frame& frame) {
  if (frame.payload.size() != my_nonce_.size()) return false;
  const bool client = side_ == Side::client;
  const base::ByteView theirs = frame.payload;
  if (!client) {
    sealer_.rekey(server_hello_key(secret_, theirs), Direction::to_client);
    send_hello();
  }
  const Secret key = client ? session_key(secret_, my_nonce_, theirs) : session_key(secret_, theirs, my_nonce_);
  sealer_.rekey(key, client ? Direction::to_server : Direction::to_client);
  opener_.rekey(key, client ? Direction::to_client : Direction::to_server);
  opener_.hello_only(false);
  keyed_ = true;
  // The signature of the server's hello covers the client's nonce. A client's hello may be a replay; only its next
  // frame proves that it isn't.
  authenticated_ = client;
  for (Waiting& each : waiting_) push(each.type, each.payload, std::move(each.fds));
  waiting_.clear();
  write();
  return true;
}

void Connection::push(MessageType type, const base::Bytes& payload, std::vector<SharedFd> fds) {
  base::Bytes bytes = sealer_.seal(type, payload, static_cast<std::uint16_t>(fds.size()));
  unsent_ += bytes.size();
  out_.push_back({std::move(bytes), 0, std::move(fds)});
}

void Connection::send_encoded(MessageType type, const base::Bytes& payload, std::vector<SharedFd> fds) {
  if (ended_) return;
  if (!keyed_) {
    waiting_.push_back({type, payload, std::move(fds)});
    return;
  }
  push(type, payload, std::move(fds));
  write();
}

IoResult Connection::transmit(base::ByteView bytes, const std::vector<SharedFd>& fds) {
  if (tls_) return result_of(tls_->write(bytes.data(), bytes.size()));  // TCP carries no descriptors
  std::vector<int> numbers;
  for (const SharedFd& each : fds) numbers.push_back(each->get());
  return send_some(socket_.get(), bytes, numbers);
}

IoResult Connection::receive(std::span<std::byte> into, std::vector<base::UniqueFd>& fds) {
  if (!tls_) return receive_some(socket_.get(), into, fds);
  const IoResult result = result_of(tls_->read(into.data(), into.size()));
  return result.io == Io::some && result.bytes == 0 ? IoResult{Io::ended, 0, 0} : result;
}

void Connection::write() {
  stalled_ = false;
  while (!out_.empty() && !ended_) {
    Outgoing& first = out_.front();
    const IoResult result = transmit(base::ByteView(first.bytes).subspan(first.sent), first.fds);
    if (result.io == Io::would_block) {
      stalled_ = result.error == ETOOMANYREFS || result.error == ENOBUFS || result.error == ENOMEM;
      return;
    }
    if (result.io == Io::failed) {
      out_.clear();
      unsent_ = 0;
      // Data that the peer sent before the close may be unread. read() then detects the end.
      if (result.error != EPIPE && result.error != ECONNRESET) end(text_of(result.error));
      return;
    }
    first.fds.clear();
    first.sent += result.bytes;
    unsent_ -= result.bytes;
    sent_ += result.bytes;
    if (first.sent == first.bytes.size()) out_.pop_front();
  }
}

void Connection::read() {
  std::array<std::byte, 65536> chunk;
  std::vector<base::UniqueFd> fds;
  constexpr int fair_share = 32;  // maximum number of reads before other connections are served
  for (int i = 0; i < fair_share && !ended_; ++i) {
    const IoResult result = receive(chunk, fds);
    for (base::UniqueFd& each : fds) fds_in_.push_back(std::move(each));
    fds.clear();
    if (result.io == Io::would_block) return;
    if (result.io == Io::ended) return end({});
    if (result.io == Io::failed) {
      if (result.error == EMFILE) {
        lost_descriptors_ = true;
        return end("no descriptor is left to receive those of a message: " + base::descriptor_limit());
      }
      return end(result.error == ECONNRESET ? "" : text_of(result.error));
    }
    opener_.feed(base::ByteView(chunk).first(result.bytes));
    // An unauthenticated peer must not be able to fill this process's descriptor table.
    if (!keyed_ && !fds_in_.empty()) return end("it sent descriptors before its hello");
    if (!tls_ && result.bytes < chunk.size()) return;
  }
}

std::optional<Frame> Connection::next(std::vector<base::UniqueFd>& fds) {
  for (;;) {
    std::optional<Frame> frame = opener_.next();
    if (!frame) {
      if (opener_.fault() == FrameFault::version) {
        // The hello contains this side's protocol version, which the peer can read without a key.
        if (side_ == Side::server && !keyed_) send_hello();
        end(fmt::format("it uses protocol version {}, this library uses {}", opener_.peer_version(), protocol_version));
      } else if (opener_.fault() != FrameFault::none) {
        end(name_of(opener_.fault()));
      }
      return std::nullopt;
    }
    if (frame->fds > fds_in_.size()) {
      end("descriptors are missing");
      return std::nullopt;
    }
    if (!keyed_) {
      if (receive_hello(*frame)) continue;
      end("its hello is malformed");
      return std::nullopt;
    }
    authenticated_ = true;
    for (int i = 0; i < frame->fds; ++i) {
      fds.push_back(std::move(fds_in_.front()));
      fds_in_.pop_front();
    }
    return frame;
  }
}

void Connection::end(std::string fault) {
  ended_ = true;
  if (fault_.empty()) fault_ = std::move(fault);
}

void Connection::finish() noexcept { (void)::shutdown(socket_.get(), SHUT_WR); }

void move_or_sleep(Connection& connection, int timeout_ms) {
  const bool stalled = connection.stalled();
  const base::Readiness wanted{true, connection.wants_write() && !stalled};
  const bool is_ready = base::wait_for(connection.fd(), wanted, stalled ? std::min(timeout_ms, 1) : timeout_ms);
  connection.write();
  if (is_ready) connection.read();
}

}  // namespace hmc::control
