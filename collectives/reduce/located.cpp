#include "collectives/reduce/kernels.hpp"

#include <cmath>
#include <cstring>
#include <limits>

namespace hmc::collectives {

namespace {

template <typename T> Located<T> load(const void* from, std::size_t index) noexcept {
  Located<T> pair;
  std::memcpy(&pair, static_cast<const std::byte*>(from) + index * sizeof pair, sizeof pair);
  return pair;
}

/// True if `a` precedes `b`. Maximum: NaN, then descending, +0 before -0. Minimum: NaN, then ascending, -0 before +0.
/// This is a strict weak order of values, so the result doesn't depend on the order in which pairs are combined.
template <typename T, bool largest> bool beats(T a, T b) noexcept {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return !std::isnan(b);
    if (a == b) return std::signbit(a) != std::signbit(b) && std::signbit(a) != largest;
  }
  return largest ? a > b : a < b;
}

template <typename T, bool largest> void keep_better(Located<T>& best, const Located<T>& next) noexcept {
  if (beats<T, largest>(next.value, best.value)) {
    best = next;
  } else if (!beats<T, largest>(best.value, next.value) && next.index < best.index) {
    best.index = next.index;
  }
}

template <typename T, bool largest>
void kernel(void* const* outs, int out_count, const void* const* ins, int in_count, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    Located<T> best = load<T>(ins[0], i);
    for (int k = 1; k < in_count; ++k) keep_better<T, largest>(best, load<T>(ins[k], i));
    if constexpr (std::is_floating_point_v<T>)
      if (std::isnan(best.value)) best.value = std::numeric_limits<T>::quiet_NaN();
    for (int j = 0; j < out_count; ++j)
      std::memcpy(static_cast<std::byte*>(outs[j]) + i * sizeof best, &best, sizeof best);
  }
}

template <typename T> ReduceKernel of_values(Op op) noexcept {
  return op == Op::maxloc ? kernel<T, true> : op == Op::minloc ? kernel<T, false> : nullptr;
}

}  // namespace

ReduceKernel located_kernel(DType type, Op op) noexcept {
  switch (type) {
    case DType::located_i32: return of_values<std::int32_t>(op);
    case DType::located_i64: return of_values<std::int64_t>(op);
    case DType::located_f32: return of_values<float>(op);
    case DType::located_f64: return of_values<double>(op);
    default: return nullptr;
  }
}

}  // namespace hmc::collectives
