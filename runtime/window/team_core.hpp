// TeamCore: an ordered set of ranks, and what windows and collectives keep for it.
#pragma once

#include <memory>

#include "runtime/window/fabric.hpp"

namespace hmc::window {

/// What the collectives keep per team. They define it; the team only holds it.
class CollectiveState {
 public:
  virtual ~CollectiveState() = default;
  /// Collective; completes and releases what it holds. Throws Error.
  virtual void close() = 0;
};

/// The world is the one team so far, so a team's ranks are the fabric's.
class TeamCore {
 public:
  explicit TeamCore(std::shared_ptr<Fabric> fabric) : fabric_(std::move(fabric)) {}

  int rank() const noexcept { return fabric_->rank; }
  int size() const noexcept { return fabric_->size; }
  Fabric& fabric() const noexcept { return *fabric_; }
  const std::shared_ptr<Fabric>& shared_fabric() const noexcept { return fabric_; }

  std::unique_ptr<CollectiveState> collectives;

 private:
  std::shared_ptr<Fabric> fabric_;
};

}  // namespace hmc::window
