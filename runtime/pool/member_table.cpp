#include "runtime/pool/member_table.hpp"

#include <fmt/format.h>

#include <utility>

namespace hmc::pool {

bool FailedWays::add(PoolPart part, const std::string& why) {
  const std::lock_guard guard(lock_);
  if (failed_[index(part)].load(std::memory_order_relaxed)) return false;  // relaxed: written under the lock only
  why_[index(part)] = why;
  // Release: pairs with has(). The reason itself is read under the lock.
  failed_[index(part)].store(true, std::memory_order_release);
  return true;
}

std::string FailedWays::why(PoolPart part) const {
  const std::lock_guard guard(lock_);
  return why_[index(part)];
}

PoolPath Member::path(PoolPart part) const {
  const PoolPath& first = part == PoolPart::host ? host_path : device_path;
  if (!failed->has(part)) return first;
  return {next_way(first.way), fmt::format("{}; {} failed: {}", first.why, name_of(first.way), failed->why(part))};
}

MemberTable::MemberTable(int size, Release release)
    : slots_(static_cast<std::size_t>(size)), release_(std::move(release)) {}

const Member* MemberTable::acquire(int rank) noexcept {
  Slot& at = slot(rank);
  // The addition and the read of the state are one step, as the change of the state and the read of the users are in
  // remove(): one of them sees the other.
  if ((at.word.fetch_add(1) & present) != 0) return at.member.get();
  release(rank);
  return nullptr;
}

void MemberTable::release(int rank) noexcept {
  const std::uint32_t before = slot(rank).word.fetch_sub(1);
  if ((before & states) == leaving && (before & ~states) == 1) try_release(rank);
}

bool MemberTable::is_absent(int rank) const noexcept { return (slot(rank).word.load() & states) == 0; }

void MemberTable::put(int rank, Member member) {
  Slot& at = slot(rank);
  at.member = std::make_unique<Member>(std::move(member));
  at.word.fetch_or(present);
}

void MemberTable::remove(int rank) noexcept {
  if ((slot(rank).word.load() & states) != present) return;
  slot(rank).word.fetch_xor(present | leaving);
  try_release(rank);
}

/// Several threads may see that they are the last: one of them succeeds. An acquire that fails adds itself for a
/// moment; then its release() tries again.
void MemberTable::try_release(int rank) noexcept {
  Slot& at = slot(rank);
  std::uint32_t expected = leaving;
  if (!at.word.compare_exchange_strong(expected, releasing)) return;
  release_(rank, *at.member);
  at.member.reset();
  at.word.fetch_and(~releasing);
}

}  // namespace hmc::pool
