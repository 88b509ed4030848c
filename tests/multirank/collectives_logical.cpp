// land and lor give 0 or 1, by every algorithm and for any number of contributions.
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "collectives/schedule/algorithms/algorithms.hpp"
#include "tests/multirank/collectives_every.hpp"

namespace {

using namespace hmc::spmd;
using hmc::Op;
using hmc::reduces;
using hmc::collectives::schedule::algorithms;

/// 0 for one element in four; never 1.
template <typename T> T contribution_of(int rank, std::uint64_t call, std::size_t index) {
  const std::uint64_t word = Pattern{rank, call}.word(index);
  return static_cast<T>((word & 3) == 0 ? 0 : word >> 2 | 143);
}

/// The expected result over ranks [first, last) of a team. first_of_world is the world rank of its rank 0.
template <typename T>
T combined(Op op, int first, int last, int first_of_world, std::uint64_t call, std::size_t index) {
  bool all = true, any = false;
  for (int rank = first; rank < last; ++rank) {
    const bool is = contribution_of<T>(first_of_world + rank, call, index) != 0;
    all = all && is;
    any = any || is;
  }
  return static_cast<T>(op == Op::land ? all : any);
}

enum class Form { blocking, started, plan };
constexpr Form forms[] = {Form::blocking, Form::started, Form::plan};

struct Call {
  CollectiveKind collective;
  Op op;
  Form form;
  bool in_window;
  bool in_place;
  std::size_t count;  ///< of the result
  std::uint64_t number;
};

void make(hmc::Team& team, const Call& call, hmc::DType type, const void* in, void* out) {
  hmc::Request request;
  const auto by = [&](auto blocking, auto started, auto plan) {
    if (call.form == Form::blocking) return blocking();
    if (call.form == Form::started) return started().wait();
    hmc::Plan made = plan();
    made.start();
    made.wait();
  };
  const std::size_t n = call.count;
  const int root = team.size() - 1;
  switch (call.collective) {
    case CollectiveKind::reduce:
      return by([&] { team.reduce(in, out, n, type, call.op, root); },
                [&] { return team.ireduce(in, out, n, type, call.op, root); },
                [&] { return team.plan_reduce(in, out, n, type, call.op, root); });
    case CollectiveKind::allreduce:
      return by([&] { team.allreduce(in, out, n, type, call.op); },
                [&] { return team.iallreduce(in, out, n, type, call.op); },
                [&] { return team.plan_allreduce(in, out, n, type, call.op); });
    case CollectiveKind::reduce_scatter:
      return by([&] { team.reduce_scatter(in, out, n, type, call.op); },
                [&] { return team.ireduce_scatter(in, out, n, type, call.op); },
                [&] { return team.plan_reduce_scatter(in, out, n, type, call.op); });
    case CollectiveKind::scan:
      return by([&] { team.scan(in, out, n, type, call.op); }, [&] { return team.iscan(in, out, n, type, call.op); },
                [&] { return team.plan_scan(in, out, n, type, call.op); });
    default:
      return by([&] { team.exscan(in, out, n, type, call.op); },
                [&] { return team.iexscan(in, out, n, type, call.op); },
                [&] { return team.plan_exscan(in, out, n, type, call.op); });
  }
}

/// `ground`: this rank's part of a window, with space for input and output.
template <typename T>
std::string wrong_in(hmc::Team& team, int first_of_world, const Call& call, std::span<std::byte> ground) {
  const auto rank = static_cast<std::size_t>(team.rank());
  const std::size_t blocks =
      call.collective == CollectiveKind::reduce_scatter ? static_cast<std::size_t>(team.size()) : 1;
  std::vector<T> in_memory(blocks * call.count + 1), out_memory(call.count + 1);
  T* const in = call.in_window ? reinterpret_cast<T*>(ground.data()) : in_memory.data();
  T* out = call.in_window ? reinterpret_cast<T*>(ground.data() + ground.size() / 2) : out_memory.data();
  if (call.in_place) out = in;
  for (std::size_t i = 0; i < blocks * call.count; ++i)
    in[i] = contribution_of<T>(first_of_world + team.rank(), call.number, i);
  const auto sentinel = static_cast<T>(0x5a);
  if (!call.in_place) std::fill_n(out, call.count, sentinel);
  make(team, call, hmc::dtype_of<T>(), in, out);
  const bool untouched = (call.collective == CollectiveKind::reduce && team.rank() != team.size() - 1) ||
                         (call.collective == CollectiveKind::exscan && team.rank() == 0);
  const int last = call.collective == CollectiveKind::scan     ? team.rank() + 1
                   : call.collective == CollectiveKind::exscan ? team.rank()
                                                               : team.size();
  for (std::size_t i = 0; i < call.count; ++i) {
    const std::size_t index = blocks > 1 ? rank * call.count + i : i;
    if (untouched && call.in_place) continue;
    const T wanted = untouched ? sentinel : combined<T>(call.op, 0, last, first_of_world, call.number, index);
    if (out[i] != wanted)
      return fmt::format("element {} of {} is {} and not {}", i, call.count, static_cast<std::int64_t>(out[i]),
                         static_cast<std::int64_t>(wanted));
  }
  return {};
}

template <typename T>
void check_all(hmc::Team& team, int first_of_world, const std::string& by, CollectiveKind collective,
               std::span<const Form> some_forms, std::span<std::byte> ground, std::uint64_t& number) {
  for (const Op op : {Op::land, Op::lor}) {
    for (const Form form : some_forms) {
      for (const std::size_t count : {std::size_t{1}, std::size_t{3000}}) {
        ++number;
        const Call call{collective, op, form, number % 2 == 0, number % 3 == 0, count, number};
        const std::string wrong = wrong_in<T>(team, first_of_world, call, ground);
        HMC_CHECK_MSG(wrong.empty(), "{} {} of {} by {}, team of {}, form {}, {}{}: {}", name_of(collective),
                      name_of(op), name_of(hmc::dtype_of<T>()), by, team.size(), static_cast<int>(form),
                      call.in_window ? "window" : "private", call.in_place ? ", in place" : "", wrong);
      }
    }
  }
}

constexpr CollectiveKind reductions[] = {CollectiveKind::reduce, CollectiveKind::allreduce,
                                         CollectiveKind::reduce_scatter, CollectiveKind::scan, CollectiveKind::exscan};

/// Runs all forms with the selected algorithm. `every_algorithm` adds one form with each algorithm, in turn.
void check_reductions(TestRank& me, hmc::Team& team, int first_of_world, bool every_algorithm) {
  // Space for input and output of the largest type, each with one block per rank.
  hmc::Window window = hmc::Window::create(me.runtime->world(), 2 * 3008 * 8 * static_cast<std::size_t>(me.size));
  const std::span<std::byte> ground(window.data(), window.bytes());
  std::uint64_t number = 0;
  const auto check = [&](const std::string& by, CollectiveKind collective, std::span<const Form> some_forms) {
    check_all<std::int8_t>(team, first_of_world, by, collective, some_forms, ground, number);
    check_all<std::int64_t>(team, first_of_world, by, collective, some_forms, ground, number);
  };
  for (const CollectiveKind collective : reductions) check("the chosen algorithm", collective, forms);
  std::size_t turn = static_cast<std::size_t>(me.size);  // each algorithm is tested with each form
  for (const auto& algorithm : algorithms()) {
    if (!every_algorithm || !reduces(algorithm.collective)) continue;
    const Forced forced(team, algorithm.collective, &algorithm);
    check(std::string(algorithm.name), algorithm.collective, std::span(forms).subspan(turn++ % std::size(forms), 1));
  }
  window.close();
}

}  // namespace

HMC_SPMD_TEST(Logical, every_result_is_0_or_1) { check_reductions(me, me.runtime->world(), 0, true); }

HMC_SPMD_TEST(Logical, team_of_one_rank_has_results_0_or_1) {
  hmc::Team alone = me.runtime->world().split(me.rank);
  check_reductions(me, alone, me.rank, false);
  alone.close();
}
