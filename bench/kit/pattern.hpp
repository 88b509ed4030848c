// Page-aligned memory, and the data that is written into it and expected from it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

namespace bench {

inline constexpr std::size_t page_bytes = 4096;

inline std::size_t whole_pages(std::size_t bytes) { return (bytes + page_bytes - 1) / page_bytes * page_bytes; }

/// Memory of malloc's heap that begins on a page and is written once, so that no page fault is timed.
class Memory {
 public:
  Memory() = default;
  explicit Memory(std::size_t bytes)
      : start_(static_cast<std::byte*>(std::aligned_alloc(page_bytes, whole_pages(std::max<std::size_t>(bytes, 1))))) {
    if (!start_) throw std::bad_alloc();
    std::memset(start_.get(), 0, whole_pages(std::max<std::size_t>(bytes, 1)));
  }
  std::byte* data() const { return start_.get(); }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> start_;
};

// Mixes all bits, so that the results for different numbers are unrelated.
inline std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}
inline std::uint64_t hash(std::uint64_t a, std::uint64_t b) { return mixed(a * 0x9e3779b97f4a7c15ULL + b + 1); }
/// In [0, 1); depends on the position only.
inline double fraction(std::uint64_t position) { return static_cast<double>(mixed(position + 1) >> 11) * 0x1p-53; }

/// A sequence of elements with a prime period, shifted in every call. So a block at another power-of-two offset, or of
/// the last call, is detected. Written and compared at the speed of memory.
class Pattern {
 public:
  static constexpr std::size_t period = 1021;

  Pattern() = default;
  /// `one_period` holds `period` elements of `element` bytes.
  Pattern(std::size_t element, const std::vector<std::byte>& one_period)
      : element_(element), twice_(2 * one_period.size()) {
    for (std::size_t i = 0; i < twice_.size(); ++i) twice_[i] = one_period[i % one_period.size()];
  }
  /// `value_of(i)` is element i of a period.
  template <typename ValueOf> static Pattern of(ValueOf value_of) {
    using Element = decltype(value_of(std::size_t{0}));
    std::vector<std::byte> one(period * sizeof(Element));
    for (std::size_t i = 0; i < period; ++i) {
      const Element value = value_of(i);
      std::memcpy(&one[i * sizeof(Element)], &value, sizeof(Element));
    }
    return {sizeof(Element), one};
  }
  /// Bytes that depend on `seed`, for example a rank.
  static Pattern bytes(std::uint64_t seed) {
    return of([=](std::size_t i) { return static_cast<std::byte>(hash(seed, i) & 0xff); });
  }

  void write(void* to, std::size_t bytes, int call) const {
    const std::byte* const from = start(call);
    auto* const at = static_cast<std::byte*>(to);
    const std::size_t length = period * element_;
    for (std::size_t done = 0; done < bytes; done += length)
      std::memcpy(at + done, from, std::min(length, bytes - done));
  }
  bool matches(const void* data, std::size_t bytes, int call) const {
    const std::byte* const expected = start(call);
    const auto* const at = static_cast<const std::byte*>(data);
    const std::size_t length = period * element_;
    bool same = true;  // reads all bytes, also after a difference, so that the time doesn't depend on the result
    for (std::size_t done = 0; done < bytes; done += length)
      same &= std::memcmp(at + done, expected, std::min(length, bytes - done)) == 0;
    return same;
  }

 private:
  const std::byte* start(int call) const { return &twice_[static_cast<std::size_t>(call) * 37 % period * element_]; }

  std::size_t element_ = 0;
  std::vector<std::byte> twice_;  // two periods, so that a period may start at any offset
};

}  // namespace bench
