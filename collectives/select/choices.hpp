// Choices: a team's cache of its Selector's answers.
#pragma once

#include <array>

#include "collectives/select/selector.hpp"

namespace hmc::collectives {

/// For one thread. Calls of one kind and size class share an answer, which is computed once.
class Choices {
 public:
  Choices(const Selector& selector, const schedule::Shape& shape, const Room& room)
      : selector_(selector), shape_(shape), room_(room) {}

  struct Answer {
    Choice choice;
    bool is_new = false;  ///< the first such answer for a call of the user
  };
  /// `is_users`: the call is the user's, not an internal one.
  Answer get(const schedule::Call& call, std::uint64_t bytes, bool is_users = true) noexcept;
  const Room& room() const noexcept { return room_; }

 private:
  struct Kept {
    std::uint64_t kind = 0;  ///< the lowest bit is set in a used entry
    std::uint64_t begin = 0;
    Choice choice;
    bool is_known = false;  ///< returned for a call of the user before
  };
  static constexpr std::size_t places = 256;

  const Selector& selector_;
  schedule::Shape shape_;
  Room room_;
  std::uint64_t version_ = 0;
  std::array<Kept, places> kept_{};
};

}  // namespace hmc::collectives
