// The errors that every bootstrap throws in the same words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/bootstrap.hpp"

namespace hmc::bootstrap {

/// Throws Error{peer_failed} or Error{aborted} with the page's text if the job is over.
void throw_if_aborted(const base::NodePage& page, std::string_view operation, int rank);

/// An Error with the fields that a rank's calls know; `peer` -1: nobody in particular.
[[noreturn]] void throw_failure(Code code, std::string_view operation, int rank, int peer, std::string text,
                                std::string hint = {});

/// Error{timeout}: `missing` didn't come.
[[noreturn]] void throw_missing(std::string_view operation, int rank, const std::vector<int>& missing);

/// Error{closed}: `left` said goodbye, so this can't complete.
[[noreturn]] void throw_left(std::string_view operation, int rank, int left);

/// The same text whoever reports it: "barrier met allgather".
std::string mismatch_text(std::string_view expected, std::string_view got, int rank);

}  // namespace hmc::bootstrap
