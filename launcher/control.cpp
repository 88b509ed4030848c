#include "launcher/control.hpp"

#include <fmt/format.h>

#include <algorithm>

#include <hmc/error.hpp>

#include "runtime/base/rank_state.hpp"

namespace hmc::launcher {

namespace {

constexpr std::chrono::seconds start_limit{10};

std::unique_ptr<bootstrap::StoreServer> open_store(const JobPlan& plan, const control::Secret& secret,
                                                   Mailbox& mailbox) {
  bootstrap::StoreServer::Events events;
  events.on_abort = [&mailbox](int rank, int exit_code, std::string text) {
    mailbox.post({SupervisorMessage::What::aborted, rank, exit_code, 0, std::move(text)});
  };
  events.on_no_member = [&mailbox] { mailbox.post({SupervisorMessage::What::no_member, -1, 0, 0, {}}); };
  // All ranks are on this machine, so the store needs no other address.
  try {
    return std::make_unique<bootstrap::StoreServer>(secret, plan.options.ranks, "127.0.0.1:0", events);
  } catch (const Error&) {  // a machine with IPv6 only
  }
  try {
    return std::make_unique<bootstrap::StoreServer>(secret, plan.options.ranks, "[::1]:0", events);
  } catch (const Error&) {  // the loopback interface is down: this machine's agents need no network
    return std::make_unique<bootstrap::StoreServer>(secret, plan.options.ranks, "", events);
  }
}

}  // namespace

ControlPlane::ControlPlane(const JobPlan& plan, const control::Secret& secret, Mailbox& mailbox)
    : plan_(plan), store_(plan.is_part() ? nullptr : open_store(plan, secret, mailbox)) {
  const base::Deadline deadline = base::Deadline::after(start_limit);
  bootstrap::NodeAgent::Events events;
  events.will_report = true;
  events.on_cause = [&mailbox](int pid, int cause) {
    mailbox.post({SupervisorMessage::What::cause, -1, cause, pid, {}});
  };
  if (plan.is_part()) {
    events.on_command = [&mailbox](int value) { mailbox.post({SupervisorMessage::What::command, -1, value, 0, {}}); };
    events.on_store_lost = [&mailbox] { mailbox.post({SupervisorMessage::What::store_lost, -1, 0, 0, {}}); };
  }
  for (int node = 0; node < plan.options.nodes; ++node) {
    auto agent = bootstrap::NodeAgent::start(secret, store_address(), plan.label(node), plan.options.size(), events,
                                             deadline, -1, nullptr, store_ ? store_->connect_here() : base::UniqueFd());
    if (!agent) throw Error(Code::error, "hmcrun", "another process already serves this job's node");
    agents_.push_back(std::move(agent));
  }
}

bootstrap::NodeAgent& ControlPlane::agent_of(int rank) const noexcept {
  return *agents_[static_cast<std::size_t>(plan_.places[static_cast<std::size_t>(rank)].node)];
}

void ControlPlane::report_death(int rank, std::string cause, std::string no_replacement) {
  agent_of(rank).report_death(plan_.options.number(rank), std::move(cause), std::move(no_replacement));
}

std::vector<int> ControlPlane::ranks_without_goodbye() const {
  std::vector<int> all;
  for (const auto& agent : agents_) {
    const std::vector<int> ranks = agent->ranks_without_goodbye();
    all.insert(all.end(), ranks.begin(), ranks.end());
  }
  std::sort(all.begin(), all.end());
  return all;
}

bool ControlPlane::is_in_job(int rank) const {
  const std::vector<int> ranks = agent_of(rank).ranks_without_goodbye();
  return std::find(ranks.begin(), ranks.end(), plan_.options.number(rank)) != ranks.end();
}

ControlPlane::RankActivity ControlPlane::activity_of(int rank) const {
  const base::NodePage& page = agent_of(rank).page();
  for (int i = 0; i < page.capacity(); ++i) {
    const base::ActivityLine& line = page.activity(i);
    if (line.world_rank.load(std::memory_order_relaxed) == plan_.options.number(rank))
      return {line.pid.load(std::memory_order_relaxed), base::activity_text(base::read_state(line))};
  }
  return {};
}

}  // namespace hmc::launcher
