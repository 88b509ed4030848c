#include "runtime/p2p/ring.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <random>
#include <vector>

namespace hmc::p2p {
namespace {

struct alignas(64) Line {
  std::byte bytes[64];
};

/// Writer and reader of one ring in this thread.
class RingTest : public testing::Test {
 protected:
  static constexpr std::size_t bytes = 4096;
  bool write(std::uint64_t number, std::size_t payload) {
    const std::size_t record = record_bytes(payload);
    if (!writer.has_room(record)) return false;
    if (writer.must_wrap(record)) {
      const std::uint64_t at = writer.position();
      word(writer.memory() + at).store(writer.next_stamp(Kind::wrap), std::memory_order_release);
      ++stamps;
      writer.advance(bytes - at);
    }
    std::byte* const at = writer.memory() + writer.position();
    auto* const header = reinterpret_cast<Header*>(at);
    header->payload = static_cast<std::uint32_t>(payload);
    header->bytes = number;
    // The first word of each further line looks like a stamp that the reader expects soon.
    for (std::size_t line = 64; line < record; line += 64) {
      const std::uint64_t trap = stamp_of(stamps + 2 + draw_trap() % 16, Kind::eager);
      std::memcpy(at + line, &trap, 8);
    }
    traps_met += writer.clear_next(record) ? 1 : 0;
    word(at).store(writer.next_stamp(Kind::eager), std::memory_order_release);
    ++stamps;
    writer.advance(record);
    return true;
  }
  std::uint64_t draw_trap() { return traps(); }
  std::mt19937_64 traps{9};
  std::uint64_t stamps = 0;
  int traps_met = 0;
  std::vector<Line> memory = std::vector<Line>(bytes / 64);
  RingWriter writer{memory[0].bytes, bytes};
  RingReader reader{memory[0].bytes, bytes};
};

TEST_F(RingTest, is_empty_at_first) { EXPECT_EQ(reader.peek(), nullptr); }

TEST_F(RingTest, is_full_until_the_records_are_consumed) {
  std::uint64_t written = 0;
  while (write(written, 200)) ++written;
  EXPECT_EQ(written, bytes / record_bytes(200) - 1);  // a line is left for the wrap record
  const Header* const first = reader.peek();
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->bytes, 0U);
  reader.consume(record_bytes(200));
  EXPECT_FALSE(write(written, 200));  // not returned yet
  writer.set_consumed(reader.release());
  EXPECT_TRUE(write(written, 200));
}

// Records of random lengths, up to a quarter of the ring, whose bytes look like stamps.
TEST_F(RingTest, records_of_any_length_keep_their_order) {
  std::mt19937_64 draw(3);
  std::deque<std::pair<std::uint64_t, std::size_t>> in_flight;
  std::uint64_t number = 0, seen = 0;
  for (int i = 0; i < 200'000; ++i) {
    const std::size_t payload = draw() % (payload_max(bytes) + 1);
    if (draw() % 2 == 0 && write(number, payload)) in_flight.emplace_back(number++, payload);
    if (draw() % 2 == 0) {
      const Header* const record = reader.peek();
      ASSERT_EQ(record == nullptr, in_flight.empty());
      if (record == nullptr) continue;
      ASSERT_EQ(record->bytes, in_flight.front().first);
      ASSERT_EQ(record->payload, in_flight.front().second);
      reader.consume(record_bytes(record->payload));
      in_flight.pop_front();
      ++seen;
      if (reader.unreleased() > bytes / 4) writer.set_consumed(reader.release());
    }
    if (in_flight.empty()) {
      writer.set_consumed(reader.release());
      ASSERT_TRUE(writer.has_room(bytes / 4));
    }
  }
  EXPECT_GT(seen, 1000U);
  EXPECT_GT(traps_met, 100);
}

}  // namespace
}  // namespace hmc::p2p
