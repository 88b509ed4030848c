#include "collectives/reduce/reduce.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "collectives/reduce/kernels.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace hmc::collectives {

namespace {

#if defined(__x86_64__)
bool has_avx2() noexcept {
  __builtin_cpu_init();
  // __builtin_cpu_supports("avx2") includes the operating system's support for the registers. Not every compiler has a
  // name for f16c, so cpuid is queried.
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __builtin_cpu_supports("avx2") && __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

bool has_avx512() noexcept {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#else
bool has_avx2() noexcept { return false; }
bool has_avx512() noexcept { return false; }
#endif

InstructionSet best() noexcept {
  static const InstructionSet set = has_avx512() ? InstructionSet::avx512
                                    : has_avx2() ? InstructionSet::avx2
                                                 : InstructionSet::baseline;
  return set;
}

ReduceKernel find(DType type, Op op, InstructionSet set) noexcept {
  if (is_located(type)) return located_kernel(type, op);
#if defined(__x86_64__)
  if (set == InstructionSet::avx512) return avx512::find_kernel(type, op);
  if (set == InstructionSet::avx2) return avx2::find_kernel(type, op);
#else
  static_cast<void>(set);
#endif
  return baseline::find_kernel(type, op);
}

}  // namespace

const char* name_of(InstructionSet set) noexcept {
  switch (set) {
    case InstructionSet::baseline: return "baseline";
    case InstructionSet::avx2: return "avx2";
    case InstructionSet::avx512: return "avx512";
  }
  return "?";
}

bool available(InstructionSet set) noexcept { return set <= best(); }

ReduceKernel reduce_kernel(DType type, Op op) noexcept { return find(type, op, best()); }

ReduceKernel reduce_kernel(DType type, Op op, InstructionSet set) noexcept {
  return available(set) ? find(type, op, set) : nullptr;
}

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

namespace {

constexpr std::size_t block_bytes = 16384;  // the accumulator stays in the L1 cache

void reduce_by_user(const Reducer& reducer, void* const* outs, int out_count, const void* const* ins, int in_count,
                    std::size_t count, std::vector<std::byte>& scratch) noexcept {
  if (scratch.size() < block_bytes) scratch.resize(block_bytes);
  const std::size_t block = block_bytes / reducer.element;
  for (std::size_t done = 0; done < count; done += block) {
    const std::size_t n = std::min(block, count - done);
    const std::size_t offset = done * reducer.element;
    std::memcpy(scratch.data(), static_cast<const std::byte*>(ins[0]) + offset, n * reducer.element);
    for (int i = 1; i < in_count; ++i)
      reducer.function(scratch.data(), static_cast<const std::byte*>(ins[i]) + offset, n, reducer.type,
                       reducer.context);
    for (int j = 0; j < out_count; ++j)
      std::memcpy(static_cast<std::byte*>(outs[j]) + offset, scratch.data(), n * reducer.element);
  }
}

}  // namespace

void reduce(const Reducer& reducer, void* const* outs, int out_count, const void* const* ins, int in_count,
            std::size_t count, std::vector<std::byte>& scratch) noexcept {
  if (count == 0) return;
  if (reducer.kernel != nullptr) {
    reducer.kernel(outs, out_count, ins, in_count, count);
  } else {
    reduce_by_user(reducer, outs, out_count, ins, in_count, count, scratch);
  }
}

}  // namespace hmc::collectives
