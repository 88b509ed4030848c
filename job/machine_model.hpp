// The parameters of the cost model of collectives: for a job, where all ranks use the same, and for hmcinfo explain and
// hmc-sim.
#pragma once

#include <string>
#include <tuple>
#include <vector>

#include "bootstrap/bootstrap.hpp"
#include "collectives/schedule/cost.hpp"
#include "runtime/base/env.hpp"
#include "runtime/rma/team_core.hpp"

namespace hmc::job {

struct MachineModel {
  collectives::schedule::CostParameters parameters;
  std::string origin;  ///< printed: the file, or why the parameters are built in
};

/// Returns the first of:
/// - the parameters in `file`, if `file` isn't empty
/// - the parameters in HMC_CACHE, if a job on this machine measured and stored them
/// - the built-in parameters
///
/// `one_machine`: the nodes are emulated. Throws Error if `file` can't be read or has no valid parameters.
MachineModel machine_model(const base::Env& env, const std::string& file, bool one_machine);

/// The cost model's part of the data that a rank sends to all ranks at start.
struct ModelGreeting {
  std::string cached;        ///< contents of rank 0's cache file, if valid; else empty
  bool can_measure = false;  ///< false if ranks outnumber cores, and in sanitizer builds
  static constexpr auto fields = std::tuple(&ModelGreeting::cached, &ModelGreeting::can_measure);
};

/// The network parameters of a job: from this machine's cache file, measured, or built in.
class NetworkModel {
 public:
  /// A job on one node needs no network parameters.
  NetworkModel(const rma::Fabric& fabric, const std::vector<bootstrap::RankFacts>& facts, const base::Env& env);

  /// Rank 0 reads its cache file. It logs and ignores an unusable file.
  ModelGreeting greet(const rma::Fabric& fabric) const;
  void hear(int rank, ModelGreeting greeting);

  /// Collective. Communicates only if it measures. Then rank 0 stores the result in its cache file. Throws Error.
  collectives::schedule::CostParameters agree(rma::TeamCore& world) const;

 private:
  int partner_ = -1;  ///< measures with rank 0: the lowest rank on another node; -1 if there is one node
  bool one_machine_ = true;
  std::string wire_;
  std::string folder_;
  ModelGreeting first_;
  bool partner_can_measure_ = false;
};

}  // namespace hmc::job
