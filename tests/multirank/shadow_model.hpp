// Random verbs, and a model of their results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "runtime/transport/wire.hpp"

namespace hmc::spmd {

/// A range that every rank allocated in its window. Only rank r writes stripe r of a rank's window, so the result
/// doesn't depend on timing.
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

/// One verb with its arguments: a pure function of the random numbers.
struct Action {
  Verb verb{};
  int target = 0;
  std::uint64_t offset = 0;  ///< in the target's window
  std::size_t bytes = 0;     ///< total; rows * row_bytes for the strided verbs
  std::size_t rows = 1;
  std::size_t remote_pitch = 0;
  std::size_t local_pitch = 0;
  std::uint64_t fill = 0;  ///< selects the data pattern of a put
  transport::Atomic atomic{};
  std::uint64_t signal_offset = 0;

  bool writes() const { return verb <= Verb::put_signal || verb == Verb::atomic; }
  /// Length of the accessed range of the target's window.
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

/// The expected contents of every rank's window.
class ShadowModel {
 public:
  ShadowModel(int size, std::size_t bytes) : windows_(static_cast<std::size_t>(size), std::vector<std::byte>(bytes)) {}
  /// Applies the writes of the verb; returns the value that an atomic fetches.
  std::uint64_t apply(const Action& action);
  const std::vector<std::byte>& window(int rank) const { return windows_[static_cast<std::size_t>(rank)]; }

 private:
  std::vector<std::vector<std::byte>> windows_;
};

/// The source bytes of a put.
std::vector<std::byte> bytes_of(const Action& action);

}  // namespace hmc::spmd
