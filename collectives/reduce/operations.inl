// The operations, per lane. Each has
//   first(x)       the initial accumulated value from the lowest rank's contribution
//   next(acc, x)   combines the accumulated value with the next rank's contribution
//   last(acc)      the value to store
// Integers of sum, prod and the bitwise and logical operations are always unsigned here, so they wrap.
namespace hmc::collectives::HMC_REDUCE_SET {
namespace {

template <typename T> constexpr bool is_float = false;
template <> constexpr bool is_float<float> = true;
template <> constexpr bool is_float<double> = true;

/// Replaces any NaN by the positive quiet NaN without payload.
template <typename T, std::size_t lanes> HMC_INLINE Vector<T, lanes> canonical(const Vector<T, lanes>& v) {
  if constexpr (is_float<T>) {
    return v != v ? splat<T, lanes>(static_cast<T>(__builtin_nan(""))) : v;
  } else {
    return v;
  }
}

/// One object per kernel call, constructed from the number of inputs.
struct Identity {
  explicit Identity(int) {}
  template <typename T, std::size_t lanes> HMC_INLINE Vector<T, lanes> first(const Vector<T, lanes>& x) const {
    return x;
  }
  template <typename T, std::size_t lanes> HMC_INLINE Vector<T, lanes> last(const Vector<T, lanes>& x) const {
    return canonical<T, lanes>(x);
  }
};

struct Sum : Identity {
  using Identity::Identity;
  template <typename T, std::size_t lanes>
  HMC_INLINE Vector<T, lanes> next(const Vector<T, lanes>& a, const Vector<T, lanes>& x) const {
    if constexpr (is_float<T>) {
      return a + x;
    } else {
      using Bits = Vector<Unsigned<T>, lanes>;
      return (Vector<T, lanes>)((Bits)a + (Bits)x);
    }
  }
};

struct Prod : Identity {
  using Identity::Identity;
  template <typename T, std::size_t lanes>
  HMC_INLINE Vector<T, lanes> next(const Vector<T, lanes>& a, const Vector<T, lanes>& x) const {
    return a * x;
  }
};

/// IEEE 754-2019 minimum. `a < x ? a : x` selects x if either is a NaN or if both are equal.
struct Min : Identity {
  using Identity::Identity;
  template <typename T, std::size_t lanes>
  HMC_INLINE Vector<T, lanes> next(const Vector<T, lanes>& a, const Vector<T, lanes>& x) const {
    using V = Vector<T, lanes>;
    if constexpr (is_float<T>) {
      using Bits = Vector<Unsigned<T>, lanes>;
      const V less = a < x ? a : x;
      const V number = a == x ? (V)((Bits)a | (Bits)x) : less;  // equal values differ only by a zero's sign
      return a != a ? a : number;
    } else {
      return a < x ? a : x;
    }
  }
};

struct Max : Identity {
  using Identity::Identity;
  template <typename T, std::size_t lanes>
  HMC_INLINE Vector<T, lanes> next(const Vector<T, lanes>& a, const Vector<T, lanes>& x) const {
    using V = Vector<T, lanes>;
    if constexpr (is_float<T>) {
      using Bits = Vector<Unsigned<T>, lanes>;
      const V more = a > x ? a : x;
      const V number = a == x ? (V)((Bits)a & (Bits)x) : more;
      return a != a ? a : number;
    } else {
      return a > x ? a : x;
    }
  }
};

constexpr bool is_power_of_two(int n) { return (n & (n - 1)) == 0; }

/// For counts that are powers of two. Multiplication by 2^-k rounds as division by 2^k does.
struct AvgByShift : Sum {
  explicit AvgByShift(int in_count) : Sum(in_count), count(in_count) {}
  template <typename T, std::size_t lanes> HMC_INLINE Vector<T, lanes> last(const Vector<T, lanes>& sum) const {
    if constexpr (is_float<T>) {
      return canonical<T, lanes>(sum * splat<T, lanes>(T{1} / static_cast<T>(count)));
    } else {
      constexpr int bits = 8 * sizeof(T);
      const int shift = __builtin_ctz(static_cast<unsigned>(count));
      if (shift >= bits) return Vector<T, lanes>{};  // the quotient is always 0
      if constexpr (T(-1) > T(0)) {
        return sum >> splat<T, lanes>(static_cast<T>(shift));
      } else {  // toward zero: a negative sum is raised by count - 1 first
        const auto raise = splat<T, lanes>(static_cast<T>((std::uint64_t{1} << shift) - 1));
        const auto sign = sum >> splat<T, lanes>(static_cast<T>(bits - 1));
        return (sum + (sign & raise)) >> splat<T, lanes>(static_cast<T>(shift));
      }
    }
  }
  int count;
};

template <bool first, typename A, typename B> struct Choose { using type = A; };
template <typename A, typename B> struct Choose<false, A, B> { using type = B; };

/// SIMD units divide only floats. The float type represents both integers exactly, so the rounded quotient doesn't
/// exceed the next integer unless it is exact. Truncation is therefore correct.
template <typename T, std::size_t lanes> HMC_INLINE Vector<T, lanes> divide(const Vector<T, lanes>& sum, int count) {
  Vector<T, lanes> mean;
  if constexpr (sizeof(T) == 8) {
    for (std::size_t i = 0; i < lanes; ++i) mean[i] = sum[i] / static_cast<T>(count);
  } else {
    using Float = typename Choose<sizeof(T) <= 2, float, double>::type;
    using Whole = typename Choose<sizeof(T) <= 2, std::int32_t, T>::type;
    constexpr std::size_t full = vector_bytes / sizeof(Float), n = lanes < full ? lanes : full;
    for (std::size_t i = 0; i < lanes; i += n) {
      const auto part = load_raw<Vector<T, n>>(reinterpret_cast<const std::byte*>(&sum) + i * sizeof(T));
      const auto whole = __builtin_convertvector(part, Vector<Whole, n>);
      const auto quotient =
          __builtin_convertvector(whole, Vector<Float, n>) / splat<Float, n>(static_cast<Float>(count));
      const auto cut = __builtin_convertvector(quotient, Vector<Whole, n>);
      store_raw(reinterpret_cast<std::byte*>(&mean) + i * sizeof(T), __builtin_convertvector(cut, Vector<T, n>));
    }
  }
  return mean;
}

struct AvgByDivision : Sum {
  explicit AvgByDivision(int in_count) : Sum(in_count), count(in_count) {}
  template <typename T, std::size_t lanes> HMC_INLINE Vector<T, lanes> last(const Vector<T, lanes>& sum) const {
    if constexpr (is_float<T>) {
      return canonical<T, lanes>(sum / splat<T, lanes>(static_cast<T>(count)));
    } else {
      return divide<T, lanes>(sum, count);
    }
  }
  int count;
};

struct BitAnd : Identity {
  using Identity::Identity;
  template <typename T, std::size_t lanes>
  HMC_INLINE Vector<T, lanes> next(const Vector<T, lanes>& a, const Vector<T, lanes>& x) const {
    return a & x;
  }
};

struct BitOr : Identity {
  using Identity::Identity;
  template <typename T, std::size_t lanes>
  HMC_INLINE Vector<T, lanes> next(const Vector<T, lanes>& a, const Vector<T, lanes>& x) const {
    return a | x;
  }
};

struct BitXor : Identity {
  using Identity::Identity;
  template <typename T, std::size_t lanes>
  HMC_INLINE Vector<T, lanes> next(const Vector<T, lanes>& a, const Vector<T, lanes>& x) const {
    return a ^ x;
  }
};

/// The accumulated value is the first contribution while all later ones are nonzero.
struct LogicalAnd : Identity {
  using Identity::Identity;
  template <typename T, std::size_t lanes>
  HMC_INLINE Vector<T, lanes> next(const Vector<T, lanes>& a, const Vector<T, lanes>& x) const {
    return x != 0 ? a : Vector<T, lanes>{};
  }
  template <typename T, std::size_t lanes> HMC_INLINE Vector<T, lanes> last(const Vector<T, lanes>& a) const {
    return a != 0 ? splat<T, lanes>(1) : Vector<T, lanes>{};
  }
};

struct LogicalOr : BitOr {
  using BitOr::BitOr;
  template <typename T, std::size_t lanes> HMC_INLINE Vector<T, lanes> last(const Vector<T, lanes>& a) const {
    return a != 0 ? splat<T, lanes>(1) : Vector<T, lanes>{};
  }
};

}  // namespace
}  // namespace hmc::collectives::HMC_REDUCE_SET
