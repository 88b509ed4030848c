#include "runtime/base/rank_state.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "runtime/base/deadline.hpp"
#include "runtime/base/fd.hpp"
#include "runtime/base/process_stat.hpp"

namespace hmc::base {

namespace {

/// The page that the rank uses after shrink or grow. nullopt if the process has ended or this user may not inspect it.
std::optional<NodePage> later_page(const ActivityLine& line) {
  const std::int32_t fd = line.later_page.load(std::memory_order_relaxed);
  const std::int32_t pid = line.pid.load(std::memory_order_relaxed);
  if (fd < 0 || pid <= 0) return std::nullopt;
  const std::string name = fmt::format("/proc/{}/fd/{}", pid, fd);
  std::error_code gone;
  if (!std::filesystem::read_symlink(name, gone).native().starts_with("/memfd:hmc")) return std::nullopt;
  UniqueFd file(::open(name.c_str(), O_RDWR | O_CLOEXEC));
  return file ? NodePage::observe(std::move(file)) : std::nullopt;
}

/// Relaxed: hints for a text.
void read_line(const ActivityLine& line, RankState& state) {
  const auto activity = line.activity.load(std::memory_order_relaxed);
  if (activity <= static_cast<std::uint32_t>(Activity::last)) state.activity = static_cast<Activity>(activity);
  state.sequence = line.sequence.load(std::memory_order_relaxed);
  state.bytes = line.bytes.load(std::memory_order_relaxed);
  if (const auto since = line.since_ns.load(std::memory_order_relaxed); since != 0) state.for_ns = now_ns() - since;
  state.peer = line.peer.load(std::memory_order_relaxed);
}

}  // namespace

RankState read_state(const ActivityLine& line) {
  RankState state;
  state.rank = line.world_rank.load(std::memory_order_relaxed);
  state.pid = line.pid.load(std::memory_order_relaxed);
  std::array<char, 65> name{};
  if (::gethostname(name.data(), name.size() - 1) == 0) state.host = name.data();
  const std::optional<ProcessStat> process = state.pid > 0 ? stat_of(state.pid) : std::nullopt;
  state.is_stopped = process && process->is_stopped();
  read_line(line, state);
  if (const auto page = later_page(line)) {  // always the newest page
    for (int i = 0; i < page->capacity(); ++i) {
      const ActivityLine& later = page->activity(i);
      if (later.pid.load(std::memory_order_relaxed) != state.pid) continue;
      read_line(later, state);
      state.is_regrouped = true;
      break;
    }
  }
  return state;
}

std::string activity_text(const RankState& state) {
  const bool calls = state.activity != Activity::computing;
  std::string text = calls ? fmt::format("in {}", name_of(state.activity)) : "in no HMC call";
  const auto out = std::back_inserter(text);
  if (calls && state.sequence != 0) fmt::format_to(out, " number {}", state.sequence);
  if (calls && state.bytes != 0) fmt::format_to(out, " of {} bytes", state.bytes);
  if (state.for_ns > 0) fmt::format_to(out, " for {:.1f} s", static_cast<double>(state.for_ns) * 1e-9);
  if (calls && state.peer >= 0)
    fmt::format_to(out, ", waiting for rank {}{}", state.peer, state.is_regrouped ? " of the regrouped job" : "");
  return text;
}

std::string text_of(const RankState& state, const char* word) {
  if (state.pid == 0) return fmt::format("{} {} doesn't answer", word, state.rank);
  return fmt::format("{} {} (host {}, pid {}{}) is {}", word, state.rank, state.host, state.pid,
                     state.is_stopped ? ", stopped" : "", activity_text(state));
}

std::string text_of_deadlock(std::span<const RankState> states, std::uint64_t waited_ms) {
  // A rank waits for at most one other. In a collective two ranks may wait for each other's bytes, which are on the
  // way. A message that arrives in pieces has no awaited rank: see Messenger::look.
  std::map<std::int32_t, const RankState*> waiting;
  for (const RankState& each : states) {
    const bool is_long =
        each.for_ns / 1'000'000 >= static_cast<std::int64_t>(std::min<std::uint64_t>(waited_ms, INT32_MAX) / 2);
    if (each.pid > 0 && each.peer >= 0 && each.activity > Activity::starting && is_long && !each.is_stopped &&
        !each.is_regrouped)
      waiting.emplace(each.rank, &each);
  }
  const auto is_message = [](const RankState& each) {
    return each.activity == Activity::send || each.activity == Activity::recv || each.activity == Activity::probe;
  };
  std::set<std::int32_t> seen;
  for (const auto& start : waiting) {
    std::vector<const RankState*> chain;
    std::int32_t rank = start.first;
    for (auto next = waiting.find(rank); next != waiting.end() && seen.insert(rank).second; next = waiting.find(rank)) {
      chain.push_back(next->second);
      rank = next->second->peer;
    }
    const auto circle = std::ranges::find(chain, rank, &RankState::rank);
    if (std::none_of(circle, chain.end(), [&](const RankState* each) { return is_message(*each); })) continue;
    constexpr std::ptrdiff_t most = 8;
    std::string text;
    for (auto each = circle; each != chain.end() && each - circle < most; ++each)
      fmt::format_to(std::back_inserter(text), "{}rank {} in {} waits for {}", text.empty() ? "deadlock: " : ", ",
                     (*each)->rank, name_of((*each)->activity),
                     (*each)->peer == (*each)->rank ? "itself" : fmt::format("rank {}", (*each)->peer));
    if (chain.end() - circle > most) text += fmt::format(", and {} more", chain.end() - circle - most);
    return text;
  }
  return {};
}

}  // namespace hmc::base
