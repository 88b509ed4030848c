// Ranks as threads, in jobs with a short deadline.
#pragma once

#include <chrono>
#include <memory>
#include <utility>

#include <hmc/hmc.hpp>

#include "bootstrap/bootstrap.hpp"
#include "job/job_core.hpp"
#include "runtime/base/env.hpp"
#include "runtime/rma/team_core.hpp"

namespace hmc {

/// Starts with a deadline of 60 s, so that a busy machine can't fail the start. The test sets its short deadline
/// afterwards.
inline Runtime start_without_hurry(std::unique_ptr<bootstrap::Bootstrap> place, base::Env env) {
  env.timeout = std::chrono::seconds(60);
  return Runtime(std::make_unique<job::JobCore>(std::move(place), env));
}
/// Sets the deadline. Only while no verb is in flight.
inline void set_deadline(Runtime& runtime, std::chrono::nanoseconds deadline) {
  runtime.world().core()->fabric().timeout = deadline;
}

}  // namespace hmc
