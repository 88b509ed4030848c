// Injects small errors in a team's schedules. The verifier must detect them.
#pragma once

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "collectives/schedule/schedule.hpp"

namespace hmc::verify {

enum class Mistake {
  dropped_step,
  dropped_wait,
  dropped_flush,
  early_step,      ///< a step is swapped with the step before it
  shifted_from,    ///< by one element
  shifted_to,      ///< by one element
  shorter,         ///< by one element
  longer,          ///< by one element
  swapped_peer,    ///< a put goes to another rank
  swapped_slot,    ///< a put raises the slot next to its own
  swapped_order,   ///< `to op from` instead of `from op to`
  swapped_inputs,  ///< a fold reads its first two inputs in the other order
};
inline constexpr int mistake_count = 12;
const char* name_of(Mistake mistake);

/// Returns a description ("rank 2 step 3: ..."), or nullopt if no step allows this error. `ordered`: contributions
/// must be combined in rank order.
std::optional<std::string> mutate(std::vector<collectives::schedule::Schedule>& schedules, Mistake mistake,
                                  std::uint64_t element_bytes, bool ordered, std::mt19937_64& random);

}  // namespace hmc::verify
