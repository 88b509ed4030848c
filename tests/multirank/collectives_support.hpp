// Helpers for tests of collectives: buffer placement, and values with a known reduction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <hmc/hmc.hpp>

#include "tests/support/pattern.hpp"
#include "tests/support/spmd.hpp"
#include "tests/unit/collectives/reduce_data.hpp"

namespace hmc::spmd {

/// Placement of one rank's input and output in one call.
struct Placing {
  bool in_window = false;    ///< the input is in a window; else in private memory
  bool out_window = false;   ///< the same for the output
  bool in_place = false;     ///< the output is the input
  std::size_t in_shift = 0;  ///< bytes past a 64-byte boundary
  std::size_t out_shift = 0;

  /// The choice depends on the rank and on the call.
  static Placing any(int rank, std::uint64_t call, std::size_t element) {
    const std::uint64_t bits = Pattern{rank, call}.word(0x9e37);
    const std::size_t shifts[] = {0, element, 1, 64 - element};
    return {(bits & 1) != 0, (bits & 2) != 0, (bits & 12) == 0, shifts[(bits >> 8) % 4], shifts[(bits >> 16) % 4]};
  }
};

/// A window and private memory, each with space for an input and an output. Guard bytes surround an output: neither
/// this rank nor a peer that stores into its window may write them.
class Grounds {
 public:
  static constexpr std::size_t margin = 256;

  Grounds(TestRank& me, std::size_t bytes)
      : stride_((bytes + 2 * margin + 127) / 64 * 64),
        window_(Window::create(me.runtime->world(), 2 * stride_)),
        private_(2 * stride_ + 64) {
    const auto address = reinterpret_cast<std::uintptr_t>(private_.data());
    aligned_ = private_.data() + (64 - address % 64) % 64;
  }
  void close() { window_.close(); }
  Window& window() { return window_; }

  std::byte* in(const Placing& place) {
    return (place.in_window ? window_.data() : aligned_) + margin + place.in_shift;
  }
  std::byte* out(const Placing& place) {
    if (place.in_place) return in(place);
    return (place.out_window ? window_.data() : aligned_) + stride_ + margin + place.out_shift;
  }
  static void set_guards(std::byte* data, std::size_t bytes) {
    std::memset(data - guard_bytes, 0xa5, guard_bytes);
    std::memset(data + bytes, 0x5a, guard_bytes);
  }
  static std::string check_guards(const std::byte* data, std::size_t bytes) {
    for (std::size_t i = 0; i < guard_bytes; ++i) {
      if (data[-1 - static_cast<std::ptrdiff_t>(i)] != std::byte{0xa5})
        return fmt::format("byte -{} was written", i + 1);
      if (data[bytes + i] != std::byte{0x5a}) return fmt::format("byte {} past the end was written", i);
    }
    return {};
  }

 private:
  static constexpr std::size_t guard_bytes = 128;
  std::size_t stride_;
  Window window_;
  std::vector<std::byte> private_;
  std::byte* aligned_ = nullptr;
};

/// Element `index` of rank `rank` in call `call`. Floats give the same bits in every order of reduction. Integers have
/// any bits; one in four is zero.
template <typename T> T contribution(Op op, int rank, std::uint64_t call, std::size_t index) {
  const std::uint64_t bits = Pattern{rank, call}.word(index);
  if constexpr (hmc::collectives::reference::is_float<T>) {
    // Whole numbers are exact up to 8 only in an 8-bit float. The sums of some ranks must be exact too.
    const int whole = sizeof(T) == 1 ? static_cast<int>((bits >> 8) % 3) - 1 : static_cast<int>(bits >> 8 & 15) - 8;
    const auto small = static_cast<float>(whole);
    constexpr float factors[] = {1.0F, -1.0F, 2.0F, 0.5F, -2.0F, -0.5F, 1.0F, 1.0F};
    return static_cast<T>(op == Op::prod ? factors[bits & 7] : small);
  } else {
    return (bits & 3) == 0 ? T{0} : static_cast<T>(bits >> 2);
  }
}

template <typename T> void fill_contribution(std::byte* in, std::size_t count, Op op, int rank, std::uint64_t call) {
  for (std::size_t i = 0; i < count; ++i) {
    const T value = contribution<T>(op, rank, call, i);
    std::memcpy(in + i * sizeof(T), &value, sizeof(T));
  }
}

/// Returns an empty string if `out` is bit-identical to the reduction of all ranks' contributions.
template <typename T>
std::string verify_reduction(const std::byte* out, std::size_t count, Op op, int ranks, std::uint64_t call) {
  std::vector<T> column(static_cast<std::size_t>(ranks));
  for (std::size_t i = 0; i < count; ++i) {
    for (int rank = 0; rank < ranks; ++rank)
      column[static_cast<std::size_t>(rank)] = contribution<T>(op, rank, call, i);
    const T expected = *hmc::collectives::reference::reduce<T>(op, column);
    if (std::memcmp(out + i * sizeof(T), &expected, sizeof(T)) == 0) continue;
    T got;
    std::memcpy(static_cast<void*>(&got), out + i * sizeof(T), sizeof(T));
    return fmt::format("{} of {}: element {} of {} is {} and not {}", name_of(op), name_of(dtype_of<T>()), i, count,
                       static_cast<double>(static_cast<float>(got)), static_cast<double>(static_cast<float>(expected)));
  }
  return {};
}

/// Runs and verifies one allreduce.
template <typename T>
void check_allreduce(TestRank& me, Grounds& grounds, const Placing& place, std::size_t count, Op op,
                     std::uint64_t call) {
  std::byte* const in = grounds.in(place);
  std::byte* const out = grounds.out(place);
  const std::size_t bytes = count * sizeof(T);
  Grounds::set_guards(out, bytes);
  fill_contribution<T>(in, count, op, me.rank, call);
  me.runtime->world().allreduce(in, out, count, dtype_of<T>(), op);
  std::string wrong = verify_reduction<T>(out, count, op, me.size, call);
  if (wrong.empty()) wrong = Grounds::check_guards(out, bytes);
  if (wrong.empty() && !place.in_place) {
    for (std::size_t i = 0; i < count && wrong.empty(); ++i) {
      const T mine = contribution<T>(op, me.rank, call, i);
      if (std::memcmp(in + i * sizeof(T), &mine, sizeof(T)) != 0)
        wrong = fmt::format("input element {} was changed", i);
    }
  }
  HMC_CHECK_MSG(wrong.empty(), "{} (call {}, in {}, out {}, shifts {} {})", wrong, call,
                place.in_window ? "window" : "private",
                place.in_place     ? "the same"
                : place.out_window ? "window"
                                   : "private",
                place.in_shift, place.out_shift);
}

using hmc::collectives::is_defined;

/// True if every rank reaches every other by load and store.
inline bool all_direct(TestRank& me) {
  bool direct = true;
  for (int rank = 0; rank < me.size; ++rank) direct = direct && me.runtime->path(rank).direct;
  const std::uint8_t mine = direct ? 1 : 0;
  std::uint8_t all = 0;
  me.runtime->world().allreduce(std::span(&mine, 1), std::span(&all, 1), hmc::min);
  return all != 0;
}

/// The number of `--set key=...`, or `fallback`.
inline std::uint64_t setting(const TestRank& me, const std::string& key, std::uint64_t fallback) {
  return std::stoull(me.options.setting(key, std::to_string(fallback)));
}

}  // namespace hmc::spmd
