// Two-sided messages: wildcards and the status of a received message. The calls are members of Team.
#pragma once

#include <cstddef>

namespace hmc {

inline constexpr int any_source = -1;  ///< recv, irecv, probe, iprobe: a message of any rank of the team
inline constexpr int any_tag = -1;     ///< a message with any tag

/// A message that was received or probed.
struct MessageStatus {
  int source = -1;  ///< the sender's rank in the team
  int tag = -1;
  std::size_t bytes = 0;  ///< the message's length
};

}  // namespace hmc
