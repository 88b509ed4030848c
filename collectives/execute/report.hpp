// Report: what a rank tells all others when it gives up.
#pragma once

#include <cstdint>

#include <hmc/error.hpp>

#include "collectives/signature.hpp"

namespace hmc::collectives {

/// The calls that a rank made last, in the order of the program, and why it gives up. Plain data, put with `given`
/// as its signal.
struct Report {
  static constexpr int remembered = 8;

  std::uint64_t given = 0;  ///< 1: the rest is there
  std::uint64_t code = 0;
  std::uint64_t peer = 0;  ///< whom it waited for, or whose message was wrong
  std::uint64_t latest = 0;
  std::uint64_t numbers[remembered] = {};
  std::uint64_t signatures[remembered] = {};

  void remember(std::uint64_t number, Signature signature) noexcept {
    latest = number > latest ? number : latest;
    numbers[number % remembered] = number;
    signatures[number % remembered] = signature.word();
  }
  /// The first call that both have had and that isn't the same; 0 if there is none.
  static std::uint64_t conflict(const Report& a, const Report& b) noexcept {
    std::uint64_t first = 0;
    for (int i = 0; i < remembered; ++i) {
      const std::uint64_t number = a.numbers[i];
      if (number != 0 && number == b.numbers[i] && a.signatures[i] != b.signatures[i] && (first == 0 || number < first))
        first = number;
    }
    return first;
  }
  Signature signature_of(std::uint64_t number) const noexcept {
    return numbers[number % remembered] == number ? Signature(signatures[number % remembered]) : Signature();
  }
};

}  // namespace hmc::collectives
