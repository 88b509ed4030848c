// Selector: which algorithm carries a call out.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/schedule/cost.hpp"
#include "collectives/schedule/schedule.hpp"
#include "collectives/select/overrides.hpp"
#include "collectives/select/room.hpp"

namespace hmc::collectives {

/// Where an answer comes from.
enum class Origin : std::uint8_t { model, forced, file };
const char* name_of(Origin origin) noexcept;

struct Choice {
  const schedule::Algorithm* algorithm = nullptr;  ///< null: none does this call
  std::uint64_t longest = 0;                       ///< elements of a piece, at most
  std::uint64_t segment_bytes = 0;                 ///< for the call
  Origin origin = Origin::model;
  double predicted_ns = 0;
};

/// One algorithm as it would do a call.
struct Candidate {
  const schedule::Algorithm* algorithm = nullptr;
  std::string_view why_not;   ///< empty: it may be taken
  std::uint64_t longest = 0;  ///< elements of a piece
  std::uint64_t pieces = 1;
  schedule::Cost cost;  ///< of all pieces
};

/// What the library cuts this call's messages into, by this algorithm.
std::uint64_t segment_for(const schedule::Algorithm& algorithm, const schedule::Call& call, const Room& room) noexcept;

/// HMC_COLL's word, then HMC_COLL_FILE's rows, and otherwise the cheapest by the model. It is a function of settings,
/// team, call and room alone, so that all ranks, which have the same, answer the same.
class Selector {
 public:
  /// `setting`: "allreduce:ring,broadcast:binomial". Throws Error{invalid_config} that lists the names there are.
  explicit Selector(std::string_view setting = {}, std::vector<Override> overrides = {},
                    const schedule::Parameters& parameters = {});

  /// `bytes`: of the vector, or of the largest block. One that is forced, or in a row, is passed over where it doesn't
  /// apply.
  Choice choose(const schedule::Shape& shape, const schedule::Call& call, std::uint64_t bytes,
                const Room& room) const noexcept;
  /// Every algorithm of the call's collective; the model's answer is the cheapest of those without a reason.
  std::vector<Candidate> candidates(const schedule::Shape& shape, const schedule::Call& call, std::uint64_t bytes,
                                    const Room& room) const;

  /// What is said from outside: 0 nothing, 1 forced, 2 and up a row of the file. Quick.
  std::uint32_t said(const schedule::Shape& shape, schedule::Collective collective, std::uint64_t bytes) const noexcept;
  /// A schedule is wanted from outside, so the form by load and store stands back.
  bool wants_schedule(const schedule::Shape& shape, schedule::Collective collective,
                      std::uint64_t bytes) const noexcept {
    if (!has_word_[static_cast<std::size_t>(collective)]) [[likely]]
      return false;
    return wanted(said(shape, collective, bytes), collective) != nullptr;
  }
  /// Nothing is said of it from outside, whatever the size.
  bool is_free(schedule::Collective collective) const noexcept {
    return !has_word_[static_cast<std::size_t>(collective)];
  }
  void force(schedule::Collective collective, const schedule::Algorithm* algorithm) noexcept;
  /// Rises with each change, for those who keep answers.
  std::uint64_t version() const noexcept { return version_; }
  const schedule::Parameters& parameters() const noexcept { return parameters_; }

  /// Calls of one class get one answer: up to a quarter of a power of two apart. Where it begins, and where the next.
  static std::uint64_t class_begin(std::uint64_t bytes) noexcept;
  static std::uint64_t class_end(std::uint64_t bytes) noexcept;

 private:
  const schedule::Algorithm* wanted(std::uint32_t said, schedule::Collective collective) const noexcept;
  Candidate consider(const schedule::Algorithm& algorithm, const schedule::Shape& shape, const schedule::Call& call,
                     std::uint64_t bytes, const Room& room, bool exact) const noexcept;
  bool any_exact(const schedule::Shape& shape, const schedule::Call& call) const noexcept;

  std::array<const schedule::Algorithm*, schedule::collective_count> forced_{};
  std::array<bool, schedule::collective_count> has_word_{};
  std::vector<Override> overrides_;
  schedule::Parameters parameters_;
  std::uint64_t version_ = 0;
};

}  // namespace hmc::collectives
