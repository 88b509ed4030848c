#include "collectives/network/throw_failure.hpp"

#include "collectives/mismatch/failure_error.hpp"

namespace hmc::collectives {

namespace {

/// The awaited rank failed in another team: throws that team's error, as the cause.
void throw_of_another_team(progress::TicketSource& other, const base::Status& status, const char* operation) {
  try {
    other.throw_failure(status, operation);
  } catch (const Error& error) {
    ErrorDetail detail = error.detail();
    detail.message = "in another team, before: " + detail.message;
    throw Error(std::move(detail));
  }
}

}  // namespace

void throw_failure(const rma::TeamCore& core, ScheduleTeam& team, const base::Status& status, const char* operation,
                   std::size_t bytes) {
  const base::Status settled = team.failure().ok() ? status : team.explain();
  if (settled.code != Code::mismatch)
    if (progress::TicketSource* const other = core.fabric().tickets.unheard_mismatch(settled.peer))
      throw_of_another_team(*other, settled, operation);
  throw_failure_error(core, team.explained(), settled, operation, bytes);
}

}  // namespace hmc::collectives
