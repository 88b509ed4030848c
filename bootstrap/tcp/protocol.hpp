// The control protocol: messages between ranks, node agents and the store, and the frames that carry them.
//
//   rank -> agent    join, contribution, share_offer, publish, lookup, missing_query, abort, goodbye, vote, failure,
//                    state_query, report; from a process that isn't a rank of this control plane: cause
//   agent -> rank    page (+fd), table, result, round_failed, share_result (+fds), reply, missing_reply,
//                    failure, refusal, decision, lost, state_reply
//   agent -> store   node_hello, then the ranks' messages (joins and contributions gathered), death, no_replacement,
//                    state_reply
//   store -> agent   welcome, then messages for the ranks, state_query, command
#pragma once

#include <cstdint>
#include <optional>
#include <ranges>
#include <string>
#include <tuple>
#include <vector>

#include <hmc/error.hpp>

#include "bootstrap/bootstrap.hpp"
#include "bootstrap/membership.hpp"
#include "bootstrap/tcp/secret.hpp"
#include "runtime/base/bytes.hpp"
#include "runtime/base/rank_state.hpp"

namespace hmc::bootstrap {

enum class MessageType : std::uint16_t {
  hello = 1,
  node_hello,
  welcome,
  join,
  page,
  table,
  contribution,
  result,
  round_failed,
  share_offer,
  share_result,
  publish,
  lookup,
  reply,
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
inline constexpr std::size_t longest_key_bytes = 1024;
inline constexpr std::size_t longest_value_bytes = 4U << 20;
/// The maximum total size of all ranks' contributions to one allgather.
inline constexpr std::size_t largest_round_bytes = 256U << 20;
/// The maximum payload of a type; nullopt for an unknown type.
std::optional<std::size_t> payload_limit(MessageType type) noexcept;
/// The payload limits of a protocol over these connections. compat/ has its own protocol, with types above `hello`.
using PayloadLimit = std::optional<std::size_t> (*)(MessageType type) noexcept;

// ---- frames

inline constexpr std::uint32_t frame_magic = 0x31434d48;  // "HMC1"
inline constexpr std::uint16_t protocol_version = 5;
inline constexpr std::size_t frame_header_bytes = 16;
inline constexpr std::size_t frame_mac_bytes = sizeof(Mac);
/// The kernel passes at most this many descriptors with one message (SCM_MAX_FD).
inline constexpr std::size_t most_fds_per_frame = 253;

struct Frame {
  MessageType type{};
  std::uint16_t fds = 0;  ///< number of descriptors sent with it
  base::Bytes payload;
};

/// The MAC covers the direction, so a frame that is reflected to its sender is rejected.
enum class Direction : std::uint8_t { to_server = 1, to_client = 2 };

enum class FrameFault { none, magic, version, type, length, mac };
const char* name_of(FrameFault fault) noexcept;

/// Signs with a key, a direction and a counter, so a frame can be neither replayed nor reflected.
class FrameSealer {
 public:
  /// Later frames use `key`; the counter restarts at 0.
  void rekey(const Secret& key, Direction direction) noexcept;
  /// header {magic 4, version 2, type 2, fds 2, zero 2, length 4}, payload, MAC 32.
  base::Bytes seal(MessageType type, base::ByteView payload, std::uint16_t fds = 0);

 private:
  Secret key_;
  Direction direction_{};
  std::uint64_t counter_ = 0;
};

/// Consumes received bytes and returns complete, verified frames. The header is checked before memory is allocated for
/// the payload, and memory grows only with the bytes received. After a fault it returns no more frames.
class FrameOpener {
 public:
  explicit FrameOpener(PayloadLimit limit = &payload_limit) noexcept : limit_(limit) {}
  void rekey(const Secret& key, Direction direction) noexcept;
  /// While true, only a hello is accepted, because an unauthenticated peer may send no other message.
  void hello_only(bool yes) noexcept { hello_only_ = yes; }
  void feed(base::ByteView bytes);
  std::optional<Frame> next();

  FrameFault fault() const noexcept { return fault_; }
  std::uint16_t peer_version() const noexcept { return peer_version_; }  ///< after FrameFault::version
  bool empty() const noexcept { return read_ == buffer_.size(); }

 private:
  struct Header {
    MessageType type{};
    std::uint16_t fds = 0;
    std::uint32_t length = 0;
  };
  bool read_header(Header& header);
  std::nullopt_t fail(FrameFault fault) noexcept;

  PayloadLimit limit_;
  Secret key_;
  Direction direction_{};
  std::uint64_t counter_ = 0;
  bool hello_only_ = true;
  base::Bytes buffer_;
  std::size_t read_ = 0;  // bytes of buffer_ that were returned
  FrameFault fault_ = FrameFault::none;
  std::uint16_t peer_version_ = 0;
};

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

struct Publish {
  std::uint64_t id = 0;
  std::int32_t rank = -1;
  std::string key;
  base::Bytes value;
  static constexpr auto type = MessageType::publish;
  static constexpr auto fields = std::tuple(&Publish::id, &Publish::rank, &Publish::key, &Publish::value);
};

struct Lookup {
  std::uint64_t id = 0;
  std::int32_t rank = -1;
  std::string key;
  static constexpr auto type = MessageType::lookup;
  static constexpr auto fields = std::tuple(&Lookup::id, &Lookup::rank, &Lookup::key);
};

struct Reply {  // to a publish or a lookup
  std::uint64_t id = 0;
  std::int32_t rank = -1;
  Code code = Code::success;
  base::Bytes value;  ///< or the text of the failure
  static constexpr auto type = MessageType::reply;
  static constexpr auto fields = std::tuple(&Reply::id, &Reply::rank, &Reply::code, &Reply::value);
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

// ---- encoding

template <typename T> inline constexpr auto fields_of = T::fields;
template <>
inline constexpr auto fields_of<RankFacts> = std::tuple(&RankFacts::rank, &RankFacts::node, &RankFacts::local_index,
                                                        &RankFacts::pid, &RankFacts::machine, &RankFacts::network,
                                                        &RankFacts::cpus, &RankFacts::further_cpus);
template <>
inline constexpr auto fields_of<base::RankState> = std::tuple(&base::RankState::rank, &base::RankState::pid,
                                                              &base::RankState::host, &base::RankState::is_stopped,
                                                              &base::RankState::activity, &base::RankState::sequence,
                                                              &base::RankState::bytes, &base::RankState::for_ns,
                                                              &base::RankState::peer, &base::RankState::is_regrouped);
template <> inline constexpr auto fields_of<RankProcess> = std::tuple(&RankProcess::rank, &RankProcess::life);
template <>
inline constexpr auto fields_of<Ballot> = std::tuple(&Ballot::step, &Ballot::number, &Ballot::members, &Ballot::ok,
                                                     &Ballot::text);
template <>
inline constexpr auto fields_of<Decision> = std::tuple(&Decision::number, &Decision::agreed, &Decision::members,
                                                       &Decision::missing, &Decision::text, &Decision::code);

template <typename T>
concept Number = std::is_integral_v<T> || std::is_enum_v<T>;
template <typename T>
concept Growable = requires(T value) {
  value.resize(0);
};

/// The size of the shortest encoding of a T.
template <typename T> constexpr std::size_t least_bytes() {
  if constexpr (Number<T>) {
    return sizeof(T);
  } else if constexpr (Growable<T>) {
    return sizeof(std::uint32_t);
  } else if constexpr (std::ranges::range<T>) {
    return std::tuple_size_v<T> * least_bytes<typename T::value_type>();
  } else {
    return std::apply(
        [](auto... field) { return (least_bytes<std::decay_t<decltype(T().*field)>>() + ... + std::size_t{0}); },
        fields_of<T>);
  }
}
static_assert(least_bytes<RankFacts>() == rank_facts_bytes);

template <typename T> void write_value(base::ByteWriter& out, const T& value) {
  if constexpr (Number<T>) {
    out.number(value);
  } else if constexpr (std::is_same_v<T, std::string>) {
    out.text(value);
  } else if constexpr (std::is_same_v<T, base::Bytes>) {
    out.blob(value);
  } else if constexpr (std::ranges::range<T>) {
    if constexpr (Growable<T>) out.number(static_cast<std::uint32_t>(value.size()));
    for (const auto& each : value) write_value(out, each);
  } else {
    std::apply([&](auto... field) { (write_value(out, value.*field), ...); }, fields_of<T>);
  }
}

/// Invalid input puts the reader into the error state. A count is checked against the remaining bytes, so that memory
/// is allocated only for data that has arrived.
template <typename T> void read_value(base::ByteReader& in, T& value) {
  const auto fail = [&in] { (void)in.raw(in.left() + 1); };
  if constexpr (std::is_same_v<T, bool>) {
    const auto byte = in.number<std::uint8_t>();
    value = byte != 0;
    if (byte > 1) fail();
  } else if constexpr (Number<T>) {
    value = in.number<T>();
    if constexpr (requires { T::last; }) {
      if (value > T::last) fail();
    }
  } else if constexpr (std::is_same_v<T, std::string>) {
    value = in.text();
  } else if constexpr (std::is_same_v<T, base::Bytes>) {
    const base::ByteView view = in.blob();
    value.assign(view.begin(), view.end());
  } else if constexpr (std::ranges::range<T>) {
    if constexpr (Growable<T>) {
      const auto count = in.number<std::uint32_t>();
      if (count > in.left() / least_bytes<typename T::value_type>()) return fail();
      value.resize(count);
    }
    for (auto& each : value) read_value(in, each);
  } else {
    std::apply([&](auto... field) { (read_value(in, value.*field), ...); }, fields_of<T>);
  }
}

template <typename Message> base::Bytes encode(const Message& message) {
  base::ByteWriter out;
  write_value(out, message);
  return out.take();
}

/// nullopt if the payload isn't exactly one message of this type.
template <typename Message> std::optional<Message> decode(const Frame& frame) {
  if (frame.type != Message::type) return std::nullopt;
  base::ByteReader in(frame.payload);
  Message message;
  read_value(in, message);
  if (!in.complete()) return std::nullopt;
  return message;
}

}  // namespace hmc::bootstrap
