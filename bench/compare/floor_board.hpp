// The flags and staging that the bare loops share: one mapping, made before the ranks are forked.
#pragma once

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "bench/kit/setup.hpp"

namespace bench::floor {

inline constexpr std::size_t inline_bytes = 48;        // payload in the flag's own line
inline constexpr std::size_t slots = 8;                // calls that may be in progress at once
inline constexpr std::size_t chunk_bytes = 64 << 10;   // of the ring that belongs to the slots
inline constexpr std::size_t one_step_bytes = 4096;    // up to this size every rank reads all inputs
inline constexpr std::size_t block_bytes = 512 << 10;  // staged at once: fits a core's own cache
inline constexpr std::size_t stream_bytes = 1 << 20;   // from here on the peer's result bypasses the caches
inline constexpr int most_ranks = 64;

struct alignas(128) Line {  // 128: the adjacent line is prefetched with it
  std::atomic<std::uint64_t> sequence{0};
  std::byte payload[inline_bytes];
};

/// Ranks write only their own lines. Every call takes the next sequence number n, the same on all ranks. The slot
/// n % slots may be written when all ranks have left call n - slots.
struct Flags {
  Line entered[slots];
  Line reduced[slots];
  Line left;
};

inline constexpr std::size_t flag_bytes = (most_ranks * sizeof(Flags) + page_bytes - 1) / page_bytes * page_bytes;

class Board {
 public:
  Board(const Setup& setup, int ranks)
      : ranks_(ranks),
        source_bytes_(whole_pages(setup.source_bytes(ranks))),
        result_bytes_(whole_pages(setup.result_bytes(ranks))),
        target_bytes_(whole_pages(setup.target_bytes())),
        stride_(source_bytes_ + target_bytes_ + result_bytes_ + 3 * block_bytes + slots * chunk_bytes) {
    if (ranks > most_ranks) throw std::invalid_argument("too many ranks for the bare loops");
    const std::size_t bytes = flag_bytes + stride_ * static_cast<std::size_t>(ranks);
    void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) throw std::runtime_error("no shared memory for the bare loops");
    static_cast<void>(madvise(at, bytes, MADV_HUGEPAGE));  // as HMC's windows do
    base_ = static_cast<std::byte*>(at);
  }

  Flags& flags(int rank) { return reinterpret_cast<Flags*>(base_)[rank]; }
  std::byte* source(int rank) { return part(rank); }
  std::byte* target(int rank) { return part(rank) + source_bytes_; }
  std::byte* result(int rank) { return target(rank) + target_bytes_; }
  std::byte* staged(int rank, std::uint64_t n) { return result(rank) + result_bytes_ + n % 2 * block_bytes; }
  std::byte* sums(int rank) { return result(rank) + result_bytes_ + 2 * block_bytes; }
  std::byte* chunk(int rank, std::uint64_t n) {
    return result(rank) + result_bytes_ + 3 * block_bytes + n % slots * chunk_bytes;
  }
  int ranks() const { return ranks_; }
  std::size_t source_bytes() const { return source_bytes_; }
  std::size_t result_bytes() const { return result_bytes_; }

 private:
  std::byte* part(int rank) { return base_ + flag_bytes + stride_ * static_cast<std::size_t>(rank); }

  int ranks_;
  std::size_t source_bytes_, result_bytes_, target_bytes_, stride_;
  std::byte* base_ = nullptr;
};

inline void relax() noexcept {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

/// Pairs with the release store of raise(): data written before it is visible after this. Not called for a rank's own
/// line: reading a line that was just written takes 1.5 times as long as the others' flags.
inline void await(const Line& line, std::uint64_t n, bool yields) {
  while (line.sequence.load(std::memory_order_acquire) < n) {
    if (yields) {
      sched_yield();
      continue;
    }
    relax();
  }
}
inline void raise(Line& line, std::uint64_t n) { line.sequence.store(n, std::memory_order_release); }

// g++ makes one copy of a kernel per instruction set. The loader chooses the best one.
#if defined(__x86_64__) && !defined(__clang__)
#define COMPARE_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define COMPARE_CLONES
#endif
#if defined(__clang__)
#define COMPARE_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define COMPARE_INDEPENDENT _Pragma("GCC ivdep")
#endif

// An output may be the same buffer as an input.
COMPARE_CLONES inline void add(float* to, const float* a, const float* b, std::size_t count) {
  COMPARE_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) to[i] = a[i] + b[i];
}
COMPARE_CLONES inline void add_to_two(float* to, float* also, const float* a, const float* b, std::size_t count) {
  COMPARE_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) {
    const float sum = a[i] + b[i];
    to[i] = sum;
    also[i] = sum;
  }
}

/// The same with streaming stores to `streamed`, which its owner reads next. Both outputs begin on a cache line.
inline void add_to_two_streamed(float* to, float* streamed, const float* a, const float* b, std::size_t count) {
  std::size_t done = 0;
#if defined(__x86_64__)
  for (; done + 4 <= count; done += 4) {
    const __m128 sum = _mm_add_ps(_mm_loadu_ps(a + done), _mm_loadu_ps(b + done));
    _mm_storeu_ps(to + done, sum);
    _mm_stream_ps(streamed + done, sum);
  }
  _mm_sfence();  // streaming stores aren't ordered by the release store of raise()
#endif
  add_to_two(to + done, streamed + done, a + done, b + done, count - done);
}

/// to[k][first, last) = the sum of from[r][first, last), in rank order.
inline void reduce(float* const* to, int tos, const float* const* from, int ranks, std::size_t first,
                   std::size_t last) {
  if (ranks == 2 && tos == 2)
    return add_to_two(to[0] + first, to[1] + first, from[0] + first, from[1] + first, last - first);
  constexpr std::size_t piece = 1024;
  alignas(64) float sum[piece];
  for (std::size_t at = first; at < last; at += piece) {
    const std::size_t count = std::min(piece, last - at);
    if (ranks == 1)
      std::memcpy(sum, from[0] + at, count * sizeof(float));
    else
      add(sum, from[0] + at, from[1] + at, count);
    for (int r = 2; r < ranks; ++r) add(sum, sum, from[r] + at, count);
    for (int k = 0; k < tos; ++k) std::memcpy(to[k] + at, sum, count * sizeof(float));
  }
}

}  // namespace bench::floor
