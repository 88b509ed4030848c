// Roles: which ranks send (provide input) and receive (read it), in collectives in which ranks read their peers'
// inputs.
#pragma once

#include "collectives/schedule/call.hpp"

namespace hmc::collectives {

struct Roles {
  using Collective = schedule::Collective;

  Collective collective;
  int rank;
  int size;
  int root;

  bool is_root() const noexcept { return rank == root; }
  bool is_prefix() const noexcept { return collective == Collective::scan || collective == Collective::exscan; }

  /// The input holds a block for each rank.
  static bool has_parts_in(Collective collective) noexcept {
    return collective == Collective::scatter || collective == Collective::alltoall ||
           collective == Collective::reduce_scatter;
  }
  /// The output holds a block from each rank.
  static bool has_parts_out(Collective collective) noexcept {
    return collective == Collective::gather || collective == Collective::allgather ||
           collective == Collective::alltoall;
  }

  bool gives() const noexcept {
    switch (collective) {
      case Collective::gather:
      case Collective::reduce: return !is_root();
      case Collective::scatter: return is_root();
      case Collective::scan:
      case Collective::exscan: return rank < size - 1;
      default: return size > 1;
    }
  }
  bool has_result() const noexcept {
    switch (collective) {
      case Collective::gather:
      case Collective::reduce: return is_root();
      case Collective::exscan: return rank > 0;
      default: return true;
    }
  }
  bool takes_from(int peer) const noexcept {
    if (peer == rank || !has_result()) return false;
    switch (collective) {
      case Collective::scatter: return peer == root;
      case Collective::scan:
      case Collective::exscan: return peer < rank;
      default: return true;
    }
  }
  bool takes_from_all() const noexcept { return collective != Collective::scatter && !is_prefix(); }
  /// True if an in-place call overwrites input that other ranks read.
  bool overwrites_input() const noexcept { return collective == Collective::alltoall || schedule::reduces(collective); }
};

}  // namespace hmc::collectives
