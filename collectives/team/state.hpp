// State: the engines of a team's collectives. attach: creates them; called by job/.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "collectives/args/collective_args.hpp"
#include "collectives/network/schedule_team.hpp"
#include "collectives/node/direct_team.hpp"
#include "collectives/schedule/cost.hpp"
#include "collectives/select/selector.hpp"
#include "runtime/rma/team_core.hpp"

namespace hmc::collectives {

/// Settings. Equal on all ranks, except private_buffers.
struct Settings {
  std::string algorithms;  ///< HMC_COLL
  bool deterministic = false;
  std::string rows;       ///< the content of HMC_COLL_FILE
  std::string rows_file;  ///< the file's name, for errors
  schedule::CostParameters parameters;
  std::string private_buffers;  ///< HMC_COLL_PRIVATE; may differ between ranks
};

/// Collective over the team. Creates the arena and both engines, and stores them in team.collectives. `create`: see
/// Arena.
void attach(rma::TeamCore& team, const Settings& settings, const CreateMemory& create = nullptr);

/// One thread at a time. Calls execute in call order, even on different streams.
class CallsOnStreams {
 public:
  CallsOnStreams() = default;
  CallsOnStreams(const CallsOnStreams&) = delete;
  CallsOnStreams& operator=(const CallsOnStreams&) = delete;
  virtual ~CallsOnStreams() = default;

  // Throw Error. Non-blocking, except after a failure.
  virtual void allreduce(void* stream, const CollectiveArgs& args) = 0;
  virtual void barrier(void* stream, const void* buffer) = 0;

  /// Collective. First waits for the work in the streams, until the job's deadline. The streams continue in every case.
  /// Throws Error on every rank in these cases:
  /// - ranks called different collectives or a call failed, and not all callers have received that error;
  /// - a rank is missing.
  virtual void close() = 0;
};

class CallsOnStreams;

/// Owns ScheduleTeam (any wires) and, if all ranks have load/store access to each other, DirectTeam. Either all ranks
/// have a DirectTeam or none.
class State final : public rma::CollectiveState {
 public:
  State(rma::TeamCore& team, const Settings& settings, const CreateMemory& create);
  ~State() override;
  std::exception_ptr close() override;

  /// Null if not all ranks have load/store access to each other.
  DirectTeam* node() const noexcept { return direct_.get(); }
  /// True if a setting concerns the collective.
  bool has_setting(schedule::Collective collective) const noexcept { return selector_.has_setting(collective); }
  /// True if a setting selects a schedule for this call. Equal on all ranks.
  bool wants_schedule(const schedule::Call& call) const noexcept;
  /// Counts a call that runs by load and store.
  void count_direct(schedule::Collective collective) noexcept {
    if (direct_taken_[static_cast<std::size_t>(collective)]++ == 0) [[unlikely]]
      log_first_direct(collective);
  }
  /// Number of calls that ran by load and store.
  std::uint64_t direct_taken(schedule::Collective collective) const noexcept {
    return direct_taken_[static_cast<std::size_t>(collective)];
  }
  ScheduleTeam& schedules() const noexcept { return *schedules_; }
  Selector& selector() noexcept { return selector_; }
  const Settings& settings() const noexcept { return settings_; }
  const schedule::Shape& shape() const noexcept { return shape_; }

 private:
  [[gnu::cold]] void log_first_direct(schedule::Collective collective) const noexcept;

  rma::TeamCore& team_;
  Selector selector_;
  Settings settings_;
  schedule::Shape shape_;
  const base::Log& log_;
  std::unique_ptr<DirectTeam> direct_;
  std::array<std::uint64_t, schedule::collective_count> direct_taken_{};
  std::unique_ptr<ScheduleTeam> schedules_;

 public:
  std::unique_ptr<CallsOnStreams> streams;  ///< created by the first call on streams
};

/// An open team, for the duration of a call. Throws Error{closed} if the team is closed.
struct OpenTeam {
  rma::TeamCore& core;
  State& state;
  OpenTeam(const std::shared_ptr<rma::TeamCore>& team, const char* operation)
      : core(require_open(team, operation)), state(static_cast<State&>(*core.collectives)) {}
  int rank() const noexcept { return core.rank(); }
  int size() const noexcept { return core.size(); }

 private:
  [[noreturn]] static void refuse(const std::shared_ptr<rma::TeamCore>& team, const char* operation);
  /// A team that a user holds has its collectives: attach() runs before the team is returned.
  static rma::TeamCore& require_open(const std::shared_ptr<rma::TeamCore>& team, const char* operation) {
    if (team == nullptr || team->fabric().closed() || team->closed) [[unlikely]]
      refuse(team, operation);
    return *team;
  }
};

}  // namespace hmc::collectives
