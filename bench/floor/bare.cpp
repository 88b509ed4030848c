#include "bench/floor/bare.hpp"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

namespace hmc::floor {

namespace {

void pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

constexpr std::size_t header_bytes = std::size_t{1} << 20;
static_assert(sizeof(Shared) <= header_bytes);

}  // namespace

Shared* Shared::create(int ranks) {
  const int with_areas = std::min(ranks, 2);
  const std::size_t bytes = header_bytes + static_cast<std::size_t>(with_areas) * area_count * area_bytes;
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("hmc_floor: mmap");
    std::exit(1);
  }
  static_cast<void>(::madvise(memory, bytes, MADV_HUGEPAGE));  // as HMC's windows do
  auto* const shared = new (memory) Shared;
  shared->ranks_ = ranks;
  return shared;
}

std::byte* Shared::area(int rank, Area which) noexcept {
  const auto index = static_cast<std::size_t>(rank) * area_count + static_cast<std::size_t>(which);
  return reinterpret_cast<std::byte*>(this) + header_bytes + index * area_bytes;
}

Bare::Bare(Shared* shared, int rank)
    : shared_(shared), rank_(rank), ranks_(shared->ranks()), yields_(ranks_ > ::sysconf(_SC_NPROCESSORS_ONLN)) {
  if (ranks_ > 2) return;
  for (int area = 0; area < Shared::area_count; ++area)
    std::memset(shared_->area(rank, static_cast<Shared::Area>(area)), 1, area_bytes);
}

void Bare::await(const Line& line, std::uint64_t value) {
  // Acquire: pairs with the release store of the line's owner.
  while (line.sequence.load(std::memory_order_acquire) < value) yields_ ? static_cast<void>(::sched_yield()) : pause();
}

void Bare::barrier() {
  const std::uint64_t now = ++sequence_;
  shared_->lines[rank_].arrival[0].sequence.store(now, std::memory_order_release);
  for (int i = 1; i < ranks_; ++i) await(shared_->lines[(rank_ + i) % ranks_].arrival[0], now);
}

// Two lines in turn: a rank writes for call s only after all have arrived at s-1, so all have left s-2.
double Bare::allreduce(double value) {
  const std::uint64_t now = ++sequence_;
  Line& mine = shared_->lines[rank_].arrival[now & 1];
  mine.value = value;
  mine.sequence.store(now, std::memory_order_release);
  double sum = 0;
  for (int rank = 0; rank < ranks_; ++rank) {
    const Line& line = shared_->lines[rank].arrival[now & 1];
    await(line, now);
    sum += line.value;
  }
  return sum;
}

void Bare::allreduce_window(std::size_t count, Stores stores) {
  const std::uint64_t now = ++steps_;
  publish(0, now);
  await(0, now);
  const std::size_t half = count / 2;
  const std::size_t mine = static_cast<std::size_t>(rank_) * half;
  kernels().add_to_two(window(rank_, Shared::window_out) + mine, window(peer(), Shared::window_out) + mine,
                       window(0, Shared::window_in) + mine, window(1, Shared::window_in) + mine, half, stores);
  publish(1, now);
  await(1, now);
}

void Bare::add(float* out, const float* mine, const float* theirs, std::size_t count) {
  rank_ == 0 ? kernels().add(out, mine, theirs, count) : kernels().add(out, theirs, mine, count);
}

// Different forms need a barrier between them.
//
// A rank's staging is free again after the rank has copied the results out of it, so no flag is needed for that.
void Bare::allreduce_in_place(const float* in, float* out, std::size_t count, std::size_t block_bytes) {
  auto* const my_staging = window(rank_, Shared::staging);
  auto* const their_staging = window(peer(), Shared::staging);
  const std::size_t block = std::min(count, block_bytes / sizeof(float));
  for (std::size_t start = 0; start < count; start += block) {
    const std::uint64_t now = ++steps_;
    const std::size_t half = std::min(block, count - start) / 2;
    const std::size_t mine = start + static_cast<std::size_t>(rank_) * half;
    const std::size_t theirs = start + static_cast<std::size_t>(peer()) * half;
    std::memcpy(my_staging, in + theirs, half * sizeof(float));
    publish(0, now);
    await(0, now);
    const float* const first = rank_ == 0 ? in + mine : their_staging;
    const float* const second = rank_ == 0 ? their_staging : in + mine;
    kernels().add_to_two(out + mine, their_staging, first, second, half, Stores::plain);
    publish(1, now);
    await(1, now);
    std::memcpy(out + theirs, my_staging, half * sizeof(float));
  }
}

void Bare::allreduce_two_areas(const float* in, float* out, std::size_t count) {
  const std::uint64_t now = ++steps_;
  const std::size_t half = count / 2;
  const std::size_t mine = static_cast<std::size_t>(rank_) * half;
  const std::size_t theirs = static_cast<std::size_t>(peer()) * half;
  await(2, results_read_);
  std::memcpy(window(rank_, Shared::staging), in + theirs, half * sizeof(float));
  publish(0, now);
  await(0, now);
  const float* const staged = window(peer(), Shared::staging);
  kernels().add_to_two(out + mine, window(rank_, Shared::results), rank_ == 0 ? in + mine : staged,
                       rank_ == 0 ? staged : in + mine, half, Stores::plain);
  publish(1, now);
  await(1, now);
  std::memcpy(out + theirs, window(peer(), Shared::results), half * sizeof(float));
  publish(2, now);
  results_read_ = now;
}

void Bare::allreduce_pipelined(const float* in, float* out, std::size_t count, std::size_t slot_bytes,
                               std::uint64_t slots) {
  const std::size_t piece = slot_bytes / sizeof(float);
  const std::uint64_t pieces = (count + piece - 1) / piece;
  const auto slot = [&](int rank, std::uint64_t number) {
    return window(rank, Shared::staging) + number % slots * piece;
  };
  std::uint64_t written = 0;
  for (std::uint64_t read = 0; read < pieces; ++read) {
    for (; written < pieces && written <= read + 1; ++written) {
      const std::uint64_t number = steps_ + written;
      if (number >= slots) await(1, number - slots + 1);
      const std::size_t start = written * piece;
      std::memcpy(slot(rank_, number), in + start, std::min(piece, count - start) * sizeof(float));
      publish(0, number + 1);
    }
    const std::uint64_t number = steps_ + read;
    await(0, number + 1);
    const std::size_t start = read * piece;
    add(out + start, in + start, slot(peer(), number), std::min(piece, count - start));
    publish(1, number + 1);
  }
  steps_ += pieces;
}

}  // namespace hmc::floor
