#include "runtime/base/node_area.hpp"

#include <fmt/format.h>

#include <hmc/error.hpp>

#include "runtime/base/fork.hpp"

namespace hmc::base {

namespace {

using Entry = NodePage::AreaEntry;

/// `ranks` counts the shares, plus one until the pages are cleared.
void drop(const NodePage& page, Entry& entry) noexcept {
  // Acquire and release: the last rank to drop its share clears what all others have written before.
  if (entry.shares.fetch_sub(1, std::memory_order_acq_rel) != 2) return;
  // Acquire isn't needed for offset and bytes: they don't change while the entry is taken.
  const bool is_clear =
      page.segment()->clear(entry.offset.load(std::memory_order_relaxed), entry.bytes.load(std::memory_order_relaxed));
  // Release: pairs with the acquire in take, whose caller finds zeros. A part that isn't clear is never used again.
  if (is_clear) entry.shares.store(0, std::memory_order_release);
}

}  // namespace

std::uint32_t NodeArea::take(std::size_t bytes, std::size_t ranks) const noexcept {
  const std::uint64_t wanted = round_up(bytes, page_size());
  const auto shares = static_cast<std::uint32_t>(ranks) + 1;
  for (std::uint32_t i = 0; i < NodePage::area_entries; ++i) {
    Entry& entry = page_.area_entry(i);
    // Relaxed: checked again once the entry is taken.
    const std::uint64_t seen = entry.bytes.load(std::memory_order_relaxed);
    if (seen != 0 && (seen < wanted || seen / 2 > wanted)) continue;
    std::uint32_t free = 0;
    // Acquire: pairs with the release in drop, and with the one below of a rank that found the file full.
    if (!entry.shares.compare_exchange_strong(free, shares, std::memory_order_acquire, std::memory_order_relaxed))
      continue;
    // Relaxed: only the rank that has taken the entry writes these; the acquire above shows the last rank's values.
    const std::uint64_t has = entry.bytes.load(std::memory_order_relaxed);
    if (has >= wanted && has / 2 <= wanted) return i + 1;
    if (has == 0) {
      const std::uint64_t offset = page_.area_next().fetch_add(wanted, std::memory_order_relaxed);
      if (offset <= page_.area_end() && wanted <= page_.area_end() - offset) {
        entry.offset.store(offset, std::memory_order_relaxed);
        // The other ranks get the entry's number by a message, which orders these stores before their loads.
        entry.bytes.store(wanted, std::memory_order_relaxed);
        return i + 1;
      }
    }
    entry.shares.store(0, std::memory_order_release);
    if (has == 0) return none;
  }
  return none;
}

std::shared_ptr<void> NodeArea::share(std::uint32_t number) const {
  if (number == none || number > NodePage::area_entries) return nullptr;
  struct Share {
    NodePage page;
    Entry& entry;
    Share(const NodePage& its_page, Entry& its_entry) : page(its_page), entry(its_entry) {}
    ~Share() { drop(page, entry); }
  };
  return make_owned<Share>(page_, page_.area_entry(number - 1));
}

std::shared_ptr<Segment> NodeArea::map(std::uint32_t number, std::size_t bytes,
                                       const std::shared_ptr<void>& share) const {
  if (share == nullptr || bytes > page_.area_entry(number - 1).bytes.load(std::memory_order_relaxed))
    throw Error(Code::refused, "map", fmt::format("the node has no memory with number {} of {} bytes", number, bytes));
  struct Mapped {
    std::shared_ptr<void> share;
    std::shared_ptr<Segment> part;  // unmapped before the share is dropped
  };
  const std::uint64_t offset = page_.area_entry(number - 1).offset.load(std::memory_order_relaxed);
  auto mapped = std::make_shared<Mapped>(Mapped{share, Segment::part(page_.segment(), offset, bytes)});
  Segment* const part = mapped->part.get();
  return {std::move(mapped), part};
}

}  // namespace hmc::base
