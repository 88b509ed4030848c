// The control protocol: messages between ranks, node agents and the store.
//
//   rank -> agent    join, contribution, share_offer, rank_call, missing_query, abort, goodbye, vote, failure,
//                    state_query, report; from a process that isn't a rank of this control plane: cause
//   agent -> rank    page (+fd), table, result, round_failed, share_result (+fds), rank_answer, missing_reply,
//                    failure, refusal, decision, lost, state_reply
//   agent -> store   node_hello, then the ranks' messages (joins and contributions gathered), death, no_replacement,
//                    state_reply
//   store -> agent   welcome, then messages for the ranks, state_query, command
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <hmc/error.hpp>

#include "bootstrap/bootstrap.hpp"
#include "bootstrap/membership.hpp"
#include "runtime/base/fields.hpp"
#include "runtime/base/rank_state.hpp"
#include "runtime/control/frame.hpp"

namespace hmc::bootstrap {

enum class MessageType : std::uint16_t {
  node_hello = 2,
  welcome,
  join,
  page,
  table,
  contribution,
  result,
  round_failed,
  share_offer,
  share_result,
  rank_call,  // shared_store_messages.hpp
  rank_answer,
  missing_query,
  missing_reply,
  abort,
  death,
  failure,
  refusal,
  goodbye,
  vote,
  decision,
  lost,
  command,
  state_query,
  state_reply,
  report,
  no_replacement,
  cause,
  store_call,  // shared_store_messages.hpp
  store_answer,
  store_event,
};

inline constexpr std::size_t rank_facts_bytes = 68;
static_assert(rank_facts_bytes <= 128, "rendezvous promises at most 128 bytes per rank");
/// The longest value of a key that a rank publishes.
inline constexpr std::size_t longest_value_bytes = 4U << 20;
/// The maximum total size of all ranks' contributions to one allgather.
inline constexpr std::size_t largest_round_bytes = 256U << 20;
/// The maximum payload of a type; nullopt for an unknown type.
std::optional<std::size_t> payload_limit(control::MessageType type) noexcept;
constexpr control::MessageType on_wire(MessageType type) noexcept { return static_cast<control::MessageType>(type); }
constexpr MessageType type_of(const control::Frame& frame) noexcept { return static_cast<MessageType>(frame.type); }

// ---- messages

/// Each message names its type, and its fields in the order in which they are sent. Numbers are little-endian. A string
/// or a vector is a 32-bit count and its elements. In an enum, `last` is the largest valid value.

struct NodeHello {  // the first message of an agent
  std::int32_t job_size = 0;
  std::int32_t pid = 0;  ///< of the agent; if it is also a rank's pid, that rank ends with the agent
  std::string label;
  static constexpr auto type = MessageType::node_hello;
  static constexpr auto fields = std::tuple(&NodeHello::job_size, &NodeHello::pid, &NodeHello::label);
};

struct Welcome {
  static constexpr auto type = MessageType::welcome;
  static constexpr auto fields = std::tuple();
};

struct Join {  // one rank from a rank; several from an agent
  std::int32_t job_size = 0;
  std::vector<RankFacts> ranks;
  static constexpr auto type = MessageType::join;
  static constexpr auto fields = std::tuple(&Join::job_size, &Join::ranks);
};

struct Page {  // with the page's memfd
  std::uint64_t nonce = 0;
  std::uint32_t life = 0;  ///< the number of earlier processes of this rank
  static constexpr auto type = MessageType::page;
  static constexpr auto fields = std::tuple(&Page::nonce, &Page::life);
};

struct Table {
  std::vector<RankFacts> ranks;
  static constexpr auto type = MessageType::table;
  static constexpr auto fields = std::tuple(&Table::ranks);
};

enum class RoundKind : std::uint8_t { allgather, barrier, last = barrier };
const char* name_of(RoundKind kind) noexcept;

struct Contribution {
  struct Entry {
    std::int32_t rank = -1;
    base::Bytes bytes;
    static constexpr auto fields = std::tuple(&Entry::rank, &Entry::bytes);
  };
  std::uint64_t round = 0;
  RoundKind kind{};
  std::vector<Entry> entries;
  static constexpr auto type = MessageType::contribution;
  static constexpr auto fields = std::tuple(&Contribution::round, &Contribution::kind, &Contribution::entries);
};

struct Result {
  std::uint64_t round = 0;
  std::vector<base::Bytes> by_rank;  ///< empty for a barrier
  static constexpr auto type = MessageType::result;
  static constexpr auto fields = std::tuple(&Result::round, &Result::by_rank);
};

struct RoundFailed {
  enum class Scope : std::uint8_t { job, node, last = node };
  Scope scope{};
  std::uint64_t round = 0;
  Code code{};
  std::int32_t peer = -1;
  std::string text;
  static constexpr auto type = MessageType::round_failed;
  static constexpr auto fields =
      std::tuple(&RoundFailed::scope, &RoundFailed::round, &RoundFailed::code, &RoundFailed::peer, &RoundFailed::text);
};

struct ShareOffer {  // with the segment's memfd, if there is one
  std::uint64_t round = 0;
  std::uint64_t bytes = 0;
  std::uint64_t file_offset = 0;
  std::vector<std::uint32_t> local_indexes;  ///< the participants, ascending; empty: the whole node
  static constexpr auto type = MessageType::share_offer;
  static constexpr auto fields =
      std::tuple(&ShareOffer::round, &ShareOffer::bytes, &ShareOffer::file_offset, &ShareOffer::local_indexes);
};

struct ShareResult {  // for consecutive members of the node, with their memfds
  enum class What : std::uint8_t { nothing, your_own, descriptor, last = descriptor };
  struct Item {
    What what{};
    std::uint64_t bytes = 0;
    std::uint64_t file_offset = 0;
    static constexpr auto fields = std::tuple(&Item::what, &Item::bytes, &Item::file_offset);
  };
  std::uint64_t round = 0;
  std::vector<Item> items;
  static constexpr auto type = MessageType::share_result;
  static constexpr auto fields = std::tuple(&ShareResult::round, &ShareResult::items);
};

struct MissingQuery {
  enum class What : std::uint8_t { join, round, share, last = share };
  std::uint64_t id = 0;
  std::int32_t rank = -1;
  What what{};
  std::uint64_t round = 0;
  static constexpr auto type = MessageType::missing_query;
  static constexpr auto fields =
      std::tuple(&MissingQuery::id, &MissingQuery::rank, &MissingQuery::what, &MissingQuery::round);
};

struct MissingReply {
  std::uint64_t id = 0;
  std::int32_t rank = -1;
  std::vector<std::int32_t> missing;
  static constexpr auto type = MessageType::missing_reply;
  static constexpr auto fields = std::tuple(&MissingReply::id, &MissingReply::rank, &MissingReply::missing);
};

/// An event that ends the job, or a rank's membership.
struct Notice {
  Code code = Code::error;
  std::int32_t rank = -1;
  std::int32_t exit_code = 0;
  std::string text;
  static constexpr auto fields = std::tuple(&Notice::code, &Notice::rank, &Notice::exit_code, &Notice::text);
};
template <MessageType Type> struct NoticeOf : Notice {
  NoticeOf() = default;
  explicit NoticeOf(Notice notice) : Notice(std::move(notice)) {}
  static constexpr auto type = Type;
};
using Abort = NoticeOf<MessageType::abort>;      ///< a rank called abort
using Failure = NoticeOf<MessageType::failure>;  ///< the job has failed; a rank sends it in fail_job()
using Refusal = NoticeOf<MessageType::refusal>;  ///< this rank, or this node (rank -1), is rejected

struct Death {  // a rank has ended without a goodbye
  std::int32_t ended = -1;
  Notice cause;  ///< may name another rank
  static constexpr auto type = MessageType::death;
  static constexpr auto fields = std::tuple(&Death::ended, &Death::cause);
};

struct Goodbye {
  std::int32_t rank = -1;
  static constexpr auto type = MessageType::goodbye;
  static constexpr auto fields = std::tuple(&Goodbye::rank);
};

// The agreements by which the remaining processes form a new job (membership.hpp).

struct Vote {
  Ballot ballot;
  std::uint64_t timeout_ms = 0;  ///< 0: none
  RankProcess voter;             ///< set by the agent
  static constexpr auto type = MessageType::vote;
  static constexpr auto fields = std::tuple(&Vote::ballot, &Vote::timeout_ms, &Vote::voter);
};

struct DecisionFor {
  Decision decision;
  RankProcess recipient;  ///< not a later process of its rank
  static constexpr auto type = MessageType::decision;
  static constexpr auto fields = std::tuple(&DecisionFor::decision, &DecisionFor::recipient);
};

/// From hmcrun's agents: no process will be started in place of a rank's last one, which has ended.
struct NoReplacement {
  std::int32_t rank = -1;
  std::string text;  ///< the reason
  static constexpr auto type = MessageType::no_replacement;
  static constexpr auto fields = std::tuple(&NoReplacement::rank, &NoReplacement::text);
};

/// From a process that hmcrun started, and whose job has another control plane: it fails because of another process.
/// The answer is a Failure.
struct Cause {
  std::int32_t pid = 0;
  static constexpr auto type = MessageType::cause;
  static constexpr auto fields = std::tuple(&Cause::pid);
};

struct Lost {  // the process of a rank has ended. Sent for each such process; `failure` only for the first
  RankProcess process;
  static constexpr auto type = MessageType::lost;
  static constexpr auto fields = std::tuple(&Lost::process);
};

/// From a rank to the agents of `ranks`, over the store.
struct StateQuery {
  std::uint64_t id = 0;
  std::int32_t rank = -1;  ///< the asking rank
  std::vector<std::int32_t> ranks;
  static constexpr auto type = MessageType::state_query;
  static constexpr auto fields = std::tuple(&StateQuery::id, &StateQuery::rank, &StateQuery::ranks);
};

struct StateReply {  // one per node
  std::uint64_t id = 0;
  std::int32_t rank = -1;  ///< the recipient
  std::vector<base::RankState> states;
  static constexpr auto type = MessageType::state_reply;
  static constexpr auto fields = std::tuple(&StateReply::id, &StateReply::rank, &StateReply::states);
};

/// A rank's warning about a long wait. The store prints one for the whole job.
struct Report {
  std::int32_t rank = -1;
  std::uint64_t waited_ms = 0;
  std::string text;
  static constexpr auto type = MessageType::report;
  static constexpr auto fields = std::tuple(&Report::rank, &Report::waited_ms, &Report::text);
};

/// From hmcrun to its parts on other hosts; other agents ignore it. The store and the agents don't interpret the value.
struct Command {
  std::int32_t value = 0;
  static constexpr auto type = MessageType::command;
  static constexpr auto fields = std::tuple(&Command::value);
};

static_assert(base::least_bytes<RankFacts>() == rank_facts_bytes);

using base::encode;

/// nullopt if the payload isn't exactly one message of this type.
template <typename Message> std::optional<Message> decode(const control::Frame& frame) {
  if (type_of(frame) != Message::type) return std::nullopt;
  return base::decode<Message>(frame.payload);
}

}  // namespace hmc::bootstrap
