// Membership: the agreements by which the remaining processes of a job, and replacements, form a new job.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/deadline.hpp"

namespace hmc::bootstrap {

/// A process of a rank. `life` counts the processes that were this rank before it.
struct RankProcess {
  std::int32_t rank = -1;
  std::uint32_t life = 0;
  friend bool operator==(const RankProcess&, const RankProcess&) = default;
};

/// One process's vote in an agreement.
struct Ballot {
  enum class Step : std::uint8_t {
    shrink,    ///< decided when each member has voted or has ended; the decision has those that voted
    grow,      ///< decided when all members have voted, and each other rank of the job has a replacement
    stand_by,  ///< a replacement's vote: it takes part in the next grow
    confirm,   ///< decided when each member has voted or has ended; agreed if all voted with `ok`
    last = confirm,
  };
  Step step{};
  std::uint64_t number = 0;  ///< of the agreement; the members count them; unused in stand_by
  std::vector<RankProcess> members;
  bool ok = true;
  std::string text;  ///< if not ok: the reason
};

/// Equal on all ranks that get it.
struct Decision {
  std::uint64_t number = 0;
  bool agreed = false;
  std::vector<RankProcess> members;   ///< ascending by rank
  std::vector<std::int32_t> missing;  ///< these ranks hadn't voted, or weren't replaced: the deadline passed
  std::string text;                   ///< if not agreed: the reason, unless that is a deadline or the end of a process
};

/// The control plane of the job that a launcher started. It works as long as the process lives that runs the store, and
/// the one that runs this node's agent: under hmcrun these aren't ranks. One thread at a time. Throws Error.
class Membership {
 public:
  virtual ~Membership() = default;
  /// True if this process was started after a process of the same rank had ended.
  virtual bool is_replacement() const noexcept = 0;
  /// Waits for the decision; `timeout` 0: without a deadline.
  virtual Decision agree(const Ballot& ballot, std::chrono::nanoseconds timeout) = 0;
  /// Throws Error{peer_failed} if one of these processes has ended.
  virtual void require_alive(const std::vector<RankProcess>& processes) = 0;

  /// As Bootstrap::lookup. Throws Error{peer_failed} when one of the processes has ended.
  virtual base::Bytes lookup_for(const std::vector<RankProcess>& processes, std::string_view key,
                                 base::Deadline deadline) = 0;
};

}  // namespace hmc::bootstrap
