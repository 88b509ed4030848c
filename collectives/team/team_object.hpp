// TeamObject: what a Team refers to: the ranks, the engines of the collectives, and the calls on streams.
#pragma once

#include <array>
#include <exception>
#include <memory>
#include <optional>
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

/// A team of one rank. Its engines: ScheduleTeam (any wires) and, if all ranks have load/store access to each other,
/// DirectTeam. Either all ranks have a DirectTeam or none. Handles (Team, Plan) and windows share it.
class TeamObject final : public rma::TeamCore {
 public:
  using TeamCore::TeamCore;
  ~TeamObject();

  /// Collective over the team, once: creates the arena and the engines. `create`: see Arena.
  void create_engines(const Settings& settings, const CreateMemory& create = nullptr);
  /// Collective: completes the operations and frees the engines' memory. Throws Error on failure. Returns the failure
  /// of an earlier call of the world that no call has reported on this rank yet; the engines are closed in this case
  /// too.
  std::exception_ptr close_engines();

  /// Null if not all ranks have load/store access to each other.
  DirectTeam* node() const noexcept { return direct_.get(); }
  /// True if a setting concerns the collective.
  bool has_setting(CollectiveKind collective) const noexcept { return selector_->has_setting(collective); }
  /// True if a setting selects a schedule for this call. Equal on all ranks.
  bool wants_schedule(const schedule::Call& call) const noexcept;
  /// Counts a call that runs by load and store.
  void count_direct(CollectiveKind collective) noexcept {
    if (direct_taken_[static_cast<std::size_t>(collective)]++ == 0) [[unlikely]]
      log_first_direct(collective);
  }
  /// Number of calls that ran by load and store.
  std::uint64_t direct_taken(CollectiveKind collective) const noexcept {
    return direct_taken_[static_cast<std::size_t>(collective)];
  }
  /// Not before create_engines().
  ScheduleTeam& schedules() const noexcept { return *schedules_; }
  Selector& selector() noexcept { return *selector_; }
  const Settings& settings() const noexcept { return settings_; }
  const schedule::Shape& shape() const noexcept { return shape_; }

 private:
  [[gnu::cold]] void log_first_direct(CollectiveKind collective) const noexcept;

  Settings settings_;
  std::optional<Selector> selector_;  // set by create_engines()
  schedule::Shape shape_;
  std::unique_ptr<DirectTeam> direct_;
  std::array<std::uint64_t, collective_count> direct_taken_{};
  std::unique_ptr<ScheduleTeam> schedules_;

 public:
  std::unique_ptr<CallsOnStreams> streams;  ///< created by the first call on streams
  std::unique_ptr<rma::Messages> messages;  ///< of the world; destroyed first: it uses the window of `schedules`
};

[[noreturn, gnu::cold]] void refuse_closed(const TeamObject* team, const char* operation);
/// The team of a call. Throws Error{closed} if the team is empty or closed. A team that a user holds has its engines.
inline TeamObject& open(const std::shared_ptr<TeamObject>& team, const char* operation) {
  if (team == nullptr || team->fabric().closed() || team->closed) [[unlikely]]
    refuse_closed(team.get(), operation);
  return *team;
}

}  // namespace hmc::collectives
