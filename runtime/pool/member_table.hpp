// MemberTable: the members that this process can access, and the calls that access them now.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <hmc/pool.hpp>

#include "runtime/memory/provider.hpp"

namespace hmc::pool {

/// The ways to a member's parts that have failed while it was a member. Threads: any.
class FailedWays {
 public:
  /// Acquire: pairs with add(), so a copy that sees it comes after the transfer that failed.
  bool has(PoolPart part) const noexcept { return failed_[index(part)].load(std::memory_order_acquire); }
  /// False if the way has failed before; the first reason is kept.
  bool add(PoolPart part, const std::string& why);
  std::string why(PoolPart part) const;

 private:
  static std::size_t index(PoolPart part) noexcept { return static_cast<std::size_t>(part); }
  mutable std::mutex lock_;
  std::array<std::string, 2> why_;
  std::array<std::atomic<bool>, 2> failed_{};
};

/// A member, as this process accesses it.
struct Member {
  std::uint64_t host_bytes = 0, device_bytes = 0;
  std::byte* host = nullptr;                   ///< at the pool's address; null: not mapped here
  std::shared_ptr<memory::Allocation> device;  ///< null: not mapped here
  int far = -1;                                ///< its number in the Endpoint; -1: it has none
  std::uint64_t place = 0;   ///< of this process in the member's staging memory, in the Endpoint's buffer; 0: none
  std::int32_t process = 0;  ///< process_copy: the process that has the part
  std::uint64_t remote = 0;  ///< and the part's address there
  PoolPath host_path, device_path;  ///< at the join
  std::shared_ptr<FailedWays> failed = std::make_shared<FailedWays>();
  std::uint64_t bytes(PoolPart part) const noexcept { return part == PoolPart::host ? host_bytes : device_bytes; }
  /// The way now: if the first one has failed, the next one.
  PoolWay way(PoolPart part) const noexcept {
    const PoolWay first = part == PoolPart::host ? host_path.way : device_path.way;
    return failed->has(part) ? next_way(first) : first;
  }
  PoolPath path(PoolPart part) const;
  PoolWay next_way(PoolWay failed_way) const noexcept {
    return failed_way == PoolWay::process_copy && host != nullptr ? PoolWay::load_store : PoolWay::staged;
  }
};

/// One word per rank has the state and the number of users. The order of the accesses to it is stated in README.md.
///
///   absent --put--> present --remove--> leaving --the last user, or remove--> absent
///
/// `release` is called when a member's memory isn't used any more, on the thread of the last user: it unmaps.
/// Threads: acquire and release are lock-free, from any thread. put and remove are called under the membership's lock.
class MemberTable {
 public:
  using Release = std::function<void(int rank, Member& member)>;
  MemberTable(int size, Release release);

  /// The member, which stays accessible until release(rank). Null: it isn't a member.
  const Member* acquire(int rank) noexcept;
  void release(int rank) noexcept;

  /// False while the rank's previous member is in use.
  bool is_absent(int rank) const noexcept;
  void put(int rank, Member member);
  void remove(int rank) noexcept;

 private:
  struct alignas(64) Slot {
    std::atomic<std::uint32_t> word{0};
    std::unique_ptr<Member> member;  // constant from put() until the release
  };
  static constexpr std::uint32_t present = 1U << 31, leaving = 1U << 30, releasing = 1U << 29;
  static constexpr std::uint32_t states = present | leaving | releasing;
  Slot& slot(int rank) noexcept { return slots_[static_cast<std::size_t>(rank)]; }
  const Slot& slot(int rank) const noexcept { return slots_[static_cast<std::size_t>(rank)]; }
  void try_release(int rank) noexcept;

  std::vector<Slot> slots_;
  Release release_;
};

/// Holds some members for a call. Movable; a call with the members of one copy needs two places.
class MemberUse {
 public:
  MemberUse() = default;
  MemberUse(MemberTable& table, int rank) noexcept : table_(&table), rank_(rank), member_(table.acquire(rank)) {}
  MemberUse(MemberUse&& other) noexcept
      : table_(other.table_), rank_(other.rank_), member_(std::exchange(other.member_, nullptr)) {}
  MemberUse& operator=(MemberUse&& other) noexcept {
    std::swap(table_, other.table_);
    std::swap(rank_, other.rank_);
    std::swap(member_, other.member_);
    return *this;
  }
  ~MemberUse() {
    if (member_ != nullptr) table_->release(rank_);
  }
  const Member* get() const noexcept { return member_; }
  const Member* operator->() const noexcept { return member_; }
  explicit operator bool() const noexcept { return member_ != nullptr; }

 private:
  MemberTable* table_ = nullptr;
  int rank_ = -1;
  const Member* member_ = nullptr;
};

}  // namespace hmc::pool
