// Reference implementation of the reduction kernels: one element at a time.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <type_traits>
#include <vector>

#include <hmc/types.hpp>

namespace hmc::collectives::reference {

template <typename T>
constexpr bool is_narrow = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16> ||
                           std::is_same_v<T, float8_e4m3> || std::is_same_v<T, float8_e5m2>;
template <typename T> constexpr bool is_float = is_narrow<T> || std::is_floating_point_v<T>;

/// Empty if the operation isn't defined for the type.
template <typename T> std::optional<T> integers(Op op, const std::vector<T>& values) {
  const auto n = values.size();
  // 64 unsigned bits hold every product and sum modulo the type's own width.
  std::uint64_t sum = 0, prod = 1, band = ~std::uint64_t{0}, bor = 0, bxor = 0;
  T least = values[0], most = values[0];
  bool all = true, any = false;
  for (const T value : values) {
    const auto bits = static_cast<std::uint64_t>(value);
    sum += bits, prod *= bits, band &= bits, bor |= bits, bxor ^= bits;
    if (value < least) least = value;
    if (value > most) most = value;
    all = all && value != 0;
    any = any || value != 0;
  }
  switch (op) {
    case Op::sum: return static_cast<T>(sum);
    case Op::prod: return static_cast<T>(prod);
    case Op::min: return least;
    case Op::max: return most;
    case Op::avg: {
      const T wrapped = static_cast<T>(sum);
      if constexpr (std::is_signed_v<T>) return static_cast<T>(std::int64_t{wrapped} / static_cast<std::int64_t>(n));
      return static_cast<T>(std::uint64_t(wrapped) / n);
    }
    case Op::band: return static_cast<T>(band);
    case Op::bor: return static_cast<T>(bor);
    case Op::bxor: return static_cast<T>(bxor);
    case Op::land: return static_cast<T>(all);
    case Op::lor: return static_cast<T>(any);
    default: return std::nullopt;
  }
  return std::nullopt;
}

/// IEEE 754-2019 minimum (or maximum).
template <typename W> W extreme(W a, W b, bool least) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<W>::quiet_NaN();
  if (a == b && std::signbit(a) != std::signbit(b)) return least ? W(-0.0) : W(0.0);
  return (a < b) == least ? a : b;
}

template <typename T> std::optional<T> floats(Op op, const std::vector<T>& values) {
  using Work = std::conditional_t<is_narrow<T>, float, T>;
  Work result = static_cast<Work>(values[0]);
  for (std::size_t i = 1; i < values.size(); ++i) {
    const Work value = static_cast<Work>(values[i]);
    switch (op) {
      case Op::sum:
      case Op::avg: result = result + value; break;
      case Op::prod: result = result * value; break;
      case Op::min: result = extreme(result, value, true); break;
      case Op::max: result = extreme(result, value, false); break;
      default: return std::nullopt;
    }
  }
  if (op > Op::avg) return std::nullopt;
  if (op == Op::avg) result = result / static_cast<Work>(values.size());
  if (std::isnan(result)) result = std::numeric_limits<Work>::quiet_NaN();
  return static_cast<T>(result);
}

template <typename T> std::optional<T> reduce(Op op, const std::vector<T>& values) {
  if constexpr (is_float<T>) {
    return floats(op, values);
  } else {
    return integers(op, values);
  }
}

}  // namespace hmc::collectives::reference
