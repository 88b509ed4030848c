#include "runtime/base/tls.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include <hmc/error.hpp>

namespace hmc::base {

namespace {

// clang-format off
#define HMC_TLS_FUNCTIONS(X) \
  X(OPENSSL_init_ssl) X(TLS_method) X(ERR_clear_error) \
  X(SSL_CTX_new) X(SSL_CTX_free) X(SSL_CTX_ctrl) X(SSL_CTX_set_options) X(SSL_CTX_set_ciphersuites) \
  X(SSL_CTX_set_num_tickets) X(SSL_CTX_set_verify) \
  X(SSL_CTX_set_psk_use_session_callback) X(SSL_CTX_set_psk_find_session_callback) \
  X(SSL_new) X(SSL_free) X(SSL_set_bio) X(SSL_set_ex_data) X(SSL_get_ex_data) X(SSL_set_accept_state) \
  X(SSL_set_connect_state) X(SSL_read) X(SSL_write) X(SSL_get_error) X(SSL_pending) \
  X(SSL_SESSION_new) X(SSL_SESSION_free) X(SSL_SESSION_set1_master_key) X(SSL_SESSION_set_cipher) \
  X(SSL_SESSION_set_protocol_version) X(SSL_CIPHER_find) \
  X(BIO_meth_new) X(BIO_meth_set_read) X(BIO_meth_set_write) X(BIO_meth_set_ctrl) X(BIO_new) X(BIO_set_data) \
  X(BIO_get_data) X(BIO_set_init) X(BIO_set_flags) X(BIO_clear_flags)
// clang-format on

/// OpenSSL's functions, under their own names. It isn't linked: the start of a rank would take longer, and few jobs
/// need it.
struct OpenSsl {
#define HMC_TLS_POINTER(name) decltype(&::name) name = nullptr;
  HMC_TLS_FUNCTIONS(HMC_TLS_POINTER)
#undef HMC_TLS_POINTER
  BIO_METHOD* socket_method = nullptr;

  /// One per process, like the loaded library; immutable after construction. Throws Error{unavailable}.
  static const OpenSsl& get() {
    static const OpenSsl openssl;
    return openssl;
  }

 private:
  OpenSsl();
};

/// The socket of a BIO, with send(2) in place of OpenSSL's write(2), which could raise SIGPIPE.
int socket_of(BIO* bio) noexcept {
  return static_cast<int>(reinterpret_cast<std::intptr_t>(OpenSsl::get().BIO_get_data(bio)));
}
int finish_call(BIO* bio, ssize_t count, int retry) noexcept {
  OpenSsl::get().BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
    OpenSsl::get().BIO_set_flags(bio, retry | BIO_FLAGS_SHOULD_RETRY);
  return static_cast<int>(count);
}
int read_socket(BIO* bio, char* into, int bytes) {
  return finish_call(bio, ::recv(socket_of(bio), into, static_cast<std::size_t>(bytes), MSG_DONTWAIT), BIO_FLAGS_READ);
}
int write_socket(BIO* bio, const char* from, int bytes) {
  const int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
  return finish_call(bio, ::send(socket_of(bio), from, static_cast<std::size_t>(bytes), flags), BIO_FLAGS_WRITE);
}
long control_socket(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

OpenSsl::OpenSsl() {
  const auto fail = [](const std::string& why) {
    throw Error(Code::unavailable, "HMC_TLS", why, "install OpenSSL 3 (Debian: libssl3)");
  };
  // RTLD_LOCAL: its symbols must not replace symbols of the program.
  void* const library = ::dlopen("libssl.so.3", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fail(fmt::format("can't load OpenSSL: {}", ::dlerror()));
#define HMC_TLS_RESOLVE(name)                                                   \
  this->name = reinterpret_cast<decltype(this->name)>(::dlsym(library, #name)); \
  if (this->name == nullptr) fail("this OpenSSL has no " #name);
  HMC_TLS_FUNCTIONS(HMC_TLS_RESOLVE)
#undef HMC_TLS_RESOLVE
  // Without openssl.cnf: the user's process may have another purpose for it.
  if (OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr) != 1) fail("OpenSSL can't be initialized");
  socket_method = BIO_meth_new(BIO_TYPE_SOURCE_SINK | 99, "hmc socket");
  if (socket_method == nullptr || BIO_meth_set_read(socket_method, &read_socket) != 1 ||
      BIO_meth_set_write(socket_method, &write_socket) != 1 || BIO_meth_set_ctrl(socket_method, &control_socket) != 1)
    fail("OpenSSL has no memory");
}

constexpr std::array<unsigned char, 3> identity{'h', 'm', 'c'};  // of the one key; sent in clear

/// A session whose key is the connection's. Null if out of memory.
SSL_SESSION* session_of(SSL* ssl) noexcept {
  const OpenSsl& openssl = OpenSsl::get();
  const auto& key = *static_cast<const TlsKey*>(openssl.SSL_get_ex_data(ssl, 0));
  constexpr unsigned char aes_128_gcm_sha256[] = {0x13, 0x01};
  SSL_SESSION* const session = openssl.SSL_SESSION_new();
  if (session != nullptr &&
      openssl.SSL_SESSION_set1_master_key(session, reinterpret_cast<const unsigned char*>(key.data()), key.size()) ==
          1 &&
      openssl.SSL_SESSION_set_cipher(session, openssl.SSL_CIPHER_find(ssl, aes_128_gcm_sha256)) == 1 &&
      openssl.SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1)
    return session;
  openssl.SSL_SESSION_free(session);
  return nullptr;
}

int use_key(SSL* ssl, const EVP_MD*, const unsigned char** id, std::size_t* id_length, SSL_SESSION** session) {
  *id = identity.data();
  *id_length = identity.size();
  *session = session_of(ssl);
  return *session != nullptr ? 1 : 0;
}

int find_key(SSL* ssl, const unsigned char* id, std::size_t id_length, SSL_SESSION** session) {
  *session = std::equal(id, id + id_length, identity.begin(), identity.end()) ? session_of(ssl) : nullptr;
  return 1;  // without a session the handshake fails, because this server has no certificate
}

}  // namespace

struct Tls::State {
  TlsKey key;
  SSL_CTX* context = nullptr;
  SSL* ssl = nullptr;

  ~State() {
    if (ssl != nullptr) OpenSsl::get().SSL_free(ssl);
    if (context != nullptr) OpenSsl::get().SSL_CTX_free(context);
  }
  /// The result of a call of OpenSSL, as a system call would return it.
  ssize_t result(int count) const noexcept {
    if (count > 0) return count;
    switch (OpenSsl::get().SSL_get_error(ssl, count)) {
      case SSL_ERROR_WANT_READ:
      case SSL_ERROR_WANT_WRITE: errno = EAGAIN; return -1;
      case SSL_ERROR_ZERO_RETURN: return 0;
      case SSL_ERROR_SYSCALL:
        if (errno == 0) return 0;  // the end of the stream
        return -1;
      default: errno = EPROTO; return -1;
    }
  }
};

Tls::Tls(int socket, Side side, const TlsKey& key) : state_(std::make_unique<State>()) {
  const OpenSsl& openssl = OpenSsl::get();
  State& state = *state_;
  state.key = key;
  const auto require = [](bool holds) {
    if (!holds) throw Error(Code::unavailable, "HMC_TLS", "OpenSSL can't create a session");
  };
  require((state.context = openssl.SSL_CTX_new(openssl.TLS_method())) != nullptr);
  require(openssl.SSL_CTX_ctrl(state.context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION, nullptr) == 1);
  require(openssl.SSL_CTX_set_ciphersuites(state.context, "TLS_AES_128_GCM_SHA256") == 1);
  // The same bytes may be written again from another address. The layers above detect a stream that ends early.
  openssl.SSL_CTX_ctrl(state.context, SSL_CTRL_MODE,
                       SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER, nullptr);
  openssl.SSL_CTX_set_options(state.context, SSL_OP_IGNORE_UNEXPECTED_EOF);
  openssl.SSL_CTX_set_num_tickets(state.context, 0);
  // A server with a certificate, but without the key, is refused: no certificate is trusted.
  if (side == Side::client) openssl.SSL_CTX_set_verify(state.context, SSL_VERIFY_PEER, nullptr);
  openssl.SSL_CTX_set_psk_use_session_callback(state.context, &use_key);
  openssl.SSL_CTX_set_psk_find_session_callback(state.context, &find_key);

  require((state.ssl = openssl.SSL_new(state.context)) != nullptr);
  require(openssl.SSL_set_ex_data(state.ssl, 0, &state.key) == 1);
  BIO* const bio = openssl.BIO_new(openssl.socket_method);
  require(bio != nullptr);
  openssl.BIO_set_data(bio, reinterpret_cast<void*>(static_cast<std::intptr_t>(socket)));
  openssl.BIO_set_init(bio, 1);
  openssl.SSL_set_bio(state.ssl, bio, bio);
  if (side == Side::client)
    openssl.SSL_set_connect_state(state.ssl);
  else
    openssl.SSL_set_accept_state(state.ssl);
}

Tls::~Tls() = default;
Tls::Tls(Tls&&) noexcept = default;
Tls& Tls::operator=(Tls&&) noexcept = default;

ssize_t Tls::read(void* into, std::size_t bytes) noexcept {
  OpenSsl::get().ERR_clear_error();  // SSL_get_error also reports older errors of this thread
  errno = 0;
  return state_->result(
      OpenSsl::get().SSL_read(state_->ssl, into, static_cast<int>(std::min<std::size_t>(bytes, INT_MAX))));
}

ssize_t Tls::write(const void* from, std::size_t bytes) noexcept {
  OpenSsl::get().ERR_clear_error();
  errno = 0;
  return state_->result(
      OpenSsl::get().SSL_write(state_->ssl, from, static_cast<int>(std::min<std::size_t>(bytes, INT_MAX))));
}

bool Tls::has_decrypted() const noexcept { return OpenSsl::get().SSL_pending(state_->ssl) > 0; }

}  // namespace hmc::base
