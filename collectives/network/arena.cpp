#include "collectives/network/arena.hpp"

#include <algorithm>

namespace hmc::collectives {

namespace {

AreaLimits room_for(const rma::TeamCore& team) noexcept { return area_limits(team.size(), team.all_direct()); }

}  // namespace

Arena::Arena(rma::TeamCore& team, std::size_t bulk, const std::function<void(std::byte*)>& prepare)
    : room_(room_for(team)),
      failures_(ledger_offset, board_offset + board_bytes, team.size(), team.all_direct()),
      first_area_(base::round_up(failures_.end(), base::page_size())),
      area_bytes_(std::uint64_t{room_.slots} * 8 + room_.scratch_bytes),
      bulk_at_(base::round_up(first_area_ + areas * area_bytes_, base::page_size())) {
  window_ = rma::create_window(team, bulk_at_ + bulk, rma::WindowCore::Role::lazy, prepare);
}

}  // namespace hmc::collectives
