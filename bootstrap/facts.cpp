#include "bootstrap/facts.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <map>
#include <string_view>

#include "runtime/base/machine.hpp"

namespace hmc::bootstrap {

namespace {

/// Without a boot id, hash the host name. The number is only informative: the node page proves that ranks share a node.
std::uint64_t machine_or_host() {
  const std::uint64_t machine = base::machine_id();
  std::array<char, 256> name{};
  if (machine != 0 || ::gethostname(name.data(), name.size() - 1) != 0) return machine;
  return std::hash<std::string_view>()(name.data());
}

void note_cpus(RankFacts& facts) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return;
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &set)) continue;
    if (cpu / 64 < facts.cpus.size())
      facts.cpus[cpu / 64] |= std::uint64_t{1} << (cpu % 64);
    else
      ++facts.further_cpus;
  }
}

}  // namespace

RankFacts own_facts(int rank) {
  RankFacts facts;
  facts.rank = rank;
  facts.pid = ::getpid();
  facts.machine = machine_or_host();
  facts.network = base::network_namespace();
  note_cpus(facts);
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
  line.world_rank.store(mine.rank, std::memory_order_relaxed);
  line.pid.store(mine.pid, std::memory_order_relaxed);
  line.since_ns.store(base::now_ns(), std::memory_order_relaxed);
  line.activity.store(static_cast<std::uint32_t>(base::Activity::starting), std::memory_order_relaxed);
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

}  // namespace hmc::bootstrap
