#include "collectives/network/arena.hpp"

#include <algorithm>

namespace hmc::collectives {

namespace {

AreaLimits room_for(const rma::TeamCore& team) noexcept { return area_limits(team.size(), team.all_direct()); }

}  // namespace

Arena::Arena(rma::TeamCore& team)
    : room_(room_for(team)),
      questions_at_(report_offset(team.size())),
      ledger_at_((question_offset(team.size()) + 63) / 64 * 64),
      first_area_(ledger_at_ + sizeof(Ledger)),
      area_bytes_(std::uint64_t{room_.slots} * 8 + room_.scratch_bytes) {
  window_ = rma::Core::create(team, first_area_ + areas * area_bytes_, rma::Core::Role::internal);
}

}  // namespace hmc::collectives
