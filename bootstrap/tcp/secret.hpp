// Secret: what the members of one job share and a stranger doesn't have.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "runtime/base/bytes.hpp"

namespace hmc::bootstrap {

class Secret {
 public:
  static constexpr std::size_t bytes = 32;
  static Secret random();
  /// 64 hex digits. Throws Error{invalid_config}.
  static Secret from_hex(std::string_view hex);
  std::string hex() const;

  /// HMAC-SHA256 of `message` under this secret.
  std::array<std::byte, 32> sign(base::ByteView message) const;

 private:
  std::array<std::byte, bytes> key_{};
};

}  // namespace hmc::bootstrap
