#include "runtime/rma/symmetric_allocator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "runtime/rma/operation_scope.hpp"

namespace hmc::rma {

std::optional<std::uint64_t> SymmetricAllocator::allocate(std::uint64_t bytes, std::uint64_t align) {
  for (auto range = free_.begin(); range != free_.end(); ++range) {
    const auto [start, length] = *range;
    const std::uint64_t skipped = (align - start % align) % align;
    if (skipped > length || bytes > length - skipped) continue;
    const std::uint64_t offset = start + skipped;
    free_.erase(range);
    if (skipped > 0) free_[start] = skipped;
    if (length - skipped > bytes) free_[offset + bytes] = length - skipped - bytes;
    used_[offset] = bytes;
    ++made_;
    for (const std::uint64_t word : {offset, bytes}) {
      hash_ = (hash_ ^ word) * 0xd1342543de82ef95U;
      hash_ ^= hash_ >> 29;
    }
    if (first_made_.size() < first_kept) first_made_.push_back({offset, bytes});
    return offset;
  }
  return std::nullopt;
}

bool SymmetricAllocator::release(std::uint64_t offset) {
  const auto found = used_.find(offset);
  if (found == used_.end()) return false;
  std::uint64_t bytes = found->second;
  used_.erase(found);
  auto after = free_.lower_bound(offset);
  if (after != free_.end() && offset + bytes == after->first) {
    bytes += after->second;
    after = free_.erase(after);
  }
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == offset) {
      before->second += bytes;
      return true;
    }
  }
  free_[offset] = bytes;
  return true;
}

std::uint64_t SymmetricAllocator::largest_free() const noexcept {
  std::uint64_t largest = 0;
  for (const auto& [offset, bytes] : free_) largest = std::max(largest, bytes);
  return largest;
}

std::exception_ptr SymmetricAllocator::compare(const Fabric& fabric, base::Exchange& exchange, const TeamCore* team,
                                               std::uint64_t window) const noexcept {
  try {
    base::ByteWriter mine;
    mine.number(made_).number(hash_);
    const auto all = allgather_for(fabric, exchange, mine.view(), fabric.deadline());
    if (std::ranges::all_of(all, [&](const base::Bytes& theirs) { return theirs == all.front(); })) return nullptr;

    // All ranks compared the same data, so all enter this round: the first allocations of each rank.
    base::ByteWriter first;
    first.number(static_cast<std::uint32_t>(first_made_.size()));
    for (const Made& each : first_made_) first.number(each.offset).number(each.bytes);
    std::vector<std::vector<Made>> ranks;
    std::size_t longest = 0;
    for (const base::Bytes& theirs : allgather_for(fabric, exchange, first.view(), fabric.deadline())) {
      base::ByteReader in(theirs);
      std::vector<Made>& made = ranks.emplace_back();
      for (auto count = in.number<std::uint32_t>(); count > 0 && in.ok(); --count) {
        const auto offset = in.number<std::uint64_t>();
        made.push_back({offset, in.number<std::uint64_t>()});
      }
      longest = std::max(longest, made.size());
    }
    std::size_t index = 0;  // of the first call whose result differs between ranks
    const auto result_on = [&](std::size_t rank) {
      return index < ranks[rank].size() ? std::optional(ranks[rank][index]) : std::nullopt;
    };
    const auto differs = [&] {
      for (std::size_t rank = 1; rank < ranks.size(); ++rank)
        if (result_on(rank) != result_on(0)) return true;
      return false;
    };
    while (index < longest && !differs()) ++index;

    ErrorDetail detail;
    detail.code = Code::mismatch;
    detail.operation = "Window::close";
    detail.rank = fabric.rank;
    detail.message = fmt::format("ranks made different allocations in window {}, ", window);
    if (index >= first_kept) {
      detail.message += fmt::format("after the first {} calls of alloc", first_kept);
    } else {
      // "rank 0 got 64 bytes at offset 0; ranks 1, 2 got 128 bytes at offset 0"
      detail.message += fmt::format("from call {} of alloc on: ", index + 1);
      std::vector<bool> reported(ranks.size());
      for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        if (reported[rank]) continue;
        const std::optional<Made> made = result_on(rank);
        std::vector<int> alike;  // world ranks
        for (std::size_t other = rank; other < ranks.size(); ++other) {
          if (result_on(other) != made) continue;
          reported[other] = true;
          const int number = static_cast<int>(other);
          alike.push_back(team == nullptr ? number : team->world_rank(number));
        }
        constexpr std::size_t most = 8;
        const std::string more = alike.size() > most ? fmt::format(" and {} more", alike.size() - most) : "";
        const char* const plural = alike.size() > 1 ? "s" : "";
        alike.resize(std::min(alike.size(), most));
        detail.message += fmt::format("{}{}rank{} {}{} ", rank > 0 ? "; " : "", team == nullptr ? "" : "world ", plural,
                                      fmt::join(alike, ", "), more);
        detail.message += made ? fmt::format("got {} bytes at offset {}", made->bytes, made->offset)
                               : std::string("made no such call");
      }
    }
    detail.hint =
        "every rank makes the same calls of alloc and free in the same order; Buffers in a window make them too";
    return std::make_exception_ptr(Error(std::move(detail)));
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace hmc::rma
