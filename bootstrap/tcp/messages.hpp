// Messages between ranks, node agents and the store.
//
//   rank -> agent    join, contribution, share_offer, publish, lookup, missing_query, abort, goodbye
//   agent -> rank    page (+fd), table, result, round_failed, share_result (+fds), reply, missing_reply,
//                    failure, refusal
//   agent -> store   node_hello, then the ranks' messages (joins and contributions gathered), death
//   store -> agent   welcome, then messages for the ranks
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <hmc/error.hpp>

#include "bootstrap/bootstrap.hpp"
#include "bootstrap/tcp/frame.hpp"
#include "runtime/base/bytes.hpp"

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
};

inline constexpr std::size_t rank_facts_bytes = 68;
static_assert(rank_facts_bytes <= 128, "rendezvous promises at most 128 bytes per rank");
inline constexpr std::size_t longest_key_bytes = 1024;
inline constexpr std::size_t longest_value_bytes = 4U << 20;
/// The maximum total size of all ranks' contributions to one allgather.
inline constexpr std::size_t largest_round_bytes = 256U << 20;

/// Every message has `type`, write() and read(). read() may leave the reader in the error state; decode() checks it.

struct NodeHello {  // the first message of an agent
  static constexpr MessageType type = MessageType::node_hello;
  std::int32_t job_size = 0;
  std::int32_t pid = 0;  ///< of the agent; if it is also a rank's pid, that rank ends with the agent
  std::string label;
  void write(base::ByteWriter& out) const;
  static NodeHello read(base::ByteReader& in);
};

struct Welcome {
  static constexpr MessageType type = MessageType::welcome;
  void write(base::ByteWriter&) const {}
  static Welcome read(base::ByteReader&) { return {}; }
};

struct Join {  // one rank from a rank; several from an agent
  static constexpr MessageType type = MessageType::join;
  std::int32_t job_size = 0;
  std::vector<RankFacts> ranks;
  void write(base::ByteWriter& out) const;
  static Join read(base::ByteReader& in);
};

struct Page {  // with the page's memfd
  static constexpr MessageType type = MessageType::page;
  std::uint64_t nonce = 0;
  void write(base::ByteWriter& out) const;
  static Page read(base::ByteReader& in);
};

struct Table {
  static constexpr MessageType type = MessageType::table;
  std::vector<RankFacts> ranks;
  void write(base::ByteWriter& out) const;
  static Table read(base::ByteReader& in);
};

enum class RoundKind : std::uint8_t { allgather, barrier };
const char* name_of(RoundKind kind) noexcept;

struct Contribution {
  static constexpr MessageType type = MessageType::contribution;
  struct Entry {
    std::int32_t rank = -1;
    base::Bytes bytes;
  };
  std::uint64_t round = 0;
  RoundKind kind{};
  std::vector<Entry> entries;
  void write(base::ByteWriter& out) const;
  static Contribution read(base::ByteReader& in);
};

struct Result {
  static constexpr MessageType type = MessageType::result;
  std::uint64_t round = 0;
  std::vector<base::Bytes> by_rank;  ///< empty for a barrier
  void write(base::ByteWriter& out) const;
  static Result read(base::ByteReader& in);
};

struct RoundFailed {
  static constexpr MessageType type = MessageType::round_failed;
  enum class Scope : std::uint8_t { job, node };
  Scope scope{};
  std::uint64_t round = 0;
  Code code{};
  std::int32_t peer = -1;
  std::string text;
  void write(base::ByteWriter& out) const;
  static RoundFailed read(base::ByteReader& in);
};

struct ShareOffer {  // with the segment's memfd, if there is one
  static constexpr MessageType type = MessageType::share_offer;
  std::uint64_t round = 0;
  std::uint64_t bytes = 0;
  std::uint64_t file_offset = 0;
  std::vector<std::uint32_t> local_indexes;  ///< the participants, ascending; empty: the whole node
  void write(base::ByteWriter& out) const;
  static ShareOffer read(base::ByteReader& in);
};

struct ShareResult {  // for consecutive members of the node, with their memfds
  static constexpr MessageType type = MessageType::share_result;
  enum class What : std::uint8_t { nothing, your_own, descriptor };
  struct Item {
    What what{};
    std::uint64_t bytes = 0;
    std::uint64_t file_offset = 0;
  };
  std::uint64_t round = 0;
  std::vector<Item> items;
  void write(base::ByteWriter& out) const;
  static ShareResult read(base::ByteReader& in);
};

struct Publish {
  static constexpr MessageType type = MessageType::publish;
  std::uint64_t id = 0;
  std::int32_t rank = -1;
  std::string key;
  base::Bytes value;
  void write(base::ByteWriter& out) const;
  static Publish read(base::ByteReader& in);
};

struct Lookup {
  static constexpr MessageType type = MessageType::lookup;
  std::uint64_t id = 0;
  std::int32_t rank = -1;
  std::string key;
  void write(base::ByteWriter& out) const;
  static Lookup read(base::ByteReader& in);
};

struct Reply {  // to a publish or a lookup
  static constexpr MessageType type = MessageType::reply;
  std::uint64_t id = 0;
  std::int32_t rank = -1;
  Code code = Code::success;
  base::Bytes value;  ///< or the text of the failure
  void write(base::ByteWriter& out) const;
  static Reply read(base::ByteReader& in);
};

struct MissingQuery {
  static constexpr MessageType type = MessageType::missing_query;
  enum class What : std::uint8_t { join, round, share };
  std::uint64_t id = 0;
  std::int32_t rank = -1;
  What what{};
  std::uint64_t round = 0;
  void write(base::ByteWriter& out) const;
  static MissingQuery read(base::ByteReader& in);
};

struct MissingReply {
  static constexpr MessageType type = MessageType::missing_reply;
  std::uint64_t id = 0;
  std::int32_t rank = -1;
  std::vector<std::int32_t> missing;
  void write(base::ByteWriter& out) const;
  static MissingReply read(base::ByteReader& in);
};

/// An event that ends the job, or a rank's membership.
struct Notice {
  Code code = Code::error;
  std::int32_t rank = -1;
  std::int32_t exit_code = 0;
  std::string text;
  void write(base::ByteWriter& out) const;
  void read_fields(base::ByteReader& in);
};
template <MessageType Type> struct NoticeOf : Notice {
  static constexpr MessageType type = Type;
  NoticeOf() = default;
  explicit NoticeOf(Notice notice) : Notice(std::move(notice)) {}
  static NoticeOf read(base::ByteReader& in) {
    NoticeOf notice;
    notice.read_fields(in);
    return notice;
  }
};
using Abort = NoticeOf<MessageType::abort>;      ///< a rank called abort
using Death = NoticeOf<MessageType::death>;      ///< a rank's connection to its agent ended
using Failure = NoticeOf<MessageType::failure>;  ///< the job has ended, with the reason
using Refusal = NoticeOf<MessageType::refusal>;  ///< this rank, or this node (rank -1), is rejected

struct Goodbye {
  static constexpr MessageType type = MessageType::goodbye;
  std::int32_t rank = -1;
  void write(base::ByteWriter& out) const;
  static Goodbye read(base::ByteReader& in);
};

template <typename Message> base::Bytes encode(const Message& message) {
  base::ByteWriter out;
  message.write(out);
  return out.take();
}

/// nullopt if the payload isn't exactly one message of this type.
template <typename Message> std::optional<Message> decode(const Frame& frame) {
  if (frame.type != Message::type) return std::nullopt;
  base::ByteReader in(frame.payload);
  Message message = Message::read(in);
  if (!in.complete()) return std::nullopt;
  return message;
}

}  // namespace hmc::bootstrap
