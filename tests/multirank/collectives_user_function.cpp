// allreduce with a user's function: in rank order, so that it need not commute.
#include "tests/multirank/collectives_support.hpp"

namespace {

using namespace hmc::spmd;

/// A 2x2 matrix over the integers modulo 2^16 in one 64-bit element: products associate and don't commute.
std::uint64_t product(std::uint64_t a, std::uint64_t b) {
  const auto at = [](std::uint64_t m, int i) { return static_cast<std::uint32_t>(m >> (16 * i) & 0xffff); };
  std::uint64_t c = 0;
  for (int row = 0; row < 2; ++row) {
    for (int column = 0; column < 2; ++column) {
      const std::uint32_t sum = at(a, 2 * row) * at(b, column) + at(a, 2 * row + 1) * at(b, 2 + column);
      c |= std::uint64_t{sum & 0xffff} << (16 * (2 * row + column));
    }
  }
  return c;
}

struct Calls {
  std::uint64_t elements = 0;
  bool type_was_right = true;
};

void multiply(void* accumulated, const void* next, std::size_t count, hmc::DType type, void* context) {
  auto* const calls = static_cast<Calls*>(context);
  calls->elements += count;
  calls->type_was_right = calls->type_was_right && type == hmc::DType::u64;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t a = 0, b = 0;
    std::memcpy(&a, static_cast<std::byte*>(accumulated) + i * 8, 8);
    std::memcpy(&b, static_cast<const std::byte*>(next) + i * 8, 8);
    a = product(a, b);
    std::memcpy(static_cast<std::byte*>(accumulated) + i * 8, &a, 8);
  }
}

void keep_first(void*, const void*, std::size_t, hmc::DType, void*) {}
void keep_last(void* accumulated, const void* next, std::size_t count, hmc::DType type, void*) {
  std::memcpy(accumulated, next, count * hmc::size_of(type));
}

std::string verify_product(const std::byte* out, std::size_t count, int ranks, std::uint64_t call) {
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t expected = Pattern{0, call}.word(i), got = 0;
    for (int rank = 1; rank < ranks; ++rank) expected = product(expected, Pattern{rank, call}.word(i));
    std::memcpy(&got, out + i * 8, 8);
    if (got != expected) return fmt::format("matrix {} of {} is {:#x} and not {:#x}", i, count, got, expected);
  }
  return {};
}

}  // namespace

HMC_SPMD_TEST(user_function, combines_in_rank_order) {
  constexpr std::size_t longest = 70'001;
  Grounds grounds(me, longest * 8);
  std::uint64_t call = 0;
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{6}, std::size_t{7}, std::size_t{512},
                                  std::size_t{513}, std::size_t{4097}, longest}) {
    for (int turn = 0; turn < 6; ++turn) {
      const Placing place = Placing::any(me.rank, ++call, 8);
      Pattern{me.rank, call}.fill({grounds.in(place), count * 8});
      std::byte* const out = grounds.out(place);
      Grounds::set_guards(out, count * 8);
      Calls calls;
      me.runtime->world().allreduce(grounds.in(place), out, count, hmc::DType::u64, multiply, &calls);
      HMC_CHECK_CLEAN(verify_product(out, count, me.size, call));
      HMC_CHECK_CLEAN(Grounds::check_guards(out, count * 8));
      HMC_CHECK(calls.type_was_right);
    }
  }
  grounds.close();
}

HMC_SPMD_TEST(user_function, need_not_be_arithmetic) {
  hmc::Team& world = me.runtime->world();
  for (const std::size_t count : {std::size_t{1}, std::size_t{300}, std::size_t{30'000}}) {
    std::vector<std::uint16_t> in(count, static_cast<std::uint16_t>(me.rank + 7)), out(count);
    world.allreduce(in.data(), out.data(), count, hmc::DType::u16, keep_first, nullptr);
    for (const std::uint16_t value : out) HMC_CHECK_EQ(value, 7);
    world.allreduce(in.data(), in.data(), count, hmc::DType::u16, keep_last, nullptr);
    for (const std::uint16_t value : in) HMC_CHECK_EQ(value, me.size + 6);
  }
}
