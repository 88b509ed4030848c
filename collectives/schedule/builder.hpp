// Builder: appends steps to a schedule.
#pragma once

#include <algorithm>

#include "collectives/schedule/schedule.hpp"

namespace hmc::collectives::schedule {

/// A buffer of a rank and an offset in it.
struct Operand {
  StepBuffer buffer = StepBuffer::scratch;
  std::uint64_t offset = 0;

  Operand operator+(std::uint64_t bytes) const { return {buffer, offset + bytes}; }
  friend bool operator==(const Operand&, const Operand&) = default;
};
constexpr Operand input(std::uint64_t offset = 0) { return {StepBuffer::input, offset}; }
constexpr Operand output(std::uint64_t offset = 0) { return {StepBuffer::output, offset}; }
constexpr Operand scratch(std::uint64_t offset = 0) { return {StepBuffer::scratch, offset}; }

/// Appends no step for a get, copy, reduce or fold of 0 bytes. A put of 0 bytes is a signal and is appended.
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

  /// Copies `from` to (scratch, to) of `peer`, then raises the peer's signal `slot`.
  void put(Operand from, int peer, std::uint64_t to, std::uint64_t bytes, std::uint32_t slot);
  /// Copies (scratch, from) of `peer` to `to`.
  void get(int peer, std::uint64_t from, Operand to, std::uint64_t bytes);
  void signal(int peer, std::uint32_t slot) { put(input(), peer, 0, 0, slot); }
  void wait(int peer, std::uint32_t slot);
  /// send() is a put, receive() is its wait. For 0 bytes both append no step, so both ranks must pass the same size.
  void send(Operand from, int peer, std::uint64_t to, std::uint64_t bytes, std::uint32_t slot) {
    if (bytes > 0) put(from, peer, to, bytes, slot);
  }
  void receive(int peer, std::uint32_t slot, std::uint64_t bytes) {
    if (bytes > 0) wait(peer, slot);
  }
  /// Waits for the local completion of all puts in flight. Appends no step if no put is in flight.
  void flush_local();
  void copy(Operand from, Operand to, std::uint64_t bytes);
  /// to = to op from, where `from` comes from ranks after those in `to`.
  void reduce(Operand from, Operand to, std::uint64_t bytes);
  /// to = from op to, where `from` comes from ranks before those in `to`.
  void reduce_before(Operand from, Operand to, std::uint64_t bytes);
  void fold(Operand from, std::uint64_t stride, int inputs, Operand to, std::uint64_t bytes);
  /// Last step of an avg: divides by the team size. Appends no step for other operations.
  void scale(Operand at, std::uint64_t bytes);

  /// Allocates scratch of this rank, aligned to a cache line; returns its offset.
  std::uint64_t allocate_scratch(std::uint64_t bytes);
  /// Raises the scratch size to at least `end`, for algorithms that compute offsets without allocate_scratch.
  void reserve_scratch(std::uint64_t end) { schedule_.scratch_bytes = std::max(schedule_.scratch_bytes, end); }
  void reserve_slots(std::uint32_t slots);
  /// Required before the first write to the output: in place, puts in flight may still read the same memory.
  void flush_local_in_place() {
    if (call.in_place) flush_local();
  }

 private:
  Step& add(StepKind kind);

  Schedule& schedule_;
  bool unflushed_ = false;
};

constexpr std::uint64_t align_to_line(std::uint64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace hmc::collectives::schedule
