#include "launcher/rank_state.hpp"

#include <fmt/format.h>

#include <fstream>

#include "runtime/base/deadline.hpp"

namespace hmc::launcher {

std::string describe_activity(const base::ActivityLine& line) {
  const auto activity = static_cast<base::Activity>(line.activity.load(std::memory_order_relaxed));
  if (activity == base::Activity::computing) return "in no HMC call";
  std::string text = fmt::format("in {}", base::name_of(activity));
  if (const auto sequence = line.sequence.load(std::memory_order_relaxed); sequence != 0)
    text += fmt::format(" number {}", sequence);
  if (const auto since = line.since_ns.load(std::memory_order_relaxed); since != 0)
    text += fmt::format(" for {:.1f} s", static_cast<double>(base::now_ns() - since) * 1e-9);
  if (const auto peer = line.peer.load(std::memory_order_relaxed); peer >= 0)
    text += fmt::format(", waiting for rank {}", peer);
  return text;
}

bool is_stopped(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');  // the name may contain any character
  return name_end != std::string::npos && name_end + 2 < text.size() &&
         (text[name_end + 2] == 'T' || text[name_end + 2] == 't');
}

}  // namespace hmc::launcher
