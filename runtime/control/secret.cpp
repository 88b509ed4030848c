// Uses OpenSSL's low-level SHA-256, which is deprecated in favour of providers. Providers would cost every rank 2 ms at
// start, and would read openssl.cnf in the user's process.
#define OPENSSL_SUPPRESS_DEPRECATED

#include "runtime/control/secret.hpp"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <sys/random.h>

#include <cerrno>

#include <hmc/error.hpp>

namespace hmc::control {

namespace {

int digit_of(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// Starts a hash with the padded and masked key: one half of HMAC (RFC 2104).
SHA256_CTX keyed_hash(const std::array<std::byte, Secret::bytes>& key, std::uint8_t mask) {
  std::array<std::uint8_t, SHA256_CBLOCK> block{};
  for (std::size_t i = 0; i < block.size(); ++i) {
    block[i] = static_cast<std::uint8_t>((i < key.size() ? static_cast<std::uint8_t>(key[i]) : 0U) ^ mask);
  }
  SHA256_CTX hash;
  SHA256_Init(&hash);
  SHA256_Update(&hash, block.data(), block.size());
  return hash;
}

}  // namespace

Secret Secret::random() { return from_bytes(random_bytes()); }

Secret Secret::from_bytes(const std::array<std::byte, bytes>& key) noexcept {
  Secret secret;
  secret.key_ = key;
  return secret;
}

Secret Secret::from_hex(std::string_view hex) {
  Secret secret;
  bool good = hex.size() == 2 * bytes;
  for (std::size_t i = 0; good && i < bytes; ++i) {
    const int high = digit_of(hex[2 * i]);
    const int low = digit_of(hex[2 * i + 1]);
    good = high >= 0 && low >= 0;
    secret.key_[i] = static_cast<std::byte>(high * 16 + low);
  }
  // The error text must not contain the secret, because other people read logs.
  if (!good) {
    throw Error(Code::invalid_config, "HMC_SECRET", "it is not 64 hex digits",
                "make one with `openssl rand -hex 32` and give the same to every rank");
  }
  return secret;
}

std::string Secret::hex() const {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const std::byte each : key_) {
    text += digits[static_cast<std::uint8_t>(each) >> 4];
    text += digits[static_cast<std::uint8_t>(each) & 15];
  }
  return text;
}

Mac Secret::sign(std::initializer_list<base::ByteView> parts) const {
  SHA256_CTX inner = keyed_hash(key_, 0x36);
  for (const base::ByteView part : parts) SHA256_Update(&inner, part.data(), part.size());
  Mac digest;
  SHA256_Final(reinterpret_cast<unsigned char*>(digest.data()), &inner);
  SHA256_CTX outer = keyed_hash(key_, 0x5c);
  SHA256_Update(&outer, digest.data(), digest.size());
  SHA256_Final(reinterpret_cast<unsigned char*>(digest.data()), &outer);
  return digest;
}

std::array<std::byte, 32> key_of_wires(const Secret& secret) {
  return secret.derive({base::as_bytes("hmc tags")}).key();
}

bool equal(base::ByteView a, base::ByteView b) noexcept {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::array<std::byte, 32> random_bytes() {
  std::array<std::byte, 32> bytes{};
  ssize_t got = 0;
  do {
    got = ::getrandom(bytes.data(), bytes.size(), 0);
  } while (got < 0 && errno == EINTR);
  // getrandom returns up to 256 bytes completely or not at all.
  if (got != static_cast<ssize_t>(bytes.size()))
    throw Error(Code::error, "getrandom", "the system gave no random bytes");
  return bytes;
}

}  // namespace hmc::control
