// The bare loops: the speed of shared memory without a library. No windows, no error handling, no deadlines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "bench/compare/floor_board.hpp"
#include "bench/kit/pattern.hpp"
#include "bench/kit/setup.hpp"

namespace bench::floor {

/// The senders and receivers of collectives in which each rank copies its part of the others' inputs. Root 0.
struct Roles {
  Operation operation;
  int rank;
  int size;

  bool to_root() const { return operation == Operation::gather || operation == Operation::reduce; }

  bool gives() const {
    if (to_root()) return rank != 0;
    if (operation == Operation::scatter) return rank == 0;
    return !is_prefix(operation) || rank < size - 1;
  }
  bool takes() const { return to_root() ? rank == 0 : operation != Operation::exscan || rank > 0; }
  bool takes_from(int peer) const {
    if (peer == rank || !takes()) return false;
    if (operation == Operation::scatter) return peer == 0;
    return !is_prefix(operation) || peer < rank;
  }
  /// For sums: the contributions of the ranks [0, this).
  int end() const { return operation == Operation::scan ? rank + 1 : operation == Operation::exscan ? rank : size; }
  std::size_t parts() const { return blocks_in(operation, static_cast<std::size_t>(size)); }
  /// The index of this rank's part in an input.
  std::size_t part() const { return parts() == 1 ? 0 : static_cast<std::size_t>(rank); }
  /// The index of `peer`'s block in this rank's result.
  std::size_t place(int peer) const { return blocks_out(operation, 2) == 2 ? static_cast<std::size_t>(peer) : 0; }
};

/// One rank's side of the loops. Two objects of a rank need two boards.
class Floor {
 public:
  Floor(Board& board, int rank, const Setup& setup)
      : board_(board),
        rank_(rank),
        size_(board.ranks()),
        yields_(at(size_) > (setup.cpus.empty() ? allowed_cpus() : setup.cpus).size()),
        windows_(setup.window_buffers),
        private_source_(board.source_bytes()),
        private_result_(board.result_bytes()),
        source_(windows_ ? board.source(rank) : private_source_.data()),
        result_(windows_ ? board.result(rank) : private_result_.data()) {
    for (int i = 1; i < size_; ++i) others_.push_back((rank + i) % size_);
  }

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
    begin();
    enter();
    await_entered();
    leave();
  }

  void broadcast(std::size_t bytes) {
    if (bytes <= inline_bytes)
      broadcast_inline(bytes);
    else if (windows_ && bytes > one_step_bytes)
      broadcast_window(bytes);
    else
      broadcast_chunks(bytes);
  }

  void allgather(std::size_t bytes) {
    if (bytes <= one_step_bytes) return allgather_one_step(bytes);
    if (!windows_) return allgather_staged(bytes);
    begin();
    enter();
    std::memcpy(result_ + at(rank_) * bytes, source_, bytes);
    for (const int r : others_) {
      await(entered(r), n_, yields_);
      std::memcpy(result_ + at(r) * bytes, board_.source(r), bytes);
    }
    barrier_again();
    leave();
  }

  void allreduce(std::size_t bytes) {
    if (bytes <= one_step_bytes) return allreduce_one_step(bytes);
    if (!windows_ || bytes <= 4 * one_step_bytes) return allreduce_staged(bytes);
    begin();
    enter();
    await_entered();
    float* to[most_ranks];
    const float* from[most_ranks];
    for (int r = 0; r < size_; ++r) {
      to[r] = reinterpret_cast<float*>(board_.result(r));
      from[r] = reinterpret_cast<const float*>(board_.source(r));
    }
    const std::size_t count = bytes / sizeof(float);
    const std::size_t first = slice(rank_, count), last = slice(rank_ + 1, count);
    if (size_ == 2 && bytes >= stream_bytes)
      add_to_two_streamed(to[rank_] + first, to[1 - rank_] + first, from[0] + first, from[1] + first, last - first);
    else
      floor::reduce(to, size_, from, size_, first, last);
    barrier_again();
    leave();
  }

  void gather(std::size_t bytes) { pull(Operation::gather, bytes); }
  void scatter(std::size_t bytes) { pull(Operation::scatter, bytes); }
  void alltoall(std::size_t bytes) { pull(Operation::alltoall, bytes); }
  void reduce(std::size_t bytes) { pull(Operation::reduce, bytes); }
  void reduce_scatter(std::size_t bytes) { pull(Operation::reduce_scatter, bytes); }
  void scan(std::size_t bytes) { pull(Operation::scan, bytes); }
  void exscan(std::size_t bytes) { pull(Operation::exscan, bytes); }

  void allgatherv(std::size_t bytes) { allgather(bytes); }
  void alltoallv(std::size_t bytes) { alltoall(bytes); }
  void expose() {}
  void close() {}

 private:
  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

  // ---- flags
  Line& entered(int rank) { return board_.flags(rank).entered[n_ % slots]; }
  Line& reduced(int rank) { return board_.flags(rank).reduced[n_ % slots]; }
  void begin() { await_left(++n_ - slots); }
  void enter() { raise(entered(rank_), n_); }
  void leave() { raise(board_.flags(rank_).left, n_); }
  void await_entered() {
    for (const int r : others_) await(entered(r), n_, yields_);
    all_left_ = n_ - 1;
  }
  // Reads the other ranks' lines only if the known state doesn't suffice.
  void await_left(std::uint64_t n) {
    if (all_left_ >= n) return;
    for (const int r : others_) await(board_.flags(r).left, n, yields_);
    all_left_ = n;
  }
  void barrier_again() {
    raise(reduced(rank_), n_);
    for (const int r : others_) await(reduced(r), n_, yields_);
    all_left_ = n_ - 1;
  }
  // Slices of whole cache lines.
  std::size_t slice(int rank, std::size_t count) const {
    return rank >= size_ ? count : count / 16 * at(rank) / at(size_) * 16;
  }

  // ---- one step: the payload goes with the flag, in its line or in a chunk of the ring
  std::byte* place(int rank, std::size_t bytes) {
    return bytes <= inline_bytes ? entered(rank).payload : board_.chunk(rank, n_);
  }
  void broadcast_inline(std::size_t bytes) {
    begin();
    if (rank_ == 0) {
      std::memcpy(entered(0).payload, source_, bytes);
      enter();
    } else {
      await(entered(0), n_, yields_);
      std::memcpy(source_, entered(0).payload, bytes);
    }
    leave();
  }
  void allgather_one_step(std::size_t bytes) {
    begin();
    std::memcpy(place(rank_, bytes), source_, bytes);
    enter();
    std::memcpy(result_ + at(rank_) * bytes, source_, bytes);
    for (const int r : others_) {
      await(entered(r), n_, yields_);
      std::memcpy(result_ + at(r) * bytes, place(r, bytes), bytes);
    }
    all_left_ = n_ - 1;
    leave();
  }
  void allreduce_one_step(std::size_t bytes) {
    begin();
    std::memcpy(place(rank_, bytes), source_, bytes);
    enter();
    await_entered();
    const std::size_t count = bytes / sizeof(float);
    float* const out = reinterpret_cast<float*>(result_);
    const float* from[most_ranks];
    for (int r = 0; r < size_; ++r) from[r] = reinterpret_cast<const float*>(r == rank_ ? source_ : place(r, bytes));
    if (bytes <= inline_bytes) {
      for (std::size_t i = 0; i < count; ++i) {
        float sum = from[0][i];
        for (int r = 1; r < size_; ++r) sum += from[r][i];
        out[i] = sum;
      }
    } else {
      floor::reduce(&out, 1, from, size_, 0, count);
    }
    leave();
  }

  // ---- buffers that other ranks reach
  void broadcast_window(std::size_t bytes) {
    begin();
    if (rank_ == 0) {
      enter();
      await_left(n_);  // the buffer may be written again
    } else {
      await(entered(0), n_, yields_);
      std::memcpy(source_, board_.source(0), bytes);
    }
    leave();
  }

  // ---- private buffers: piece by piece through staging
  void broadcast_chunks(std::size_t bytes) {
    const std::size_t most = bytes <= 2 * chunk_bytes ? chunk_bytes / 4 : chunk_bytes;
    for (std::size_t done = 0; done < bytes; done += most) {
      const std::size_t chunk = std::min(most, bytes - done);
      begin();
      if (rank_ == 0) {
        std::memcpy(board_.chunk(0, n_), source_ + done, chunk);
        enter();
      } else {
        await(entered(0), n_, yields_);
        std::memcpy(source_ + done, board_.chunk(0, n_), chunk);
      }
      leave();
    }
  }
  void allgather_staged(std::size_t bytes) {
    for (std::size_t done = 0; done < bytes; done += block_bytes) {
      const std::size_t block = std::min(block_bytes, bytes - done);
      begin();
      await_left(n_ - 2);
      std::memcpy(board_.staged(rank_, n_), source_ + done, block);
      enter();
      std::memcpy(result_ + at(rank_) * bytes + done, source_ + done, block);
      for (const int r : others_) {
        await(entered(r), n_, yields_);
        std::memcpy(result_ + at(r) * bytes + done, board_.staged(r, n_), block);
      }
      all_left_ = n_ - 1;
      leave();
    }
  }
  void allreduce_staged(std::size_t bytes) {
    for (std::size_t done = 0; done < bytes; done += block_bytes)
      allreduce_block(done, std::min(block_bytes, bytes - done) / sizeof(float));
  }
  // Slices go through staging. Their sums are stored at the same place, whose lines are in the reducer's cache.
  // No other rank reads a rank's staging after its sums are in it, so it is free when they have been copied out.
  void allreduce_block(std::size_t done, std::size_t count) {
    begin();
    float* const mine = reinterpret_cast<float*>(source_ + done);
    float* const out = reinterpret_cast<float*>(result_ + done);
    auto* const staged = reinterpret_cast<float*>(board_.sums(rank_));
    const std::size_t first = slice(rank_, count), last = slice(rank_ + 1, count);
    std::memcpy(staged, mine, first * sizeof(float));
    std::memcpy(staged + last, mine + last, (count - last) * sizeof(float));
    enter();
    await_entered();

    float* to[most_ranks];
    const float* from[most_ranks];
    for (int r = 0; r < size_; ++r) {
      from[r] = r == rank_ ? mine : reinterpret_cast<float*>(board_.sums(r));
      to[r] = r == rank_ ? out : reinterpret_cast<float*>(board_.sums(r));
    }
    floor::reduce(to, size_, from, size_, first, last);
    raise(reduced(rank_), n_);
    for (const int r : others_) {
      await(reduced(r), n_, yields_);
      const std::size_t begin = slice(r, count), end = slice(r + 1, count);
      std::memcpy(out + begin, staged + begin, (end - begin) * sizeof(float));
    }
    leave();
  }

  // ---- each rank copies its part of the others' inputs
  void pull(Operation operation, std::size_t bytes) {
    const Roles roles{operation, rank_, size_};
    const std::size_t whole = bytes * roles.parts();
    const bool reads_inputs = windows_ && whole > one_step_bytes;
    const std::size_t most = whole <= one_step_bytes || reads_inputs ? bytes : block_bytes / roles.parts() / 64 * 64;
    for (std::size_t done = 0; done < bytes; done += most) {
      const std::size_t piece = std::min(most, bytes - done);
      begin();
      if (!reads_inputs && whole > one_step_bytes) await_left(n_ - 2);
      // `bytes` of each part are `pitch` apart, where the receivers expect them.
      const std::size_t pitch = reads_inputs ? bytes : piece;
      const auto given = [&](int rank) {
        if (reads_inputs) return board_.source(rank) + done;
        return whole <= one_step_bytes ? place(rank, whole) : board_.staged(rank, n_);
      };
      if (roles.gives() && !reads_inputs) {
        for (std::size_t part = 0; part < roles.parts(); ++part)
          std::memcpy(given(rank_) + part * pitch, source_ + part * bytes + done, piece);
      }
      enter();
      for (const int r : others_)
        if (roles.takes_from(r)) await(entered(r), n_, yields_);
      if (roles.takes()) take(roles, bytes, done, piece, [&](int rank) { return given(rank) + roles.part() * pitch; });
      if (reads_inputs) barrier_again();
      leave();
    }
  }
  template <typename Given>
  void take(const Roles& roles, std::size_t bytes, std::size_t done, std::size_t piece, const Given& given) {
    const std::byte* const own = source_ + roles.part() * bytes + done;
    if (!reduces(roles.operation)) {
      if (roles.operation != Operation::scatter || rank_ == 0)
        std::memcpy(result_ + roles.place(rank_) * bytes + done, own, piece);
      for (const int r : others_)
        if (roles.takes_from(r)) std::memcpy(result_ + roles.place(r) * bytes + done, given(r), piece);
      return;
    }
    const float* from[most_ranks];
    for (int r = 0; r < roles.end(); ++r) from[r] = reinterpret_cast<const float*>(r == rank_ ? own : given(r));
    float* const to = reinterpret_cast<float*>(result_ + done);
    floor::reduce(&to, 1, from, roles.end(), 0, piece / sizeof(float));
  }

  Board& board_;
  int rank_, size_;
  bool yields_, windows_;
  Memory private_source_, private_result_;
  std::byte *source_, *result_;
  std::uint64_t n_ = slots;
  std::uint64_t all_left_ = slots;  // the last call that all ranks are known to have left
  std::vector<int> others_;         // starting with the next rank, so that not all ranks poll the same one
};

}  // namespace bench::floor
