// The network parameters for the choice of algorithms: from this machine's cache, measured, or built in. All ranks use
// the same parameters.
#pragma once

#include <string>
#include <vector>

#include "bootstrap/bootstrap.hpp"
#include "collectives/schedule/cost.hpp"
#include "runtime/base/env.hpp"
#include "runtime/rma/team_core.hpp"

namespace hmc::job {

/// The model's part of a rank's greeting.
struct ModelGreeting {
  std::string cached;        ///< contents of rank 0's cache file, if valid; else empty
  bool can_measure = false;  ///< false if ranks outnumber cores, or in sanitizer builds
};

class NetworkModel {
 public:
  /// A job on one node needs no network parameters.
  NetworkModel(const rma::Fabric& fabric, const std::vector<bootstrap::RankFacts>& facts, const base::Env& env);

  /// Rank 0 reads its cache. It logs an unusable file and ignores it.
  ModelGreeting greet(const rma::Fabric& fabric) const;
  void hear(int rank, ModelGreeting greeting);

  /// Collective. Communicates only if it measures; rank 0 then stores the result in the cache. Throws Error.
  collectives::schedule::CostParameters agree(rma::TeamCore& world) const;

 private:
  int partner_ = -1;  ///< the lowest rank on another node than rank 0
  bool one_machine_ = true;
  std::string wire_;
  std::string folder_;
  ModelGreeting first_;
  bool partner_can_measure_ = false;
};

}  // namespace hmc::job
