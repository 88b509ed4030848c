// NodePage: the control memory of one node, mapped by all its ranks and by its agent. NodeArea: memory of one node that
// its teams take parts of, without descriptors.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <hmc/types.hpp>

#include "runtime/base/segment.hpp"
#include "runtime/base/status.hpp"

namespace hmc::base {

/// The call that a rank is in. Written only when a wait becomes long, so the fast path has no cost.
enum class Activity : std::uint32_t {
  computing,  ///< outside HMC, or in a short call
  starting,
  wait_until,
  wait_request,
  flush,
  closing,
  setup,
  put,
  get,
  atomic,
  send,
  recv,
  probe,
  collective,  ///< the first of them: see activity_of
  last = collective + collective_count - 1,
};
/// In a call of this collective.
constexpr Activity activity_of(CollectiveKind kind) noexcept {
  return static_cast<Activity>(static_cast<std::uint32_t>(Activity::collective) + static_cast<std::uint32_t>(kind));
}
const char* name_of(Activity activity) noexcept;

/// One rank's activity record. Only that rank writes it; all processes of the node may read it at any time. Its fields
/// are relaxed atomics: a reader needs a hint for a message, not a consistent snapshot.
struct alignas(64) ActivityLine {
  std::atomic<std::uint32_t> activity{0};
  std::atomic<std::int32_t> peer{-1};        ///< the awaited rank; -1: none, or several
  std::atomic<std::uint64_t> sequence{0};    ///< the team's collective number, in a collective
  std::atomic<std::uint64_t> bytes{0};       ///< of the call's vector, block or transfer; 0: none, or unknown
  std::atomic<std::int64_t> since_ns{0};     ///< CLOCK_MONOTONIC
  std::atomic<std::int32_t> world_rank{-1};  ///< the owner of the line
  std::atomic<std::int32_t> pid{0};
  /// After shrink or grow the rank writes to a line of another page: the descriptor of that page in the process `pid`.
  std::atomic<std::int32_t> later_page{-1};
  /// The number of collectives that the rank has called on all teams. A rank whose number grows is alive. Relaxed: it
  /// is a hint; if two threads increment it at the same time, one increment may be lost.
  std::atomic<std::uint64_t> calls{0};
};

/// The futex word of a rank that sleeps. A second cache line holds the words of the rank's background thread.
/// base/wait.hpp and progress/nudge.hpp describe the protocols.
struct alignas(64) Doorbell {
  static constexpr std::uint32_t awake = 0;
  static constexpr std::uint32_t asleep = 1;  ///< or about to sleep
  std::atomic<std::uint32_t> state{awake};    ///< the rank's futex word

  static constexpr std::uint32_t quiet = 0;   ///< nothing is in flight, or the rank polls itself
  static constexpr std::uint32_t asked = 1;   ///< a rank that makes data visible must wake the background thread
  static constexpr std::uint32_t nudged = 2;  ///< a rank has woken the background thread
  alignas(64) std::atomic<std::uint32_t> wanted{quiet};
  std::atomic<std::uint32_t> nudges{0};  ///< the background thread's futex word
};

/// A view of the page; copyable, shares ownership of the memory. Threads: any.
class NodePage {
 public:
  static NodePage create(int capacity);
  /// The length of a page for this many ranks; the file is longer: see NodeArea.
  static std::size_t bytes_for(int capacity) noexcept;
  /// Checks size, version and nonce. The control connection delivers the expected nonce. Equal nonces prove that both
  /// sides map the same memory. Throws Error{refused}.
  static NodePage adopt(std::shared_ptr<Segment> segment, std::uint64_t expected_nonce);

  /// For tools: a page of another job. nullopt if the file is none of this build's node pages.
  static std::optional<NodePage> observe(UniqueFd file);

  NodePage() = default;
  const std::shared_ptr<Segment>& segment() const noexcept { return segment_; }
  std::uint64_t nonce() const noexcept;
  int capacity() const noexcept;

  ActivityLine& activity(int local_index) const noexcept;
  Doorbell& doorbell(int local_index) const noexcept;
  /// A part of the node's area: see NodeArea.
  struct AreaEntry {
    std::atomic<std::uint64_t> offset{0};  ///< in the file
    std::atomic<std::uint64_t> bytes{0};   ///< 0: never taken
    std::atomic<std::uint32_t> shares{0};  ///< 0: free
  };
  static constexpr std::uint32_t area_entries = 512;
  AreaEntry& area_entry(std::uint32_t index) const noexcept;
  std::atomic<std::uint64_t>& area_next() const noexcept;  ///< the first byte that no part has had
  std::uint64_t area_end() const noexcept;
  /// The number of ranks of the node that sleep or are about to.
  std::atomic<std::uint32_t>& sleepers() const noexcept { return *sleepers_; }
  /// The number of ranks of the node that ring without a fence: see Waiter.
  std::atomic<std::uint32_t>& fenceless() const noexcept;
  /// By local index: the CPU on which the rank last waited, plus 1; 0: none. Only that rank writes its entry. Relaxed:
  /// hints.
  std::atomic<std::uint16_t>* cpus() const noexcept;

  /// True for one of the ranks of the node that report a long wait at about the same time.
  bool claim_report(std::int64_t now_ns, std::int64_t interval_ns) const noexcept;

  /// Only the first call has an effect. `peer`: the world rank that failed or called abort. Wakes all sleepers.
  void raise_abort(Code code, int peer, std::string_view text) const noexcept;
  /// Not 0 after an abort.
  const std::atomic<std::uint64_t>& abort_word() const noexcept { return *abort_word_; }
  /// ok until an abort; then Status{code, peer}. Costs one relaxed load without an abort.
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

/// The unmapped rest of the node page's file. The page has a table of the parts that are in use. A part belongs to
/// several ranks: one of them takes it and sends its number to the others. It is free again, and all zeros, when each
/// of them has dropped its share. If one of them is killed, the part stays in use until the job ends.
/// Several ranks may call all functions at the same time; none waits for another rank.
class NodeArea {
 public:
  static constexpr std::uint32_t none = 0;

  explicit NodeArea(const NodePage& page) noexcept : page_(page) {}

  /// The number of a part with `bytes` for this many ranks; `none` if the table or the file is full. Each of the ranks
  /// calls share() once.
  std::uint32_t take(std::size_t bytes, std::size_t ranks) const noexcept;
  /// This rank's share of a part, which its destructor drops. A child of fork() keeps it.
  std::shared_ptr<void> share(std::uint32_t number) const;
  /// The memory of a part. It keeps the share. Throws Error.
  std::shared_ptr<Segment> map(std::uint32_t number, std::size_t bytes, const std::shared_ptr<void>& share) const;

 private:
  NodePage page_;
};

}  // namespace hmc::base
