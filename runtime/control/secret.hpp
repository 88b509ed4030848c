// Secret: the key that the members of one job share.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>

#include "runtime/base/bytes.hpp"

namespace hmc::control {

using Mac = std::array<std::byte, 32>;

class Secret {
 public:
  static constexpr std::size_t bytes = 32;
  static Secret random();
  /// 64 hex digits. Throws Error{invalid_config}.
  static Secret from_hex(std::string_view hex);
  static Secret from_bytes(const std::array<std::byte, bytes>& key) noexcept;
  std::string hex() const;
  const std::array<std::byte, bytes>& key() const noexcept { return key_; }

  /// HMAC-SHA256 of `message`, or of the concatenated parts, under this secret.
  Mac sign(base::ByteView message) const { return sign({message}); }
  Mac sign(std::initializer_list<base::ByteView> parts) const;
  /// Derives a key for one purpose, which doesn't reveal this secret.
  Secret derive(std::initializer_list<base::ByteView> purpose) const { return from_bytes(sign(purpose)); }

 private:
  std::array<std::byte, bytes> key_{};
};

/// The key of the wires of one job, or of open wires.
std::array<std::byte, 32> key_of_wires(const Secret& secret);

/// Compares in constant time.
bool equal(base::ByteView a, base::ByteView b) noexcept;

/// Random bytes from the kernel. Throws Error.
std::array<std::byte, 32> random_bytes();

}  // namespace hmc::control
