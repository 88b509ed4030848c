#include "collectives/select/selector.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include <hmc/error.hpp>

#include "collectives/schedule/algorithms/algorithms.hpp"

namespace hmc::collectives {

using schedule::Algorithm;
using schedule::Call;
using schedule::Shape;

namespace {

constexpr std::uint64_t kib = 1024;

}  // namespace

/// Scratch: about 4 MiB in all areas for a small team, less per rank for a large one. Slots: enough for algorithms with
/// segments and for those with a message per rank.
AreaLimits area_limits(int size) noexcept {
  const auto ranks = static_cast<std::uint64_t>(size);
  return {std::clamp<std::uint64_t>(8192 * kib / ranks / kib * kib, 64 * kib, 512 * kib),
          (1024 + 4 * static_cast<std::uint32_t>(size) + 7) / 8 * 8};
}

bool fits(const Algorithm& algorithm, const Shape& shape, const Call& call, std::uint64_t count,
          const AreaLimits& limits) {
  Call largest = call;
  largest.count = count;
  largest.in_place = call.collective != CollectiveKind::alltoall;  // Operation stages an alltoall in place
  const schedule::ScratchSize scratch_size = algorithm.scratch_size(shape, largest);
  return scratch_size.scratch <= limits.scratch_bytes && scratch_size.slots <= limits.slots;
}

std::uint64_t largest_piece(const Algorithm& algorithm, const Shape& shape, const Call& call,
                            const AreaLimits& limits) {
  // Tries 4, 3, 2, 1.5, 1, 3/4 ... of the area, in whole cache lines from 64 bytes on. Some algorithms keep less than
  // the whole message in scratch, others several times as much.
  for (std::uint64_t bytes = 4 * limits.scratch_bytes; bytes >= call.element_bytes; bytes /= 2) {
    for (const std::uint64_t candidate : {bytes, bytes / 4 * 3}) {
      const std::uint64_t elements = std::max<std::uint64_t>(
          candidate >= 64 ? candidate / 64 * 64 / call.element_bytes : candidate / call.element_bytes, 1);
      if (fits(algorithm, shape, call, elements, limits)) return elements;
    }
  }
  return 0;
}

namespace {

std::size_t index_of(CollectiveKind collective) noexcept { return static_cast<std::size_t>(collective); }

/// Parses "allreduce:ring". Null for "allreduce:direct".
const Algorithm* parse(std::string_view item, CollectiveKind& collective) {
  const auto colon = item.find(':');
  const Algorithm* algorithm = nullptr;
  if (colon == std::string_view::npos ||
      !find_by_name(item.substr(0, colon), item.substr(colon + 1), collective, algorithm))
    throw Error(Code::invalid_config, "environment", fmt::format("HMC_COLL: unknown algorithm '{}'", item),
                "give collective:algorithm,...  Valid: " + valid_names());
  return algorithm;
}

/// True for narrow floats where rounding per step loses precision. These prefer an algorithm that folds all
/// contributions at once.
bool rounds_often(const Call& call) noexcept {
  return reduces(call.collective) && is_narrow_float(call.type) && call.op != Op::min && call.op != Op::max;
}

std::string_view why_not(const Algorithm& algorithm, const Shape& shape, const Call& call) noexcept {
  if (algorithm.applies(shape, call)) return {};
  if (algorithm.gets && !shape.shares_memory) return "some ranks share no memory";
  if (reduces(call.collective)) {
    if (call.deterministic && !algorithm.deterministic) return "its result depends on the order of reduction";
    if (!call.commutative && !algorithm.keeps_order) return "it doesn't keep the order of ranks";
    if (call.op == Op::avg) return "no averages over a part of the team";
  }
  return "it doesn't support v-forms";
}

}  // namespace

std::uint64_t segment_for(const Algorithm& algorithm, const Call& call, const AreaLimits& limits) noexcept {
  if (algorithm.gets && algorithm.tuned_by.segments)
    return call.segment_bytes > 0 ? std::min(call.segment_bytes, limits.scratch_bytes) : limits.scratch_bytes;
  // All receive buffers of the pairwise exchange together fill one area.
  if (call.collective == CollectiveKind::alltoall && algorithm.tuned_by.segments)
    return limits.scratch_bytes / schedule::alltoall_cells;
  return call.segment_bytes;
}

const char* name_of(ChoiceSource origin) noexcept {
  constexpr const char* names[] = {"model", "HMC_COLL", "HMC_COLL_FILE"};
  return names[static_cast<int>(origin)];
}

Selector::Selector(std::string_view setting, std::vector<Override> overrides,
                   const schedule::CostParameters& parameters)
    : overrides_(std::move(overrides)), parameters_(parameters) {
  for (const Override& row : overrides_) has_setting_[index_of(row.collective)] = true;
  while (!setting.empty()) {
    const auto comma = setting.find(',');
    CollectiveKind collective{};
    const Algorithm* const algorithm = parse(setting.substr(0, comma), collective);
    force(collective, algorithm);
    setting = comma == std::string_view::npos ? std::string_view() : setting.substr(comma + 1);
  }
}

void Selector::force(CollectiveKind collective, const Algorithm* algorithm) noexcept {
  forced_[index_of(collective)] = algorithm;
  has_setting_[index_of(collective)] =
      algorithm != nullptr || std::any_of(overrides_.begin(), overrides_.end(),
                                          [&](const Override& row) { return row.collective == collective; });
  ++version_;
}

std::uint32_t Selector::setting_for(const Shape& shape, CollectiveKind collective, std::uint64_t bytes) const noexcept {
  if (!has_setting_[index_of(collective)]) return 0;
  if (forced_[index_of(collective)] != nullptr) return 1;
  for (std::size_t i = 0; i < overrides_.size(); ++i)
    if (overrides_[i].covers(shape, collective, bytes)) return static_cast<std::uint32_t>(i) + 2;
  return 0;
}

bool Selector::may_want_schedule(const Shape& shape, CollectiveKind collective) const noexcept {
  if (forced_[index_of(collective)] != nullptr) return true;
  for (const Override& row : overrides_) {
    if (!row.covers(shape, collective, 0)) continue;
    if (row.algorithm != nullptr) return true;
    if (row.bytes_up_to == UINT64_MAX) return false;  // no later row applies
  }
  return false;
}

const Algorithm* Selector::algorithm_of(std::uint32_t setting, CollectiveKind collective) const noexcept {
  return setting == 0 ? nullptr : setting == 1 ? forced_[index_of(collective)] : overrides_[setting - 2].algorithm;
}

std::uint64_t Selector::class_begin(std::uint64_t bytes) noexcept {
  const int width = static_cast<int>(std::bit_width(bytes));
  return width <= 3 ? bytes : bytes >> (width - 3) << (width - 3);
}

std::uint64_t Selector::class_end(std::uint64_t bytes) noexcept {
  const int width = static_cast<int>(std::bit_width(bytes));
  const std::uint64_t step = width <= 3 ? 1 : std::uint64_t{1} << (width - 3);
  const std::uint64_t begin = class_begin(bytes);
  return begin > UINT64_MAX - step ? UINT64_MAX : begin + step;
}

/// Evaluates the size class of `bytes`, so all sizes of a class have the same cost.
Evaluation Selector::evaluate(const Algorithm& algorithm, const Shape& shape, const Call& args, std::uint64_t bytes,
                              const AreaLimits& limits, bool exact) const noexcept {
  Evaluation candidate;
  candidate.algorithm = &algorithm;
  Call call = args;
  call.segment_bytes = segment_for(algorithm, call, limits);
  candidate.why_not = why_not(algorithm, shape, call);
  if (candidate.why_not.empty() && exact && !algorithm.deterministic)
    candidate.why_not = "it rounds narrow floats in every step";
  if (candidate.why_not.empty() && algorithm.hierarchical && shape.per_node == 1)
    candidate.why_not = "it requires several ranks per node";
  const std::uint64_t count = bytes > 0 ? std::max<std::uint64_t>(class_begin(bytes) / call.element_bytes, 1) : 0;
  const std::uint64_t largest = class_end(bytes) / call.element_bytes;
  candidate.longest =
      fits(algorithm, shape, call, largest, limits) ? largest : largest_piece(algorithm, shape, call, limits);
  if (candidate.why_not.empty() && bytes > 0 && candidate.longest == 0)
    candidate.why_not = "one element exceeds a scratch area";
  if (!candidate.why_not.empty()) return candidate;
  candidate.pieces = count > candidate.longest ? (count + candidate.longest - 1) / candidate.longest : 1;
  if (candidate.longest < largest && has_blocks(call.collective) && !call.irregular()) {
    const std::uint64_t one = 1;
    Call cut = call;
    cut.counts = {&one, 1};
    if (!algorithm.applies(shape, cut)) candidate.why_not = "too large for one piece, and it doesn't support v-forms";
  }
  call.count = candidate.pieces == 1 ? count : (count + candidate.pieces - 1) / candidate.pieces;
  schedule::CriticalPath path(shape, parameters_);
  path.repeat(static_cast<double>(candidate.pieces),
              [&](schedule::CriticalPath& piece) { algorithm.cost(piece, call); });
  candidate.cost = path.cost();
  return candidate;
}

bool Selector::any_exact(const Shape& shape, const Call& call) const noexcept {
  if (!rounds_often(call)) return false;
  const auto all = schedule::algorithms();
  return std::any_of(all.begin(), all.end(), [&](const Algorithm& algorithm) {
    return algorithm.deterministic && algorithm.applies(shape, call);
  });
}

Choice Selector::choose(const Shape& shape, const Call& call, std::uint64_t bytes,
                        const AreaLimits& limits) const noexcept {
  const std::uint32_t setting = setting_for(shape, call.collective, bytes);
  if (const Algorithm* const algorithm = algorithm_of(setting, call.collective)) {
    Call tuned = call;
    if (setting > 1 && overrides_[setting - 2].segment_bytes > 0)
      tuned.segment_bytes = overrides_[setting - 2].segment_bytes;
    const Evaluation candidate = evaluate(*algorithm, shape, tuned, bytes, limits, false);
    // An algorithm selected by a setting must support the call. It need not be efficient.
    const bool possible = algorithm->applies(shape, call) && (candidate.longest > 0 || bytes == 0) &&
                          (candidate.why_not.empty() || (algorithm->hierarchical && shape.per_node == 1));
    if (possible)
      return {algorithm, candidate.longest, segment_for(*algorithm, tuned, limits),
              setting == 1 ? ChoiceSource::forced : ChoiceSource::file, candidate.cost.ns};
  }
  Choice best;
  const bool exact = any_exact(shape, call);
  for (const Algorithm& algorithm : schedule::algorithms()) {
    if (algorithm.collective != call.collective) continue;
    const Evaluation candidate = evaluate(algorithm, shape, call, bytes, limits, exact);
    if (!candidate.why_not.empty() || (best.algorithm != nullptr && candidate.cost.ns >= best.predicted_ns)) continue;
    best = {&algorithm, candidate.longest, segment_for(algorithm, call, limits), ChoiceSource::model,
            candidate.cost.ns};
  }
  return best;
}

std::vector<Evaluation> Selector::evaluate_all(const Shape& shape, const Call& call, std::uint64_t bytes,
                                               const AreaLimits& limits) const {
  std::vector<Evaluation> all;
  const bool exact = any_exact(shape, call);
  for (const Algorithm& algorithm : schedule::algorithms())
    if (algorithm.collective == call.collective) all.push_back(evaluate(algorithm, shape, call, bytes, limits, exact));
  return all;
}

namespace {

/// Limits of the fields in key_of. Choices for larger element sizes or row numbers aren't cached.
constexpr std::uint32_t element_limit = 1U << 24, setting_limit = 1U << 16;

/// All properties on which a choice depends, except the size.
std::uint64_t key_of(const Call& call, std::uint32_t setting) noexcept {
  const auto bit = [](bool value, unsigned at) { return static_cast<std::uint64_t>(value) << at; };
  return 1 | static_cast<std::uint64_t>(call.collective) << 1 | bit(call.irregular(), 6) | bit(call.commutative, 7) |
         bit(call.deterministic, 8) | static_cast<std::uint64_t>(call.type) << 9 |
         static_cast<std::uint64_t>(call.op) << 16 | static_cast<std::uint64_t>(call.element_bytes) << 24 |
         static_cast<std::uint64_t>(setting) << 48;
}

}  // namespace

ChoiceCache::CachedChoice ChoiceCache::get(const Call& call, std::uint64_t bytes, bool is_users) noexcept {
  if (version_ != selector_.version()) {
    entries_.fill({});
    version_ = selector_.version();
  }
  const std::uint32_t setting = selector_.setting_for(shape_, call.collective, bytes);
  if (call.element_bytes >= element_limit || setting >= setting_limit)
    return {selector_.choose(shape_, call, bytes, limits_), false};
  const std::uint64_t key = key_of(call, setting), begin = Selector::class_begin(bytes);
  const std::uint64_t mixed = (key ^ begin * 0x9e3779b97f4a7c15U) * 0xbf58476d1ce4e5b9U;
  CacheEntry& entry = entries_[mixed >> 56];
  if (entry.key != key || entry.begin != begin)
    entry = {key, begin, selector_.choose(shape_, call, bytes, limits_), false};
  const bool is_new = is_users && !entry.is_reported;
  entry.is_reported = entry.is_reported || is_users;
  return {entry.choice, is_new};
}

}  // namespace hmc::collectives
