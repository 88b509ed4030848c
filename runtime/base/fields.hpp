// The fields of a value that is sent: a struct lists its members once, in the order in which they are encoded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ranges>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "runtime/base/bytes.hpp"

namespace hmc::base {

/// A type that can be sent is
///   - a number, an enum or a bool, little-endian. In an enum, `last`, if there is one, is the largest valid value;
///   - a string, Bytes, a vector or a map: a 32-bit count, then the elements;
///   - a std::array or a std::pair: its elements;
///   - a struct with `static constexpr auto fields = std::tuple(&T::a, &T::b, ...)`.
template <typename T>
concept Number = std::is_integral_v<T> || std::is_enum_v<T>;
template <typename T>
concept Growable = requires(T value) {
  value.resize(0);
};
template <typename T>
concept Pair = requires {
  typename T::second_type;
};
template <typename T>
concept Map = requires {
  typename T::mapped_type;
};

/// The size of the shortest encoding of a T.
template <typename T> constexpr std::size_t least_bytes() {
  if constexpr (Number<T>) {
    return sizeof(T);
  } else if constexpr (Growable<T> || Map<T>) {
    return sizeof(std::uint32_t);
  } else if constexpr (std::ranges::range<T>) {
    return std::tuple_size_v<T> * least_bytes<typename T::value_type>();
  } else if constexpr (Pair<T>) {
    return least_bytes<typename T::first_type>() + least_bytes<typename T::second_type>();
  } else {
    return std::apply(
        [](auto... field) {
          return (least_bytes<std::decay_t<decltype(std::declval<T&>().*field)>>() + ... + std::size_t{0});
        },
        T::fields);
  }
}

template <typename T> void write_value(ByteWriter& out, const T& value) {
  if constexpr (Number<T>) {
    out.number(value);
  } else if constexpr (std::is_same_v<T, std::string>) {
    out.text(value);
  } else if constexpr (std::is_same_v<T, Bytes>) {
    out.blob(value);
  } else if constexpr (Map<T>) {
    out.number(static_cast<std::uint32_t>(value.size()));
    for (const auto& each : value) write_value(out, each);
  } else if constexpr (std::ranges::range<T>) {
    if constexpr (Growable<T>) out.number(static_cast<std::uint32_t>(value.size()));
    for (const auto& each : value) write_value(out, each);
  } else if constexpr (Pair<T>) {
    write_value(out, value.first);
    write_value(out, value.second);
  } else {
    std::apply([&](auto... field) { (write_value(out, value.*field), ...); }, T::fields);
  }
}

/// Invalid input puts the reader into the error state. A count is checked against the remaining bytes, so that memory
/// is allocated only for data that has arrived.
template <typename T> void read_value(ByteReader& in, T& value) {
  const auto fail = [&in] { (void)in.raw(in.left() + 1); };
  if constexpr (std::is_same_v<T, bool>) {
    const auto byte = in.number<std::uint8_t>();
    value = byte != 0;
    if (byte > 1) fail();
  } else if constexpr (Number<T>) {
    value = in.number<T>();
    if constexpr (requires { T::last; }) {
      if (value > T::last) fail();
    }
  } else if constexpr (std::is_same_v<T, std::string>) {
    value = in.text();
  } else if constexpr (std::is_same_v<T, Bytes>) {
    const ByteView view = in.blob();
    value.assign(view.begin(), view.end());
  } else if constexpr (Map<T>) {
    const auto count = in.number<std::uint32_t>();
    for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
      std::pair<typename T::key_type, typename T::mapped_type> each;
      read_value(in, each);
      if (!value.insert(std::move(each)).second) fail();  // a key twice
    }
  } else if constexpr (std::ranges::range<T>) {
    if constexpr (Growable<T>) {
      const auto count = in.number<std::uint32_t>();
      if (count > in.left() / least_bytes<typename T::value_type>()) return fail();
      value.resize(count);
    }
    for (auto& each : value) read_value(in, each);
  } else if constexpr (Pair<T>) {
    read_value(in, value.first);
    read_value(in, value.second);
  } else {
    std::apply([&](auto... field) { (read_value(in, value.*field), ...); }, T::fields);
  }
}

template <typename T> Bytes encode(const T& value) {
  ByteWriter out;
  write_value(out, value);
  return out.take();
}

/// nullopt if the bytes aren't exactly one value of this type.
template <typename T> std::optional<T> decode(ByteView bytes) {
  ByteReader in(bytes);
  T value;
  read_value(in, value);
  if (!in.complete()) return std::nullopt;
  return value;
}

}  // namespace hmc::base
