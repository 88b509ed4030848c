// Reductions with a user's function: in rank order, so it need not commute, or in any order if it is declared
// commutative.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "tests/multirank/collectives_every.hpp"

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

/// A sum modulo a prime: it commutes and equals no operation of the library.
constexpr std::uint64_t prime = (std::uint64_t{1} << 61) - 1;
void add_modulo(void* accumulated, const void* next, std::size_t count, hmc::DType, void*) {
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t a = 0, b = 0;
    std::memcpy(&a, static_cast<std::byte*>(accumulated) + i * 8, 8);
    std::memcpy(&b, static_cast<const std::byte*>(next) + i * 8, 8);
    a = (a + b) % prime;
    std::memcpy(static_cast<std::byte*>(accumulated) + i * 8, &a, 8);
  }
}

/// Every reduction, by a function that is declared commutative.
void check_commuting(TestRank& me, Grounds& grounds, std::size_t count, std::uint64_t call) {
  hmc::Team& world = me.runtime->world();
  const hmc::Reduction how(add_modulo, nullptr, true);
  const auto n = static_cast<std::size_t>(me.size);
  const Placing place = Placing::any(me.rank, call, 8);
  std::byte* const in = grounds.in(place);
  std::byte* const out = grounds.out(place);
  const auto value = [&](int rank, std::size_t i) { return Pattern{rank, call}.word(i) % prime; };
  const auto fill = [&] {
    for (std::size_t i = 0; i < count * n; ++i) {
      const std::uint64_t mine = value(me.rank, i);
      std::memcpy(in + i * 8, &mine, 8);
    }
  };
  const auto check = [&](const char* what, std::size_t first, int ranks) {
    for (std::size_t i = 0; i < count; ++i) {
      std::uint64_t expected = 0, got = 0;
      for (int rank = 0; rank < ranks; ++rank) expected = (expected + value(rank, first + i)) % prime;
      std::memcpy(&got, out + i * 8, 8);
      HMC_CHECK_MSG(got == expected, "{}: element {} of {} is {:#x} and not {:#x}", what, i, count, got, expected);
    }
    fill();  // the output may have been the input
  };
  const int root = static_cast<int>(call % n);
  fill();
  world.allreduce(in, out, count, hmc::DType::u64, how);
  check("allreduce", 0, me.size);
  world.iallreduce(in, out, count, hmc::DType::u64, how).wait();
  check("iallreduce", 0, me.size);
  world.reduce(in, out, count, hmc::DType::u64, how, root);
  if (me.rank == root) check("reduce", 0, me.size);
  world.reduce_scatter(in, out, count, hmc::DType::u64, how);
  check("reduce_scatter", static_cast<std::size_t>(me.rank) * count, me.size);
  world.scan(in, out, count, hmc::DType::u64, how);
  check("scan", 0, me.rank + 1);
  world.exscan(in, out, count, hmc::DType::u64, how);
  if (me.rank > 0) check("exscan", 0, me.rank);
}

}  // namespace

HMC_SPMD_TEST(UserFunction, commutative_function_is_supported) {
  constexpr std::size_t longest = 30'001;
  Grounds grounds(me, longest * 8 * static_cast<std::size_t>(me.size));
  std::uint64_t call = 900;
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{513}, longest})
    for (int turn = 0; turn < 3; ++turn) check_commuting(me, grounds, count, ++call);
  for (const Algorithm& algorithm : hmc::collectives::schedule::algorithms()) {
    if (!reduces(algorithm.collective)) continue;
    const Forced forced(me.runtime->world(), algorithm.collective, &algorithm);
    check_commuting(me, grounds, 333, ++call);
  }
  grounds.close();
}

HMC_SPMD_TEST(UserFunction, non_commutative_function_is_applied_in_rank_order) {
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
      me.runtime->world().allreduce(grounds.in(place), out, count, hmc::DType::u64, {multiply, &calls});
      HMC_CHECK_CLEAN(verify_product(out, count, me.size, call));
      HMC_CHECK_CLEAN(Grounds::check_guards(out, count * 8));
      HMC_CHECK(calls.type_was_right);
    }
  }
  grounds.close();
}

HMC_SPMD_TEST(UserFunction, function_need_not_be_arithmetic) {
  hmc::Team& world = me.runtime->world();
  for (const std::size_t count : {std::size_t{1}, std::size_t{300}, std::size_t{30'000}}) {
    std::vector<std::uint16_t> in(count, static_cast<std::uint16_t>(me.rank + 7)), out(count);
    world.allreduce(in.data(), out.data(), count, hmc::DType::u16, {keep_first, nullptr});
    for (const std::uint16_t value : out) HMC_CHECK_EQ(value, 7);
    world.allreduce(in.data(), in.data(), count, hmc::DType::u16, {keep_last, nullptr});
    for (const std::uint16_t value : in) HMC_CHECK_EQ(value, me.size + 6);
  }
}
