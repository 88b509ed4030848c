// A fuzz target reads untrusted bytes as the library reads them. It defines the two functions at the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>

#include "runtime/base/bytes.hpp"

namespace hmc::fuzz {

/// Checks an invariant. A fuzzer detects the abort.
inline void require(bool holds) {
  if (!holds) std::abort();
}

/// Reads the input in pieces. After the end all values are zero.
class Input {
 public:
  explicit Input(base::ByteView bytes) noexcept : bytes_(bytes) {}
  bool empty() const noexcept { return bytes_.empty(); }
  base::ByteView take(std::size_t count) noexcept {
    const base::ByteView taken = bytes_.first(count < bytes_.size() ? count : bytes_.size());
    bytes_ = bytes_.subspan(taken.size());
    return taken;
  }
  template <typename T> T value() noexcept {
    T value{};
    const base::ByteView bytes = take(sizeof value);
    if (!bytes.empty()) std::memcpy(static_cast<void*>(&value), bytes.data(), bytes.size());
    return value;
  }

 private:
  base::ByteView bytes_;
};

/// Reads one input.
void run(base::ByteView input);
/// Calls `add` with valid inputs. A fuzzer changes them.
void add_seeds(const std::function<void(base::ByteView)>& add);

}  // namespace hmc::fuzz
