// NodePage: the control memory of one node, mapped by all its ranks and by its agent.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/segment.hpp"
#include "runtime/base/status.hpp"

namespace hmc::base {

/// What a rank is in. Written when a wait turns out to be long, so that the fast way pays nothing.
enum class Activity : std::uint32_t {
  computing,  ///< in none of HMC's calls, as far as the others can know
  starting,
  wait_until,
  wait_request,
  flush,
  barrier,
  broadcast,
  allgather,
  allreduce,
  closing,
  reduce,
  gather,
  scatter,
  alltoall,
  reduce_scatter,
  scan,
  exscan,
  setup,
  put,
  get,
  atomic,
};
const char* name_of(Activity activity) noexcept;

/// One rank's line. Only that rank writes it; everybody may read it at any time, so its fields are
/// relaxed atomics: a reader wants a hint for people, not a consistent snapshot.
struct alignas(64) ActivityLine {
  std::atomic<std::uint32_t> activity{0};
  std::atomic<std::int32_t> peer{-1};        ///< whom it waits for, where that is one rank
  std::atomic<std::uint64_t> sequence{0};    ///< the team's collective number, where it is one
  std::atomic<std::int64_t> since_ns{0};     ///< CLOCK_MONOTONIC
  std::atomic<std::int32_t> world_rank{-1};  ///< whose line this is
  std::atomic<std::int32_t> pid{0};
  /// Collectives that it has called, of all its teams: whoever calls another one isn't gone. Relaxed: a hint, in which
  /// one of two threads' counts may be lost.
  std::atomic<std::uint64_t> calls{0};
};

/// Where a rank sleeps when ranks outnumber cores, and, in a line of its own, where the thread does that goes on with
/// what the rank has started. See Waiter for both protocols.
struct alignas(64) Doorbell {
  std::atomic<std::uint32_t> bell{0};  ///< the futex word; rings count up

  static constexpr std::uint32_t quiet = 0;   ///< nothing is under way, or the rank looks by itself
  static constexpr std::uint32_t asked = 1;   ///< who makes something visible shall nudge
  static constexpr std::uint32_t nudged = 2;  ///< somebody has
  alignas(64) std::atomic<std::uint32_t> wanted{quiet};
  std::atomic<std::uint32_t> nudges{0};  ///< the thread's futex word
};

/// A view of the page; copyable, holds the memory. Threads: any.
class NodePage {
 public:
  static NodePage create(int capacity);
  /// Checks size, version and that the nonce is the one that was told over the control connection:
  /// the proof that both sides map the same memory. Throws Error{refused}.
  static NodePage adopt(std::shared_ptr<Segment> segment, std::uint64_t expected_nonce);

  NodePage() = default;
  const std::shared_ptr<Segment>& segment() const noexcept { return segment_; }
  std::uint64_t nonce() const noexcept;
  int capacity() const noexcept;

  ActivityLine& activity(int local_index) const noexcept;
  Doorbell& doorbell(int local_index) const noexcept;
  /// How many ranks of the node sleep, or are about to.
  std::atomic<std::uint32_t>& sleepers() const noexcept { return *sleepers_; }

  /// The first cause sticks. `peer` is the world rank that failed or called abort. Wakes sleepers.
  void raise_abort(Code code, int peer, std::string_view text) const noexcept;
  /// ok while the job lives; else Status{code, peer}. One relaxed load in the good case.
  Status aborted() const noexcept {
    if (abort_word_->load(std::memory_order_relaxed) == 0) return {};
    return abort_status();
  }
  std::string abort_text() const;

 private:
  struct Header;
  explicit NodePage(std::shared_ptr<Segment> segment);
  Status abort_status() const noexcept;
  Header& header() const noexcept;

  std::shared_ptr<Segment> segment_;
  std::atomic<std::uint64_t>* abort_word_ = nullptr;
  std::atomic<std::uint32_t>* sleepers_ = nullptr;
};

}  // namespace hmc::base
