// Random verbs, and what must come of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "runtime/transport/wire.hpp"

namespace hmc::spmd {

/// A piece of the windows that every rank allocated. Inside it, stripe r of rank t's window is written
/// by rank r alone, so that the outcome doesn't depend on who is faster.
struct Block {
  std::uint64_t offset = 0;
  std::uint64_t stripe = 0;  ///< bytes, a multiple of 8
};

enum class Verb {
  put,
  put_nb,
  put_strided,
  put_batch,
  put_signal,
  get,
  get_nb,
  get_strided,
  get_batch,
  atomic,
  fence,
  flush,
  flush_all
};

/// One verb with its arguments: a pure function of the random numbers it was made of.
struct Action {
  Verb verb{};
  int target = 0;
  std::uint64_t offset = 0;  ///< in the target's window
  std::size_t bytes = 0;     ///< all of it; rows * row_bytes for the strided ones
  std::size_t rows = 1;
  std::size_t remote_pitch = 0;
  std::size_t local_pitch = 0;
  std::uint64_t fill = 0;  ///< names the pattern of what is put
  transport::Atomic atomic{};
  std::uint64_t signal_offset = 0;

  bool writes() const { return verb <= Verb::put_signal || verb == Verb::atomic; }
  /// The span of the target's window that it touches.
  std::uint64_t extent() const { return rows == 1 ? bytes : (rows - 1) * remote_pitch + bytes / rows; }
};

class ActionMaker {
 public:
  ActionMaker(std::uint64_t seed, int rank, int size, std::uint64_t epoch)
      : random_(seed * 0x9e3779b97f4a7c15U + epoch * 1'000'003 + static_cast<std::uint64_t>(rank) * 7919),
        rank_(rank),
        size_(size) {}
  Action next(const std::vector<Block>& blocks);

 private:
  std::uint64_t below(std::uint64_t limit) { return limit == 0 ? 0 : random_() % limit; }
  void place(Action& action, std::uint64_t start, std::uint64_t room);
  void make_strided(Action& action, std::uint64_t start, std::uint64_t room);
  void make_atomic(Action& action, std::uint64_t start, std::uint64_t room);

  std::mt19937_64 random_;
  int rank_;
  int size_;
};

/// What every rank's window must hold.
class ShadowModel {
 public:
  ShadowModel(int size, std::size_t bytes) : windows_(static_cast<std::size_t>(size), std::vector<std::byte>(bytes)) {}
  /// Applies what the verb writes; returns what an atomic fetches.
  std::uint64_t apply(const Action& action);
  const std::vector<std::byte>& window(int rank) const { return windows_[static_cast<std::size_t>(rank)]; }

 private:
  std::vector<std::vector<std::byte>> windows_;
};

/// The bytes that a put with this number carries.
std::vector<std::byte> bytes_of(const Action& action);

}  // namespace hmc::spmd
