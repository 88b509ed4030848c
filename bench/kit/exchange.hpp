// The operations, and the data of each: what a rank writes before a call, and what it finds after it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string_view>
#include <vector>

#include "bench/kit/pattern.hpp"

namespace bench {

enum class Operation {
  put,
  get,
  barrier,
  broadcast,
  allgather,
  allreduce,
  gather,
  scatter,
  alltoall,
  reduce,
  reduce_scatter,
  scan,
  exscan,
  allgatherv,  // with even counts, as OSU's
  alltoallv
};

inline constexpr std::array<std::string_view, 15> operation_names = {
    "put",      "get",    "barrier",        "broadcast", "allgather", "allreduce",  "gather",   "scatter",
    "alltoall", "reduce", "reduce_scatter", "scan",      "exscan",    "allgatherv", "alltoallv"};

inline std::string_view name_of(Operation operation) { return operation_names[static_cast<std::size_t>(operation)]; }

inline bool one_sided(Operation operation) { return operation == Operation::put || operation == Operation::get; }
inline bool is_prefix(Operation operation) { return operation == Operation::scan || operation == Operation::exscan; }
inline bool reduces(Operation operation) {
  return is_prefix(operation) || operation == Operation::allreduce || operation == Operation::reduce ||
         operation == Operation::reduce_scatter;
}

/// The number of blocks in a rank's input or output: one, or one for each rank. Broadcast has an input only.
inline std::size_t blocks_in(Operation operation, std::size_t ranks) {
  return operation == Operation::scatter || operation == Operation::alltoall || operation == Operation::alltoallv ||
                 operation == Operation::reduce_scatter
             ? ranks
             : 1;
}
inline std::size_t blocks_out(Operation operation, std::size_t ranks) {
  if (operation == Operation::broadcast) return 0;
  return operation == Operation::allgather || operation == Operation::allgatherv || operation == Operation::gather ||
                 operation == Operation::alltoall || operation == Operation::alltoallv
             ? ranks
             : 1;
}

/// The rank that a put writes and a get reads. The origin is rank 0, which is also the root.
inline int target_of(int ranks) { return ranks > 1 ? 1 : 0; }

/// The patterns of a reduction: this rank's contribution, and the result of the ranks [0, end).
struct Reduction {
  Pattern contribution;
  std::function<Pattern(int end)> result;
};

/// f32 and sum. Integers below 1024: sums over many ranks are exact, in any order of addition. Each rank has different
/// numbers, so that a rank counted twice can't replace another.
inline Pattern sum_of_ranks(int begin, int end) {
  return Pattern::of([=](std::size_t i) {
    std::uint64_t sum = 0;
    for (int rank = begin; rank < end; ++rank) sum += hash(static_cast<std::uint64_t>(rank), i) >> 54;
    return static_cast<float>(sum);
  });
}
inline Reduction float_sums(int rank) {
  return {sum_of_ranks(rank, rank + 1), [](int end) { return sum_of_ranks(0, end); }};
}

/// Reads one word of each cache line, as a consumer would.
inline void consume(const std::byte* at, std::size_t bytes) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i + sizeof sum <= bytes; i += 64) {
    std::uint32_t word;
    std::memcpy(&word, at + i, sizeof word);
    sum += word;
  }
  asm volatile("" : : "r"(sum) : "memory");
}

/// One rank's data of an operation, in pieces of `bytes`. The expected pieces lie one after the other.
struct Exchange {
  struct Piece {
    std::byte* at;
    Pattern pattern;
    int phase = 0;
  };
  std::size_t bytes = 0;
  std::vector<Piece> written{};
  std::vector<Piece> expected{};

  void write(int call) const {
    for (const Piece& piece : written) piece.pattern.write(piece.at, bytes, call + piece.phase);
  }
  bool matches(int call) const {
    bool right = true;
    for (const Piece& piece : expected) right &= piece.pattern.matches(piece.at, bytes, call + piece.phase);
    return right;
  }
  /// Reads the result without a comparison.
  void read() const {
    if (!expected.empty()) consume(expected.front().at, bytes * expected.size());
  }
  /// Overwrites the result, so that an earlier call's result isn't accepted.
  void poison() const {
    if (!expected.empty()) std::memset(expected.front().at, 0xa5, bytes * expected.size());
  }
  /// Flips a bit of the result.
  void spoil() const { expected.back().at[bytes - 1] ^= std::byte{1}; }
};

/// The exchange of `rank`. `in`: this rank's input, for a get the target; `out`: its output, for a put the target.
inline Exchange exchange_of(Operation operation, int rank, int ranks, std::byte* in, std::byte* out, std::size_t bytes,
                            const Reduction& reduction) {
  Exchange data{bytes};
  const auto block = [&](std::byte* begin, int i) { return begin + static_cast<std::size_t>(i) * bytes; };
  const auto sent = [](int from, int to = 0) {
    return Pattern::bytes(static_cast<std::uint64_t>(from) + (static_cast<std::uint64_t>(to) << 32));
  };
  switch (operation) {
    case Operation::barrier: break;
    case Operation::put:
      if (rank == 0) data.written.push_back({in, sent(0)});
      if (rank == target_of(ranks)) data.expected.push_back({out, sent(0)});
      break;
    case Operation::get:
      if (rank == target_of(ranks)) data.written.push_back({in, sent(rank)});
      if (rank == 0) data.expected.push_back({out, sent(target_of(ranks))});
      break;
    case Operation::broadcast:
      if (rank == 0) data.written.push_back({in, sent(0)});
      data.expected.push_back({in, sent(0)});
      break;
    case Operation::gather:
    case Operation::allgather:
    case Operation::allgatherv:
      data.written.push_back({in, sent(rank)});
      for (int i = 0; i < ranks && (operation != Operation::gather || rank == 0); ++i)
        data.expected.push_back({block(out, i), sent(i)});
      break;
    case Operation::scatter:
      for (int i = 0; i < ranks && rank == 0; ++i) data.written.push_back({block(in, i), sent(i)});
      data.expected.push_back({out, sent(rank)});
      break;
    case Operation::alltoall:
    case Operation::alltoallv:
      for (int i = 0; i < ranks; ++i) {
        data.written.push_back({block(in, i), sent(rank, i)});
        data.expected.push_back({block(out, i), sent(i, rank)});
      }
      break;
    default:  // reductions; the blocks of reduce_scatter have a phase each, so that they differ
      for (int i = 0; i < static_cast<int>(blocks_in(operation, static_cast<std::size_t>(ranks))); ++i)
        data.written.push_back({block(in, i), reduction.contribution, i});
      if (rank == 0 ? operation == Operation::exscan : operation == Operation::reduce) break;
      const int end = operation == Operation::scan ? rank + 1 : operation == Operation::exscan ? rank : ranks;
      data.expected.push_back({out, reduction.result(end), operation == Operation::reduce_scatter ? rank : 0});
  }
  return data;
}

}  // namespace bench
