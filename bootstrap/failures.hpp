// The errors that all bootstraps throw, with equal texts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/bootstrap.hpp"

namespace hmc::bootstrap {

/// If the job has failed or was aborted, throws Error{peer_failed} or Error{aborted} with the page's text.
void throw_if_aborted(const base::NodePage& page, std::string_view operation, int rank);

/// Throws an Error of a rank's call; `peer` -1: no particular rank.
[[noreturn]] void throw_failure(Code code, std::string_view operation, int rank, int peer, std::string text,
                                std::string hint = {});

/// Throws Error{timeout}: the ranks in `missing` haven't arrived.
[[noreturn]] void throw_missing(std::string_view operation, int rank, const std::vector<int>& missing);

/// Throws Error{closed}: rank `left` has closed the job, so this call can't complete.
[[noreturn]] void throw_left(std::string_view operation, int rank, int left);

/// The text of a mismatch. It is equal on every rank.
std::string mismatch_text(std::string_view expected, std::string_view got, int rank);

}  // namespace hmc::bootstrap
