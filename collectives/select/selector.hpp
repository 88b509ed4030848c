// Selector: chooses the algorithm of a call, and the largest piece of it that fits an area of the team's arena.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/schedule/cost.hpp"
#include "collectives/schedule/schedule.hpp"
#include "collectives/select/overrides.hpp"

namespace hmc::collectives {

struct AreaLimits {
  std::uint64_t scratch_bytes = 0;
  std::uint32_t slots = 0;
  friend bool operator==(const AreaLimits&, const AreaLimits&) = default;
};

/// The limits of each area, equal on every rank of a team.
AreaLimits area_limits(int size) noexcept;

/// True if the call fits on all ranks, for any root, in place or not. `count` is the size of the vector, or of the
/// largest block.
bool fits(const schedule::Algorithm& algorithm, const schedule::Shape& shape, const schedule::Call& call,
          std::uint64_t count, const AreaLimits& limits);
/// The largest of the tried counts that fits; 0 if not even one element fits.
std::uint64_t largest_piece(const schedule::Algorithm& algorithm, const schedule::Shape& shape,
                            const schedule::Call& call, const AreaLimits& limits);

/// The source of a choice.
enum class ChoiceSource : std::uint8_t { model, forced, file };
const char* name_of(ChoiceSource origin) noexcept;

struct Choice {
  const schedule::Algorithm* algorithm = nullptr;  ///< null: no algorithm supports the call
  std::uint64_t longest = 0;                       ///< elements of the largest piece
  std::uint64_t segment_bytes = 0;                 ///< for Call::segment_bytes
  ChoiceSource source = ChoiceSource::model;
  double predicted_ns = 0;
};

/// One algorithm, evaluated for a call.
struct Evaluation {
  const schedule::Algorithm* algorithm = nullptr;
  std::string_view why_not;   ///< why it can't be chosen; empty: it can
  std::uint64_t longest = 0;  ///< elements of the largest piece
  std::uint64_t pieces = 1;
  schedule::Cost cost;  ///< of all pieces
};

/// The segment size that the library passes to this algorithm for a call.
std::uint64_t segment_for(const schedule::Algorithm& algorithm, const schedule::Call& call,
                          const AreaLimits& limits) noexcept;

/// Priority: HMC_COLL, then the rows of HMC_COLL_FILE, then the cheapest algorithm by the cost model. The choice
/// depends only on settings, team, call and area limits. These are equal on all ranks, so all ranks choose the same
/// algorithm.
class Selector {
 public:
  /// `setting`: "allreduce:ring,broadcast:binomial". Throws Error{invalid_config} with the valid names.
  explicit Selector(std::string_view setting = {}, std::vector<Override> overrides = {},
                    const schedule::CostParameters& parameters = {});

  /// `bytes`: of the vector, or of the largest block. A forced algorithm, or the algorithm of a row, is ignored if it
  /// doesn't support the call.
  Choice choose(const schedule::Shape& shape, const schedule::Call& call, std::uint64_t bytes,
                const AreaLimits& limits) const noexcept;
  /// Every algorithm of the call's collective. The model chooses the cheapest one whose `why_not` is empty.
  std::vector<Evaluation> evaluate_all(const schedule::Shape& shape, const schedule::Call& call, std::uint64_t bytes,
                                       const AreaLimits& limits) const;

  /// The setting that applies: 0 none, 1 forced, i + 2 row i of the file. Cheap: called for every collective.
  std::uint32_t setting_for(const schedule::Shape& shape, CollectiveKind collective,
                            std::uint64_t bytes) const noexcept;
  /// True if a setting selects a schedule. The schedule then replaces the collective by load and store.
  bool wants_schedule(const schedule::Shape& shape, CollectiveKind collective, std::uint64_t bytes) const noexcept {
    return algorithm_of(setting_for(shape, collective, bytes), collective) != nullptr;
  }
  /// True if a setting selects a schedule for any size. For calls whose size isn't equal on all ranks.
  bool may_want_schedule(const schedule::Shape& shape, CollectiveKind collective) const noexcept;
  /// True if a setting concerns the collective, at any size.
  bool has_setting(CollectiveKind collective) const noexcept {
    return has_setting_[static_cast<std::size_t>(collective)];
  }
  void force(CollectiveKind collective, const schedule::Algorithm* algorithm) noexcept;
  /// Increases with each change; ChoiceCache is cleared then.
  std::uint64_t version() const noexcept { return version_; }
  const schedule::CostParameters& parameters() const noexcept { return parameters_; }

  /// Calls of one size class get the same choice. A class is a quarter of the range between two powers of two:
  /// [class_begin, class_end).
  static std::uint64_t class_begin(std::uint64_t bytes) noexcept;
  static std::uint64_t class_end(std::uint64_t bytes) noexcept;

 private:
  const schedule::Algorithm* algorithm_of(std::uint32_t setting, CollectiveKind collective) const noexcept;
  Evaluation evaluate(const schedule::Algorithm& algorithm, const schedule::Shape& shape, const schedule::Call& call,
                      std::uint64_t bytes, const AreaLimits& limits, bool exact) const noexcept;
  bool any_exact(const schedule::Shape& shape, const schedule::Call& call) const noexcept;

  std::array<const schedule::Algorithm*, collective_count> forced_{};
  std::array<bool, collective_count> has_setting_{};
  std::vector<Override> overrides_;
  schedule::CostParameters parameters_;
  std::uint64_t version_ = 0;
};

/// Not thread-safe. All calls of one size class share one choice, which is computed once.
class ChoiceCache {
 public:
  ChoiceCache(const Selector& selector, const schedule::Shape& shape, const AreaLimits& limits)
      : selector_(selector), shape_(shape), limits_(limits) {}

  struct CachedChoice {
    Choice choice;
    bool is_new = false;  ///< this is the first user call that gets this choice
  };
  /// `is_users`: the call is the user's, not an internal one.
  CachedChoice get(const schedule::Call& call, std::uint64_t bytes, bool is_users = true) noexcept;
  const AreaLimits& limits() const noexcept { return limits_; }

 private:
  struct CacheEntry {
    std::uint64_t key = 0;  ///< the lowest bit is set in a used entry
    std::uint64_t begin = 0;
    Choice choice;
    bool is_reported = false;  ///< a user call has got this choice before
  };
  static constexpr std::size_t entry_count = 256;

  const Selector& selector_;
  schedule::Shape shape_;
  AreaLimits limits_;
  std::uint64_t version_ = 0;
  std::array<CacheEntry, entry_count> entries_{};
};

}  // namespace hmc::collectives
