// Overrides: the rows of HMC_COLL_FILE, which select algorithms.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/schedule/schedule.hpp"

namespace hmc::collectives {

/// One row. It covers calls of up to `bytes_up_to` bytes (of the vector, or of one rank's block) on teams of up to
/// `ranks_up_to` ranks.
struct Override {
  CollectiveKind collective = CollectiveKind::barrier;
  std::uint64_t bytes_up_to = UINT64_MAX;
  int ranks_up_to = INT32_MAX;
  int per_node = 0;                                ///< only teams with this number of ranks per node; 0: any
  const schedule::Algorithm* algorithm = nullptr;  ///< null: "direct", by load and store where possible
  std::uint64_t segment_bytes = 0;                 ///< 0: the algorithm's default

  bool covers(const schedule::Shape& shape, CollectiveKind called, std::uint64_t bytes) const noexcept {
    return called == collective && bytes <= bytes_up_to && shape.size <= ranks_up_to &&
           (per_node == 0 || per_node == shape.per_node);
  }
};

/// Parses a JSON array of rows. The first row that covers a call applies:
///   [{"collective": "allreduce", "bytes_up_to": "64K", "ranks_up_to": 64, "per_node": 8, "algorithm": "ring",
///     "segment": "32K"}]
/// Only the collective and the algorithm are required. Throws Error{invalid_config} with the row (or the line of the
/// JSON error) and the valid values. `file`: the file name in error texts.
std::vector<Override> read_overrides(std::string_view text, std::string_view file);

/// All valid names: "barrier: dissemination, ..., direct; broadcast: binomial, ...".
std::string valid_names();
/// Sets `result` to the algorithm, or to null for "direct". False if the name is neither.
bool find_by_name(std::string_view collective, std::string_view algorithm, CollectiveKind& found,
                  const schedule::Algorithm*& result) noexcept;
/// Parses "64K", "1M", "3G" or "100". False if the text is none of these forms.
bool parse_bytes(std::string_view text, std::uint64_t& bytes) noexcept;
std::string format_bytes(std::uint64_t bytes);

}  // namespace hmc::collectives
