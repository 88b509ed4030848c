#include "bootstrap/common.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <map>
#include <string_view>

#include <hmc/error.hpp>

#include "runtime/base/machine.hpp"

namespace hmc::bootstrap {

RankFacts own_facts(int rank) {
  RankFacts facts;
  facts.rank = rank;
  facts.pid = ::getpid();
  facts.machine = base::machine_id();
  std::array<char, 256> name{};
  // Without a boot id, hash the host name. The number is only informative: the node page proves that ranks share a
  // node.
  if (facts.machine == 0 && ::gethostname(name.data(), name.size() - 1) == 0) {
    facts.machine = std::hash<std::string_view>()(name.data());
  }
  facts.network = base::network_namespace();
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return facts;
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &set)) continue;
    if (cpu / 64 < facts.cpus.size())
      facts.cpus[cpu / 64] |= std::uint64_t{1} << (cpu % 64);
    else
      ++facts.further_cpus;
  }
  return facts;
}

void number_nodes(std::vector<RankFacts>& facts) {
  std::map<std::int32_t, std::pair<std::int32_t, std::int32_t>> nodes;  // given -> (number, ranks so far)
  for (RankFacts& each : facts) {
    auto& [number, ranks] = nodes.try_emplace(each.node, static_cast<std::int32_t>(nodes.size()), 0).first->second;
    each.node = number;
    each.local_index = ranks++;
  }
}

std::vector<int> members_of(const std::vector<RankFacts>& facts, int node) {
  std::vector<int> members;
  for (const RankFacts& each : facts) {
    if (each.node == node) members.push_back(each.rank);
  }
  return members;
}

void sign_page(const base::NodePage& page, const RankFacts& mine) noexcept {
  // Relaxed: readers need only a hint, see ActivityLine.
  base::ActivityLine& line = page.activity(mine.local_index);
  // A replacement has the line of a process that has ended.
  line.later_page.store(-1, std::memory_order_relaxed);
  line.peer.store(-1, std::memory_order_relaxed);
  line.sequence.store(0, std::memory_order_relaxed);
  line.bytes.store(0, std::memory_order_relaxed);
  line.calls.store(0, std::memory_order_relaxed);
  line.since_ns.store(base::now_ns(), std::memory_order_relaxed);
  line.activity.store(static_cast<std::uint32_t>(base::Activity::starting), std::memory_order_relaxed);
  line.world_rank.store(mine.rank, std::memory_order_relaxed);
  line.pid.store(mine.pid, std::memory_order_relaxed);
}

std::string list_ranks(const std::vector<int>& ascending) {
  if (ascending.empty()) return "no rank";
  std::string text = ascending.size() == 1 ? "rank " : "ranks ";
  constexpr std::size_t most = 16;  // maximum number of ranges, so that the message of a large job stays on one line
  std::size_t runs = 0;
  for (std::size_t i = 0; i < ascending.size();) {
    if (runs++ == most) return text + fmt::format(", ... ({} in all)", ascending.size());
    std::size_t last = i;
    while (last + 1 < ascending.size() && ascending[last + 1] == ascending[last] + 1) ++last;
    if (i != 0) text += ", ";
    text += last == i       ? fmt::format("{}", ascending[i])
            : last == i + 1 ? fmt::format("{}, {}", ascending[i], ascending[last])
                            : fmt::format("{}-{}", ascending[i], ascending[last]);
    i = last + 1;
  }
  return text;
}

void throw_failure(Code code, std::string_view operation, int rank, int peer, std::string text, std::string hint) {
  ErrorDetail detail;
  detail.code = code;
  detail.operation = operation;
  detail.rank = rank;
  detail.peer = peer;
  detail.message = std::move(text);
  detail.hint = std::move(hint);
  throw Error(std::move(detail));
}

void throw_if_aborted(const base::NodePage& page, std::string_view operation, int rank) {
  const base::Status status = page.aborted();
  if (!status.ok()) throw_failure(status.code, operation, rank, status.peer, page.abort_text());
}

void throw_missing(std::string_view operation, int rank, const std::vector<int>& missing) {
  std::string text = missing.empty()
                         ? "the deadline passed; all ranks have arrived, but the result hasn't been received"
                         : fmt::format("the deadline passed while waiting for {}", list_ranks(missing));
  throw_failure(Code::timeout, operation, rank, missing.size() == 1 ? missing.front() : -1, std::move(text),
                "check the missing ranks; HMC_TIMEOUT_S sets the deadline");
}

void throw_left(std::string_view operation, int rank, int left) {
  throw_failure(Code::closed, operation, rank, left, fmt::format("rank {} has left the job", left));
}

std::string mismatch_text(std::string_view expected, std::string_view got, int rank) {
  return fmt::format("rank {} called {}, but other ranks called {}", rank, got, expected);
}

}  // namespace hmc::bootstrap
