// RankState: the current call and state of a rank, read from its activity line, for error texts and tools.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <tuple>

#include "runtime/base/node_page.hpp"

namespace hmc::base {

struct RankState {
  std::int32_t rank = -1;
  std::int32_t pid = 0;  ///< 0: the rank hasn't joined, or its state is unknown
  std::string host;
  bool is_stopped = false;  ///< by a signal (SIGSTOP, SIGTSTP, ...) or by a debugger
  Activity activity = Activity::computing;
  std::uint64_t sequence = 0;  ///< of the collective
  std::uint64_t bytes = 0;     ///< of the call's data; 0: none, or unknown
  std::int64_t for_ns = 0;     ///< how long; 0: unknown
  std::int32_t peer = -1;      ///< the rank that it waits for
  bool is_regrouped = false;   ///< after shrink or grow: `peer` is a number in the later job
  static constexpr auto fields = std::tuple(&RankState::rank, &RankState::pid, &RankState::host, &RankState::is_stopped,
                                            &RankState::activity, &RankState::sequence, &RankState::bytes,
                                            &RankState::for_ns, &RankState::peer, &RankState::is_regrouped);
};

/// On the line's machine. Follows the line to the page that the rank uses after shrink or grow.
RankState read_state(const ActivityLine& line);
/// "in allreduce number 5 of 4096 bytes for 1.9 s, waiting for rank 3"; "in no HMC call".
std::string activity_text(const RankState& state);
/// "rank 3 (host vm, pid 123, stopped) is in allreduce ...". `word`: for "rank".
std::string text_of(const RankState& state, const char* word = "rank");

/// Names ranks that wait for each other in a circle, with a message's call among their calls: no call can end. Ranks
/// count that have waited for at least half of `waited_ms`. Empty: there are none.
std::string text_of_deadlock(std::span<const RankState> states, std::uint64_t waited_ms);

}  // namespace hmc::base
