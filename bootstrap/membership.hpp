// Membership: agreements of the remaining processes of a job, and of replacements, on the members of a new job.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <hmc/error.hpp>

#include "runtime/base/bytes.hpp"
#include "runtime/base/deadline.hpp"

namespace hmc::bootstrap {

/// A process of a rank. `life`: the number of earlier processes of the rank.
struct RankProcess {
  std::int32_t rank = -1;
  std::uint32_t life = 0;
  static constexpr auto fields = std::tuple(&RankProcess::rank, &RankProcess::life);
  friend auto operator<=>(const RankProcess&, const RankProcess&) = default;
};

/// One process's vote in an agreement.
struct Ballot {
  enum class Step : std::uint8_t {
    shrink,    ///< decided when each member has voted or has ended. The new members are those that voted
    grow,      ///< decided when all members have voted, and each other rank of the job has a replacement or gets none
    stand_by,  ///< a replacement's vote for the next grow; fails if no process is left that could call grow
    confirm,   ///< decided when each member has voted or has ended; agreed if all voted with `ok`
    last = confirm,
  };
  Step step{};
  std::uint64_t number = 0;  ///< of the agreement, counted by its members; unused in stand_by
  std::vector<RankProcess> members;
  bool ok = true;
  std::string text;  ///< if not ok: the reason
  static constexpr auto fields =
      std::tuple(&Ballot::step, &Ballot::number, &Ballot::members, &Ballot::ok, &Ballot::text);
};

/// Equal on all ranks that receive it.
struct Decision {
  std::uint64_t number = 0;
  bool agreed = false;
  std::vector<RankProcess> members;   ///< ascending by rank
  std::vector<std::int32_t> missing;  ///< the ranks that hadn't voted, or weren't replaced, at the deadline
  std::string text;                   ///< the reason if not agreed; empty after a deadline or the end of a process
  Code code = Code::success;          ///< of `text`: mismatch, unavailable, or error
  static constexpr auto fields = std::tuple(&Decision::number, &Decision::agreed, &Decision::members,
                                            &Decision::missing, &Decision::text, &Decision::code);
};

/// The control plane of the job that the launcher started. It ends with the process that runs the store, and with the
/// process that runs this node's agent. Under hmcrun neither is a rank. One thread at a time. Throws Error.
class Membership {
 public:
  virtual ~Membership() = default;
  /// True if this process was started in place of a process of the same rank that had ended.
  virtual bool is_replacement() const noexcept = 0;
  /// Waits for the decision; `timeout` 0: without a deadline. Throws Error{timeout} only in the step stand_by: in the
  /// others the deadline is the store's, and all members get the same decision.
  virtual Decision agree(const Ballot& ballot, std::chrono::nanoseconds timeout) = 0;
  /// Throws Error{peer_failed} if one of these processes has ended.
  virtual void require_alive(const std::vector<RankProcess>& processes) = 0;

  /// As Bootstrap::lookup. Throws Error{peer_failed} when one of the processes has ended.
  virtual base::Bytes lookup_for(const std::vector<RankProcess>& processes, std::string_view key,
                                 base::Deadline deadline) = 0;
};

}  // namespace hmc::bootstrap
