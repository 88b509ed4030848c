// Tls: a TLS 1.3 session of two processes that have the same key.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <memory>

namespace hmc::base {

using TlsKey = std::array<std::byte, 32>;

/// Encrypts the bytes of a connected, non-blocking socket. Both ends prove that they have the key (a pre-shared key;
/// there are no certificates), and an ephemeral Diffie-Hellman exchange keeps recorded traffic secret even if the key
/// leaks later. OpenSSL, opened by dlopen at the first use. The socket must outlive it. One thread at a time.
class Tls {
 public:
  enum class Side { client, server };
  /// Throws Error{unavailable} if OpenSSL can't be loaded.
  Tls(int socket, Side side, const TlsKey& key);
  ~Tls();
  Tls(Tls&&) noexcept;
  Tls& operator=(Tls&&) noexcept;

  /// Like recv(2) and send(2) without flags, and without SIGPIPE. The first calls make the handshake: errno is EAGAIN
  /// until it is complete, and EPROTO if the other end doesn't have the key or sends invalid data. After EAGAIN,
  /// write() must be repeated with the same bytes.
  ssize_t read(void* into, std::size_t bytes) noexcept;
  ssize_t write(const void* from, std::size_t bytes) noexcept;
  /// True if read() has bytes although the socket may have none.
  bool has_decrypted() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hmc::base
