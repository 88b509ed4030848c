#include "bootstrap/failures.hpp"

#include <fmt/format.h>

#include <hmc/error.hpp>

#include "bootstrap/facts.hpp"

namespace hmc::bootstrap {

void throw_failure(Code code, std::string_view operation, int rank, int peer, std::string text, std::string hint) {
  ErrorDetail detail;
  detail.code = code;
  detail.operation = operation;
  detail.rank = rank;
  detail.peer = peer;
  detail.message = std::move(text);
  detail.hint = std::move(hint);
  throw Error(std::move(detail));
}

void throw_if_aborted(const base::NodePage& page, std::string_view operation, int rank) {
  const base::Status status = page.aborted();
  if (!status.ok()) throw_failure(status.code, operation, rank, status.peer, page.abort_text());
}

void throw_missing(std::string_view operation, int rank, const std::vector<int>& missing) {
  std::string text = missing.empty()
                         ? "the deadline passed; all ranks have arrived, but the result hasn't been received"
                         : fmt::format("the deadline passed while waiting for {}", list_ranks(missing));
  throw_failure(Code::timeout, operation, rank, missing.size() == 1 ? missing.front() : -1, std::move(text),
                "check the missing ranks; HMC_TIMEOUT_S sets the deadline");
}

void throw_left(std::string_view operation, int rank, int left) {
  throw_failure(Code::closed, operation, rank, left, fmt::format("rank {} has left the job", left));
}

std::string mismatch_text(std::string_view expected, std::string_view got, int rank) {
  return fmt::format("rank {} called {}, but other ranks called {}", rank, got, expected);
}

}  // namespace hmc::bootstrap
