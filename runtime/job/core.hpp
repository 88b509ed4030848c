// The composition root: a Bootstrap, the wires and the world team made into a Runtime.
#pragma once

#include <memory>

#include <hmc/runtime.hpp>

#include "bootstrap/bootstrap.hpp"
#include "runtime/base/env.hpp"
#include "runtime/window/team_core.hpp"

namespace hmc::job {

/// One rank's membership. Creation (make_core) and close are collective; the destructor is local.
class Core {
 public:
  Core(std::shared_ptr<bootstrap::Bootstrap> bootstrap, std::shared_ptr<window::Fabric> fabric,
       std::shared_ptr<window::TeamCore> world);
  ~Core();
  /// Once: what follows one that failed throws Error{closed}.
  void close();

  bootstrap::Bootstrap& bootstrap() const noexcept { return *bootstrap_; }
  window::Fabric& fabric() const noexcept { return *fabric_; }
  Team& world() noexcept { return world_; }
  int node_count() const noexcept { return node_count_; }

 private:
  std::shared_ptr<bootstrap::Bootstrap> bootstrap_;
  std::shared_ptr<window::Fabric> fabric_;
  Team world_;
  int node_count_ = 1;
  bool closing_ = false;
};

/// Collective over the job: agrees on settings, chooses a wire for every pair, makes the world team.
/// Throws Error.
std::unique_ptr<Core> make_core(std::unique_ptr<bootstrap::Bootstrap> bootstrap, const base::Env& env);

}  // namespace hmc::job
