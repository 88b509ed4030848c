#include "bootstrap/launchers/regroup.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <string_view>

#include <hmc/error.hpp>

#include "bootstrap/common.hpp"
#include "bootstrap/launchers/join_over.hpp"

namespace hmc::bootstrap {

namespace {

using base::Deadline;

/// Passes the new job's record over the first job's control plane.
class MembershipExchange final : public RecordExchange {
 public:
  MembershipExchange(Bootstrap& first, const Decision& decision)
      : first_(first), processes_(decision.members), key_(fmt::format("hmc/regroup/{}", decision.number)) {}
  void publish(const std::string& record, Deadline /*deadline*/) override {
    first_.publish(key_, base::as_bytes(record));
  }
  std::string fetch(Deadline deadline) override {
    return std::string(base::as_text(first_.membership()->lookup_for(processes_, key_, deadline)));
  }

 private:
  Bootstrap& first_;
  const std::vector<RankProcess>& processes_;
  std::string key_;
};

}  // namespace

Regroup::Regroup(std::shared_ptr<Bootstrap> first, const base::Env& env) : first_(std::move(first)), env_(env) {
  for (const RankFacts& each : first_->facts()) members_.push_back({each.rank, 0});
}

void Regroup::shrink(const Build& build) {
  failed_attempts_ = 0;
  for (;;) {
    const Decision decision = agree(Ballot::Step::shrink, members_, env_.timeout);
    require_decided("shrink", decision);
    if (attempt("shrink", decision, build)) return;
  }
}

void Regroup::grow(std::chrono::nanoseconds timeout, const Build& build) {
  failed_attempts_ = 0;
  for (;;) {
    const Decision decision = agree(Ballot::Step::grow, members_, timeout);
    require_decided("grow", decision);
    if (attempt("grow", decision, build)) return;
  }
}

void Regroup::stand_by(const Build& build) {
  failed_attempts_ = 0;
  for (;;) {
    const Decision decision = agree(Ballot::Step::stand_by, {}, env_.timeout);
    if (!decision.agreed) throw_failure(decision.code, "Runtime::init", first_->rank(), -1, decision.text);
    number_ = decision.number + 1;
    if (attempt("Runtime::init", decision, build)) return;
  }
}

Decision Regroup::agree(Ballot::Step step, const std::vector<RankProcess>& members, std::chrono::nanoseconds timeout) {
  return first_->membership()->agree({step, number_++, members, true, {}}, timeout);
}

/// Every caller gets the same decision, so all throw or none does.
void Regroup::require_decided(const char* operation, const Decision& decision) const {
  if (decision.agreed) return;
  if (!decision.text.empty())
    throw_failure(decision.code, operation, first_->rank(), -1, decision.text,
                  decision.code == Code::mismatch ? "every rank calls shrink() and grow() in the same order" : "");
  if (!decision.missing.empty())
    throw_missing(operation, first_->rank(), {decision.missing.begin(), decision.missing.end()});
  for (const RankProcess& each : members_)
    if (std::find(decision.members.begin(), decision.members.end(), each) == decision.members.end())
      throw_failure(Code::peer_failed, operation, first_->rank(), each.rank,
                    fmt::format("rank {} has ended", each.rank), "call shrink() first");
}

std::unique_ptr<Bootstrap> Regroup::join(const Decision& decision) {
  const auto mine = std::find_if(decision.members.begin(), decision.members.end(),
                                 [this](const RankProcess& each) { return each.rank == first_->rank(); });
  Membership& membership = *first_->membership();
  Member member{static_cast<int>(mine - decision.members.begin()), static_cast<int>(decision.members.size()),
                first_->launcher(), true, [&] { membership.require_alive(decision.members); }};
  const std::vector<RankFacts>& facts = first_->facts();
  const RankFacts& own = facts[static_cast<std::size_t>(first_->rank())];
  for (const RankProcess& each : decision.members) {
    const RankFacts& theirs = facts[static_cast<std::size_t>(each.rank)];
    member.on_one_node = member.on_one_node && theirs.machine == own.machine && theirs.network == own.network;
  }
  MembershipExchange exchange(*first_, decision);
  return join_over(exchange, member, env_, Deadline::after(env_.timeout_or(base::Env::start_timeout)));
}

bool Regroup::attempt(const char* operation, const Decision& decision, const Build& build) {
  constexpr int most_attempts = 3;
  Ballot ballot{Ballot::Step::confirm, number_++, decision.members, true, {}};
  try {
    build(join(decision));
  } catch (const std::exception& error) {
    ballot.ok = false;
    ballot.text = fmt::format("rank {}: {}", first_->rank(), error.what());
  }
  const Decision confirmed = first_->membership()->agree(ballot, env_.timeout);
  if (confirmed.agreed) {
    members_ = decision.members;
    return true;
  }
  // If no process has ended, the reason may be permanent, such as a lack of descriptors.
  const bool some_ended = confirmed.members.size() != decision.members.size();
  if (!some_ended && ++failed_attempts_ == most_attempts)
    throw_failure(Code::error, operation, first_->rank(), -1, confirmed.text);
  return false;
}

}  // namespace hmc::bootstrap
