// Builder: appends steps to a schedule.
#pragma once

#include <algorithm>

#include "collectives/schedule/schedule.hpp"

namespace hmc::collectives::schedule {

/// A buffer of a rank and an offset in it.
struct Place {
  Buffer buffer = Buffer::scratch;
  std::uint64_t offset = 0;

  Place operator+(std::uint64_t bytes) const { return {buffer, offset + bytes}; }
  friend bool operator==(const Place&, const Place&) = default;
};
constexpr Place input(std::uint64_t offset = 0) { return {Buffer::input, offset}; }
constexpr Place output(std::uint64_t offset = 0) { return {Buffer::output, offset}; }
constexpr Place scratch(std::uint64_t offset = 0) { return {Buffer::scratch, offset}; }

/// Appends no step for a copy, reduce or fold of 0 bytes. A put of 0 bytes is a signal and is appended.
class Builder {
 public:
  Builder(const Shape& shape, const Call& call, int rank, Schedule& out)
      : shape(shape), call(call), rank(rank), size(shape.size), schedule_(out) {}
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  const Shape& shape;
  const Call& call;
  const int rank;
  const int size;

  /// Copies to (scratch, to) of `peer`, then raises its signal `slot`.
  void put(Place from, int peer, std::uint64_t to, std::uint64_t bytes, std::uint32_t slot);
  void signal(int peer, std::uint32_t slot) { put(input(), peer, 0, 0, slot); }
  void wait(int peer, std::uint32_t slot);
  /// A put and its wait. Neither side appends a step for 0 bytes, so both must pass the same size.
  void send(Place from, int peer, std::uint64_t to, std::uint64_t bytes, std::uint32_t slot) {
    if (bytes > 0) put(from, peer, to, bytes, slot);
  }
  void receive(int peer, std::uint32_t slot, std::uint64_t bytes) {
    if (bytes > 0) wait(peer, slot);
  }
  void settle();
  void copy(Place from, Place to, std::uint64_t bytes);
  /// to = to op from, where `from` comes from ranks after those in `to`.
  void reduce(Place from, Place to, std::uint64_t bytes);
  /// to = from op to, where `from` comes from ranks before those in `to`.
  void reduce_before(Place from, Place to, std::uint64_t bytes);
  void fold(Place from, std::uint64_t stride, int ways, Place to, std::uint64_t bytes);
  /// Last step of an avg: divides by the team's size. No step for other operations.
  void scale(Place at, std::uint64_t bytes);

  /// Allocates scratch of this rank, aligned to a cache line; returns its offset.
  std::uint64_t take_scratch(std::uint64_t bytes);
  /// Raises the scratch size to at least `end`, for algorithms that compute offsets without take_scratch.
  void need_scratch(std::uint64_t end) { schedule_.scratch_bytes = std::max(schedule_.scratch_bytes, end); }
  void need_slots(std::uint32_t slots);
  /// Required before the first write to the output: in place, puts may still read the input from the same memory.
  void settle_in_place() {
    if (call.in_place) settle();
  }
  /// Settles the puts in flight. Each algorithm calls it last.
  void finish();

 private:
  Step& add(Kind kind);

  Schedule& schedule_;
  bool unsettled_ = false;
};

constexpr std::uint64_t line_up(std::uint64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace hmc::collectives::schedule
