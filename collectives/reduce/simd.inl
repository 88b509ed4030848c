// Vectors of this instruction set's width, and the conversion of elements from and to memory.
//
// Compiled once per set. Everything here has internal linkage or is a type. Otherwise the linker could merge a function
// with that of another set, and baseline code would execute AVX-512. For the same reason no inline function of another
// header is called from here.
#include <cstddef>
#include <cstdint>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define HMC_INLINE inline __attribute__((always_inline))

namespace hmc::collectives::HMC_REDUCE_SET {
namespace {

#if defined(__AVX512BW__)
constexpr std::size_t vector_bytes = 64;
#elif defined(__AVX2__)
constexpr std::size_t vector_bytes = 32;
#else
constexpr std::size_t vector_bytes = 16;
#endif

// Vector extensions of the compiler: operators work per lane; comparisons return masks of all ones or zero.
template <typename T, std::size_t lanes> struct VectorOf {
  typedef T type __attribute__((vector_size(lanes * sizeof(T))));
};
template <typename T, std::size_t lanes> using Vector = typename VectorOf<T, lanes>::type;

#if defined(__AVX512F__)
constexpr __mmask16 all_16_lanes = 0xffff;  // g++ 12 warns of the intrinsics without a mask
#endif

template <std::size_t bytes> struct UnsignedOf;
template <> struct UnsignedOf<1> { using type = std::uint8_t; };
template <> struct UnsignedOf<2> { using type = std::uint16_t; };
template <> struct UnsignedOf<4> { using type = std::uint32_t; };
template <> struct UnsignedOf<8> { using type = std::uint64_t; };
template <typename T> using Unsigned = typename UnsignedOf<sizeof(T)>::type;

/// x - 0 is x, even for -0.0. Compilers optimize this; a loop over the lanes would increase compile time.
template <typename T, std::size_t lanes> HMC_INLINE Vector<T, lanes> splat(T value) {
  return value - Vector<T, lanes>{};
}

template <typename V> HMC_INLINE V load_raw(const std::byte* from) {
  V v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}
template <typename V> HMC_INLINE void store_raw(std::byte* to, const V& v) { __builtin_memcpy(to, &v, sizeof v); }

// ---- 16 bits to 32 and back. g++ 12 generates slow code for __builtin_convertvector between these widths.

template <std::size_t lanes> HMC_INLINE Vector<std::uint32_t, lanes> to_32(const Vector<std::uint16_t, lanes>& v) {
  using Wide = Vector<std::uint32_t, lanes>;
#if defined(__AVX512F__)
  if constexpr (lanes == 16) return (Wide)_mm512_maskz_cvtepu16_epi32(all_16_lanes, (__m256i)v);
#endif
#if defined(__AVX2__)
  if constexpr (lanes == 8) return (Wide)_mm256_cvtepu16_epi32((__m128i)v);
#endif
  return __builtin_convertvector(v, Wide);
}

/// Requires values below 65536.
template <std::size_t lanes> HMC_INLINE Vector<std::uint16_t, lanes> to_16(const Vector<std::uint32_t, lanes>& v) {
  using Narrow = Vector<std::uint16_t, lanes>;
#if defined(__AVX512F__)
  if constexpr (lanes == 16) return (Narrow)_mm512_maskz_cvtepi32_epi16(all_16_lanes, (__m512i)v);
#endif
#if defined(__AVX2__)
  if constexpr (lanes == 8) {
    const __m256i packed = _mm256_packus_epi32((__m256i)v, (__m256i)v);  // each half of v into a quarter, twice
    return (Narrow)_mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
  }
#endif
  return __builtin_convertvector(v, Narrow);
}

// ---- elements: Memory is the type in a buffer, Work is the type of the arithmetic

template <typename T> struct Plain {
  using Memory = T;
  using Work = T;
  template <std::size_t lanes> static HMC_INLINE Vector<T, lanes> widen(const Vector<T, lanes>& v) { return v; }
  template <std::size_t lanes> static HMC_INLINE Vector<T, lanes> narrow(const Vector<T, lanes>& v) { return v; }
};

/// narrow() requires that a NaN is the canonical one.
struct Brain16 {
  using Memory = std::uint16_t;
  using Work = float;
  template <std::size_t lanes>
  static HMC_INLINE Vector<float, lanes> widen(const Vector<std::uint16_t, lanes>& v) {
    return (Vector<float, lanes>)(to_32<lanes>(v) << 16);
  }
  template <std::size_t lanes>
  static HMC_INLINE Vector<std::uint16_t, lanes> narrow(const Vector<float, lanes>& v) {
    const auto bits = (Vector<std::uint32_t, lanes>)v;
    return to_16<lanes>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
  }
};

/// IEEE binary16 with integer instructions, as in hmc::float16.
struct Half16Integer {
  using Memory = std::uint16_t;
  using Work = float;
  template <std::size_t lanes> static HMC_INLINE Vector<float, lanes> widen(const Vector<std::uint16_t, lanes>& v) {
    using Bits = Vector<std::uint32_t, lanes>;
    using Ints = Vector<std::int32_t, lanes>;
    const Bits half = to_32<lanes>(v);
    const Bits magnitude = half & 0x7fffU;
    const Bits subnormal = (Bits)(__builtin_convertvector((Ints)magnitude, Vector<float, lanes>) * 0x1p-24F);
    const Bits normal = (magnitude << 13) + 0x38000000U;
    const Bits special = (magnitude << 13) + 0x70000000U;  // infinities and NaNs
    Bits bits = (Ints)magnitude < 0x0400 ? subnormal : normal;
    bits = (Ints)magnitude >= 0x7c00 ? special : bits;
    return (Vector<float, lanes>)(bits | ((half & 0x8000U) << 16));
  }
  template <std::size_t lanes> static HMC_INLINE Vector<std::uint16_t, lanes> narrow(const Vector<float, lanes>& v) {
    using Bits = Vector<std::uint32_t, lanes>;
    using Ints = Vector<std::int32_t, lanes>;
    const Bits all = (Bits)v;
    const Bits magnitude = all & 0x7fffffffU;
    // The float addition rounds a subnormal at the correct bit.
    const Bits subnormal = (Bits)((Vector<float, lanes>)magnitude + 0.5F) - 0x3f000000U;
    const Bits normal = (magnitude - 0x38000000U + 0xfffU + ((magnitude >> 13) & 1U)) >> 13;
    Bits bits = (Ints)magnitude < 0x38800000 ? subnormal : normal;
    bits = (Ints)magnitude >= 0x477ff000 ? splat<std::uint32_t, lanes>(0x7c00U) : bits;
    bits = (Ints)magnitude > 0x7f800000 ? splat<std::uint32_t, lanes>(0x7e00U) : bits;
    return to_16<lanes>(bits | ((all >> 16) & 0x8000U));
  }
};

#if defined(__AVX2__) && defined(__F16C__)
/// The same with the conversion instructions, which compilers don't generate from vector extensions.
struct Half16Native {
  using Memory = std::uint16_t;
  using Work = float;
  static constexpr int nearest = 0;                   // ties to even, independent of the caller's rounding mode

  template <std::size_t lanes> static HMC_INLINE Vector<float, lanes> widen(const Vector<std::uint16_t, lanes>& v) {
    if constexpr (lanes == 1) {
      return Vector<float, 1>{_mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(v[0])))};
    } else if constexpr (lanes == 4) {
      return (Vector<float, 4>)_mm_cvtph_ps(_mm_loadu_si64(&v));
    } else if constexpr (lanes == 8) {
      return (Vector<float, 8>)_mm256_cvtph_ps((__m128i)v);
#if defined(__AVX512F__)
    } else {
      static_assert(lanes == 16);
      return (Vector<float, 16>)_mm512_maskz_cvtph_ps(all_16_lanes, (__m256i)v);
#endif
    }
  }
  template <std::size_t lanes> static HMC_INLINE Vector<std::uint16_t, lanes> narrow(const Vector<float, lanes>& v) {
    if constexpr (lanes == 1) {
      const __m128i bits = _mm_cvtps_ph(_mm_set_ss(v[0]), nearest);
      return Vector<std::uint16_t, 1>{static_cast<std::uint16_t>(_mm_cvtsi128_si32(bits))};
    } else if constexpr (lanes == 4) {
      Vector<std::uint16_t, 4> half;
      _mm_storeu_si64(&half, _mm_cvtps_ph((__m128)v, nearest));
      return half;
    } else if constexpr (lanes == 8) {
      return (Vector<std::uint16_t, 8>)_mm256_cvtps_ph((__m256)v, nearest);
#if defined(__AVX512F__)
    } else {
      static_assert(lanes == 16);
      return (Vector<std::uint16_t, 16>)_mm512_maskz_cvtps_ph(all_16_lanes, (__m512)v, nearest);
#endif
    }
  }
};
using Half16 = Half16Native;
#else
using Half16 = Half16Integer;
#endif

// ---- 8 bits to 32 and back

template <std::size_t lanes> HMC_INLINE Vector<std::uint32_t, lanes> to_32(const Vector<std::uint8_t, lanes>& v) {
  using Wide = Vector<std::uint32_t, lanes>;
#if defined(__AVX512F__)
  if constexpr (lanes == 16) return (Wide)_mm512_maskz_cvtepu8_epi32(all_16_lanes, (__m128i)v);
#endif
#if defined(__AVX2__)
  if constexpr (lanes == 8) return (Wide)_mm256_cvtepu8_epi32(_mm_loadu_si64(&v));
#endif
  return __builtin_convertvector(v, Wide);
}

/// Requires values below 256.
template <std::size_t lanes> HMC_INLINE Vector<std::uint8_t, lanes> to_8(const Vector<std::uint32_t, lanes>& v) {
  using Narrow = Vector<std::uint8_t, lanes>;
#if defined(__AVX512F__)
  if constexpr (lanes == 16) return (Narrow)_mm512_maskz_cvtepi32_epi8(all_16_lanes, (__m512i)v);
#endif
#if defined(__AVX2__)
  if constexpr (lanes == 8) {
    const auto half = (__m128i)to_16<lanes>(v);
    Narrow bytes;
    _mm_storeu_si64(&bytes, _mm_packus_epi16(half, half));
    return bytes;
  }
#endif
  return __builtin_convertvector(v, Narrow);
}

/// The OCP 8-bit formats with integer instructions, as in hmc::float8_e4m3 and float8_e5m2.
template <unsigned mantissa_bits, unsigned bias, bool has_infinity> struct Float8 {
  using Memory = std::uint8_t;
  using Work = float;
  static constexpr unsigned shift = 23 - mantissa_bits;
  static constexpr std::uint32_t rebias = (127 - bias) << 23;
  static constexpr std::int32_t first_special = has_infinity ? 0x7c : 0x7f;
  static constexpr std::int32_t first_too_large = has_infinity ? 0x47700000 : 0x43e80001;
  static constexpr std::uint32_t steps = (151U - bias - mantissa_bits) << 23;  // float whose ulp is the least subnormal

  template <std::size_t lanes> static HMC_INLINE Vector<float, lanes> widen(const Vector<std::uint8_t, lanes>& v) {
    using Bits = Vector<std::uint32_t, lanes>;
    using Ints = Vector<std::int32_t, lanes>;
    const Bits all = to_32<lanes>(v);
    const Bits magnitude = all & 0x7fU;
    constexpr float smallest = __builtin_bit_cast(float, (128U - bias - mantissa_bits) << 23);
    const Bits subnormal = (Bits)(__builtin_convertvector((Ints)magnitude, Vector<float, lanes>) * smallest);
    const Bits normal = (magnitude << shift) + rebias;
    const Bits special = has_infinity ? (magnitude - 0x7cU) << shift | 0x7f800000U : (magnitude | 0x7fc00000U);
    Bits bits = (Ints)magnitude < (1 << mantissa_bits) ? subnormal : normal;
    bits = (Ints)magnitude >= first_special ? special : bits;
    return (Vector<float, lanes>)(bits | ((all & 0x80U) << 24));
  }
  template <std::size_t lanes> static HMC_INLINE Vector<std::uint8_t, lanes> narrow(const Vector<float, lanes>& v) {
    using Bits = Vector<std::uint32_t, lanes>;
    using Ints = Vector<std::int32_t, lanes>;
    const Bits all = (Bits)v;
    const Bits magnitude = all & 0x7fffffffU;
    const Bits subnormal =
        (Bits)((Vector<float, lanes>)magnitude + splat<float, lanes>(__builtin_bit_cast(float, steps))) - steps;
    const Bits normal = (magnitude - rebias + ((1U << (shift - 1)) - 1) + ((magnitude >> shift) & 1U)) >> shift;
    Bits bits = (Ints)magnitude < static_cast<std::int32_t>(rebias + (1U << 23)) ? subnormal : normal;
    bits = (Ints)magnitude >= first_too_large ? splat<std::uint32_t, lanes>(has_infinity ? 0x7cU : 0x7fU) : bits;
    bits = (Ints)magnitude > 0x7f800000 ? splat<std::uint32_t, lanes>(0x7fU) : bits;
    return to_8<lanes>(bits | ((all >> 24) & 0x80U));
  }
};
using E4m3 = Float8<3, 7, false>;
using E5m2 = Float8<2, 15, true>;

template <typename Element, std::size_t lanes>
HMC_INLINE Vector<typename Element::Work, lanes> load(const std::byte* from) {
  return Element::template widen<lanes>(load_raw<Vector<typename Element::Memory, lanes>>(from));
}
template <typename Element, std::size_t lanes>
HMC_INLINE void store(std::byte* to, const Vector<typename Element::Work, lanes>& v) {
  store_raw(to, Element::template narrow<lanes>(v));
}

}  // namespace
}  // namespace hmc::collectives::HMC_REDUCE_SET
