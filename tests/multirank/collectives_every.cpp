#include "tests/multirank/collectives_every.hpp"

#include <algorithm>

namespace hmc::spmd {

namespace {

constexpr std::size_t guard = 8;  // words around each buffer
constexpr std::uint64_t guard_word = 0xa5a5'5a5a'a55a'5aa5U;

/// 2x2 matrices modulo 2^16: products associate and don't commute.
std::uint64_t product(std::uint64_t a, std::uint64_t b) {
  const auto at = [](std::uint64_t m, int i) { return static_cast<std::uint32_t>(m >> (16 * i) & 0xffff); };
  std::uint64_t c = 0;
  for (int row = 0; row < 2; ++row) {
    for (int column = 0; column < 2; ++column) {
      const std::uint32_t sum = at(a, 2 * row) * at(b, column) + at(a, 2 * row + 1) * at(b, 2 + column);
      c |= std::uint64_t{sum & 0xffff} << (16 * (2 * row + column));
    }
  }
  return c;
}

void multiply(void* accumulated, const void* next, std::size_t count, DType, void*) {
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t a = 0, b = 0;
    std::memcpy(&a, static_cast<std::byte*>(accumulated) + i * 8, 8);
    std::memcpy(&b, static_cast<const std::byte*>(next) + i * 8, 8);
    a = product(a, b);
    std::memcpy(static_cast<std::byte*>(accumulated) + i * 8, &a, 8);
  }
}

std::size_t end_of(const std::vector<std::size_t>& counts, const std::vector<std::size_t>& displacements) {
  std::size_t end = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) end = std::max(end, displacements[i] + counts[i]);
  return end;
}

}  // namespace

EveryCall::EveryCall(int rank, int size, const Every& what) : rank_(rank), size_(size), what_(what) {
  lay_out();
  fill(what.call);
}

// Some ranks have no elements, and counts differ.
std::size_t EveryCall::count_of(int rank) const {
  if (!what_.irregular) return what_.count;
  return rank % 3 == 1 ? 0
                       : what_.count / (1 + static_cast<std::size_t>(rank) % 2) + static_cast<std::size_t>(rank) % 5;
}
std::size_t EveryCall::pair_count(int from, int to) const {
  if (!what_.irregular) return what_.count;
  return (from + 2 * to) % 4 == 1 ? 0 : what_.count / (1 + static_cast<std::size_t>(from + to) % 3);
}

// Must match lay_out on that rank.
std::size_t EveryCall::block_at(int from, int to) const {
  std::size_t at = 0;
  for (int i = 0; i < size_; ++i) {
    const int peer = what_.irregular ? size_ - 1 - i : i;
    if (peer == to) break;
    at += pair_count(from, peer) + (what_.irregular ? 3 : 0);
  }
  return at;
}

void EveryCall::lay_out() {
  const auto ranks = static_cast<std::size_t>(size_);
  const CollectiveKind collective = what_.collective;
  counts_.resize(ranks);
  displacements_.resize(ranks);
  receive_counts_.resize(ranks);
  receive_displacements_.resize(ranks);
  const bool all_to_all = collective == CollectiveKind::alltoall;
  // Blocks of a v-form have gaps between them and, except in reduce_scatter, are in reverse order.
  std::size_t at = 0, receive_at = 0;
  const bool turned = what_.irregular && collective != CollectiveKind::reduce_scatter;
  for (std::size_t i = 0; i < ranks; ++i) {
    const std::size_t r = turned ? ranks - 1 - i : i;
    const int peer = static_cast<int>(r);
    counts_[r] = all_to_all ? pair_count(rank_, peer) : count_of(peer);
    receive_counts_[r] = all_to_all ? pair_count(peer, rank_) : counts_[r];
    displacements_[r] = at;
    receive_displacements_[r] = receive_at;
    at += counts_[r] + (turned ? 3 : 0);
    receive_at += receive_counts_[r] + (turned ? 3 : 0);
  }
  const std::size_t whole = end_of(counts_, displacements_);
  const std::size_t own = counts_[static_cast<std::size_t>(rank_)];
  in_count_ = out_count_ = what_.count;
  bool may_overlap = true;
  switch (collective) {
    case CollectiveKind::barrier: in_count_ = out_count_ = 0; break;
    case CollectiveKind::broadcast: what_.in_place = true; break;
    case CollectiveKind::gather:
      in_count_ = own;
      out_count_ = whole;
      may_overlap = rank_ == what_.root;
      break;
    case CollectiveKind::scatter:
      in_count_ = whole;
      out_count_ = own;
      may_overlap = rank_ == what_.root;
      break;
    case CollectiveKind::allgather:
      in_count_ = own;
      out_count_ = whole;
      break;
    case CollectiveKind::alltoall:
      in_count_ = whole;
      out_count_ = end_of(receive_counts_, receive_displacements_);
      may_overlap = !what_.irregular;
      break;
    case CollectiveKind::reduce_scatter:
      in_count_ = whole;
      out_count_ = own;
      break;
    default: break;
  }
  what_.in_place = what_.in_place && may_overlap;
  in_memory_.resize(in_count_ + 2 * guard);
  out_memory_.resize(out_count_ + 2 * guard);
  in_ = in_memory_.data() + guard;
  out_ = out_memory_.data() + guard;
  if (!what_.window.empty() && in_count_ <= what_.window.size()) in_ = what_.window.data();
  if (!what_.in_place) return;
  const std::size_t block = displacements_[static_cast<std::size_t>(rank_)];
  if (collective == CollectiveKind::gather || collective == CollectiveKind::allgather) {
    in_ = out_ + block;
  } else if (collective == CollectiveKind::scatter) {
    out_ = in_ + block;
  } else if (in_count_ >= out_count_) {
    out_ = in_;
  } else {
    in_ = out_;
  }
}

void EveryCall::fill(std::uint64_t call) {
  what_.call = call;
  std::fill(in_memory_.begin(), in_memory_.end(), guard_word);
  std::fill(out_memory_.begin(), out_memory_.end(), guard_word);
  for (std::size_t i = 0; i < in_count_; ++i) in_[i] = value(rank_, i);
}

Reduction EveryCall::how() const {
  Reduction how = what_.user ? Reduction(multiply, nullptr) : Reduction(hmc::sum);
  how.deterministic = what_.deterministic;
  return how;
}

/// Element `index` reduced over ranks [first, last], in rank order.
std::uint64_t EveryCall::combined(int first, int last, std::size_t index) const {
  std::uint64_t all = value(first, index);
  for (int rank = first + 1; rank <= last; ++rank)
    all = what_.user ? product(all, value(rank, index)) : all + value(rank, index);
  return all;
}

std::string EveryCall::check_vector(std::size_t count, const std::function<std::uint64_t(std::size_t)>& wanted) const {
  for (std::size_t i = 0; i < count; ++i)
    if (out_[i] != wanted(i))
      return fmt::format("element {} of {} is {:#x} and not {:#x}", i, count, out_[i], wanted(i));
  return {};
}

std::string EveryCall::check_gaps(const std::vector<std::size_t>& counts,
                                  const std::vector<std::size_t>& displacements) const {
  if (!what_.irregular || what_.in_place) return {};
  std::vector<bool> in_block(out_count_);
  for (std::size_t r = 0; r < counts.size(); ++r)
    for (std::size_t i = 0; i < counts[r]; ++i) in_block[displacements[r] + i] = true;
  for (std::size_t i = 0; i < out_count_; ++i)
    if (!in_block[i] && out_[i] != guard_word) return fmt::format("element {}, between two blocks, was written", i);
  return {};
}

std::string EveryCall::check() const {
  for (std::size_t i = 0; i < guard; ++i) {
    if (out_memory_[i] != guard_word || out_memory_[out_memory_.size() - 1 - i] != guard_word ||
        in_memory_[i] != guard_word || in_memory_[in_memory_.size() - 1 - i] != guard_word)
      return "a word beside the buffer was written";
  }
  const auto own = static_cast<std::size_t>(rank_);
  switch (what_.collective) {
    case CollectiveKind::barrier: return {};
    case CollectiveKind::broadcast:
      return check_vector(what_.count, [&](std::size_t i) { return value(what_.root, i); });
    case CollectiveKind::reduce:
      if (rank_ != what_.root) return {};
      [[fallthrough]];
    case CollectiveKind::allreduce:
      return check_vector(what_.count, [&](std::size_t i) { return combined(0, size_ - 1, i); });
    case CollectiveKind::scan: return check_vector(what_.count, [&](std::size_t i) { return combined(0, rank_, i); });
    case CollectiveKind::exscan:
      if (rank_ == 0) return {};
      return check_vector(what_.count, [&](std::size_t i) { return combined(0, rank_ - 1, i); });
    case CollectiveKind::reduce_scatter:
      return check_vector(counts_[own], [&](std::size_t i) { return combined(0, size_ - 1, displacements_[own] + i); });
    case CollectiveKind::scatter: {
      // The root's input at this rank's block.
      const std::size_t block = displacements_[own];
      return check_vector(counts_[own], [&](std::size_t i) { return value(what_.root, block + i); });
    }
    case CollectiveKind::gather:
      if (rank_ != what_.root) return {};
      [[fallthrough]];
    case CollectiveKind::allgather:
      for (int r = 0; r < size_; ++r) {
        const auto index = static_cast<std::size_t>(r);
        for (std::size_t i = 0; i < counts_[index]; ++i)
          if (out_[displacements_[index] + i] != value(r, i))
            return fmt::format("element {} of rank {}'s block is wrong", i, r);
      }
      return check_gaps(counts_, displacements_);
    case CollectiveKind::alltoall:
      for (int r = 0; r < size_; ++r) {
        const auto index = static_cast<std::size_t>(r);
        const std::size_t there = block_at(r, rank_);
        for (std::size_t i = 0; i < receive_counts_[index]; ++i)
          if (out_[receive_displacements_[index] + i] != value(r, there + i))
            return fmt::format("element {} of what rank {} sent is wrong", i, r);
      }
      return check_gaps(receive_counts_, receive_displacements_);
  }
  return {};
}

#define HMC_EVERY(call_on, prefix, ...)                                                                                \
  switch (what_.collective) {                                                                                          \
    case CollectiveKind::barrier: return call_on.prefix##barrier();                                                    \
    case CollectiveKind::broadcast: return call_on.prefix##broadcast(in_, what_.count * 8, what_.root);                \
    case CollectiveKind::reduce: return call_on.prefix##reduce(in_, out_, what_.count, DType::u64, how(), what_.root); \
    case CollectiveKind::allreduce: return call_on.prefix##allreduce(in_, out_, what_.count, DType::u64, how());       \
    case CollectiveKind::scan: return call_on.prefix##scan(in_, out_, what_.count, DType::u64, how());                 \
    case CollectiveKind::exscan: return call_on.prefix##exscan(in_, out_, what_.count, DType::u64, how());             \
    case CollectiveKind::gather:                                                                                       \
      if (what_.irregular) return call_on.prefix##gatherv(in_, out_, counts_, displacements_, what_.root, 8);          \
      return call_on.prefix##gather(in_, out_, what_.count * 8, what_.root);                                           \
    case CollectiveKind::scatter:                                                                                      \
      if (what_.irregular) return call_on.prefix##scatterv(in_, out_, counts_, displacements_, what_.root, 8);         \
      return call_on.prefix##scatter(in_, out_, what_.count * 8, what_.root);                                          \
    case CollectiveKind::allgather:                                                                                    \
      if (what_.irregular) return call_on.prefix##allgatherv(in_, out_, counts_, displacements_, 8);                   \
      return call_on.prefix##allgather(in_, out_, what_.count * 8);                                                    \
    case CollectiveKind::alltoall:                                                                                     \
      if (what_.irregular)                                                                                             \
        return call_on.prefix##alltoallv(in_, counts_, displacements_, out_, receive_counts_, receive_displacements_,  \
                                         __VA_ARGS__);                                                                 \
      return call_on.prefix##alltoall(in_, out_, what_.count * 8);                                                     \
    case CollectiveKind::reduce_scatter:                                                                               \
      if (what_.irregular) return call_on.prefix##reduce_scatterv(in_, out_, counts_, DType::u64, how());              \
      return call_on.prefix##reduce_scatter(in_, out_, what_.count, DType::u64, how());                                \
  }

void EveryCall::blocking(Team& team){HMC_EVERY(team, , 8)} Request EveryCall::start(Team& team) {
  HMC_EVERY(team, i, what_.count, 8)
  return {};
}
Plan EveryCall::plan(Team& team) {
  HMC_EVERY(team, plan_, what_.count, 8)
  return {};
}

void check_form(TestRank& me, Every what, int form, std::span<std::uint64_t> window) {
  what.root = form % 3 * (me.size - 1) / 2;
  what.user = reduces(what.collective) && form % 4 == 1;
  const std::uint64_t bits = Pattern{me.rank, what.call}.word(3);
  what.in_place = (bits & 1) != 0;
  if ((bits & 2) != 0) what.window = window;
  EveryCall call(me.rank, me.size, what);
  call.blocking(me.runtime->world());
  const std::string wrong = call.check();
  HMC_CHECK_MSG(wrong.empty(), "{}{}: {} (count {}, root {}{}{}{})", name_of(what.collective),
                what.irregular ? "v" : "", wrong, what.count, what.root, what.in_place ? ", in place" : "",
                what.user ? ", user's function" : "", what.window.empty() ? "" : ", in a window");
}

Forced::Forced(Team& team, CollectiveKind collective, const Algorithm* algorithm)
    : selector_(team.object()->selector()), collective_(collective) {
  selector_.force(collective, algorithm);
}
Forced::~Forced() { selector_.force(collective_, nullptr); }

}  // namespace hmc::spmd
