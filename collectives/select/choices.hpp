// Choices: a team's answers of its Selector, kept.
#pragma once

#include <array>

#include "collectives/select/selector.hpp"

namespace hmc::collectives {

/// One thread. Calls of one kind and class of sizes have one answer, which is found once.
class Choices {
 public:
  Choices(const Selector& selector, const schedule::Shape& shape, const Room& room)
      : selector_(selector), shape_(shape), room_(room) {}

  struct Answer {
    Choice choice;
    bool is_new = false;  ///< to the user
  };
  /// `is_users`: not one of the library's own.
  Answer get(const schedule::Call& call, std::uint64_t bytes, bool is_users = true) noexcept;
  const Room& room() const noexcept { return room_; }

 private:
  struct Kept {
    std::uint64_t kind = 0;  ///< with its lowest bit set, where there is one
    std::uint64_t begin = 0;
    Choice choice;
    bool is_known = false;  ///< to the user
  };
  static constexpr std::size_t places = 256;

  const Selector& selector_;
  schedule::Shape shape_;
  Room room_;
  std::uint64_t version_ = 0;
  std::array<Kept, places> kept_{};
};

}  // namespace hmc::collectives
