// The composition root: builds a Runtime from a Bootstrap, the wires and the world team.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>

#include <hmc/runtime.hpp>

#include "bootstrap/bootstrap.hpp"
#include "bootstrap/launchers/regroup.hpp"
#include "runtime/base/env.hpp"
#include "runtime/base/fork.hpp"
#include "runtime/rma/team_core.hpp"

namespace hmc::job {

/// One rank's membership of a job. Creation and close are collective over the job. The destructor is local.
class JobCore {
 public:
  /// Joins the launcher's job: checks that all ranks have the same settings, chooses a wire to each peer, creates the
  /// world team. Throws Error.
  /// `over_store`: a launcher's control plane doesn't serve this job.
  JobCore(std::unique_ptr<bootstrap::Bootstrap> bootstrap, const base::Env& env, bool over_store = false);
  JobCore(const JobCore&) = delete;
  JobCore& operator=(const JobCore&) = delete;
  ~JobCore();
  /// Call once. A call after a failed close throws Error{closed}.
  void close();
  void abort(int exit_code, std::string_view text) noexcept;

  bootstrap::Bootstrap& bootstrap() const noexcept { return *current_.bootstrap; }
  rma::Fabric& fabric() const noexcept { return *current_.fabric; }
  Team& world() noexcept { return current_.world; }
  int node_count() const noexcept;
  bool is_replacement() const noexcept;

 private:
  /// The objects that a new job replaces.
  class Link;
  struct Parts {
    std::shared_ptr<bootstrap::Bootstrap> bootstrap;
    std::shared_ptr<rma::Fabric> fabric;
    Team world;
    std::shared_ptr<Link> link{};
  };
  static Parts build(std::shared_ptr<bootstrap::Bootstrap> bootstrap, const base::Env& env);
  Team regroup(rma::Job::Regroup which, std::chrono::nanoseconds timeout);
  void use(Parts fresh);

  base::Env env_;
  bool joined_over_store_;
  struct Told;
  const std::shared_ptr<Told> told_;
  std::shared_ptr<bootstrap::Bootstrap> first_;  ///< the launcher's job
  bootstrap::Regroup regroup_;
  const std::uint64_t process_ = base::this_process();
  std::mutex mutex_;  ///< current_: abort may be called from any thread
  Parts current_;
  bool closing_ = false;
};

}  // namespace hmc::job
