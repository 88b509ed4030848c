// maxloc and minloc by every algorithm of every reduction.
#include <algorithm>
#include <limits>

#include "collectives/schedule/algorithms/algorithms.hpp"
#include "tests/multirank/collectives_every.hpp"

namespace {

using namespace hmc::spmd;
using hmc::Located;

/// Few distinct values, so that several ranks have the best one. Indices don't increase with ranks.
template <typename T> Located<T> pair_of(int rank, std::uint64_t call, std::size_t i) {
  const std::uint64_t bits = Pattern{rank, call}.word(i);
  Located<T> pair{static_cast<T>(static_cast<int>(bits % 5) - 2),
                  static_cast<typename Located<T>::Index>(bits >> 8 & 7)};
  if constexpr (std::is_floating_point_v<T>)
    if ((bits >> 16) % 64 == 0) pair.value = std::numeric_limits<T>::quiet_NaN();
  return pair;
}

/// The best pair of ranks [first, last].
template <typename T> Located<T> best_of(int first, int last, hmc::Op op, std::uint64_t call, std::size_t i) {
  Located<T> best = pair_of<T>(first, call, i);
  for (int rank = first + 1; rank <= last; ++rank) {
    const Located<T> next = pair_of<T>(rank, call, i);
    const bool is_nan = next.value != next.value, was_nan = best.value != best.value;
    const bool equal = next.value == best.value || (is_nan && was_nan);
    const bool better =
        is_nan ? !was_nan : !was_nan && (op == hmc::maxloc ? next.value > best.value : next.value < best.value);
    if (better || (equal && next.index < best.index)) best = next;
  }
  return best;
}

template <typename T>
void check_one(TestRank& me, CollectiveKind collective, std::size_t count, hmc::Op op, std::uint64_t call) {
  hmc::Team& world = me.runtime->world();
  const auto n = static_cast<std::size_t>(me.size);
  const bool is_cut = collective == CollectiveKind::reduce_scatter;
  std::vector<Located<T>> in(is_cut ? count * n : count), out(count);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = pair_of<T>(me.rank, call, i);
  constexpr hmc::DType type = hmc::dtype_of<Located<T>>();
  int first = 0, last = me.size - 1;
  switch (collective) {
    case CollectiveKind::allreduce: world.allreduce(in.data(), out.data(), count, type, op); break;
    case CollectiveKind::reduce: world.reduce(in.data(), out.data(), count, type, op, last); break;
    case CollectiveKind::reduce_scatter: world.reduce_scatter(in.data(), out.data(), count, type, op); break;
    case CollectiveKind::scan: world.scan(in.data(), out.data(), count, type, op); break;
    default: world.exscan(in.data(), out.data(), count, type, op); break;
  }
  if (collective == CollectiveKind::reduce && me.rank != me.size - 1) return;
  if (collective == CollectiveKind::scan) last = me.rank;
  if (collective == CollectiveKind::exscan && (last = me.rank - 1) < first) return;
  const std::size_t from = is_cut ? count * static_cast<std::size_t>(me.rank) : 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Located<T> expected = best_of<T>(first, last, op, call, from + i);
    HMC_CHECK_MSG(std::memcmp(&out[i], &expected, sizeof expected) == 0, "{} of {}, element {} of {}", name_of(op),
                  name_of(type), i, count);
  }
}

}  // namespace

HMC_SPMD_TEST(Located, every_algorithm_returns_the_best_value_with_the_lowest_index) {
  std::uint64_t call = 0;
  for (const Algorithm& algorithm : hmc::collectives::schedule::algorithms()) {
    if (!reduces(algorithm.collective)) continue;
    const Forced forced(me.runtime->world(), algorithm.collective, &algorithm);
    for (const std::size_t count : {std::size_t{1}, std::size_t{301}}) {
      for (const hmc::Op op : {hmc::maxloc, hmc::minloc}) {
        check_one<std::int32_t>(me, algorithm.collective, count, op, ++call);
        check_one<double>(me, algorithm.collective, count, op, ++call);
      }
    }
  }
}

HMC_SPMD_TEST(Located, small_large_and_split_calls_are_correct) {
  std::uint64_t call = 1000;
  for (const CollectiveKind collective : {CollectiveKind::allreduce, CollectiveKind::reduce, CollectiveKind::scan}) {
    for (const std::size_t count : {std::size_t{0}, std::size_t{3}, std::size_t{500}, std::size_t{40'001}}) {
      check_one<float>(me, collective, count, hmc::maxloc, ++call);
      check_one<std::int64_t>(me, collective, count, hmc::minloc, ++call);
    }
  }
}

HMC_SPMD_TEST(Located, other_operations_are_rejected) {
  hmc::Team& world = me.runtime->world();
  Located<float> pair, out;
  float value = 0;
  HMC_CHECK_THROWS(hmc::Code::invalid_argument, world.allreduce(&pair, &out, 1, hmc::DType::located_f32, hmc::max));
  HMC_CHECK_THROWS(hmc::Code::invalid_argument, world.reduce(&pair, &out, 1, hmc::DType::located_f32, hmc::avg, 0));
  HMC_CHECK_THROWS(hmc::Code::invalid_argument, world.allreduce(&value, &value, 1, hmc::DType::f32, hmc::maxloc));
  HMC_CHECK_THROWS(hmc::Code::invalid_argument, world.scan(&value, &value, 1, hmc::DType::e4m3, hmc::minloc));
  pair = {static_cast<float>(me.rank), me.rank};
  world.allreduce(std::span(&pair, 1), std::span(&out, 1), hmc::maxloc);
  HMC_CHECK(out == (Located<float>{static_cast<float>(me.size - 1), me.size - 1}));
}
