// Builder: what algorithms write their steps with.
#pragma once

#include <algorithm>

#include "collectives/schedule/schedule.hpp"

namespace hmc::collectives::schedule {

/// A place in one of a rank's buffers.
struct Place {
  Buffer buffer = Buffer::scratch;
  std::uint64_t offset = 0;

  Place operator+(std::uint64_t bytes) const { return {buffer, offset + bytes}; }
  friend bool operator==(const Place&, const Place&) = default;
};
constexpr Place input(std::uint64_t offset = 0) { return {Buffer::input, offset}; }
constexpr Place output(std::uint64_t offset = 0) { return {Buffer::output, offset}; }
constexpr Place scratch(std::uint64_t offset = 0) { return {Buffer::scratch, offset}; }

/// Copies, reduces and folds of nothing aren't written down; a put of nothing is a signal, and is.
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

  /// Bytes at (scratch, to) of peer, and its signal.
  void put(Place from, int peer, std::uint64_t to, std::uint64_t bytes, std::uint32_t slot);
  void signal(int peer, std::uint32_t slot) { put(input(), peer, 0, 0, slot); }
  void wait(int peer, std::uint32_t slot);
  /// A message, where there is something to carry: both sides know how much, and say nothing of nothing.
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
  /// The end of an avg: divides by the team's size. Nothing for other operations.
  void scale(Place at, std::uint64_t bytes);

  /// Scratch of this rank, on a cache line; returns where it begins.
  std::uint64_t take_scratch(std::uint64_t bytes);
  /// At least so much in all, where ranks have agreed on places otherwise.
  void need_scratch(std::uint64_t end) { schedule_.scratch_bytes = std::max(schedule_.scratch_bytes, end); }
  void need_slots(std::uint32_t slots);
  /// Before the first write to the output: in place, puts may still read the input there.
  void settle_in_place() {
    if (call.in_place) settle();
  }
  /// Settles what is under way. Each algorithm's last word.
  void finish();

 private:
  Step& add(Kind kind);

  Schedule& schedule_;
  bool unsettled_ = false;
};

constexpr std::uint64_t line_up(std::uint64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace hmc::collectives::schedule
