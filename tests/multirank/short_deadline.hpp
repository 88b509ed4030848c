// Ranks as threads, in jobs whose deadline is short on purpose.
#pragma once

#include <chrono>
#include <memory>
#include <utility>

#include <hmc/hmc.hpp>

#include "bootstrap/bootstrap.hpp"
#include "runtime/base/env.hpp"
#include "runtime/job/core.hpp"
#include "runtime/window/team_core.hpp"

namespace hmc {

/// A job starts in its own time, however busy the machine is; the deadline of a test is for what comes after.
inline Runtime start_without_hurry(std::unique_ptr<bootstrap::Bootstrap> place, base::Env env) {
  env.timeout = std::chrono::seconds(60);
  return Runtime(job::make_core(std::move(place), env));
}
/// While no verb is under way.
inline void set_deadline(Runtime& runtime, std::chrono::nanoseconds deadline) {
  runtime.world().core()->fabric().timeout = deadline;
}

}  // namespace hmc
