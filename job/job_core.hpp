// The composition root: builds a Runtime from a Bootstrap, the wires and the world team.
#pragma once

#include <memory>

#include <hmc/runtime.hpp>

#include "bootstrap/bootstrap.hpp"
#include "runtime/base/env.hpp"
#include "runtime/rma/team_core.hpp"

namespace hmc::job {

/// One rank's membership of a job. Creation (make_core) and close are collective over the job. The destructor is local.
class JobCore {
 public:
  JobCore(std::shared_ptr<bootstrap::Bootstrap> bootstrap, std::shared_ptr<rma::Fabric> fabric,
          std::shared_ptr<rma::TeamCore> world);
  ~JobCore();
  /// Call once. A call after a failed close throws Error{closed}.
  void close();

  bootstrap::Bootstrap& bootstrap() const noexcept { return *bootstrap_; }
  rma::Fabric& fabric() const noexcept { return *fabric_; }
  Team& world() noexcept { return world_; }
  int node_count() const noexcept { return node_count_; }

 private:
  std::shared_ptr<bootstrap::Bootstrap> bootstrap_;
  std::shared_ptr<rma::Fabric> fabric_;
  Team world_;
  int node_count_ = 1;
  bool closing_ = false;
};

/// Collective over the job: checks that all ranks have the same settings, chooses a wire to each peer, creates the
/// world team. Throws Error.
std::unique_ptr<JobCore> make_core(std::unique_ptr<bootstrap::Bootstrap> bootstrap, const base::Env& env);

}  // namespace hmc::job
