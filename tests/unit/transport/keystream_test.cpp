#include "runtime/transport/keystream.hpp"

#include <gtest/gtest.h>

#include <string_view>

namespace hmc::transport {
namespace {

// The expected numbers are Python's: struct.unpack("<4Q", sha256(sha256(b"onetwo").digest() + pack("<Q", i //
// 4)).digest())[i % 4].
TEST(Keystream, numbers_equal_those_of_another_implementation_in_any_order) {
  Keystream stream({base::as_bytes(std::string_view("one")), base::as_bytes(std::string_view("two"))});
  EXPECT_EQ(stream.at(1000003), 0xd6dcaad6c8930b0aU);
  EXPECT_EQ(stream.at(0), 0x7261e892740bb80dU);
  EXPECT_EQ(stream.at(1), 0x7c959b3093bb084bU);
  EXPECT_EQ(stream.at(4), 0x9d46313297dd2c17U);
  EXPECT_EQ(stream.at(0), 0x7261e892740bb80dU);
}

TEST(Keystream, key_is_needed) {
  EXPECT_FALSE(Keystream().has_key());
  Keystream mine({base::as_bytes(std::string_view("mine"))}), other({base::as_bytes(std::string_view("ours"))});
  EXPECT_TRUE(mine.has_key());
  EXPECT_NE(mine.at(7), other.at(7));
}

}  // namespace
}  // namespace hmc::transport
