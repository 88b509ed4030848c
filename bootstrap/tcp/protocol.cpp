#include "bootstrap/tcp/protocol.hpp"

#include <hmc/store.hpp>

namespace hmc::bootstrap {

std::optional<std::size_t> payload_limit(control::MessageType type) noexcept {
  constexpr std::size_t small = 256;
  constexpr std::size_t text = 16U << 10;
  constexpr std::size_t table = 128U << 20;  // a million ranks
  switch (static_cast<MessageType>(type)) {
    case MessageType::welcome: return 0;
    case MessageType::page:
    case MessageType::missing_query:
    case MessageType::lost:
    case MessageType::command:
    case MessageType::cause:
    case MessageType::goodbye: return small;
    case MessageType::node_hello:
    case MessageType::round_failed:
    case MessageType::abort:
    case MessageType::death:
    case MessageType::failure:
    case MessageType::refusal:
    case MessageType::no_replacement:
    case MessageType::share_result: return text;
    case MessageType::join:
    case MessageType::table:
    case MessageType::missing_reply:
    case MessageType::vote:
    case MessageType::decision:
    case MessageType::report:
    case MessageType::state_query:
    case MessageType::state_reply: return table;
    case MessageType::share_offer:  // a node may have many ranks
    case MessageType::rank_call:
    case MessageType::rank_answer: return longest_value_bytes + text;
    case MessageType::store_call:
    case MessageType::store_event: return store_longest_value + text;
    case MessageType::store_answer: return store_largest_gather + text;
    case MessageType::contribution:
    case MessageType::result: return largest_round_bytes + table;
  }
  return std::nullopt;
}

const char* name_of(RoundKind kind) noexcept { return kind == RoundKind::barrier ? "barrier" : "allgather"; }

}  // namespace hmc::bootstrap
