#include "bootstrap/failures.hpp"

#include <fmt/format.h>

#include <hmc/error.hpp>

#include "bootstrap/facts.hpp"

namespace hmc::bootstrap {

void throw_if_aborted(const base::NodePage& page, std::string_view operation, int rank) {
  const base::Status status = page.aborted();
  if (status.ok()) return;
  ErrorDetail detail;
  detail.code = status.code;
  detail.operation = operation;
  detail.rank = rank;
  detail.peer = status.peer;
  detail.message = page.abort_text();
  throw Error(std::move(detail));
}

void throw_missing(std::string_view operation, int rank, const std::vector<int>& missing) {
  ErrorDetail detail;
  detail.code = Code::timeout;
  detail.operation = operation;
  detail.rank = rank;
  if (missing.size() == 1) detail.peer = missing.front();
  detail.message = missing.empty() ? "the deadline passed; every rank has come, but their answer hasn't arrived"
                                   : fmt::format("the deadline passed while waiting for {}", list_ranks(missing));
  detail.hint = "see what the missing ranks do; HMC_TIMEOUT_S sets the deadline";
  throw Error(std::move(detail));
}

void throw_left(std::string_view operation, int rank, int left) {
  ErrorDetail detail;
  detail.code = Code::closed;
  detail.operation = operation;
  detail.rank = rank;
  detail.peer = left;
  detail.message = fmt::format("rank {} has left the job", left);
  throw Error(std::move(detail));
}

std::string mismatch_text(std::string_view expected, std::string_view got, int rank) {
  return fmt::format("rank {} called {} where others called {}", rank, got, expected);
}

}  // namespace hmc::bootstrap
