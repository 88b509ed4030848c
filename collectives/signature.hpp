// Signature: what a rank called, small enough to ride in a flag's line.
#pragma once

#include <cstdint>
#include <string>

#include <hmc/types.hpp>

#include "runtime/base/node_page.hpp"

namespace hmc::collectives {

enum class Kind : std::uint8_t { none, barrier, broadcast, allgather, allreduce };
const char* name_of(Kind kind) noexcept;
/// What a wait in it says of itself; inline, since every wait asks.
constexpr base::Activity activity_of(Kind kind) noexcept {
  switch (kind) {
    case Kind::broadcast: return base::Activity::broadcast;
    case Kind::allgather: return base::Activity::allgather;
    case Kind::allreduce: return base::Activity::allreduce;
    default: return base::Activity::barrier;
  }
}

/// kind 4 | type 4 | op 4 | spare 4 | root 16 | count 32, from the top. A count above 32 bits is folded;
/// so equal words mean equal calls but for one chance in 2^32.
class Signature {
 public:
  static constexpr unsigned user_op = 15;

  constexpr Signature() = default;
  constexpr explicit Signature(std::uint64_t word) : word_(word) {}
  static constexpr Signature make(Kind kind, std::uint64_t count, int root = 0, DType type = DType::u8,
                                  unsigned op = 0) {
    const std::uint64_t folded = (count ^ (count >> 32) * 0x9e3779b1U) & 0xffffffffU;
    return Signature(static_cast<std::uint64_t>(kind) << 60 | static_cast<std::uint64_t>(type) << 56 |
                     static_cast<std::uint64_t>(op & 15U) << 52 | (static_cast<std::uint64_t>(root) & 0xffffU) << 32 |
                     folded);
  }
  constexpr std::uint64_t word() const { return word_; }
  constexpr Kind kind() const { return static_cast<Kind>(word_ >> 60); }
  friend constexpr bool operator==(Signature, Signature) = default;
  /// "allreduce(4096 x f32, sum)", "broadcast(100 bytes, root 2)".
  std::string text() const;

 private:
  std::uint64_t word_ = 0;
};

}  // namespace hmc::collectives
