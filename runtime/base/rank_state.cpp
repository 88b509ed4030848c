#include "runtime/base/rank_state.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <iterator>

#include "runtime/base/deadline.hpp"

namespace hmc::base {

RankState read_state(const ActivityLine& line) {
  // Relaxed: hints for a text.
  RankState state;
  state.rank = line.world_rank.load(std::memory_order_relaxed);
  state.pid = line.pid.load(std::memory_order_relaxed);
  std::array<char, 65> name{};
  if (::gethostname(name.data(), name.size() - 1) == 0) state.host = name.data();
  state.is_stopped = state.pid > 0 && is_stopped(state.pid);
  const auto activity = line.activity.load(std::memory_order_relaxed);
  if (activity <= static_cast<std::uint32_t>(Activity::last)) state.activity = static_cast<Activity>(activity);
  state.sequence = line.sequence.load(std::memory_order_relaxed);
  if (const auto since = line.since_ns.load(std::memory_order_relaxed); since != 0) state.for_ns = now_ns() - since;
  state.peer = line.peer.load(std::memory_order_relaxed);
  return state;
}

std::string activity_text(const RankState& state) {
  const bool calls = state.activity != Activity::computing;
  std::string text = calls ? fmt::format("in {}", name_of(state.activity)) : "in no HMC call";
  const auto out = std::back_inserter(text);
  if (calls && state.sequence != 0) fmt::format_to(out, " number {}", state.sequence);
  if (state.for_ns > 0) fmt::format_to(out, " for {:.1f} s", static_cast<double>(state.for_ns) * 1e-9);
  if (calls && state.peer >= 0) fmt::format_to(out, ", waiting for rank {}", state.peer);
  return text;
}

std::string text_of(const RankState& state, const char* word) {
  if (state.pid == 0) return fmt::format("{} {} doesn't answer", word, state.rank);
  return fmt::format("{} {} (host {}, pid {}{}) is {}", word, state.rank, state.host, state.pid,
                     state.is_stopped ? ", stopped" : "", activity_text(state));
}

bool is_stopped(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');  // the name may contain any character
  return name_end != std::string::npos && name_end + 2 < text.size() &&
         (text[name_end + 2] == 'T' || text[name_end + 2] == 't');
}

}  // namespace hmc::base
