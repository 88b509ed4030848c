// Signature: encodes a call in 64 bits.
#pragma once

#include <cstdint>
#include <string>

#include <hmc/types.hpp>

#include "runtime/base/exchange.hpp"
#include "runtime/base/node_page.hpp"

namespace hmc::collectives {

/// A call of a collective, a step of the creation or close of a team or window (setup), or the start of a plan, whose
/// collective follows as the next call.
///
/// Fields from the most significant bit: kind 5 | type 5 | op 5 | irregular 1 | non-blocking 1 | deterministic 1 |
/// ordered 1 | root 13 | count 32. They include all parameters that select an algorithm or the length of a piece. A
/// count above 32 bits and a root above 13 bits are folded. The counts of a v-form are hashed (for alltoallv see
/// below). So equal words mean equal calls, except with probability 2^-32.
class Signature {
 public:
  static constexpr unsigned user_op = 31;

  constexpr Signature() = default;
  constexpr explicit Signature(std::uint64_t word) : word_(word) {}
  static constexpr Signature make(CollectiveKind kind, std::uint64_t count, int root = 0, DType type = DType::u8,
                                  unsigned op = 0) {
    return make(first_collective + static_cast<unsigned>(kind), count, root, type, op);
  }
  /// In alltoallv the counts differ between ranks, and the call itself compares them. Only the element size is in the
  /// word. Its bits above 23 are folded into the count like bits of a root above 13.
  static constexpr Signature alltoallv(std::uint32_t element) {
    const std::uint32_t root = (element & root_mask) | element >> 23 << 13;
    return make(CollectiveKind::alltoall, 0, static_cast<int>(root), static_cast<DType>(element >> 13 & 31U),
                element >> 18 & 31U)
        .irregular();
  }
  /// A step in the creation or close of an object. `form`: the collective of this step. `number`: the id of the window
  /// that is closed or gets a context; else 0.
  static constexpr Signature make(base::SetupCall what, std::uint64_t number, int form = 0) {
    return make(setup_step, number, form, DType::u8, static_cast<unsigned>(what));
  }
  /// The start of a plan. `number`: counts the team's plans in the order of their creation. Plans with equal arguments
  /// differ in it, and a started plan differs from a non-blocking call.
  static constexpr Signature plan_start(std::uint64_t number, Signature collective) {
    const Signature start = make(start_of_plan, number, 0, DType::u8, static_cast<unsigned>(collective.collective()));
    return Signature(start.word_ | (collective.word_ & irregular_bit));
  }
  constexpr Signature irregular() const { return Signature(word_ | irregular_bit); }
  constexpr Signature non_blocking() const { return Signature(word_ | non_blocking_bit); }
  /// Options of a reduction. `deterministic`: the result is bit-identical for every layout. Not `commutative`:
  /// contributions are combined in rank order.
  constexpr Signature reducing(bool deterministic, bool commutative) const {
    return Signature(word_ | (deterministic ? deterministic_bit : 0) | (commutative ? 0 : ordered_bit));
  }

  constexpr std::uint64_t word() const { return word_; }
  constexpr bool is_setup() const { return kind() == setup_step; }
  constexpr bool is_collective() const {
    return kind() >= first_collective &&
           kind() < first_collective + collective_count;  // words come from other ranks, too
  }
  /// Requires is_collective().
  constexpr CollectiveKind collective() const { return static_cast<CollectiveKind>(kind() - first_collective); }
  friend constexpr bool operator==(Signature, Signature) = default;
  /// Requires is_setup().
  constexpr base::SetupCall setup() const {
    return static_cast<base::SetupCall>(static_cast<unsigned>(word_ >> 49) & 31U);
  }
  /// "allreduce(4096 x f32, sum)", "broadcast(100 bytes, root 2)", "iallgather(8 bytes)",
  /// "gatherv(counts with hash b6696402, root 2)", "alltoallv(elements of 8 bytes)",
  /// "Plan::start of plan 2 (allreduce)".
  std::string text() const;

 private:
  // The kinds; 0: no call.
  static constexpr unsigned setup_step = 1, start_of_plan = 2, first_collective = 3;
  static_assert(first_collective + collective_count <= 32);

  constexpr unsigned kind() const { return static_cast<unsigned>(word_ >> 59); }
  static constexpr Signature make(unsigned kind, std::uint64_t count, int root, DType type, unsigned op) {
    const std::uint64_t above = (count >> 32) + (static_cast<std::uint64_t>(root) >> 13);
    const std::uint64_t folded = (count ^ above * 0x9e3779b1U) & 0xffffffffU;
    return Signature(static_cast<std::uint64_t>(kind) << 59 | static_cast<std::uint64_t>(type) << 54 |
                     static_cast<std::uint64_t>(op & 31U) << 49 | (static_cast<std::uint64_t>(root) & root_mask) << 32 |
                     folded);
  }

  static constexpr std::uint64_t irregular_bit = std::uint64_t{1} << 48;
  static constexpr std::uint64_t non_blocking_bit = std::uint64_t{1} << 47;
  static constexpr std::uint64_t deterministic_bit = std::uint64_t{1} << 46;
  static constexpr std::uint64_t ordered_bit = std::uint64_t{1} << 45;
  static constexpr std::uint64_t root_mask = 0x1fff;
  std::uint64_t word_ = 0;
};

/// The activity that a wait in such a call publishes. Inline, because every wait uses it.
constexpr base::Activity activity_of(Signature signature) noexcept {
  if (!signature.is_setup())
    return base::activity_of(signature.is_collective() ? signature.collective() : CollectiveKind::barrier);
  switch (signature.setup()) {
    case base::SetupCall::window_close:
    case base::SetupCall::team_close:
    case base::SetupCall::runtime_close: return base::Activity::closing;
    default: return base::Activity::setup;
  }
}

}  // namespace hmc::collectives
