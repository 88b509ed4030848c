#include "runtime/base/node_page.hpp"

#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <new>

#include <hmc/error.hpp>

namespace hmc::base {

namespace {

constexpr std::uint32_t magic = 0x484d4350;  // "HMCP"
constexpr std::uint32_t layout_version = 3;
constexpr std::size_t abort_text_bytes = 512;

}  // namespace

/// The page's first bytes. abort_word: 0, or 1 + peer in the low half and the Code in the high half;
/// written once, by the compare-exchange that finds 0. The text belongs to whoever wins `text_claim`; a
/// rank that is killed in between costs the text, never the word.
struct alignas(64) NodePage::Header {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint64_t nonce;
  std::int32_t capacity;
  alignas(64) std::atomic<std::uint64_t> abort_word;
  std::atomic<std::uint32_t> text_claim;
  std::atomic<std::uint32_t> text_ready;
  char abort_text[abort_text_bytes];
  alignas(64) std::atomic<std::uint32_t> sleepers;
};

const char* name_of(Activity activity) noexcept {
  switch (activity) {
    case Activity::computing: return "computing";
    case Activity::starting: return "starting";
    case Activity::wait_until: return "wait_until";
    case Activity::wait_request: return "Request::wait";
    case Activity::flush: return "flush";
    case Activity::barrier: return "barrier";
    case Activity::broadcast: return "broadcast";
    case Activity::allgather: return "allgather";
    case Activity::allreduce: return "allreduce";
    case Activity::closing: return "closing";
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

NodePage NodePage::create(int capacity) {
  const auto count = static_cast<std::size_t>(capacity);
  auto segment = Segment::create(sizeof(Header) + count * (sizeof(ActivityLine) + sizeof(Doorbell)));
  auto* const header = new (segment->base()) Header{};
  header->magic = magic;
  header->version = layout_version;
  header->capacity = capacity;
  if (::getrandom(&header->nonce, sizeof header->nonce, 0) != sizeof header->nonce)
    throw Error(Code::error, "getrandom", "the system gave no random bytes");
  NodePage page(std::move(segment));
  for (int i = 0; i < capacity; ++i) {
    new (&page.activity(i)) ActivityLine;
    new (&page.doorbell(i)) Doorbell;
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
  if (header.nonce != expected_nonce) refuse("the node page isn't the one that the agent speaks of");
  const std::size_t lines = (page.segment_->bytes() - sizeof(Header)) / (sizeof(ActivityLine) + sizeof(Doorbell));
  if (header.capacity < 0 || static_cast<std::size_t>(header.capacity) > lines) refuse("the node page is too short");
  return page;
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

void NodePage::raise_abort(Code code, int peer, std::string_view text) const noexcept {
  Header& h = header();
  // Relaxed: it only says who may write the text, which text_ready publishes.
  if (h.text_claim.exchange(1, std::memory_order_relaxed) == 0) {
    const std::size_t length = std::min(text.size(), abort_text_bytes - 1);
    std::memcpy(h.abort_text, text.data(), length);
    h.abort_text[length] = '\0';
    h.text_ready.store(1, std::memory_order_release);  // pairs with abort_text
  }
  const auto who = static_cast<std::uint32_t>(peer + 1);
  std::uint64_t none = 0;
  // Release: who sees the word sees the text of the claimant that stored it. The first cause sticks.
  if (!h.abort_word.compare_exchange_strong(none, (static_cast<std::uint64_t>(code) << 32) | who,
                                            std::memory_order_release, std::memory_order_relaxed))
    return;
  for (int i = 0; i < h.capacity; ++i) {
    Doorbell& door = doorbell(i);
    door.bell.fetch_add(1);
    ::syscall(SYS_futex, &door.bell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
}

Status NodePage::abort_status() const noexcept {
  const std::uint64_t word = header().abort_word.load(std::memory_order_acquire);  // pairs with raise_abort
  if (word == 0) return {};
  const auto peer = static_cast<int>(word & 0xffffffffU) - 1;
  const auto code = static_cast<Code>(word >> 32);
  return Status::failure(code, code == Code::peer_failed ? "a rank failed" : "the job was aborted", peer);
}

std::string NodePage::abort_text() const {
  if (header().text_ready.load(std::memory_order_acquire) == 0) return {};  // pairs with raise_abort
  return header().abort_text;
}

}  // namespace hmc::base
