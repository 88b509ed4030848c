// The bare loops: what shared memory allows without a library. No windows, no errors, no deadlines.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "common/loop.hpp"
#include "common/spawn.hpp"
#include "floor_board.hpp"

namespace compare::floor {
namespace {

class Floor {
 public:
  Floor(Board& board, int rank, const Setup& setup)
      : board_(board),
        flags_(board.flags()),
        rank_(rank),
        size_(board.ranks()),
        yields_(size_ > cores() * (setup.pin ? size_ : 1)),
        windows_(setup.window_buffers),
        source_(windows_ ? board.source(rank) : allocate(board.source_bytes())),
        result_(windows_ ? board.result(rank) : allocate(board.result_bytes())) {}

  int rank() const { return rank_; }
  int size() const { return size_; }
  static std::string version() { return "bare loops over shared memory"; }
  std::string settings() const {
    return std::string(windows_ ? "shared" : "private") + " buffers" + (yields_ ? "; sched_yield between polls" : "");
  }
  static std::string lacks(Operation) { return ""; }

  std::byte* source() { return source_; }
  std::byte* result() { return result_; }
  std::byte* target() { return board_.target(rank_); }

  void put(int peer, std::size_t bytes) {
    std::memcpy(board_.target(peer), source_, bytes);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  void get(int peer, std::size_t bytes) {
    std::memcpy(result_, board_.target(peer), bytes);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }

  void barrier() {
    enter(++n_);
    await_entered(n_);
    leave(n_);
  }

  void broadcast(std::size_t bytes) {
    if (rank_ == 0) await_left(n_);
    if (bytes <= inline_bytes)
      broadcast_inline(bytes);
    else if (windows_)
      broadcast_window(bytes);
    else
      broadcast_staged(bytes);
  }

  void allgather(std::size_t bytes) {
    if (bytes <= inline_bytes) return allgather_inline(bytes);
    if (!windows_) return allgather_staged(bytes);
    enter(++n_);
    for (const int r : in_turn()) {
      await(entered(r), n_, yields_);
      std::memcpy(result_ + at(r) * bytes, board_.source(r), bytes);
    }
    meet_again(n_);
    leave(n_);
  }

  void allreduce(std::size_t bytes) {
    if (bytes <= inline_bytes) return allreduce_inline(bytes / sizeof(float));
    if (!windows_) return allreduce_staged(bytes);
    enter(++n_);
    await_entered(n_);
    float* to[most_ranks];
    const float* from[most_ranks];
    for (int r = 0; r < size_; ++r) {
      to[r] = reinterpret_cast<float*>(board_.result(r));
      from[r] = reinterpret_cast<const float*>(board_.source(r));
    }
    const std::size_t count = bytes / sizeof(float);
    reduce(to, size_, from, size_, slice(rank_, count), slice(rank_ + 1, count));
    meet_again(n_);
    leave(n_);
  }

  void expose() {}
  void close() {}

 private:
  static std::byte* allocate(std::size_t bytes) { return static_cast<std::byte*>(std::aligned_alloc(page, bytes)); }
  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

  // ---- flags
  Line& entered(int rank) { return flags_.entered[n_ & 1][rank]; }
  Line& reduced(int rank) { return flags_.reduced[n_ & 1][rank]; }
  void enter(std::uint64_t n) { raise(entered(rank_), n); }
  void leave(std::uint64_t n) { raise(flags_.left[rank_], n); }
  void await_entered(std::uint64_t n) {
    for (int r = 0; r < size_; ++r) await(entered(r), n, yields_);
  }
  void await_left(std::uint64_t n) {
    for (int r = 1; r < size_; ++r) await(flags_.left[r], n, yields_);
  }
  void meet_again(std::uint64_t n) {
    raise(reduced(rank_), n);
    for (int r = 0; r < size_; ++r) await(reduced(r), n, yields_);
  }
  // Own part first, then the neighbours': not everyone at the same rank.
  std::vector<int>& in_turn() {
    if (turns_.empty()) {
      for (int i = 0; i < size_; ++i) turns_.push_back((rank_ + i) % size_);
    }
    return turns_;
  }
  // Slices of whole cache lines.
  std::size_t slice(int rank, std::size_t count) const {
    return rank >= size_ ? count : count / 16 * at(rank) / at(size_) * 16;
  }

  // ---- payload in the flag's line
  void broadcast_inline(std::size_t bytes) {
    ++n_;
    if (rank_ == 0) {
      std::memcpy(entered(0).payload, source_, bytes);
      enter(n_);
    } else {
      await(entered(0), n_, yields_);
      std::memcpy(source_, entered(0).payload, bytes);
    }
    leave(n_);
  }
  void allgather_inline(std::size_t bytes) {
    ++n_;
    std::memcpy(entered(rank_).payload, source_, bytes);
    enter(n_);
    for (int r = 0; r < size_; ++r) {
      await(entered(r), n_, yields_);
      std::memcpy(result_ + at(r) * bytes, entered(r).payload, bytes);
    }
    leave(n_);
  }
  void allreduce_inline(std::size_t count) {
    ++n_;
    std::memcpy(entered(rank_).payload, source_, count * sizeof(float));
    enter(n_);
    float sum[inline_bytes / sizeof(float)] = {};
    for (int r = 0; r < size_; ++r) {
      await(entered(r), n_, yields_);
      const auto* const part = reinterpret_cast<const float*>(entered(r).payload);
      for (std::size_t i = 0; i < count; ++i) sum[i] += part[i];
    }
    std::memcpy(result_, sum, count * sizeof(float));
    leave(n_);
  }

  // ---- buffers that others see
  void broadcast_window(std::size_t bytes) {
    ++n_;
    if (rank_ == 0) {
      enter(n_);
      await_left(n_);  // the buffer may be written again
    } else {
      await(entered(0), n_, yields_);
      std::memcpy(source_, board_.source(0), bytes);
    }
    leave(n_);
  }

  // ---- private buffers: block by block through staging
  void broadcast_staged(std::size_t bytes) {
    for (std::size_t done = 0; done < bytes; done += block_bytes) {
      const std::size_t block = std::min(block_bytes, bytes - done);
      ++n_;
      if (rank_ == 0) {
        await_left(n_ - 2);
        std::memcpy(board_.staged(0, n_ & 1), source_ + done, block);
        enter(n_);
      } else {
        await(entered(0), n_, yields_);
        std::memcpy(source_ + done, board_.staged(0, n_ & 1), block);
      }
      leave(n_);
    }
    if (rank_ == 0) await_left(n_ - 1);  // what comes next may use the slot before this one
  }
  void allgather_staged(std::size_t bytes) {
    for (std::size_t done = 0; done < bytes; done += block_bytes) {
      const std::size_t block = std::min(block_bytes, bytes - done);
      ++n_;
      std::memcpy(board_.staged(rank_, n_ & 1), source_ + done, block);
      enter(n_);
      for (const int r : in_turn()) {
        await(entered(r), n_, yields_);
        const std::byte* const from = r == rank_ ? source_ + done : board_.staged(r, n_ & 1);
        std::memcpy(result_ + at(r) * bytes + done, from, block);
      }
      leave(n_);
    }
  }
  void allreduce_staged(std::size_t bytes) {
    for (std::size_t done = 0; done < bytes; done += block_bytes)
      allreduce_block(done, std::min(block_bytes, bytes - done) / sizeof(float));
  }
  void allreduce_block(std::size_t done, std::size_t count) {
    const std::uint64_t slot = ++n_ & 1;
    const float* const mine = reinterpret_cast<const float*>(source_ + done);
    float* const out = reinterpret_cast<float*>(result_ + done);
    const std::size_t first = slice(rank_, count), last = slice(rank_ + 1, count);

    // The others need all of it but the slice that this rank reduces.
    auto* const staged = reinterpret_cast<float*>(board_.staged(rank_, slot));
    std::memcpy(staged, mine, first * sizeof(float));
    std::memcpy(staged + last, mine + last, (count - last) * sizeof(float));
    enter(n_);
    await_entered(n_);

    const float* from[most_ranks];
    for (int r = 0; r < size_; ++r) {
      from[r] = r == rank_ ? mine : reinterpret_cast<const float*>(board_.staged(r, slot));
    }
    float* const to[2] = {reinterpret_cast<float*>(board_.staged_out(rank_, slot)), out};
    reduce(to, 2, from, size_, first, last);
    raise(reduced(rank_), n_);
    for (const int r : in_turn()) {
      if (r == rank_) continue;
      await(reduced(r), n_, yields_);
      const std::size_t begin = slice(r, count), end = slice(r + 1, count);
      std::memcpy(out + begin, reinterpret_cast<const float*>(board_.staged_out(r, slot)) + begin,
                  (end - begin) * sizeof(float));
    }
    leave(n_);
  }

  Board& board_;
  Flags& flags_;
  int rank_, size_;
  bool yields_, windows_;
  std::byte *source_, *result_;
  std::uint64_t n_ = 2;
  std::vector<int> turns_;
};

}  // namespace
}  // namespace compare::floor

int main(int argc, char** argv) try {
  const compare::Setup setup = compare::setup_of(argc, argv);
  if (setup.ranks == 0) return 0;  // what --hello executes
  if (setup.hello) {
    return compare::run_ranks(setup.ranks, setup.pin, [&](int) { return execl("/proc/self/exe", argv[0], nullptr); });
  }
  compare::floor::Board board(setup, setup.ranks);
  return compare::run_ranks(setup.ranks, setup.pin, [&](int rank) {
    compare::floor::Floor contestant(board, rank, setup);
    return compare::run_rank(contestant, setup);
  });
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
