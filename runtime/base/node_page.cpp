#include "runtime/base/node_page.hpp"

#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <new>

#include <hmc/error.hpp>

#include "runtime/base/fork.hpp"

namespace hmc::base {

namespace {

constexpr std::uint32_t magic = 0x484d4350;  // "HMCP"
constexpr std::uint32_t layout_version = 10;

/// The number of ranks that can abort at the same time with a text. Further aborts have no text.
constexpr std::uint32_t abort_texts = 16;

/// The abort word, from the top: code (16 bits), index of the text (16), peer + 1 (32). 0: no abort.
constexpr std::uint64_t abort_word_of(Code code, std::uint32_t text, int peer) noexcept {
  return static_cast<std::uint64_t>(code) << 48 | static_cast<std::uint64_t>(text) << 32 |
         static_cast<std::uint32_t>(peer + 1);
}
constexpr Code code_of(std::uint64_t word) noexcept { return static_cast<Code>(word >> 48); }
constexpr std::uint32_t text_of(std::uint64_t word) noexcept {
  return static_cast<std::uint32_t>(word >> 32 & 0xffffU);
}
constexpr int peer_of(std::uint64_t word) noexcept { return static_cast<int>(word & 0xffffffffU) - 1; }

}  // namespace

/// The start of the page. Only the compare-exchange that finds 0 writes abort_word. Each caller writes its message into
/// its own text first, so the winner's text is complete when abort_word is visible. If a rank is killed in between, its
/// text stays unused.
struct alignas(64) NodePage::Header {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint64_t nonce;
  std::int32_t capacity;
  alignas(64) std::atomic<std::uint64_t> abort_word;
  std::atomic<std::uint32_t> texts_claimed;
  struct AbortText {  // the error message
    char bytes[512];
  } texts[abort_texts];
  alignas(64) std::atomic<std::uint32_t> sleepers;  // every ring loads it, so the line has no frequent writer
  std::atomic<std::uint32_t> fenceless;
  alignas(64) std::atomic<std::int64_t> reported_ns;  // the last report of a long wait
  alignas(64) std::uint64_t area_end;
  std::atomic<std::uint64_t> area_next;
};

const char* name_of(Activity activity) noexcept {
  if (activity >= Activity::collective && activity <= Activity::last)
    return name_of(static_cast<CollectiveKind>(static_cast<std::uint32_t>(activity) -
                                               static_cast<std::uint32_t>(Activity::collective)));
  switch (activity) {
    case Activity::computing: return "computing";
    case Activity::starting: return "starting";
    case Activity::wait_until: return "wait_until";
    case Activity::wait_request: return "Request::wait";
    case Activity::flush: return "flush";
    case Activity::closing: return "closing";
    case Activity::setup: return "the creation of a team or window";
    case Activity::put: return "put";
    case Activity::get: return "get";
    case Activity::atomic: return "an atomic operation";
    case Activity::send: return "send";
    case Activity::recv: return "recv";
    case Activity::probe: return "probe";
    default: break;
  }
  return "unknown";
}

NodePage::NodePage(std::shared_ptr<Segment> segment) : segment_(std::move(segment)) {
  abort_word_ = &header().abort_word;
  sleepers_ = &header().sleepers;
}

NodePage::Header& NodePage::header() const noexcept {
  return *std::launder(reinterpret_cast<Header*>(segment_->base()));
}

std::size_t NodePage::bytes_for(int capacity) noexcept {
  const std::size_t per_rank = sizeof(ActivityLine) + sizeof(Doorbell) + sizeof(std::atomic<std::uint16_t>);
  return round_up(sizeof(Header) + static_cast<std::size_t>(capacity) * per_rank + area_entries * sizeof(AreaEntry),
                  page_size());
}

NodePage NodePage::create(int capacity) {
  constexpr std::uint64_t area = std::uint64_t{1} << 40;  // addresses in a file; only used pages are memory
  auto segment = Segment::create(bytes_for(capacity), area);
  segment->populate(0, segment->bytes());  // so that a lack of memory fails here and not at the first access
  auto* const header = new (segment->base()) Header{};
  header->magic = magic;
  header->version = layout_version;
  header->capacity = capacity;
  if (::getrandom(&header->nonce, sizeof header->nonce, 0) != sizeof header->nonce)
    throw Error(Code::error, "getrandom", "the system gave no random bytes");
  header->area_next = segment->bytes();
  header->area_end = segment->file_bytes();
  NodePage page(std::move(segment));
  for (std::uint32_t i = 0; i < area_entries; ++i) new (&page.area_entry(i)) AreaEntry;
  for (int i = 0; i < capacity; ++i) {
    new (&page.activity(i)) ActivityLine;
    new (&page.doorbell(i)) Doorbell;
    new (page.cpus() + i) std::atomic<std::uint16_t>{0};
  }
  return page;
}

NodePage NodePage::adopt(std::shared_ptr<Segment> segment, std::uint64_t expected_nonce) {
  const auto refuse = [](const char* why) {
    throw Error(Code::refused, "join node", why, "are two builds of HMC mixed in this job?");
  };
  if (segment->bytes() < sizeof(Header)) refuse("the node page is too short");
  NodePage page(std::move(segment));
  const Header& header = page.header();
  if (header.magic != magic || header.version != layout_version) refuse("the node page has another layout");
  if (header.nonce != expected_nonce) refuse("the node page's nonce differs from the agent's");
  if (header.capacity < 0 || bytes_for(header.capacity) > page.segment_->bytes()) refuse("the node page is too short");
  return page;
}

std::optional<NodePage> NodePage::observe(UniqueFd file) {
  std::array<std::byte, sizeof(Header)> start{};
  if (::pread(file.get(), start.data(), start.size(), 0) != static_cast<ssize_t>(start.size())) return std::nullopt;
  Header header;
  std::memcpy(static_cast<void*>(&header), start.data(), offsetof(Header, abort_word));
  if (header.magic != magic || header.version != layout_version || header.capacity <= 0) return std::nullopt;
  try {
    return NodePage(Segment::map(std::move(file), bytes_for(header.capacity)));
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::uint64_t NodePage::nonce() const noexcept { return header().nonce; }
int NodePage::capacity() const noexcept { return header().capacity; }

ActivityLine& NodePage::activity(int local_index) const noexcept {
  auto* const lines = reinterpret_cast<ActivityLine*>(segment_->base() + sizeof(Header));
  return lines[local_index];
}

Doorbell& NodePage::doorbell(int local_index) const noexcept {
  std::byte* const after =
      segment_->base() + sizeof(Header) + static_cast<std::size_t>(capacity()) * sizeof(ActivityLine);
  return reinterpret_cast<Doorbell*>(after)[local_index];
}

NodePage::AreaEntry& NodePage::area_entry(std::uint32_t index) const noexcept {
  return reinterpret_cast<AreaEntry*>(&doorbell(capacity()))[index];
}
std::atomic<std::uint64_t>& NodePage::area_next() const noexcept { return header().area_next; }
std::uint64_t NodePage::area_end() const noexcept { return header().area_end; }
std::atomic<std::uint32_t>& NodePage::fenceless() const noexcept { return header().fenceless; }
std::atomic<std::uint16_t>* NodePage::cpus() const noexcept {
  return reinterpret_cast<std::atomic<std::uint16_t>*>(&area_entry(area_entries));
}

bool NodePage::claim_report(std::int64_t now_ns, std::int64_t interval_ns) const noexcept {
  // Relaxed: it only selects one rank; it publishes no data.
  std::atomic<std::int64_t>& reported = header().reported_ns;
  std::int64_t last = reported.load(std::memory_order_relaxed);
  if (last != 0 && now_ns - last < interval_ns / 2) return false;
  return reported.compare_exchange_strong(last, now_ns, std::memory_order_relaxed);
}

void NodePage::raise_abort(Code code, int peer, std::string_view text) const noexcept {
  Header& h = header();
  // Relaxed: a hint. It avoids the use of a text by a call that can no longer win.
  if (h.abort_word.load(std::memory_order_relaxed) != 0) return;
  // Relaxed: it only assigns indices; abort_word publishes the text.
  const std::uint32_t claimed = std::min(h.texts_claimed.fetch_add(1, std::memory_order_relaxed), abort_texts);
  if (claimed < abort_texts) {
    Header::AbortText& mine = h.texts[claimed];
    const std::size_t length = std::min(text.size(), sizeof mine.bytes - 1);
    std::memcpy(mine.bytes, text.data(), length);
    mine.bytes[length] = '\0';
  }
  std::uint64_t none = 0;
  // Release: a thread that loads the word (acquire) also sees the text. Only the first abort is kept.
  if (!h.abort_word.compare_exchange_strong(none, abort_word_of(code, claimed, peer), std::memory_order_release,
                                            std::memory_order_relaxed))
    return;
  for (int i = 0; i < h.capacity; ++i) {
    Doorbell& door = doorbell(i);
    door.state.store(Doorbell::awake);
    ::syscall(SYS_futex, &door.state, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
    door.nudges.fetch_add(1);
    ::syscall(SYS_futex, &door.nudges, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
}

Status NodePage::abort_status() const noexcept {
  const std::uint64_t word = header().abort_word.load(std::memory_order_acquire);  // pairs with raise_abort
  if (word == 0) return {};
  const Code code = code_of(word);
  return Status::failure(code, code == Code::peer_failed ? "a rank failed" : "the job was aborted", peer_of(word));
}

std::string NodePage::abort_text() const {
  const std::uint64_t word = header().abort_word.load(std::memory_order_acquire);  // pairs with raise_abort
  if (word == 0 || text_of(word) >= abort_texts) return {};
  return header().texts[text_of(word)].bytes;
}

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
