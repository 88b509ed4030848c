// The loops and the table of kernels for one instruction set (HMC_REDUCE_SET).
#include "collectives/reduce/kernels.hpp"

// simd.inl first: operations.inl depends on it.
#include "collectives/reduce/simd.inl"

#include "collectives/reduce/operations.inl"

namespace hmc::collectives::HMC_REDUCE_SET {
namespace {

using Inputs = const void* const*;
using Outputs = void* const*;

template <typename Element> constexpr std::size_t full_lanes = vector_bytes / sizeof(typename Element::Work);
template <typename Element> constexpr std::size_t small_lanes = 16 / sizeof(typename Element::Work);

/// The call's buffers. `known` is the number of inputs if it is a compile-time constant, else 0. With a constant the
/// addresses are copied and stay in registers; otherwise a store into an output could alias them.
template <int known> struct Buffers {
  Buffers(Outputs to, int out_n, Inputs from, int) : outs(to), out_count(out_n) {
    for (int k = 0; k < known; ++k) ins[k] = static_cast<const std::byte*>(from[k]);
  }
  HMC_INLINE int in_count() const { return known; }
  HMC_INLINE const std::byte* in(int k) const { return ins[k]; }
  HMC_INLINE std::byte* out(int j) const { return static_cast<std::byte*>(outs[j]); }
  const std::byte* ins[known];
  Outputs outs;
  int out_count;
};
template <> struct Buffers<0> {
  Buffers(Outputs to, int out_n, Inputs from, int in_n) : outs(to), ins(from), out_count(out_n), ins_count(in_n) {}
  HMC_INLINE int in_count() const { return ins_count; }
  HMC_INLINE const std::byte* in(int k) const { return static_cast<const std::byte*>(ins[k]); }
  HMC_INLINE std::byte* out(int j) const { return static_cast<std::byte*>(outs[j]); }
  Outputs outs;
  Inputs ins;
  int out_count;
  int ins_count;
};

/// Reduces `lanes` elements at byte `at` of every buffer. Reads all inputs before it writes an output, because an
/// output may be an input.
template <typename Element, std::size_t lanes, typename Operation, typename B>
HMC_INLINE void reduce_one(const Operation& op, const B& buffers, std::size_t at) {
  using T = typename Element::Work;
  auto a = op.template first<T, lanes>(load<Element, lanes>(buffers.in(0) + at));
  for (int k = 1; k < buffers.in_count(); ++k)
    a = op.template next<T, lanes>(a, load<Element, lanes>(buffers.in(k) + at));
  a = op.template last<T, lanes>(a);
  for (int j = 0; j < buffers.out_count; ++j) store<Element, lanes>(buffers.out(j) + at, a);
}

/// Reduces four vectors at once: their dependency chains overlap, and the loops over buffers run a quarter as often.
template <typename Element, typename Operation, typename B>
HMC_INLINE void reduce_four(const Operation& op, const B& buffers, std::size_t at) {
  using T = typename Element::Work;
  constexpr std::size_t n = full_lanes<Element>;
  constexpr std::size_t step = n * sizeof(typename Element::Memory);
  const std::byte* in = buffers.in(0) + at;
  auto a = op.template first<T, n>(load<Element, n>(in));
  auto b = op.template first<T, n>(load<Element, n>(in + step));
  auto c = op.template first<T, n>(load<Element, n>(in + 2 * step));
  auto d = op.template first<T, n>(load<Element, n>(in + 3 * step));
  for (int k = 1; k < buffers.in_count(); ++k) {
    in = buffers.in(k) + at;
    a = op.template next<T, n>(a, load<Element, n>(in));
    b = op.template next<T, n>(b, load<Element, n>(in + step));
    c = op.template next<T, n>(c, load<Element, n>(in + 2 * step));
    d = op.template next<T, n>(d, load<Element, n>(in + 3 * step));
  }
  a = op.template last<T, n>(a);
  b = op.template last<T, n>(b);
  c = op.template last<T, n>(c);
  d = op.template last<T, n>(d);
  for (int j = 0; j < buffers.out_count; ++j) {
    std::byte* out = buffers.out(j) + at;
    store<Element, n>(out, a);
    store<Element, n>(out + step, b);
    store<Element, n>(out + 2 * step, c);
    store<Element, n>(out + 3 * step, d);
  }
}

template <typename Element, typename Operation, int known>
__attribute__((noinline)) void reduce_range(Outputs outs, int out_count, Inputs ins, int in_count, std::size_t count) {
  const Buffers<known> buffers(outs, out_count, ins, in_count);
  const Operation op(in_count);
  constexpr std::size_t size = sizeof(typename Element::Memory);
  constexpr std::size_t full = full_lanes<Element>;
  constexpr std::size_t small = small_lanes<Element>;
  std::size_t i = 0;
  for (; i + 4 * full <= count; i += 4 * full) reduce_four<Element>(op, buffers, i * size);
  for (; i + full <= count; i += full) reduce_one<Element, full>(op, buffers, i * size);
  if constexpr (small < full) {
    for (; i + small <= count; i += small) reduce_one<Element, small>(op, buffers, i * size);
  }
  for (; i < count; ++i) reduce_one<Element, 1>(op, buffers, i * size);
}

template <typename Element, typename Operation>
void kernel(Outputs outs, int out_count, Inputs ins, int in_count, std::size_t count) noexcept {
  // A constant doesn't help with more inputs: memory access costs more than the loop over them.
  if (in_count == 2) return reduce_range<Element, Operation, 2>(outs, out_count, ins, 2, count);
  return reduce_range<Element, Operation, 0>(outs, out_count, ins, in_count, count);
}

template <typename Element>
void average(Outputs outs, int out_count, Inputs ins, int in_count, std::size_t count) noexcept {
  if (is_power_of_two(in_count)) return kernel<Element, AvgByShift>(outs, out_count, ins, in_count, count);
  return kernel<Element, AvgByDivision>(outs, out_count, ins, in_count, count);
}

template <typename Element> ReduceKernel of_floats(Op op) {
  switch (op) {
    case Op::sum: return kernel<Element, Sum>;
    case Op::prod: return kernel<Element, Prod>;
    case Op::min: return kernel<Element, Min>;
    case Op::max: return kernel<Element, Max>;
    case Op::avg: return average<Element>;
    default: return nullptr;
  }
}

template <typename T> ReduceKernel of_integers(Op op) {
  using Bits = Plain<Unsigned<T>>;  // signed and unsigned types share a kernel if the sign doesn't matter
  switch (op) {
    case Op::sum: return kernel<Bits, Sum>;
    case Op::prod: return kernel<Bits, Prod>;
    case Op::min: return kernel<Plain<T>, Min>;
    case Op::max: return kernel<Plain<T>, Max>;
    case Op::avg: return average<Plain<T>>;
    case Op::band: return kernel<Bits, BitAnd>;
    case Op::bor: return kernel<Bits, BitOr>;
    case Op::bxor: return kernel<Bits, BitXor>;
    case Op::land: return kernel<Bits, LogicalAnd>;
    case Op::lor: return kernel<Bits, LogicalOr>;
    default: return nullptr;
  }
  return nullptr;
}

}  // namespace

ReduceKernel find_kernel(DType type, Op op) noexcept {
  switch (type) {
    case DType::i8: return of_integers<std::int8_t>(op);
    case DType::u8: return of_integers<std::uint8_t>(op);
    case DType::i16: return of_integers<std::int16_t>(op);
    case DType::u16: return of_integers<std::uint16_t>(op);
    case DType::i32: return of_integers<std::int32_t>(op);
    case DType::u32: return of_integers<std::uint32_t>(op);
    case DType::i64: return of_integers<std::int64_t>(op);
    case DType::u64: return of_integers<std::uint64_t>(op);
    case DType::f16: return of_floats<Half16>(op);
    case DType::bf16: return of_floats<Brain16>(op);
    case DType::f32: return of_floats<Plain<float>>(op);
    case DType::f64: return of_floats<Plain<double>>(op);
    case DType::e4m3: return of_floats<E4m3>(op);
    case DType::e5m2: return of_floats<E5m2>(op);
    default: return nullptr;  // located values: located.cpp
  }
  return nullptr;
}

}  // namespace hmc::collectives::HMC_REDUCE_SET
