#include "launcher/info/jobs.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <system_error>
#include <vector>

#include <hmc/error.hpp>

#include "runtime/base/node_page.hpp"
#include "runtime/base/rank_state.hpp"

namespace hmc::launcher {

namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

/// Without those that can't be read: processes of other users, and processes that end meanwhile.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator each(folder, error), end; !error && each != end; each.increment(error))
    entries.push_back(each->path());
  return entries;
}

/// The node pages of processes that this user may inspect, each once.
std::vector<base::NodePage> pages_of_this_user() {
  std::map<std::uint64_t, base::NodePage> pages;  // by nonce
  for (const fs::path& process : entries_of("/proc")) {
    const std::string name = process.filename();
    if (!std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; })) continue;
    for (const fs::path& file : entries_of(process / "fd")) {
      std::error_code gone;
      if (!fs::read_symlink(file, gone).native().starts_with("/memfd:hmc")) continue;
      base::UniqueFd fd(::open(file.c_str(), O_RDWR | O_CLOEXEC));
      if (!fd) continue;
      if (auto page = base::NodePage::observe(std::move(fd))) pages.try_emplace(page->nonce(), *page);
    }
  }
  std::vector<base::NodePage> all;
  for (auto& [nonce, page] : pages) all.push_back(page);
  return all;
}

std::string program_of(int pid) {
  std::ifstream file(fmt::format("/proc/{}/comm", pid));
  std::string name;
  std::getline(file, name);
  return name;
}

}  // namespace

namespace {

int parent_of(int pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');  // the name may contain any character; then " S PARENT"
  if (name_end == std::string::npos || name_end + 4 >= text.size()) return 0;
  int parent = 0;
  std::from_chars(text.data() + name_end + 4, text.data() + text.size(), parent);
  return parent;
}

/// True for the process itself and for each of its ancestors, such as hmcrun.
bool is_under(int pid, int ancestor) {
  for (; pid > 1; pid = parent_of(pid))
    if (pid == ancestor) return true;
  return false;
}

std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), &::pclose);
  std::string text;
  std::array<char, 4096> part{};
  while (pipe != nullptr) {
    const std::size_t got = std::fread(part.data(), 1, part.size(), pipe.get());
    if (got == 0) break;
    text.append(part.data(), got);
  }
  return text;
}

}  // namespace

std::string stacks_of_jobs(int process) {
  std::string tool;
  if (!output_of("command -v eu-stack").empty())
    tool = "eu-stack -p {} 2>&1";
  else if (!output_of("command -v gdb").empty())
    tool = "gdb -p {} -batch -nx -ex 'thread apply all backtrace' 2>/dev/null";
  else
    throw Error(Code::unavailable, "stacks", "neither eu-stack nor gdb is installed", "apt-get install elfutils");
  std::string text;
  for (const Json& job : gather_jobs()) {
    for (const Json& rank : job["ranks"]) {
      const int pid = rank["pid"].get<int>();
      if (process != 0 && !is_under(pid, process)) continue;
      text += fmt::format("== {} rank {}, pid {}, {}, {}\n", job["program"].get<std::string>(), rank["rank"].get<int>(),
                          pid, rank["state"].get<std::string>(), rank["activity"].get<std::string>());
      text += output_of(fmt::format(fmt::runtime(tool), pid));
    }
  }
  if (text.empty())
    throw Error(Code::not_found, "stacks",
                process == 0 ? "no job of this user runs on this machine"
                             : fmt::format("process {} is neither a rank nor a launcher of ranks", process));
  return text;
}

nlohmann::ordered_json gather_jobs() {
  Json jobs = Json::array();
  for (const base::NodePage& page : pages_of_this_user()) {
    std::map<int, Json> ranks;
    std::string program;
    for (int i = 0; i < page.capacity(); ++i) {
      const base::ActivityLine& line = page.activity(i);
      if (line.later_page.load(std::memory_order_relaxed) >= 0) continue;  // it is in a later job
      const base::RankState state = base::read_state(line);
      const std::string name = state.pid > 0 ? program_of(state.pid) : "";
      if (state.rank < 0 || name.empty()) continue;  // no rank, or it has exited
      program = name;
      ranks[state.rank] = {{"rank", state.rank},
                           {"pid", state.pid},
                           {"state", state.is_stopped ? "stopped" : "running"},
                           {"collectives", line.calls.load(std::memory_order_relaxed)},  // relaxed: a hint
                           {"activity", base::activity_text(state)}};
    }
    if (ranks.empty()) continue;
    Json job{
        {"program", program}, {"job_size", page.capacity()}, {"aborted", page.abort_text()}, {"ranks", Json::array()}};
    for (auto& [rank, facts] : ranks) job["ranks"].push_back(std::move(facts));
    jobs.push_back(std::move(job));
  }
  return jobs;
}

std::string jobs_as_text(const nlohmann::ordered_json& jobs) {
  if (jobs.empty()) return "no running job of this user on this machine\n";
  std::string text;
  for (const Json& job : jobs) {
    text += fmt::format("{}, {} of {} ranks on this node\n", job["program"].get<std::string>(), job["ranks"].size(),
                        job["job_size"].get<int>());
    if (const auto aborted = job["aborted"].get<std::string>(); !aborted.empty())
      text += fmt::format("  aborted: {}\n", aborted);
    for (const Json& rank : job["ranks"])
      text += fmt::format("  rank {:<5} pid {:<8} {:<8} {} collectives, {}\n", rank["rank"].get<int>(),
                          rank["pid"].get<int>(), rank["state"].get<std::string>(),
                          rank["collectives"].get<std::uint64_t>(), rank["activity"].get<std::string>());
  }
  return text;
}

}  // namespace hmc::launcher
