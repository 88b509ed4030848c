// Regroup: forms a new job of the remaining processes of a job, and of replacements.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bootstrap/bootstrap.hpp"
#include "bootstrap/membership.hpp"
#include "runtime/base/env.hpp"

namespace hmc::bootstrap {

/// The ranks of the new job are numbered 0 to size - 1 in the order of the first job. All agreements use the control
/// plane of the first job: see Membership. Cold path: throws Error. One thread.
///
///   1. Agree on the processes that remain.
///   2. Join a job of these. Its lowest rank runs the store; the first job's control plane passes its record.
///   3. Build the runtime on the new job.
///   4. Agree that all have succeeded; otherwise repeat from step 1.
class Regroup {
 public:
  /// Builds the runtime on the new job; throws if that fails.
  using Build = std::function<void(std::unique_ptr<Bootstrap>)>;

  Regroup(std::shared_ptr<Bootstrap> first, const base::Env& env);

  /// Collective over the remaining processes. Returns when `build` has succeeded on all of them.
  void shrink(const Build& build);
  /// Collective over the current members. Waits until each other rank of the first job has been replaced.
  void grow(std::chrono::nanoseconds timeout, const Build& build);
  /// In a replacement: waits until the other ranks call grow().
  void stand_by(const Build& build);

 private:
  /// False if a process has ended meanwhile, `build` failed on a rank, or HMC_TIMEOUT_S has passed.
  bool attempt(const char* operation, const Decision& decision, const Build& build);
  Decision agree(Ballot::Step step, const std::vector<RankProcess>& members, std::chrono::nanoseconds timeout);
  void require_decided(const char* operation, const Decision& decision) const;
  std::unique_ptr<Bootstrap> join(const Decision& decision);

  std::shared_ptr<Bootstrap> first_;
  base::Env env_;
  std::vector<RankProcess> members_;  // of the current job
  std::uint64_t number_ = 0;          // of the next agreement
  int failed_attempts_ = 0;           // of the current call, although no process had ended
};

}  // namespace hmc::bootstrap
