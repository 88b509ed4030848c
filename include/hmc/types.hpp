// Basic types: element types, reduction operations, comparisons.
#pragma once

#if __cplusplus < 202002L
#error "HMC needs C++20: g++ 11 or clang 14, or newer, with -std=c++20"
#else

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <hmc/float16.hpp>
#include <hmc/float8.hpp>
#include <hmc/memory_type.hpp>

namespace hmc {

inline constexpr int memory_type_count = 12;

/// A value and its index, for example a position in a vector or a rank. The element type of maxloc and minloc, without
/// padding.
template <typename T> struct Located {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "values of 32 or 64 bits");
  using Index = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  T value{};
  Index index = 0;
  friend constexpr bool operator==(const Located&, const Located&) = default;
};

/// The element types of collectives. located_x is Located<x>, for maxloc, minloc and user-defined reductions.
enum class DType : std::uint8_t {
  i8,
  u8,
  i16,
  u16,
  i32,
  u32,
  i64,
  u64,
  f16,
  bf16,
  f32,
  f64,
  e4m3,
  e5m2,
  located_i32,
  located_i64,
  located_f32,
  located_f64,
};
inline constexpr int dtype_count = 18;

/// The predefined reduction operations.
///  - avg: the sum divided by the number of ranks; not for scan and exscan
///  - band, bor, bxor, land, lor: integers only. The result of land and lor is 0 or 1, even for a single contribution
///    (a team of one rank, scan on rank 0, exscan on rank 1)
///  - maxloc, minloc: located types only. No other predefined operation accepts located types. The result is the
///    maximum or minimum with its index. If several contributions have that value, the result has their lowest index.
///  - The result of max, min, maxloc and minloc is NaN if a contribution is NaN. maxloc and minloc return the lowest
///    index of a NaN.
enum class Op : std::uint8_t { sum, prod, min, max, avg, band, bor, bxor, land, lor, maxloc, minloc };
inline constexpr int op_count = 12;

inline constexpr Op sum = Op::sum;
inline constexpr Op prod = Op::prod;
inline constexpr Op min = Op::min;
inline constexpr Op max = Op::max;
inline constexpr Op avg = Op::avg;
inline constexpr Op band = Op::band;
inline constexpr Op bor = Op::bor;
inline constexpr Op bxor = Op::bxor;
inline constexpr Op land = Op::land;
inline constexpr Op lor = Op::lor;
inline constexpr Op maxloc = Op::maxloc;
inline constexpr Op minloc = Op::minloc;

/// The comparison of wait_until. The word in memory is the left operand. The caller's value is the right operand.
enum class Cmp : std::uint8_t { eq, ne, lt, le, gt, ge };

/// A user-defined reduction: accumulated[i] = accumulated[i] (op) next[i] for i < count.
///  - It must be associative. It need not be commutative: contributions are combined in ascending rank order, unless
///    `commutative` is set.
///  - It must not throw. HMC calls it on the caller's thread only.
///  - All ranks must pass the same function. HMC can't check that. HMC checks that all ranks pass a function, with the
///    same `commutative`, `deterministic`, count and element type.
using ReduceFunction = void (*)(void* accumulated, const void* next, std::size_t count, DType type, void* context);

namespace detail {
inline constexpr std::uint8_t sizes[dtype_count] = {1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8, 1, 1, 8, 16, 8, 16};
}  // namespace detail
constexpr std::size_t size_of(DType type) noexcept { return detail::sizes[static_cast<int>(type)]; }
constexpr bool is_float(DType type) noexcept { return type >= DType::f16 && type <= DType::e5m2; }
constexpr bool is_located(DType type) noexcept { return type >= DType::located_i32; }
/// True if reductions of this type accumulate in 32 bits and round once, at the end.
constexpr bool is_narrow_float(DType type) noexcept { return is_float(type) && size_of(type) < 4; }
HMC_API const char* name_of(DType type) noexcept;
HMC_API const char* name_of(Op op) noexcept;

// ---- the collectives: see <hmc/collective.hpp>
enum class CollectiveKind : std::uint8_t {
  barrier,
  broadcast,
  reduce,
  allreduce,
  gather,
  scatter,
  allgather,
  alltoall,
  reduce_scatter,
  scan,
  exscan,
};
inline constexpr int collective_count = 11;
constexpr const char* name_of(CollectiveKind kind) noexcept {
  constexpr const char* names[] = {"barrier",   "broadcast", "reduce",         "allreduce", "gather", "scatter",
                                   "allgather", "alltoall",  "reduce_scatter", "scan",      "exscan"};
  static_assert(sizeof names / sizeof *names == collective_count);
  return static_cast<int>(kind) < collective_count ? names[static_cast<std::size_t>(kind)] : "unknown";
}

/// True if one rank, the root, has another part than the others.
constexpr bool has_root(CollectiveKind kind) noexcept {
  return kind == CollectiveKind::broadcast || kind == CollectiveKind::reduce || kind == CollectiveKind::gather ||
         kind == CollectiveKind::scatter;
}
/// True if the collective combines contributions and therefore has an operation.
constexpr bool reduces(CollectiveKind kind) noexcept {
  return kind == CollectiveKind::reduce || kind == CollectiveKind::allreduce ||
         kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::scan || kind == CollectiveKind::exscan;
}
/// True if `count` is the size of one rank's block. A large call of such a collective is split into v-form calls.
constexpr bool has_blocks(CollectiveKind kind) noexcept {
  return kind == CollectiveKind::gather || kind == CollectiveKind::scatter || kind == CollectiveKind::allgather ||
         kind == CollectiveKind::alltoall || kind == CollectiveKind::reduce_scatter;
}

namespace detail {
template <typename T> inline constexpr bool has_no_dtype = false;
}  // namespace detail

/// The DType of a C++ type; a compile error if there is none. Integers map by size and signedness: long and long long
/// are i64. char has no DType, because its signedness depends on the machine. bool has no DType.
template <typename T> constexpr DType dtype_of() noexcept {
  static_assert(detail::has_no_dtype<T>,
                "HMC has no element type for this C++ type: collectives reduce integers of 8 to 64 bits (not char and "
                "bool), float, double, HMC's own floats and hmc::Located<>");
  return DType::u8;
}
template <> constexpr DType dtype_of<signed char>() noexcept { return DType::i8; }
template <> constexpr DType dtype_of<unsigned char>() noexcept { return DType::u8; }
template <> constexpr DType dtype_of<short>() noexcept { return DType::i16; }
template <> constexpr DType dtype_of<unsigned short>() noexcept { return DType::u16; }
template <> constexpr DType dtype_of<int>() noexcept { return DType::i32; }
template <> constexpr DType dtype_of<unsigned>() noexcept { return DType::u32; }
template <> constexpr DType dtype_of<long>() noexcept { return sizeof(long) == 8 ? DType::i64 : DType::i32; }
template <> constexpr DType dtype_of<unsigned long>() noexcept { return sizeof(long) == 8 ? DType::u64 : DType::u32; }
template <> constexpr DType dtype_of<long long>() noexcept { return DType::i64; }
template <> constexpr DType dtype_of<unsigned long long>() noexcept { return DType::u64; }
template <> constexpr DType dtype_of<float16>() noexcept { return DType::f16; }
template <> constexpr DType dtype_of<bfloat16>() noexcept { return DType::bf16; }
template <> constexpr DType dtype_of<float>() noexcept { return DType::f32; }
template <> constexpr DType dtype_of<double>() noexcept { return DType::f64; }
template <> constexpr DType dtype_of<float8_e4m3>() noexcept { return DType::e4m3; }
template <> constexpr DType dtype_of<float8_e5m2>() noexcept { return DType::e5m2; }
template <> constexpr DType dtype_of<Located<std::int32_t> >() noexcept { return DType::located_i32; }
template <> constexpr DType dtype_of<Located<std::int64_t> >() noexcept { return DType::located_i64; }
template <> constexpr DType dtype_of<Located<float> >() noexcept { return DType::located_f32; }
template <> constexpr DType dtype_of<Located<double> >() noexcept { return DType::located_f64; }

}  // namespace hmc

#endif  // C++20
