// The C ABI: teams.
#include "capi/c_api.hpp"

#include <utility>

using namespace hmc::c_api;  // NOLINT: the functions below are C's

namespace {

// Creates a team. *result is null on ranks that aren't members of it.
template <typename Make> hmc_code derive(const char* operation, hmc_team_t parent, hmc_team_t* result, Make&& make) {
  return guarded(operation, [&] {
    hmc_team_t& out = required(result, operation, "the place for the result");
    hmc::Team made = make(team_of(parent, operation));
    out = made ? new hmc_team{std::move(made)} : nullptr;
  });
}

}  // namespace

int hmc_team_rank(hmc_team_t team) { return team == nullptr ? -1 : team->team.rank(); }
int hmc_team_size(hmc_team_t team) { return team == nullptr ? -1 : team->team.size(); }
int hmc_team_world_rank(hmc_team_t team, int rank) {
  int world = -1;
  (void)guarded("Team::world_rank", [&] { world = team_of(team, "Team::world_rank").world_rank(rank); });
  return world;
}

hmc_code hmc_team_split(hmc_team_t team, int colour, int key, hmc_team_t* result) {
  return derive("split", team, result, [&](hmc::Team& parent) { return parent.split(colour, key); });
}
hmc_code hmc_team_subset(hmc_team_t team, const int* ranks, std::size_t count, hmc_team_t* result) {
  return derive("subset", team, result, [&](hmc::Team& parent) {
    if (count > 0) (void)required(ranks, "subset", "the list of ranks");
    return parent.subset({ranks, count});
  });
}
hmc_code hmc_team_duplicate(hmc_team_t team, hmc_team_t* result) {
  return derive("duplicate", team, result, [](hmc::Team& parent) { return parent.duplicate(); });
}
hmc_code hmc_team_node(hmc_team_t team, hmc_team_t* result) {
  return derive("node_team", team, result, [](hmc::Team& parent) { return parent.node_team(); });
}
hmc_code hmc_team_leaders(hmc_team_t team, hmc_team_t* result) {
  return derive("leaders", team, result, [](hmc::Team& parent) { return parent.leaders(); });
}
hmc_code hmc_team_close(hmc_team_t team) {
  return guarded("Team::close", [&] { team_of(team, "Team::close").close(); });
}
void hmc_team_destroy(hmc_team_t team) {
  if (team != nullptr && !team->is_world) delete team;
}
