// Uses OpenSSL's low-level SHA-256, as runtime/control/secret.cpp does.
#define OPENSSL_SUPPRESS_DEPRECATED

#include "runtime/transport/keystream.hpp"

#include <openssl/sha.h>

#include <cstring>

namespace hmc::transport {

Keystream::Keystream(std::initializer_list<base::ByteView> key) noexcept {
  SHA256_CTX hash;
  SHA256_Init(&hash);
  for (const base::ByteView part : key) SHA256_Update(&hash, part.data(), part.size());
  SHA256_Final(reinterpret_cast<unsigned char*>(key_.data()), &hash);
  compute(0);
}

void Keystream::compute(std::uint64_t block) noexcept {
  // The key and the number have a fixed length, and fit in one block of the hash.
  std::array<unsigned char, sizeof key_ + sizeof block> input;
  std::memcpy(input.data(), key_.data(), sizeof key_);
  std::memcpy(input.data() + sizeof key_, &block, sizeof block);
  SHA256_CTX hash;
  SHA256_Init(&hash);
  SHA256_Update(&hash, input.data(), input.size());
  SHA256_Final(reinterpret_cast<unsigned char*>(words_.data()), &hash);
  block_ = block + 1;
}

}  // namespace hmc::transport
