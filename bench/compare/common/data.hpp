// The data of each operation: the ranks that fill and read each buffer, and the expected contents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "pattern.hpp"
#include "setup.hpp"

namespace compare {

inline bool one_sided(Operation operation) { return operation == Operation::put || operation == Operation::get; }

/// One rank's data of a cell. For `Contestant` see common/loop.hpp.
template <typename Contestant> class Data {
 public:
  explicit Data(Contestant& contestant) : it_(contestant) {}

  void fill(const Cell& cell, std::uint32_t stamp) {
    const int rank = it_.rank();
    switch (cell.operation) {
      case Operation::barrier: return;
      case Operation::put:
      case Operation::broadcast:
        if (rank == 0) fill_words(it_.source(), cell.bytes, rank, stamp);
        return;
      case Operation::get:
        if (rank == target_rank()) fill_words(it_.target(), cell.bytes, rank, stamp);
        return;
      case Operation::allgather:
      case Operation::allgatherv:
      case Operation::gather: return fill_words(it_.source(), cell.bytes, rank, stamp);
      case Operation::scatter:
        if (rank != 0) return;
        [[fallthrough]];
      case Operation::alltoall:
      case Operation::alltoallv:
        for (int to = 0; to < it_.size(); ++to) fill_words(in_block(cell, to), cell.bytes, pair(rank, to), stamp);
        return;
      case Operation::reduce_scatter:
        for (int to = 0; to < it_.size(); ++to) fill_numbers(in_block(cell, to), cell.bytes, pair(rank, to), stamp);
        return;
      case Operation::allreduce:
      case Operation::reduce:
      case Operation::scan:
      case Operation::exscan: return fill_numbers(it_.source(), cell.bytes, rank, stamp);
    }
  }

  /// Reads the result as a consumer would.
  void read(const Cell& cell) {
    if (!has_result(cell.operation)) return;
    if (cell.operation == Operation::put)
      consume(it_.target(), cell.bytes);
    else if (cell.operation == Operation::broadcast)
      consume(it_.source(), cell.bytes);
    else
      consume(it_.result(), result_bytes(cell));
  }

  /// Overwrites the result, so that an earlier call's result isn't accepted.
  void poison(const Cell& cell) { std::memset(it_.result(), 0xa5, result_bytes(cell)); }

  bool verify(const Cell& cell, std::uint32_t stamp) {
    if (!has_result(cell.operation)) return true;
    const int rank = it_.rank();
    const std::size_t bytes = cell.bytes;
    switch (cell.operation) {
      case Operation::barrier: return true;
      case Operation::put: return holds_words(it_.target(), bytes, 0, stamp);
      case Operation::get: return holds_words(it_.result(), bytes, target_rank(), stamp);
      case Operation::broadcast: return holds_words(it_.source(), bytes, 0, stamp);
      case Operation::scatter: return holds_words(it_.result(), bytes, pair(0, rank), stamp);
      case Operation::allreduce:
      case Operation::reduce: return holds_sums(it_.result(), bytes, it_.size(), stamp);
      case Operation::scan: return holds_sums(it_.result(), bytes, rank + 1, stamp);
      case Operation::exscan: return holds_sums(it_.result(), bytes, rank, stamp);
      case Operation::reduce_scatter:
        return holds_sums(it_.result(), bytes, it_.size(), stamp, pair(0, rank), most_ranks);
      case Operation::allgather:
      case Operation::allgatherv:
      case Operation::gather:
      case Operation::alltoall:
      case Operation::alltoallv:
        for (int from = 0; from < it_.size(); ++from) {
          const int filled_as = has_block_per_rank_in(cell.operation) ? pair(from, rank) : from;
          if (!holds_words(it_.result() + block(cell, from), bytes, filled_as, stamp)) return false;
        }
        return true;
    }
    return false;
  }

  int target_rank() const { return it_.size() > 1 ? 1 : 0; }

 private:
  static constexpr int most_ranks = 4096;
  /// The seed with which `from` fills its block for `to`.
  static int pair(int from, int to) { return from * most_ranks + to + 1; }
  static std::size_t block(const Cell& cell, int index) { return cell.bytes * static_cast<std::size_t>(index); }
  std::byte* in_block(const Cell& cell, int index) { return it_.source() + block(cell, index); }

  bool has_result(Operation operation) const {
    switch (operation) {
      case Operation::barrier: return false;
      case Operation::put: return it_.rank() == target_rank();
      case Operation::get:
      case Operation::gather:
      case Operation::reduce: return it_.rank() == 0;
      case Operation::exscan: return it_.rank() > 0;
      default: return true;
    }
  }
  std::size_t result_bytes(const Cell& cell) const {
    return cell.bytes * (has_block_per_rank_out(cell.operation) ? static_cast<std::size_t>(it_.size()) : 1);
  }

  Contestant& it_;
};

}  // namespace compare
