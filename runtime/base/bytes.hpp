// The byte codec of control messages and memory keys: little-endian, length-checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace hmc::base {

using Bytes = std::vector<std::byte>;
using ByteView = std::span<const std::byte>;

inline ByteView as_bytes(std::string_view text) noexcept {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
inline std::string_view as_text(ByteView bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class ByteWriter {
 public:
  template <typename T> ByteWriter& number(T value) {
    static_assert(std::is_integral_v<T> || std::is_enum_v<T>);
    auto rest = static_cast<std::uint64_t>(value);
    for (std::size_t i = 0; i < sizeof(T); ++i, rest >>= 8) out_.push_back(static_cast<std::byte>(rest & 0xff));
    return *this;
  }
  // noinline: g++ 12 reports a false stringop-overflow if this is inlined into an encoder.
  [[gnu::noinline]] ByteWriter& raw(ByteView bytes) {
    out_.insert(out_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  /// A 32-bit length, then the bytes.
  ByteWriter& blob(ByteView bytes) {
    number(static_cast<std::uint32_t>(bytes.size()));
    return raw(bytes);
  }
  ByteWriter& text(std::string_view text) { return blob(as_bytes(text)); }
  Bytes take() { return std::move(out_); }
  ByteView view() const noexcept { return out_; }

 private:
  Bytes out_;
};

/// Never reads past the end: after the first read that exceeds the input, ok() is false and all reads return zero or
/// empty. The caller checks ok() once, at the end, before it uses a value.
class ByteReader {
 public:
  explicit ByteReader(ByteView in) noexcept : in_(in) {}

  template <typename T> T number() noexcept {
    static_assert(std::is_integral_v<T> || std::is_enum_v<T>);
    const ByteView bytes = raw(sizeof(T));
    std::uint64_t value = 0;
    for (std::size_t i = bytes.size(); i-- > 0;) value = (value << 8) | static_cast<std::uint8_t>(bytes[i]);
    return static_cast<T>(value);
  }
  ByteView raw(std::size_t count) noexcept {
    if (!ok_ || count > in_.size()) {
      ok_ = false;
      return {};
    }
    const ByteView bytes = in_.first(count);
    in_ = in_.subspan(count);
    return bytes;
  }
  ByteView blob() noexcept { return raw(number<std::uint32_t>()); }
  std::string text() { return std::string(as_text(blob())); }

  bool ok() const noexcept { return ok_; }
  /// All bytes were read, and no read exceeded the input.
  bool complete() const noexcept { return ok_ && in_.empty(); }
  std::size_t left() const noexcept { return in_.size(); }

 private:
  ByteView in_;
  bool ok_ = true;
};

}  // namespace hmc::base
