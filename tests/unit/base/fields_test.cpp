#include "runtime/base/fields.hpp"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <vector>

namespace hmc::base {
namespace {

enum class Colour : std::uint8_t { red, blue, last = blue };

struct Part {
  std::int16_t number = 0;
  std::string name;
  static constexpr auto fields = std::tuple(&Part::number, &Part::name);
  friend bool operator==(const Part&, const Part&) = default;
};

struct Whole {
  bool flag = false;
  Colour colour = Colour::red;
  std::array<std::uint32_t, 2> pair{};
  std::vector<Part> parts;
  std::map<std::string, Bytes> values;
  std::vector<std::pair<std::int32_t, std::string>> list;
  static constexpr auto fields =
      std::tuple(&Whole::flag, &Whole::colour, &Whole::pair, &Whole::parts, &Whole::values, &Whole::list);
  friend bool operator==(const Whole&, const Whole&) = default;
};
static_assert(least_bytes<Part>() == 2 + 4);
static_assert(least_bytes<Whole>() == 1 + 1 + 8 + 4 + 4 + 4);

const Whole whole{true, Colour::blue, {1, 2}, {{-3, "three"}, {4, ""}}, {{"a", Bytes(2)}, {"b", {}}}, {{5, "five"}}};

TEST(Fields, every_kind_of_value_is_read_back) { EXPECT_EQ(decode<Whole>(encode(whole)), whole); }

TEST(Fields, bytes_that_are_not_exactly_one_value_are_refused) {
  Bytes bytes = encode(whole);
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(decode<Whole>(ByteView(bytes).first(length))) << length;
  bytes.push_back({});
  EXPECT_FALSE(decode<Whole>(bytes));
}

TEST(Fields, invalid_bools_enums_and_counts_and_repeated_keys_are_refused) {
  const auto with = [](std::size_t at, std::uint8_t value) {
    Bytes bytes = encode(whole);
    bytes[at] = std::byte{value};
    return decode<Whole>(bytes);
  };
  EXPECT_TRUE(with(0, 0));
  EXPECT_FALSE(with(0, 2));                 // the bool
  EXPECT_FALSE(with(1, 2));                 // the enum
  EXPECT_FALSE(with(1 + 1 + 8 + 3, 0x7f));  // the vector's count: no memory is allocated for it
  ByteWriter twice;
  twice.number(std::uint32_t{2}).text("a").text("a");
  twice.text("a").text("b");
  EXPECT_FALSE((decode<std::map<std::string, std::string>>(twice.view())));
}

}  // namespace
}  // namespace hmc::base
