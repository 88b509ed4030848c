// The device kernels. Compiled by nvcc, hipcc, NVRTC and hipRTC, and by any C++ compiler if the macros below are
// defined first (tests/fake_drivers/kernel_shim.hpp). Therefore this file has no includes.
//
// Results are bit-identical to collectives/reduce: inputs are combined from left to right, 16-bit and 8-bit floats in
// f32 and rounded once; every NaN becomes the positive quiet NaN. Compile without contraction of floats.
#if !defined(HMC_KERNEL)
#define HMC_KERNEL extern "C" __global__ void
#define HMC_DEVICE __device__ __forceinline__
#define HMC_AT(pointer) (pointer)
#define HMC_THREAD (static_cast<unsigned long long>(blockIdx.x) * blockDim.x + threadIdx.x)
#define HMC_THREADS (static_cast<unsigned long long>(gridDim.x) * blockDim.x)
// Conversions between a number and its bits. NVRTC and hipRTC have no memcpy for this.
#define HMC_BITS_OF_FLOAT(value) __float_as_uint(value)
#define HMC_FLOAT_OF_BITS(bits) __uint_as_float(bits)
#define HMC_BITS_OF_DOUBLE(value) static_cast<unsigned long long>(__double_as_longlong(value))
#define HMC_DOUBLE_OF_BITS(bits) __longlong_as_double(static_cast<long long>(bits))
#endif

namespace hmc_kernels {

typedef unsigned char U8;
typedef unsigned short U16;
typedef unsigned int U32;
typedef unsigned long long U64;

// ---- arguments: the same layout as in device_kernels.hpp, which asserts the sizes
struct ReduceArguments {
  const void* ins[64];
  void* outs[64];
  int in_count;
  int out_count;
  int op;
  int aligned;  // all buffers begin at a multiple of 16
  U64 count;
};

enum { sum, prod, min, max, avg, band, bor, bxor, land, lor, maxloc, minloc };

HMC_DEVICE U32 bits_of(float value) { return HMC_BITS_OF_FLOAT(value); }
HMC_DEVICE float float_of(U32 bits) { return HMC_FLOAT_OF_BITS(bits); }

// ---- elements: Memory is the type in a buffer, Work is the type of the operations

template <typename T> struct Integer {
  typedef T Memory;
  typedef T Work;
  static constexpr bool is_float = false;
  HMC_DEVICE static T widen(T v) { return v; }
  HMC_DEVICE static T narrow(T v) { return v; }
};
struct Float32 {
  typedef float Memory;
  typedef float Work;
  static constexpr bool is_float = true;
  HMC_DEVICE static float widen(float v) { return v; }
  HMC_DEVICE static float narrow(float v) { return v != v ? float_of(0x7fc00000U) : v; }
  HMC_DEVICE static float or_bits(float a, float b) { return float_of(bits_of(a) | bits_of(b)); }
  HMC_DEVICE static float and_bits(float a, float b) { return float_of(bits_of(a) & bits_of(b)); }
};
struct Float64 {
  typedef double Memory;
  typedef double Work;
  static constexpr bool is_float = true;
  HMC_DEVICE static U64 bits_of(double value) { return HMC_BITS_OF_DOUBLE(value); }
  HMC_DEVICE static double of(U64 bits) { return HMC_DOUBLE_OF_BITS(bits); }
  HMC_DEVICE static double widen(double v) { return v; }
  HMC_DEVICE static double narrow(double v) { return v != v ? of(0x7ff8000000000000ULL) : v; }
  HMC_DEVICE static double or_bits(double a, double b) { return of(bits_of(a) | bits_of(b)); }
  HMC_DEVICE static double and_bits(double a, double b) { return of(bits_of(a) & bits_of(b)); }
};
/// Types whose operations are executed in f32. A NaN is converted to the canonical NaN before it is encoded.
struct Narrow {
  typedef float Work;
  static constexpr bool is_float = true;
  HMC_DEVICE static float or_bits(float a, float b) { return Float32::or_bits(a, b); }
  HMC_DEVICE static float and_bits(float a, float b) { return Float32::and_bits(a, b); }
};
struct Brain16 : Narrow {
  typedef U16 Memory;
  HMC_DEVICE static float widen(U16 v) { return float_of(static_cast<U32>(v) << 16); }
  HMC_DEVICE static U16 narrow(float v) {
    const U32 f = bits_of(Float32::narrow(v));
    return static_cast<U16>((f + 0x7fffU + ((f >> 16) & 1U)) >> 16);
  }
};
struct Half16 : Narrow {
  typedef U16 Memory;
  HMC_DEVICE static float widen(U16 v) {
    const U32 sign = (v & 0x8000U) << 16, magnitude = v & 0x7fffU;
    if (magnitude >= 0x7c00U) return float_of(sign | ((magnitude << 13) + 0x70000000U));
    if (magnitude < 0x0400U) return float_of(sign | bits_of(static_cast<float>(magnitude) * 0x1p-24F));
    return float_of(sign | ((magnitude << 13) + 0x38000000U));
  }
  HMC_DEVICE static U16 narrow(float v) {
    const U32 f = bits_of(Float32::narrow(v)), sign = (f >> 16) & 0x8000U, magnitude = f & 0x7fffffffU;
    if (magnitude > 0x7f800000U) return static_cast<U16>(sign | 0x7e00U);
    if (magnitude >= 0x477ff000U) return static_cast<U16>(sign | 0x7c00U);
    // The addition of 0.5 rounds a subnormal result at the correct bit.
    if (magnitude < 0x38800000U) return static_cast<U16>(sign | (bits_of(float_of(magnitude) + 0.5F) - 0x3f000000U));
    return static_cast<U16>(sign | ((magnitude - 0x38000000U + 0xfffU + ((magnitude >> 13) & 1U)) >> 13));
  }
};
/// The OCP formats. On overflow the result is infinity, or NaN if the format has no infinity.
template <U32 mantissa_bits, U32 bias, bool has_infinity> struct Float8 : Narrow {
  typedef U8 Memory;
  static constexpr U32 shift = 23 - mantissa_bits;
  static constexpr U32 rebias = (127 - bias) << 23;
  static constexpr U32 steps = (151U - bias - mantissa_bits) << 23;  // a float whose unit is the smallest subnormal
  HMC_DEVICE static float widen(U8 v) {
    const U32 sign = (v & 0x80U) << 24, magnitude = v & 0x7fU;
    if (magnitude >= (has_infinity ? 0x7cU : 0x7fU))
      return float_of(sign | (has_infinity ? (magnitude - 0x7cU) << shift | 0x7f800000U : 0x7fc00000U | magnitude));
    if (magnitude >> mantissa_bits == 0)
      return float_of(sign |
                      bits_of(static_cast<float>(magnitude) * float_of((128U - bias - mantissa_bits) << 23)));
    return float_of(sign | ((magnitude << shift) + rebias));
  }
  HMC_DEVICE static U8 narrow(float v) {
    const U32 f = bits_of(Float32::narrow(v)), sign = (f >> 24) & 0x80U, magnitude = f & 0x7fffffffU;
    U32 bits = 0x7fU;
    if (magnitude > 0x7f800000U) {
    } else if (magnitude >= (has_infinity ? 0x47700000U : 0x43e80001U)) {
      bits = has_infinity ? 0x7cU : 0x7fU;
    } else if (magnitude < rebias + (1U << 23)) {
      bits = bits_of(float_of(magnitude) + float_of(steps)) - steps;
    } else {
      bits = (magnitude - rebias + ((1U << (shift - 1)) - 1) + ((magnitude >> shift) & 1U)) >> shift;
    }
    return static_cast<U8>(bits | sign);
  }
};
typedef Float8<3, 7, false> E4m3;
typedef Float8<2, 15, true> E5m2;

// ---- the operations

template <bool chosen, typename A, typename B> struct Choose { typedef A type; };
template <typename A, typename B> struct Choose<false, A, B> { typedef B type; };
/// An unsigned type, so that integers wrap. Types below 32 bits would be promoted to signed int.
template <typename T> struct Wrapping { typedef typename Choose<sizeof(T) == 8, U64, U32>::type type; };

template <typename E, typename T> HMC_DEVICE T smaller(T a, T x) {
  if constexpr (E::is_float) {
    const T less = a < x ? a : x;
    return a != a ? a : a == x ? E::or_bits(a, x) : less;  // equal values differ only in the sign of zero
  } else {
    return a < x ? a : x;
  }
}
template <typename E, typename T> HMC_DEVICE T larger(T a, T x) {
  if constexpr (E::is_float) {
    const T more = a > x ? a : x;
    return a != a ? a : a == x ? E::and_bits(a, x) : more;
  } else {
    return a > x ? a : x;
  }
}
template <typename E, typename T> HMC_DEVICE T plus(T a, T x) {
  if constexpr (E::is_float) return a + x;
  typedef typename Wrapping<T>::type W;
  return static_cast<T>(static_cast<W>(a) + static_cast<W>(x));
}
template <typename E, typename T> HMC_DEVICE T times(T a, T x) {
  if constexpr (E::is_float) return a * x;
  typedef typename Wrapping<T>::type W;
  return static_cast<T>(static_cast<W>(a) * static_cast<W>(x));
}

template <typename E, int n> HMC_DEVICE void combine(int op, typename E::Work (&a)[n], const typename E::Work (&x)[n]) {
  typedef typename E::Work T;
  switch (op) {
    case sum:
    case avg:
      for (int i = 0; i < n; ++i) a[i] = plus<E, T>(a[i], x[i]);
      return;
    case prod:
      for (int i = 0; i < n; ++i) a[i] = times<E, T>(a[i], x[i]);
      return;
    case min:
      for (int i = 0; i < n; ++i) a[i] = smaller<E, T>(a[i], x[i]);
      return;
    case max:
      for (int i = 0; i < n; ++i) a[i] = larger<E, T>(a[i], x[i]);
      return;
    default: break;
  }
  if constexpr (!E::is_float) {
    for (int i = 0; i < n; ++i) {
      switch (op) {
        case band: a[i] = static_cast<T>(a[i] & x[i]); break;
        case bor:
        case lor: a[i] = static_cast<T>(a[i] | x[i]); break;
        case bxor: a[i] = static_cast<T>(a[i] ^ x[i]); break;
        case land: a[i] = x[i] != 0 ? a[i] : T(0); break;
        default: break;
      }
    }
  }
}

template <typename E, int n> HMC_DEVICE void finish(int op, int ranks, typename E::Work (&a)[n]) {
  typedef typename E::Work T;
  if (op == avg) {
    typedef typename Choose<(T(-1) < T(0)), long long, U64>::type Whole;
    typedef typename Choose<E::is_float, T, Whole>::type Divided;
    for (int i = 0; i < n; ++i) a[i] = static_cast<T>(static_cast<Divided>(a[i]) / static_cast<Divided>(ranks));
  }
  if constexpr (!E::is_float) {
    if (op == land || op == lor)
      for (int i = 0; i < n; ++i) a[i] = T(a[i] != 0 ? 1 : 0);
  }
}

// ---- the loops

template <typename M, int n> struct alignas(n * sizeof(M)) Pack { M lane[n]; };

template <typename E, int n> HMC_DEVICE void load(typename E::Work (&into)[n], const void* from, U64 at) {
  typedef typename E::Memory M;
  typedef Pack<M, n> P;
  const P pack = *HMC_AT(reinterpret_cast<const P*>(static_cast<const M*>(from) + at));
  for (int j = 0; j < n; ++j) into[j] = E::widen(pack.lane[j]);
}

/// Reduces `packs` packs of n elements from element `first` on, one pack per thread and step. All inputs of a pack are
/// read before an output is written, because an output may be an input.
template <typename E, int n> HMC_DEVICE void reduce_packs(const ReduceArguments& call, U64 first, U64 packs) {
  typedef typename E::Memory M;
  typedef Pack<M, n> P;
  for (U64 i = HMC_THREAD; i < packs; i += HMC_THREADS) {
    const U64 at = first + i * n;
    typename E::Work a[n], x[n];
    load<E, n>(a, call.ins[0], at);
    for (int k = 1; k < call.in_count; ++k) {
      load<E, n>(x, call.ins[k], at);
      combine<E, n>(call.op, a, x);
    }
    finish<E, n>(call.op, call.in_count, a);
    P result;
    for (int j = 0; j < n; ++j) result.lane[j] = E::narrow(a[j]);
    for (int j = 0; j < call.out_count; ++j)
      *HMC_AT(reinterpret_cast<P*>(static_cast<M*>(call.outs[j]) + at)) = result;
  }
}

template <typename E> HMC_DEVICE void reduce(const ReduceArguments& call) {
  constexpr int n = 16 / sizeof(typename E::Memory);
  const U64 packs = call.aligned ? call.count / n : 0;
  reduce_packs<E, n>(call, 0, packs);
  reduce_packs<E, 1>(call, packs * n, call.count - packs * n);
}

// ---- maxloc and minloc: pairs of value and index

template <typename T, typename I> struct Pair {
  T value;
  I index;
};
template <typename T> HMC_DEVICE bool is_negative(T v) { return v < T(0) || (v == T(0) && T(1) / v < T(0)); }
/// True if `a` precedes `b`. NaN is first. Then the order is descending with +0 before -0 (maxloc), or ascending with
/// -0 before +0 (minloc).
template <typename T, bool is_float> HMC_DEVICE bool beats(T a, T b, bool largest) {
  if constexpr (is_float) {
    if (a != a || b != b) return b == b;
    if (a == b) return is_negative(a) != is_negative(b) && is_negative(a) != largest;
  }
  return largest ? a > b : a < b;
}
template <typename T, typename I, bool is_float> HMC_DEVICE void reduce_located(const ReduceArguments& call) {
  typedef Pair<T, I> P;
  const bool largest = call.op == maxloc;
  for (U64 i = HMC_THREAD; i < call.count; i += HMC_THREADS) {
    P best = HMC_AT(static_cast<const P*>(call.ins[0]))[i];
    for (int k = 1; k < call.in_count; ++k) {
      const P next = HMC_AT(static_cast<const P*>(call.ins[k]))[i];
      if (beats<T, is_float>(next.value, best.value, largest))
        best = next;
      else if (!beats<T, is_float>(best.value, next.value, largest) && next.index < best.index)
        best.index = next.index;
    }
    if constexpr (is_float) best.value = Choose<sizeof(T) == 4, Float32, Float64>::type::narrow(best.value);
    for (int j = 0; j < call.out_count; ++j) HMC_AT(static_cast<P*>(call.outs[j]))[i] = best;
  }
}


}  // namespace hmc_kernels

HMC_KERNEL hmc_reduce_i8(hmc_kernels::ReduceArguments call) {
  hmc_kernels::reduce<hmc_kernels::Integer<signed char>>(call);
}
HMC_KERNEL hmc_reduce_u8(hmc_kernels::ReduceArguments call) {
  hmc_kernels::reduce<hmc_kernels::Integer<unsigned char>>(call);
}
HMC_KERNEL hmc_reduce_i16(hmc_kernels::ReduceArguments call) {
  hmc_kernels::reduce<hmc_kernels::Integer<short>>(call);
}
HMC_KERNEL hmc_reduce_u16(hmc_kernels::ReduceArguments call) {
  hmc_kernels::reduce<hmc_kernels::Integer<unsigned short>>(call);
}
HMC_KERNEL hmc_reduce_i32(hmc_kernels::ReduceArguments call) {
  hmc_kernels::reduce<hmc_kernels::Integer<int>>(call);
}
HMC_KERNEL hmc_reduce_u32(hmc_kernels::ReduceArguments call) {
  hmc_kernels::reduce<hmc_kernels::Integer<unsigned>>(call);
}
HMC_KERNEL hmc_reduce_i64(hmc_kernels::ReduceArguments call) {
  hmc_kernels::reduce<hmc_kernels::Integer<long long>>(call);
}
HMC_KERNEL hmc_reduce_u64(hmc_kernels::ReduceArguments call) {
  hmc_kernels::reduce<hmc_kernels::Integer<unsigned long long>>(call);
}
HMC_KERNEL hmc_reduce_f16(hmc_kernels::ReduceArguments call) {
  hmc_kernels::reduce<hmc_kernels::Half16>(call);
}
HMC_KERNEL hmc_reduce_bf16(hmc_kernels::ReduceArguments call) {
  hmc_kernels::reduce<hmc_kernels::Brain16>(call);
}
HMC_KERNEL hmc_reduce_f32(hmc_kernels::ReduceArguments call) {
  hmc_kernels::reduce<hmc_kernels::Float32>(call);
}
HMC_KERNEL hmc_reduce_f64(hmc_kernels::ReduceArguments call) {
  hmc_kernels::reduce<hmc_kernels::Float64>(call);
}
HMC_KERNEL hmc_reduce_e4m3(hmc_kernels::ReduceArguments call) {
  hmc_kernels::reduce<hmc_kernels::E4m3>(call);
}
HMC_KERNEL hmc_reduce_e5m2(hmc_kernels::ReduceArguments call) {
  hmc_kernels::reduce<hmc_kernels::E5m2>(call);
}
HMC_KERNEL hmc_reduce_located_i32(hmc_kernels::ReduceArguments call) {
  hmc_kernels::reduce_located<int, int, false>(call);
}
HMC_KERNEL hmc_reduce_located_i64(hmc_kernels::ReduceArguments call) {
  hmc_kernels::reduce_located<long long, long long, false>(call);
}
HMC_KERNEL hmc_reduce_located_f32(hmc_kernels::ReduceArguments call) {
  hmc_kernels::reduce_located<float, int, true>(call);
}
HMC_KERNEL hmc_reduce_located_f64(hmc_kernels::ReduceArguments call) {
  hmc_kernels::reduce_located<double, long long, true>(call);
}
