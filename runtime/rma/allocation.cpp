// Symmetric allocation in a window. Ranks don't communicate until close, where they compare their allocations.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "runtime/rma/operation_scope.hpp"
#include "runtime/rma/window_core.hpp"

namespace hmc::rma {

namespace {

using Made = SymmetricAllocator::Made;

/// The results of the alloc calls, indexed by rank.
using History = std::vector<std::vector<Made>>;

base::Bytes encode(const std::vector<Made>& first) {
  base::ByteWriter out;
  out.number(static_cast<std::uint32_t>(first.size()));
  for (const Made& each : first) out.number(each.offset).number(each.bytes);
  return out.take();
}

std::vector<Made> decode(base::ByteView bytes) {
  base::ByteReader in(bytes);
  std::vector<Made> first;
  const auto count = in.number<std::uint32_t>();
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
    const auto offset = in.number<std::uint64_t>();
    first.push_back({offset, in.number<std::uint64_t>()});
  }
  return first;
}

std::optional<Made> nth(const std::vector<Made>& made, std::size_t index) {
  return index < made.size() ? std::optional(made[index]) : std::nullopt;
}

/// Index of the first alloc call whose result differs between ranks; if none differs, the length of the histories.
std::size_t first_difference(const History& ranks) {
  std::size_t longest = 0;
  for (const auto& made : ranks) longest = std::max(longest, made.size());
  std::size_t index = 0;
  const auto alike = [&](const auto& made) { return nth(made, index) == nth(ranks.front(), index); };
  while (index < longest && std::ranges::all_of(ranks, alike)) ++index;
  return index;
}

/// "rank 0 got 64 bytes at offset 0; ranks 1, 2 got 128 bytes at offset 0".
std::string describe_difference(const History& ranks, const std::vector<int>& world_ranks, const char* word,
                                std::size_t index) {
  std::string text;
  std::vector<bool> told(ranks.size());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (told[rank]) continue;
    const std::optional<Made> made = nth(ranks[rank], index);
    std::vector<int> alike;
    for (std::size_t other = rank; other < ranks.size(); ++other) {
      if (nth(ranks[other], index) != made) continue;
      told[other] = true;
      alike.push_back(world_ranks[other]);
    }
    constexpr std::size_t most = 8;
    const std::string more = alike.size() > most ? fmt::format(" and {} more", alike.size() - most) : "";
    const char* const plural = alike.size() > 1 ? "s" : "";
    alike.resize(std::min(alike.size(), most));
    fmt::format_to(std::back_inserter(text), "{}{}{} {}{} ", text.empty() ? "" : "; ", word, plural,
                   fmt::join(alike, ", "), more);
    if (made) {
      fmt::format_to(std::back_inserter(text), "got {} bytes at offset {}", made->bytes, made->offset);
    } else {
      text += "made no such call";
    }
  }
  return text;
}

}  // namespace

std::exception_ptr WindowCore::compare_allocations() const noexcept {
  try {
    base::ByteWriter mine;
    mine.number(allocator_.made()).number(allocator_.hash());
    const auto all = allgather_for(*fabric_, exchange(), mine.view(), fabric_->deadline());
    if (std::ranges::all_of(all, [&](const base::Bytes& theirs) { return theirs == all.front(); })) return nullptr;
    // All ranks compared the same data, so all enter this round.
    History ranks;
    std::vector<int> world_ranks;
    for (const base::Bytes& theirs :
         allgather_for(*fabric_, exchange(), encode(allocator_.first_made()), fabric_->deadline())) {
      world_ranks.push_back(world_rank(static_cast<int>(ranks.size())));
      ranks.push_back(decode(theirs));
    }
    const std::size_t index = first_difference(ranks);
    ErrorDetail detail;
    detail.code = Code::mismatch;
    detail.operation = "Window::close";
    detail.rank = fabric_->rank;
    if (index < SymmetricAllocator::first_kept) {
      detail.message =
          fmt::format("ranks made different allocations in window {}, from call {} of alloc on: {}", id_, index + 1,
                      describe_difference(ranks, world_ranks, team_ == nullptr ? "rank" : "world rank", index));
    } else {
      detail.message = fmt::format("ranks made different allocations in window {}, after the first {} calls of alloc",
                                   id_, SymmetricAllocator::first_kept);
    }
    detail.hint =
        "every rank makes the same calls of alloc and free in the same order; Buffers in a window make them too";
    return std::make_exception_ptr(Error(std::move(detail)));
  } catch (...) {
    return std::current_exception();
  }
}

std::uint64_t WindowCore::alloc(std::size_t bytes, std::size_t align) {
  if (!is_open()) refuse_closed("Window::alloc");
  if (bytes == 0 || align == 0 || (align & (align - 1)) != 0) {
    throw Error(
        Code::invalid_argument, "Window::alloc",
        fmt::format("{} bytes aligned to {}: the size must not be 0, the alignment a power of two", bytes, align));
  }
  if (const auto offset = allocator_.allocate(bytes, align)) return *offset;
  throw Error(Code::out_of_memory, "Window::alloc",
              fmt::format("{} bytes aligned to {} don't fit; the largest free range has {}", bytes, align,
                          allocator_.largest_free()),
              "create a larger window, or free what isn't used");
}

void WindowCore::free(std::uint64_t offset) {
  if (!is_open()) refuse_closed("Window::free");
  if (!allocator_.release(offset))
    throw Error(Code::invalid_argument, "Window::free",
                fmt::format("offset {} isn't the start of an allocation", offset));
}

}  // namespace hmc::rma
