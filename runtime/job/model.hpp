// What the choice of algorithms knows of the network: from this machine's cache, measured, or built in; one answer for
// all ranks.
#pragma once

#include <string>
#include <vector>

#include "bootstrap/bootstrap.hpp"
#include "collectives/schedule/cost.hpp"
#include "runtime/base/env.hpp"
#include "runtime/window/team_core.hpp"

namespace hmc::job {

/// A part of a rank's greeting.
struct ModelGreeting {
  std::string cached;        ///< rank 0's file, where it is good
  bool can_measure = false;  ///< not where ranks outnumber cores
};

class NetworkModel {
 public:
  /// Of one node there is nothing to know.
  NetworkModel(const window::Fabric& fabric, const std::vector<bootstrap::RankFacts>& facts, const base::Env& env);

  /// Rank 0 reads its cache. A file that can't be used is told, and counts as none.
  ModelGreeting greet(const window::Fabric& fabric) const;
  void hear(int rank, ModelGreeting greeting);

  /// Collective, and without a word to the others unless something is measured. Rank 0 keeps what was. Throws Error.
  collectives::schedule::Parameters agree(window::TeamCore& world) const;

 private:
  int partner_ = -1;  ///< the lowest rank on another node than rank 0
  bool one_machine_ = true;
  std::string wire_;
  std::string folder_;
  ModelGreeting first_;
  bool partner_can_measure_ = false;
};

}  // namespace hmc::job
