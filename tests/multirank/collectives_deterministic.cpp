// Deterministic reductions. The bits are those of one fold in rank order, independent of algorithm, splitting of a
// call, wires and layout. The expected values are computed from the contributions alone.
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "collectives/schedule/algorithms/algorithms.hpp"
#include "tests/multirank/collectives_every.hpp"

namespace {

using namespace hmc::spmd;
using hmc::Reduction;
namespace reference = hmc::collectives::reference;

/// Values of very different magnitude, so that any other order of addition gives other bits.
template <typename T> T rough(int rank, std::size_t index) {
  const std::uint64_t bits = Pattern{rank, 5}.word(index);
  const float mantissa = 1.0F + static_cast<float>(bits % 997) / 997.0F;
  return static_cast<T>(std::ldexp((bits & 1024) != 0 ? mantissa : -mantissa, static_cast<int>(bits >> 20 & 7)));
}

template <typename T> std::vector<T> contribution_of(int rank, std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = rough<T>(rank, i);
  return values;
}

template <typename T> T folded(hmc::Op op, int ranks, std::size_t index) {
  std::vector<T> column;
  for (int rank = 0; rank < ranks; ++rank) column.push_back(rough<T>(rank, index));
  return *reference::reduce<T>(op, column);
}

template <typename T> bool same_bits(const T& a, const T& b) { return std::memcmp(&a, &b, sizeof(T)) == 0; }

/// Requests a deterministic reduction. If HMC_DETERMINISTIC sets it for the whole job, the call doesn't request it.
Reduction asked(Reduction how) { return std::getenv("HMC_DETERMINISTIC") != nullptr ? how : deterministic(how); }

/// A sum by a user's function.
template <typename T> void add(void* accumulated, const void* next, std::size_t count, hmc::DType, void*) {
  for (std::size_t i = 0; i < count; ++i) {
    T a, b;
    std::memcpy(&a, static_cast<std::byte*>(accumulated) + i * sizeof a, sizeof a);
    std::memcpy(&b, static_cast<const std::byte*>(next) + i * sizeof b, sizeof b);
    a += b;
    std::memcpy(static_cast<std::byte*>(accumulated) + i * sizeof a, &a, sizeof a);
  }
}

/// `by` implements `op`.
template <typename T> void check_all(TestRank& me, std::size_t count, hmc::Op op, const Reduction& by) {
  hmc::Team& world = me.runtime->world();
  const Reduction how = asked(by);
  const auto n = static_cast<std::size_t>(me.size);
  const std::vector<T> in = contribution_of<T>(me.rank, count * n);
  std::vector<T> out(count);
  const auto check = [&](const char* what, std::size_t first, int ranks) {
    for (std::size_t i = 0; i < count; ++i)
      HMC_CHECK_MSG(same_bits(out[i], folded<T>(op, ranks, first + i)), "{}: element {} of {}", what, i, count);
  };
  world.allreduce(in.data(), out.data(), count, hmc::dtype_of<T>(), how);
  check("allreduce", 0, me.size);
  world.iallreduce(in.data(), out.data(), count, hmc::dtype_of<T>(), how).wait();
  check("iallreduce", 0, me.size);
  world.reduce(in.data(), out.data(), count, hmc::dtype_of<T>(), how, me.size - 1);
  if (me.rank == me.size - 1) check("reduce", 0, me.size);
  world.reduce_scatter(in.data(), out.data(), count, hmc::dtype_of<T>(), how);
  check("reduce_scatter", static_cast<std::size_t>(me.rank) * count, me.size);
  std::vector<std::size_t> counts(n, count / 2);
  counts[0] = count;  // the other blocks begin off any even split
  counts[n - 1] = count / 3;
  const std::size_t before = me.rank == 0 ? 0 : count + count / 2 * (static_cast<std::size_t>(me.rank) - 1);
  std::vector<T> part(counts[static_cast<std::size_t>(me.rank)]);
  world.reduce_scatterv(in.data(), part.data(), counts, hmc::dtype_of<T>(), how);
  for (std::size_t i = 0; i < part.size(); ++i)
    HMC_CHECK_MSG(same_bits(part[i], folded<T>(op, me.size, before + i)), "reduce_scatterv: element {} of {}", i,
                  part.size());
  if (op == hmc::Op::avg) return;
  world.scan(in.data(), out.data(), count, hmc::dtype_of<T>(), how);
  check("scan", 0, me.rank + 1);
  world.exscan(in.data(), out.data(), count, hmc::dtype_of<T>(), how);
  if (me.rank > 0) check("exscan", 0, me.rank);
}
template <typename T> void check_all(TestRank& me, std::size_t count, hmc::Op op) { check_all<T>(me, count, op, op); }

}  // namespace

HMC_SPMD_TEST(Deterministic, result_equals_one_fold) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{7}, std::size_t{1000}, std::size_t{100'001}}) {
    check_all<float>(me, count, hmc::sum);
    check_all<hmc::float16>(me, count, hmc::sum);
    if (count > 1000) continue;
    check_all<double>(me, count, hmc::avg);
    check_all<hmc::bfloat16>(me, count, hmc::prod);
    check_all<hmc::float8_e5m2>(me, count, hmc::sum);
    check_all<hmc::float8_e4m3>(me, count, hmc::avg);
  }
}

HMC_SPMD_TEST(Deterministic, result_does_not_depend_on_forced_algorithms) {
  for (const Algorithm& algorithm : hmc::collectives::schedule::algorithms()) {
    if (!reduces(algorithm.collective)) continue;
    const Forced forced(me.runtime->world(), algorithm.collective, &algorithm);
    check_all<float>(me, 333, hmc::sum);
    check_all<float>(me, 333, hmc::sum, Reduction(add<float>, nullptr, true));
  }
}

// A user's function may be declared commutative. The bits are still those of rank order.
HMC_SPMD_TEST(Deterministic, result_with_user_functions_is_deterministic) {
  for (const bool commutes : {false, true}) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{7}, std::size_t{1000}, std::size_t{100'001}}) {
      check_all<float>(me, count, hmc::sum, Reduction(add<float>, nullptr, commutes));
      if (count <= 1000) check_all<double>(me, count, hmc::sum, Reduction(add<double>, nullptr, commutes));
    }
  }
}

// In windows and in private memory, in place, shifted. The same elements in one large call and in many small ones.
HMC_SPMD_TEST(Deterministic, result_does_not_depend_on_addresses_or_pieces) {
  constexpr std::size_t most = 30'000;
  Grounds grounds(me, most * sizeof(float));
  hmc::Team& world = me.runtime->world();
  const Reduction how = asked(hmc::sum);
  std::uint64_t call = 0;
  for (const std::size_t length : {most, std::size_t{4097}, std::size_t{1000}, std::size_t{12}}) {
    const Placing place = Placing::any(me.rank, ++call, sizeof(float));
    const std::size_t count = length == 12 ? 1200 : most;
    auto* const in = grounds.in(place);
    auto* const out = grounds.out(place);
    for (std::size_t i = 0; i < count; ++i) {
      const float value = rough<float>(me.rank, i);
      std::memcpy(in + i * 4, &value, 4);
    }
    for (std::size_t first = 0; first < count; first += length)
      world.allreduce(in + first * 4, out + first * 4, std::min(length, count - first), hmc::DType::f32, how);
    for (std::size_t i = 0; i < count; ++i) {
      const float expected = folded<float>(hmc::sum, me.size, i);
      HMC_CHECK_MSG(std::memcmp(out + i * 4, &expected, 4) == 0, "element {}, {} at once", i, length);
    }
  }
  grounds.close();
}

HMC_SPMD_TEST(Deterministic, sixteen_bit_floats_are_rounded_once) {
  constexpr std::size_t count = 500;
  const auto in = contribution_of<hmc::bfloat16>(me.rank, count);
  std::vector<hmc::bfloat16> out(count);
  me.runtime->world().allreduce(in.data(), out.data(), count, hmc::DType::bf16, hmc::sum);
  for (std::size_t i = 0; i < count; ++i) HMC_CHECK(same_bits(out[i], folded<hmc::bfloat16>(hmc::sum, me.size, i)));
}
