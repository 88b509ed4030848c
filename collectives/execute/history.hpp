// History: what this rank has called on a team.
#pragma once

#include <array>
#include <cstdint>

#include "collectives/signature.hpp"

namespace hmc::collectives {

/// Numbers the calls (from 1 on) and keeps one word that is made of all of them in order. Ranks that have called the
/// same have the same word, so it is what they compare: in the arrival lines of collectives by load and store, in the
/// stamps of schedules' messages, and in the questions of those that wait for long. One thread.
class History {
 public:
  static constexpr std::uint64_t remembered = 256;

  void add(Signature signature) noexcept {
    word_ = (word_ ^ signature.word()) * 0x9e3779b97f4a7c15U;
    word_ ^= word_ >> 32;
    entries_[++calls_ % remembered] = {signature, word_};
  }
  /// The latest call's number, and the word up to it.
  std::uint64_t calls() const noexcept { return calls_; }
  std::uint64_t word() const noexcept { return word_; }

  bool has(std::uint64_t call) const noexcept { return call != 0 && call <= calls_ && calls_ - call < remembered; }
  /// Of a call that it has.
  Signature signature_of(std::uint64_t call) const noexcept { return entries_[call % remembered].signature; }
  std::uint64_t word_of(std::uint64_t call) const noexcept { return entries_[call % remembered].word; }

  /// The team has failed, in whatever form of collective: none is begun any more.
  bool is_over = false;

 private:
  struct Entry {
    Signature signature;
    std::uint64_t word = 0;
  };
  std::uint64_t calls_ = 0;
  std::uint64_t word_ = 0;
  std::array<Entry, remembered> entries_{};
};

}  // namespace hmc::collectives
