#include "collectives/reduce/divide.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace hmc::collectives {

namespace {

template <typename T> T quotient(T value, int ranks) noexcept {
  if constexpr (std::is_floating_point_v<T>) {
    const T result = value / static_cast<T>(ranks);
    return std::isnan(result) ? std::numeric_limits<T>::quiet_NaN() : result;
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<T>(static_cast<std::int64_t>(value) / ranks);
  } else if constexpr (std::is_unsigned_v<T>) {
    return static_cast<T>(static_cast<std::uint64_t>(value) / static_cast<std::uint64_t>(ranks));
  } else {
    return static_cast<T>(quotient(static_cast<float>(value), ranks));
  }
}

template <typename T> void divide_all(std::byte* data, std::size_t count, int ranks) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(static_cast<void*>(&value), data + i * sizeof(T), sizeof(T));
    value = quotient(value, ranks);
    std::memcpy(data + i * sizeof(T), static_cast<const void*>(&value), sizeof(T));
  }
}

}  // namespace

void divide(DType type, void* data, std::size_t count, int ranks) noexcept {
  auto* const bytes = static_cast<std::byte*>(data);
  switch (type) {
    case DType::i8: return divide_all<std::int8_t>(bytes, count, ranks);
    case DType::u8: return divide_all<std::uint8_t>(bytes, count, ranks);
    case DType::i16: return divide_all<std::int16_t>(bytes, count, ranks);
    case DType::u16: return divide_all<std::uint16_t>(bytes, count, ranks);
    case DType::i32: return divide_all<std::int32_t>(bytes, count, ranks);
    case DType::u32: return divide_all<std::uint32_t>(bytes, count, ranks);
    case DType::i64: return divide_all<std::int64_t>(bytes, count, ranks);
    case DType::u64: return divide_all<std::uint64_t>(bytes, count, ranks);
    case DType::f16: return divide_all<float16>(bytes, count, ranks);
    case DType::bf16: return divide_all<bfloat16>(bytes, count, ranks);
    case DType::f32: return divide_all<float>(bytes, count, ranks);
    case DType::f64: return divide_all<double>(bytes, count, ranks);
    case DType::e4m3: return divide_all<float8_e4m3>(bytes, count, ranks);
    case DType::e5m2: return divide_all<float8_e5m2>(bytes, count, ranks);
    default: return;  // located values have no average
  }
}

}  // namespace hmc::collectives
