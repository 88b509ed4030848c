// Overrides: what HMC_COLL_FILE says of the algorithms of collectives.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/schedule/schedule.hpp"

namespace hmc::collectives {

/// One row: for calls of up to so many bytes (of the vector, or of one rank's block) on teams of up to so many ranks.
struct Override {
  schedule::Collective collective = schedule::Collective::barrier;
  std::uint64_t bytes_up_to = UINT64_MAX;
  int ranks_up_to = INT32_MAX;
  int per_node = 0;                                ///< of such nodes only; 0: of any
  const schedule::Algorithm* algorithm = nullptr;  ///< null: "direct", by load and store where that can be
  std::uint64_t segment_bytes = 0;                 ///< 0: the algorithm's own

  bool covers(const schedule::Shape& shape, schedule::Collective called, std::uint64_t bytes) const noexcept {
    return called == collective && bytes <= bytes_up_to && shape.size <= ranks_up_to &&
           (per_node == 0 || per_node == shape.per_node);
  }
};

/// A JSON array of rows, of which the first that covers a call counts:
///   [{"collective": "allreduce", "bytes_up_to": "64K", "ranks_up_to": 64, "per_node": 8, "algorithm": "ring",
///     "segment": "32K"}]
/// All but the collective and the algorithm may be left out. Throws Error{invalid_config} that names the row (or
/// JSON's line) and what there is instead. `file` is its name, for that text.
std::vector<Override> read_overrides(std::string_view text, std::string_view file);

/// "barrier: dissemination; broadcast: binomial, ..."
std::string names_there_are();
/// The algorithm, or null for "direct". False if there is neither.
bool find_by_name(std::string_view collective, std::string_view algorithm, schedule::Collective& found,
                  const schedule::Algorithm*& of_it) noexcept;
/// "64K", "1M", "3G", "100". False if it isn't one.
bool parse_bytes(std::string_view text, std::uint64_t& bytes) noexcept;
std::string text_of_bytes(std::uint64_t bytes);

}  // namespace hmc::collectives
