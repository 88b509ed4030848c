#include "runtime/base/bytes.hpp"

#include <gtest/gtest.h>

#include <string>

namespace hmc::base {
namespace {

enum class Small : std::uint8_t { one = 1, last = 255 };

TEST(Bytes, written_values_are_read_back) {
  ByteWriter out;
  out.number(std::uint8_t{0xfe}).number(std::int16_t{-2}).number(std::uint32_t{0xdeadbeef});
  out.number(std::int64_t{INT64_MIN}).number(Small::last).text("rank").blob({});
  const Bytes bytes = out.take();

  ByteReader in(bytes);
  EXPECT_EQ(in.number<std::uint8_t>(), 0xfe);
  EXPECT_EQ(in.number<std::int16_t>(), -2);
  EXPECT_EQ(in.number<std::uint32_t>(), 0xdeadbeefU);
  EXPECT_EQ(in.number<std::int64_t>(), INT64_MIN);
  EXPECT_EQ(in.number<Small>(), Small::last);
  EXPECT_EQ(in.text(), "rank");
  EXPECT_TRUE(in.blob().empty());
  EXPECT_TRUE(in.complete());
}

TEST(Bytes, numbers_are_little_endian) {
  ByteWriter out;
  out.number(std::uint32_t{0x04030201});
  const ByteView view = out.view();
  ASSERT_EQ(view.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(static_cast<std::size_t>(view[i]), i + 1);
}

TEST(Bytes, truncated_number_is_zero_and_not_ok) {
  ByteWriter out;
  out.number(std::uint32_t{0xffffffff});
  const Bytes bytes = out.take();
  for (std::size_t length = 0; length < 4; ++length) {
    ByteReader in(ByteView(bytes).first(length));
    EXPECT_EQ(in.number<std::uint32_t>(), 0U) << length;
    EXPECT_FALSE(in.ok()) << length;
  }
}

TEST(Bytes, blob_longer_than_the_input_is_empty) {
  ByteWriter out;
  out.number(std::uint32_t{0xffffffff}).raw(as_bytes("abc"));
  const Bytes bytes = out.take();
  ByteReader in(bytes);
  EXPECT_TRUE(in.blob().empty());
  EXPECT_FALSE(in.ok());
}

TEST(Bytes, reads_after_a_failure_are_empty) {
  ByteWriter out;
  out.number(std::uint8_t{7}).number(std::uint8_t{8});
  const Bytes bytes = out.take();
  ByteReader in(bytes);
  EXPECT_EQ(in.number<std::uint64_t>(), 0U);
  EXPECT_EQ(in.number<std::uint8_t>(), 0) << "a read that fits must not hide an earlier one that didn't";
  EXPECT_EQ(in.text(), "");
  EXPECT_FALSE(in.ok());
  EXPECT_FALSE(in.complete());
}

TEST(Bytes, remaining_bytes_are_not_complete) {
  ByteWriter out;
  out.text("ab").number(std::uint8_t{1});
  const Bytes bytes = out.take();
  ByteReader in(bytes);
  EXPECT_EQ(in.text(), "ab");
  EXPECT_TRUE(in.ok());
  EXPECT_FALSE(in.complete());
  EXPECT_EQ(in.left(), 1U);
}

// The reader of any prefix of a message, or of a message with one changed byte, stays inside the buffer (checked by the
// sanitizers). It accepts no prefix as a complete message.
TEST(Bytes, truncated_and_changed_inputs_stay_in_bounds) {
  ByteWriter out;
  out.number(std::uint16_t{3}).text("first").blob(as_bytes(std::string(40, 'x'))).number(std::uint64_t{9});
  const Bytes whole = out.take();
  const auto read_all = [](ByteView bytes) {
    ByteReader in(bytes);
    in.number<std::uint16_t>();
    in.text();
    in.blob();
    in.number<std::uint64_t>();
    return in.complete();
  };
  EXPECT_TRUE(read_all(whole));
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_FALSE(read_all(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)))) << length;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    Bytes changed = whole;
    changed[i] = ~changed[i];
    read_all(changed);
  }
}

}  // namespace
}  // namespace hmc::base
