// check: the only place that checks the arguments of a collective call.
#pragma once

#include <cstdint>

#include <hmc/collective.hpp>

#include "collectives/args/collective_args.hpp"
#include "runtime/rma/team_core.hpp"

namespace hmc::collectives {

/// How a call is made: Team::run, Team::start, Team::plan.
enum class Form : std::uint8_t { run, start, plan };

/// "allreduce", "iallgatherv", "plan_scan".
const char* name_of(const Collective& call, Form form) noexcept;

/// `operation`: the name of the call, for errors. Throws Error{invalid_argument, bad_rank}.
CollectiveArgs check(const rma::TeamCore& team, const Collective& call, const char* operation, Form form = Form::run);

}  // namespace hmc::collectives
