#include "bench/floor/kernels.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hmc::floor {

namespace {

void add_plain(float* out, const float* a, const float* b, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
}

void add_to_two_plain(float* first, float* second, const float* a, const float* b, std::size_t count, Stores) {
  for (std::size_t i = 0; i < count; ++i) {
    const float sum = a[i] + b[i];
    first[i] = sum;
    second[i] = sum;
  }
}

#if defined(__x86_64__)

__attribute__((target("avx512f"))) void add_512(float* out, const float* a, const float* b, std::size_t count) {
  for (std::size_t i = 0; i < count; i += 64) {
    for (std::size_t k = i; k < i + 64; k += 16)
      _mm512_storeu_ps(out + k, _mm512_add_ps(_mm512_loadu_ps(a + k), _mm512_loadu_ps(b + k)));
  }
}

template <Stores how>
__attribute__((target("avx512f"))) void add_to_two_512(float* first, float* second, const float* a, const float* b,
                                                       std::size_t count) {
  for (std::size_t i = 0; i < count; i += 32) {
    for (std::size_t k = i; k < i + 32; k += 16) {
      const __m512 sum = _mm512_add_ps(_mm512_loadu_ps(a + k), _mm512_loadu_ps(b + k));
      if constexpr (how == Stores::stream_both)
        _mm512_stream_ps(first + k, sum);
      else
        _mm512_storeu_ps(first + k, sum);
      if constexpr (how == Stores::plain)
        _mm512_storeu_ps(second + k, sum);
      else
        _mm512_stream_ps(second + k, sum);
    }
  }
  if constexpr (how != Stores::plain) _mm_sfence();
}

__attribute__((target("avx2"))) void add_256(float* out, const float* a, const float* b, std::size_t count) {
  for (std::size_t i = 0; i < count; i += 8)
    _mm256_storeu_ps(out + i, _mm256_add_ps(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i)));
}

template <Stores how>
__attribute__((target("avx2"))) void add_to_two_256(float* first, float* second, const float* a, const float* b,
                                                    std::size_t count) {
  for (std::size_t i = 0; i < count; i += 8) {
    const __m256 sum = _mm256_add_ps(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i));
    if constexpr (how == Stores::stream_both)
      _mm256_stream_ps(first + i, sum);
    else
      _mm256_storeu_ps(first + i, sum);
    if constexpr (how == Stores::plain)
      _mm256_storeu_ps(second + i, sum);
    else
      _mm256_stream_ps(second + i, sum);
  }
  if constexpr (how != Stores::plain) _mm_sfence();
}

void choose_512(float* first, float* second, const float* a, const float* b, std::size_t count, Stores stores) {
  switch (stores) {
    case Stores::plain: return add_to_two_512<Stores::plain>(first, second, a, b, count);
    case Stores::stream_second: return add_to_two_512<Stores::stream_second>(first, second, a, b, count);
    case Stores::stream_both: return add_to_two_512<Stores::stream_both>(first, second, a, b, count);
  }
}

void choose_256(float* first, float* second, const float* a, const float* b, std::size_t count, Stores stores) {
  switch (stores) {
    case Stores::plain: return add_to_two_256<Stores::plain>(first, second, a, b, count);
    case Stores::stream_second: return add_to_two_256<Stores::stream_second>(first, second, a, b, count);
    case Stores::stream_both: return add_to_two_256<Stores::stream_both>(first, second, a, b, count);
  }
}

#endif

Kernels choose() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return {"avx512", add_512, choose_512};
  if (__builtin_cpu_supports("avx2")) return {"avx2", add_256, choose_256};
#endif
  return {"compiler's", add_plain, add_to_two_plain};
}

}  // namespace

const Kernels& kernels() {
  static const Kernels chosen = choose();
  return chosen;
}

float consume(const float* data, std::size_t count) {
  float sums[16] = {};
  for (std::size_t i = 0; i + 16 <= count; i += 16)
    for (std::size_t k = 0; k < 16; ++k) sums[k] += data[i + k];
  float sum = 0;
  for (const float part : sums) sum += part;
  return sum;
}

}  // namespace hmc::floor
