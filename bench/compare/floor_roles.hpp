// Roles: the senders and receivers of collectives in which each rank copies its part of the others' inputs. Root 0.
#pragma once

#include <cstddef>

#include "common/setup.hpp"

namespace compare::floor {

struct Roles {
  Operation operation;
  int rank;
  int size;

  bool prefix() const { return operation == Operation::scan || operation == Operation::exscan; }
  bool to_root() const { return operation == Operation::gather || operation == Operation::reduce; }
  bool sums() const { return prefix() || operation == Operation::reduce || operation == Operation::reduce_scatter; }

  bool gives() const {
    if (to_root()) return rank != 0;
    if (operation == Operation::scatter) return rank == 0;
    return !prefix() || rank < size - 1;
  }
  bool takes() const { return to_root() ? rank == 0 : operation != Operation::exscan || rank > 0; }
  bool takes_from(int peer) const {
    if (peer == rank || !takes()) return false;
    if (operation == Operation::scatter) return peer == 0;
    return !prefix() || peer < rank;
  }
  /// For sums: the contributions of the ranks [0, this).
  int end() const { return operation == Operation::scan ? rank + 1 : operation == Operation::exscan ? rank : size; }
  std::size_t parts() const { return has_block_per_rank_in(operation) ? static_cast<std::size_t>(size) : 1; }
  /// The index of this rank's part in an input.
  std::size_t part() const { return parts() == 1 ? 0 : static_cast<std::size_t>(rank); }
  /// The index of `peer`'s block in this rank's result.
  std::size_t place(int peer) const { return has_block_per_rank_out(operation) ? static_cast<std::size_t>(peer) : 0; }
};

}  // namespace compare::floor
