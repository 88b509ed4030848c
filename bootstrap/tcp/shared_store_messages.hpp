// The messages between the clients of <hmc/store.hpp> and the server. They are a part of the control protocol.
//
//   client -> server   store_call
//   server -> client   store_answer, one per call, in any order; store_event, of watches and groups
//
// The job's store keeps the ranks' keys in SharedValues of their own. Their calls and answers pass through the node's
// agent, as rank_call and rank_answer.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include <hmc/error.hpp>

#include "bootstrap/tcp/protocol.hpp"

namespace hmc::bootstrap {

enum class StoreOp : std::uint8_t {
  hello,  ///< the first call of a client
  get,    ///< flag: waits until the key exists
  set,
  add,     ///< number: the increment
  append,  ///< and the answer's number: the new length
  swap,    ///< flag: the key must exist with the value `expected`. The answer's number: swapped; flag: it existed
  write,   ///< number: the offset
  remove,
  count,
  watch,         ///< number: of the watch
  unwatch,       ///< number: of the watch
  cancel,        ///< number: of a call that waits. That call is answered with `timeout`
  acquire_rank,  ///< number: the size; other: the wanted rank, or -1
  release_rank,
  watch_ranks,     ///< number: of the watch
  barrier,         ///< number: the size; other: the rank
  allgather,       ///< as barrier; the answer is a StoreParts
  acquire_number,  ///< number: the limit
  release_number,  ///< number
  watch_exit,      ///< number: of the watch
  exit,            ///< number: the status
  // groups of a pool
  enter,   ///< number: the size; other: the wanted rank, or -1; value: the card. The answer is a GroupView
  commit,  ///< of a candidate
  leave,
  post,  ///< other: the rank; value: passed to that member or candidate
  last = post
};

struct StoreCall {
  std::uint64_t id = 0;
  StoreOp op{};
  std::string key = {};  ///< or a name
  std::int64_t number = 0;
  std::int64_t other = 0;
  bool flag = false;
  base::Bytes expected = {};
  base::Bytes value = {};
  static constexpr auto type = MessageType::store_call;
  static constexpr auto fields =
      std::tuple(&StoreCall::id, &StoreCall::op, &StoreCall::key, &StoreCall::number, &StoreCall::other,
                 &StoreCall::flag, &StoreCall::expected, &StoreCall::value);
};

struct StoreAnswer {
  std::uint64_t id = 0;
  Code code = Code::success;
  std::int64_t number = 0;
  bool flag = false;
  base::Bytes value;  ///< or the text of the failure
  static constexpr auto type = MessageType::store_answer;
  static constexpr auto fields =
      std::tuple(&StoreAnswer::id, &StoreAnswer::code, &StoreAnswer::number, &StoreAnswer::flag, &StoreAnswer::value);
};

struct StoreEvent {
  enum class Kind : std::uint8_t {
    value,   ///< of a watched key
    rank,    ///< number: the rank; flag: alive
    exit,    ///< number: the status
    joined,  ///< number: the rank; value: its card; version
    left,    ///< number: the rank; flag: it died; version
    post,    ///< number: the sender's rank; value
    last = post
  };
  std::uint64_t watch = 0;  ///< of a group: the id of the call `enter`
  Kind kind{};
  std::int64_t number = 0;
  bool flag = false;
  std::uint64_t version = 0;
  base::Bytes value;
  static constexpr auto type = MessageType::store_event;
  static constexpr auto fields = std::tuple(&StoreEvent::watch, &StoreEvent::kind, &StoreEvent::number,
                                            &StoreEvent::flag, &StoreEvent::version, &StoreEvent::value);
};

struct RankCall {
  std::int32_t rank = -1;
  StoreCall call;
  static constexpr auto type = MessageType::rank_call;
  static constexpr auto fields = std::tuple(&RankCall::rank, &RankCall::call);
};

struct RankAnswer {
  std::int32_t rank = -1;
  StoreAnswer answer;
  static constexpr auto type = MessageType::rank_answer;
  static constexpr auto fields = std::tuple(&RankAnswer::rank, &RankAnswer::answer);
};

/// The value of an allgather's answer.
struct StoreParts {
  std::vector<base::Bytes> by_rank;
  static constexpr auto fields = std::tuple(&StoreParts::by_rank);
};

/// The value of the answer to `enter`.
struct GroupView {
  struct Member {
    std::int32_t rank = -1;
    bool is_candidate = false;
    base::Bytes card;
    static constexpr auto fields = std::tuple(&Member::rank, &Member::is_candidate, &Member::card);
  };
  std::uint64_t version = 0;
  std::int32_t rank = -1;  ///< the caller's
  std::vector<Member> members;
  static constexpr auto fields = std::tuple(&GroupView::version, &GroupView::rank, &GroupView::members);
};

/// Who waits for answers: a client's connection, or a rank. forget() ends an owner; a rank's later process is the same
/// owner.
using StoreOwner = std::uint64_t;

/// Sends the results of the server's tables.
class StoreSink {
 public:
  virtual ~StoreSink() = default;
  virtual void answer(StoreOwner to, const StoreAnswer& answer) = 0;
  virtual void event(StoreOwner to, const StoreEvent& event) = 0;

  void ok(StoreOwner to, std::uint64_t id, std::int64_t number = 0, base::Bytes value = {}, bool flag = false) {
    answer(to, {id, Code::success, number, flag, std::move(value)});
  }
  void fail(StoreOwner to, std::uint64_t id, Code code, std::string_view text) {
    const base::ByteView bytes = base::as_bytes(text);
    answer(to, {id, code, 0, false, {bytes.begin(), bytes.end()}});
  }
};

}  // namespace hmc::bootstrap
