// Direct receives: puts into a region that are written to other memory.
#include <algorithm>
#include <random>
#include <vector>

#include "runtime/transport/am/am_wire.hpp"
#include "tests/conformance/fixture.hpp"

namespace hmc::conformance {

namespace {

using spmd::Pattern;
using transport::DirectReceive;
constexpr std::byte untouched{0xa5};

/// A direct receive into a part of this rank's region, and its destination.
class Field {
 public:
  Field(Fixture& on, const Window& window, std::uint64_t offset, std::uint64_t bytes)
      : on_(on), window_(window), memory_(bytes + 2 * margin, untouched) {
    receive_.offset = offset;
    receive_.bytes = bytes;
    receive_.to = memory_.data() + margin;
    is_there_ = on.wire().receive_into(window.region(), receive_);
  }
  ~Field() { end(); }
  Field(const Field&) = delete;
  Field& operator=(const Field&) = delete;

  bool is_there() const noexcept { return is_there_; }
  void end() { on_.wire().end_receive_into(window_.region(), receive_); }
  /// The bytes of the puts: directly received ones, and the others from the region. Call it after end().
  std::vector<std::byte> all() const {
    const auto region = window_.mine().subspan(receive_.offset, receive_.bytes);
    std::vector<std::byte> bytes(region.begin(), region.end());
    for (const DirectReceive::Part& part : parts())
      std::copy(receive_.to + part.begin, receive_.to + part.end,
                bytes.begin() + static_cast<std::ptrdiff_t>(part.begin));
    return bytes;
  }
  std::uint64_t received() const {
    std::uint64_t bytes = 0;
    for (const DirectReceive::Part& part : parts()) bytes += part.end - part.begin;
    return bytes;
  }
  /// Checks that nothing was written outside of the received ranges, neither in the destination nor in the region.
  void check_strays() const {
    std::vector<bool> may(memory_.size());
    for (const DirectReceive::Part& part : parts())
      std::fill(may.begin() + static_cast<std::ptrdiff_t>(margin + part.begin),
                may.begin() + static_cast<std::ptrdiff_t>(margin + part.end), true);
    for (std::size_t i = 0; i < memory_.size(); ++i)
      if (!may[i]) HMC_CHECK_EQ(memory_[i], untouched);
    for (const DirectReceive::Part& part : parts())
      for (std::uint64_t i = part.begin; i < part.end; ++i)
        HMC_CHECK_EQ(window_.mine()[receive_.offset + i], untouched);
  }
  std::span<const DirectReceive::Part> parts() const { return std::span(receive_.parts).first(receive_.count); }

 private:
  static constexpr std::size_t margin = 64;
  Fixture& on_;
  const Window& window_;
  std::vector<std::byte> memory_;
  DirectReceive receive_;
  bool is_there_ = false;
};

void skip_unless_it_can(Fixture& on, const Field& field) {
  if (field.is_there()) return;
  // A wire of messages supports direct receives.
  HMC_CHECK(on.wire().capabilities().one_sided || dynamic_cast<transport::am::AmWire*>(&on.wire()) == nullptr);
  spmd::skip("this wire writes into regions only");
}

}  // namespace

HMC_SPMD_TEST(Receives, puts_across_a_receive_write_only_inside_it) {
  Fixture on(me);
  constexpr std::uint64_t size = 3'000'000;
  Window window(on, size);
  // Across the borders of the direct receive, inside, and over all of it; small messages and large ones.
  struct Case {
    std::uint64_t offset, bytes;
  };
  constexpr std::uint64_t offset = 100'001, bytes = 1'500'007;
  for (const Case put : {Case{0, size},
                         {offset, bytes},
                         {offset - 1, bytes + 2},
                         {offset + 5, 600'000},
                         {offset - 1000, 2000},
                         {offset + bytes - 1000, 2000},
                         {offset - 50'000, 100'000},
                         {offset + bytes - 3, 70'000},
                         {offset + 8, 8},
                         {offset + bytes, 9},
                         {offset - 9, 9}}) {
    std::ranges::fill(window.mine(), untouched);
    Field field(on, window, offset, bytes);
    skip_unless_it_can(on, field);
    on.barrier();
    window.put(on.next(), put.offset, bytes_of({me.rank, put.bytes}, put.bytes));
    on.settle();
    field.end();
    field.check_strays();
    const std::uint64_t begin = std::max(put.offset, offset), end = std::min(put.offset + put.bytes, offset + bytes);
    HMC_CHECK_EQ(field.received(), end > begin ? end - begin : 0);
    std::vector<std::byte> expected(size, untouched);
    std::ranges::copy(bytes_of({on.previous(), put.bytes}, put.bytes),
                      expected.begin() + static_cast<std::ptrdiff_t>(put.offset));
    std::ranges::copy(field.all(), window.mine().begin() + static_cast<std::ptrdiff_t>(offset));
    HMC_CHECK(std::ranges::equal(window.mine(), expected));
    on.barrier();
  }
  window.close();
}

// The direct receive starts and ends within a message, so a part of the message is in the region.
HMC_SPMD_TEST(Receives, receive_registered_during_a_put_loses_no_byte) {
  Fixture on(me);
  constexpr std::uint64_t bytes = 4'000'037;
  Window window(on, bytes + 64);
  {  // before a peer puts: the test that is skipped closes the window
    const Field field(on, window, 0, bytes);
    skip_unless_it_can(on, field);
  }
  const std::uint64_t signal = (bytes + 7) / 8 * 8;
  std::mt19937_64 random(me.options.seed + static_cast<std::uint64_t>(me.rank));
  for (std::uint64_t round = 1; round <= number(me, "receive_rounds", 8); ++round) {
    on.barrier();
    const std::vector<std::byte> source = bytes_of({me.rank, round}, bytes);
    const Ticket ticket = window.put_signal_nb(on.next(), 0, source, signal, round);
    for (std::uint64_t i = random() % 40; i > 0; --i) on.wire().progress();
    Field field(on, window, 0, bytes);
    if (round % 2 == 0) {
      for (std::uint64_t i = random() % 40; i > 0; --i) on.wire().progress();
      field.end();
    }
    window.wait_signal(signal, round);
    field.end();
    HMC_CHECK(field.all() == bytes_of({on.previous(), round}, bytes));
    on.wait(ticket);
  }
  window.close();
}

// More ranks and pieces than entries for parts: bytes without an entry stay in the region.
HMC_SPMD_TEST(Receives, pieces_in_any_order_are_received) {
  Fixture on(me);
  constexpr std::uint64_t piece = 9001, pieces = 24;
  const std::uint64_t each = piece * pieces, bytes = each * on.peers().size();
  Window window(on, bytes);
  std::mt19937_64 random(me.options.seed);  // the same on all ranks
  std::vector<std::uint64_t> order(pieces);
  for (std::uint64_t i = 0; i < pieces; ++i) order[i] = i;
  for (int round = 0; round < 5; ++round) {
    std::ranges::fill(window.mine(), untouched);
    std::ranges::shuffle(order, random);
    Field field(on, window, 0, bytes);
    skip_unless_it_can(on, field);
    on.barrier();
    const std::uint64_t at = each * static_cast<std::uint64_t>(on.index_of(me.rank));
    for (const int peer : on.peers())
      for (const std::uint64_t i : order)
        window.put(peer, at + i * piece, bytes_of({me.rank, i + static_cast<std::uint64_t>(round)}, piece));
    on.settle();
    field.end();
    field.check_strays();
    HMC_CHECK_GE(field.received(), piece);
    const std::vector<std::byte> all = field.all();
    for (const int peer : on.peers())
      for (std::uint64_t i = 0; i < pieces; ++i) {
        const auto from = each * static_cast<std::uint64_t>(on.index_of(peer)) + i * piece;
        HMC_CHECK_CLEAN(
            (Pattern{peer, i + static_cast<std::uint64_t>(round)}.verify(std::span(all).subspan(from, piece))));
      }
    on.barrier();
  }
  window.close();
}

HMC_SPMD_TEST(Receives, ended_receive_is_not_written) {
  Fixture on(me);
  constexpr std::uint64_t bytes = 300'000;
  Window window(on, bytes);
  Field field(on, window, 0, bytes);
  skip_unless_it_can(on, field);
  field.end();
  on.barrier();
  window.put(on.next(), 0, bytes_of({me.rank, 3}, bytes));
  on.settle();
  HMC_CHECK_EQ(field.received(), 0U);
  field.check_strays();
  HMC_CHECK(std::ranges::equal(window.mine(), bytes_of({on.previous(), 3}, bytes)));
  window.close();
}

}  // namespace hmc::conformance
