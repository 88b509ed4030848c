// Bare ucp_put_nbx over TCP between two processes, for comparison with a pool's copies.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "members.hpp"

namespace hmc::test {

/// Puts into the memory of the last process. Created by all processes together.
class UcxPut {
 public:
  UcxPut(Process& me, std::size_t bytes);
  ~UcxPut();
  struct Piece {
    std::size_t at;
    const std::byte* from;
    std::size_t bytes;
  };
  /// Returns when the bytes are visible at the target, which must call progress() meanwhile.
  void put(std::span<const Piece> pieces);
  void progress();
  /// The target's memory.
  std::span<const std::byte> memory() const;

 private:
  struct Core;
  std::unique_ptr<Core> core_;
};

}  // namespace hmc::test
