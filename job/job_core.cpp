// The steps by which a rank joins a job (bootstrap, settings, wires, world team), and its close.
#include "job/job_core.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <functional>
#include <map>
#include <string_view>
#include <utility>

#include <hmc/version.hpp>

#include "bootstrap/membership.hpp"
#include "bootstrap/tcp/launcher_notice.hpp"
#include "collectives/select/parameters.hpp"
#include "collectives/team/team_object.hpp"
#include "job/machine_model.hpp"
#include "job/wires.hpp"
#include "job/world_memory.hpp"
#include "runtime/base/fields.hpp"
#include "runtime/base/fork.hpp"
#include "runtime/device/window_devices.hpp"
#include "runtime/memory/pointer_lookup.hpp"
#include "runtime/rma/operation_scope.hpp"

namespace hmc::job {

namespace {

using bootstrap::RankFacts;

/// The number of CPUs that the machine's ranks may use, less the number of these ranks.
int spare_cores(const std::vector<RankFacts>& facts, std::uint64_t machine) {
  std::array<std::uint64_t, 4> cpus{};
  std::uint32_t further = 0;  // a lower bound of the number of CPUs that RankFacts::cpus can't represent
  int ranks = 0;
  for (const RankFacts& rank : facts) {
    if (rank.machine != machine) continue;
    ++ranks;
    for (std::size_t i = 0; i < cpus.size(); ++i) cpus[i] |= rank.cpus[i];
    further = std::max(further, rank.further_cpus);
  }
  int count = static_cast<int>(further);
  for (const std::uint64_t word : cpus) count += std::popcount(word);
  if (count == 0) count = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));  // no rank has affinity data
  return std::max(1, count) - ranks;
}

/// False if the rank is bound to one CPU. Its threads inherit that.
bool has_several_cpus(const RankFacts& rank) {
  std::uint32_t count = rank.further_cpus;
  for (const std::uint64_t word : rank.cpus) count += static_cast<std::uint32_t>(std::popcount(word));
  return count > 1;
}

/// The data that the ranks exchange at start: settings that must be equal, and the address of each wire.
struct StartupData {
  std::string version = HMC_VERSION_STRING;
  std::string transport;
  std::string coll;
  std::string coll_rows;
  ModelGreeting model;
  std::string deterministic;
  std::map<std::string, base::Bytes, std::less<>> addresses;  ///< by the wire's name: ranks may have different wires
  static constexpr auto fields =
      std::tuple(&StartupData::version, &StartupData::transport, &StartupData::coll, &StartupData::coll_rows,
                 &StartupData::deterministic, &StartupData::model, &StartupData::addresses);
};

void require_equal(const char* what, const std::string& mine, const std::string& theirs, int rank, int peer) {
  if (mine == theirs) return;
  ErrorDetail detail;
  detail.code = Code::invalid_config;
  detail.operation = "Runtime::init";
  detail.rank = rank;
  detail.peer = peer;
  detail.message = fmt::format("{} is '{}' here and '{}' on rank {}", what, mine, theirs, peer);
  throw Error(std::move(detail));
}

/// The contents of HMC_COLL_FILE; empty if it isn't set.
std::string read_rows(const std::string& file) {
  if (file.empty()) return {};
  std::string text;
  if (!collectives::read_file(file, text) || text.empty())
    throw Error(Code::invalid_config, "environment",
                fmt::format("HMC_COLL_FILE={}: it can't be read, is empty, or is longer than 16 MiB", file),
                "give a file of rows in JSON");
  return text;
}

/// The ranks compare this hash instead of the file's contents.
std::string fingerprint(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return text.empty() ? "not set" : fmt::format("{} bytes, {:016x}", text.size(), hash);
}

void set_peer_addresses(rma::Fabric& fabric, const base::Env& env, const std::string& coll_rows, NetworkModel& model) {
  StartupData mine;
  mine.model = model.greet(fabric);
  mine.coll_rows = fingerprint(coll_rows);
  mine.transport = env.transport;
  mine.coll = env.coll;
  mine.deterministic = std::to_string(int{env.deterministic});
  for (const auto& wire : fabric.wires) mine.addresses.emplace(wire->name(), wire->address());
  const auto answers = rma::allgather_for(fabric, *fabric.exchange, base::encode(mine), fabric.deadline());
  std::vector<std::vector<base::Bytes>> addresses(fabric.wires.size(), std::vector<base::Bytes>(answers.size()));
  for (std::size_t rank = 0; rank < answers.size(); ++rank) {
    std::optional<StartupData> sent = base::decode<StartupData>(answers[rank]);
    if (!sent) throw Error(Code::refused, "Runtime::init", fmt::format("rank {} sent malformed start-up data", rank));
    StartupData& theirs = *sent;
    require_equal("HMC's version", mine.version, theirs.version, fabric.rank, static_cast<int>(rank));
    require_equal("HMC_TRANSPORT", mine.transport, theirs.transport, fabric.rank, static_cast<int>(rank));
    require_equal("HMC_COLL", mine.coll, theirs.coll, fabric.rank, static_cast<int>(rank));
    require_equal("HMC_COLL_FILE", mine.coll_rows, theirs.coll_rows, fabric.rank, static_cast<int>(rank));
    require_equal("HMC_DETERMINISTIC", mine.deterministic, theirs.deterministic, fabric.rank, static_cast<int>(rank));
    model.hear(static_cast<int>(rank), std::move(theirs.model));
    for (std::size_t w = 0; w < fabric.wires.size(); ++w)
      if (const auto found = theirs.addresses.find(fabric.wires[w]->name()); found != theirs.addresses.end())
        addresses[w][rank] = std::move(found->second);
  }
  for (std::size_t w = 0; w < fabric.wires.size(); ++w) fabric.wires[w]->set_peer_addresses(std::move(addresses[w]));
}

/// Chooses the first wire that reaches the peer. Path::why also gives the reason against each wire before it.
void choose_wire(rma::Fabric& fabric, int peer, const base::Env& env) {
  std::string passed_over;
  for (std::size_t w = 0; w < fabric.wires.size(); ++w) {
    const transport::Wire& wire = *fabric.wires[w];
    const transport::Reachability reach = wire.reaches(peer);
    if (!reach.yes) {
      passed_over += fmt::format("; not {}: {}", wire.name(), reach.why);
      continue;
    }
    Path path{std::string(wire.name()), wire.capabilities().direct, reach.why + passed_over};
    if (!env.transport.empty()) path.why += "; forced by HMC_TRANSPORT";
    fabric.log.info("rank {} -> {}: {} ({})", fabric.rank, peer, path.wire, path.why);
    fabric.peer(peer).wire = static_cast<int>(w);
    fabric.peer(peer).path = std::move(path);
    return;
  }
  ErrorDetail detail;
  detail.code = Code::unavailable;
  detail.operation = "Runtime::init";
  detail.rank = fabric.rank;
  detail.peer = peer;
  detail.message = fmt::format("no wire reaches rank {}{}", peer, passed_over);
  if (!env.transport.empty()) detail.hint = fmt::format("HMC_TRANSPORT={} forbids the others", env.transport);
  throw Error(std::move(detail));
}

/// The bootstrap's facts about the ranks, without paths to them.
std::shared_ptr<rma::Fabric> make_fabric(const std::shared_ptr<bootstrap::Bootstrap>& bootstrap, const base::Env& env) {
  auto fabric = std::make_shared<rma::Fabric>();
  const std::vector<RankFacts>& facts = bootstrap->facts();
  fabric->rank = bootstrap->rank();
  fabric->size = bootstrap->size();
  fabric->timeout = env.timeout;
  fabric->log = base::Log(env.log, fabric->rank);
  fabric->exchange = bootstrap;
  fabric->node_link = &bootstrap->node_link();
  fabric->devices = device::make_devices();

  const RankFacts& mine = facts[static_cast<std::size_t>(fabric->rank)];
  transport::WireContext context;
  context.rank = fabric->rank;
  context.size = fabric->size;
  context.local_index = mine.local_index;
  context.one_network = mine.network != 0;
  for (const RankFacts& rank : facts) {
    rma::FabricPeer& peer = fabric->peers.emplace_back();
    peer.node = rank.node;
    if (rank.node == mine.node) peer.local_index = rank.local_index;
    context.one_network = context.one_network && rank.machine == mine.machine && rank.network == mine.network;
    context.several_nodes = context.several_nodes || rank.node != mine.node;
    context.one_machine = context.one_machine && rank.machine == mine.machine;
  }
  const base::WaitMode mode = env.wait == "sleep"  ? base::WaitMode::sleep
                              : env.wait == "spin" ? base::WaitMode::spin
                                                   : base::WaitMode::adapt;
  const int spare = spare_cores(facts, mine.machine);
  fabric->waiter = base::Waiter(bootstrap->node_page(), mine.local_index, mode, spare < 0);
  fabric->waiter.report_after(env.report, [fabric = fabric.get(), bootstrap = bootstrap.get()](
                                              const base::WaitNote& note, std::chrono::nanoseconds waited) {
    if (!fabric->log.wants(base::LogLevel::warn)) return;
    const std::string text = rma::text_of_long_wait(*fabric, note, waited);
    if (!bootstrap->report(text, waited)) fabric->log.warn("{}", text);
  });
  fabric->background.allow(env.progress != "caller", spare > 0 && has_several_cpus(mine));

  base::ActivityLine& line = bootstrap->node_page().activity(mine.local_index);
  line.world_rank.store(fabric->rank, std::memory_order_relaxed);
  line.pid.store(mine.pid, std::memory_order_relaxed);

  context.key = bootstrap->wire_key();
  if (fabric->size > 1) context.tls = tls_key(env);
  context.node_link = fabric->node_link;
  context.waiter = &fabric->waiter;
  context.log = &fabric->log;
  context.env = &env;
  fabric->wires = make_wires(context);
  for (const auto& wire : fabric->wires) {
    fabric->tickets.add_wire(*wire);
    const transport::Capabilities capabilities = wire->capabilities();
    if (capabilities.needs_target || capabilities.needs_origin) fabric->waiter.add_progress(wire.get());
  }
  return fabric;
}

/// This rank's line in the job's node page.
base::ActivityLine& line_in(const bootstrap::Bootstrap& job) {
  return job.node_page().activity(job.facts()[static_cast<std::size_t>(job.rank())].local_index);
}

/// True if only this rank lacks descriptors, threads or memory. An error that all ranks get has a peer or is agreed.
bool is_own_shortage(const Error& error) noexcept {
  const ErrorDetail& detail = error.detail();
  if (detail.peer >= 0 || detail.is_agreed || detail.code == Code::timeout) return false;
  const int number = detail.sys_errno;
  return detail.code == Code::out_of_memory || number == EMFILE || number == ENFILE || number == EAGAIN ||
         number == ENOMEM;
}

}  // namespace

/// hmcrun's last answer to name_cause_and_ask().
struct JobCore::Told {
  std::mutex mutex;
  std::string text;
};

/// One job as its fabric sees it. The teams and windows that hold the fabric may outlive the JobCore.
class JobCore::Link final : public rma::Job {
 public:
  Link(JobCore& core, std::shared_ptr<bootstrap::Bootstrap> job)
      : core_(&core),
        job_(std::move(job)),
        env_(core.env_),
        has_launcher_(bootstrap::has_launcher(core.env_)),
        explains_(core.joined_over_store_ && has_launcher_),
        told_(core.told_) {}
  /// Another job follows, or the JobCore ends. The fabric is closed then.
  void end() noexcept { core_ = nullptr; }

  Team regroup(Regroup which, std::chrono::nanoseconds timeout) override { return core_->regroup(which, timeout); }
  void abort(std::string_view text) noexcept override {
    if (core_ != nullptr) core_->abort(1, text);
  }
  /// The launcher's control plane doesn't serve this job, but hmcrun knows how its process ended.
  std::string explain_failure(int peer) override {
    const RankFacts* const failed = explains_ ? other_on_this_machine(peer) : nullptr;
    if (failed == nullptr) return {};
    std::call_once(asked_, [&] {
      const std::string text = bootstrap::name_cause_and_ask(env_, failed->pid);
      const std::lock_guard guard(told_->mutex);
      // After shrink() hmcrun still answers with the first failure of all, which isn't this one.
      if (text.empty() || text == told_->text) return;
      told_->text = text;
      answer_ = "hmcrun: " + text;
    });
    return answer_;
  }
  void blame(int peer) noexcept override {
    if (const RankFacts* const cause = has_launcher_ ? other_on_this_machine(peer) : nullptr; cause != nullptr)
      std::call_once(named_, [&] { bootstrap::name_cause(env_, cause->pid); });
  }

 private:
  const RankFacts* other_on_this_machine(int rank) const noexcept {
    if (rank < 0 || rank >= job_->size() || rank == job_->rank()) return nullptr;
    const std::vector<RankFacts>& facts = job_->facts();
    const RankFacts& other = facts[static_cast<std::size_t>(rank)];
    return other.machine == facts[static_cast<std::size_t>(job_->rank())].machine ? &other : nullptr;
  }

  JobCore* core_;
  std::shared_ptr<bootstrap::Bootstrap> job_;
  base::Env env_;
  bool has_launcher_;
  bool explains_;  ///< the launcher knows more about a failure than the control plane of this job
  std::shared_ptr<Told> told_;
  std::once_flag asked_;
  std::once_flag named_;
  std::string answer_;
};

JobCore::Parts JobCore::build(std::shared_ptr<bootstrap::Bootstrap> bootstrap, const base::Env& env) {
  collectives::Settings settings;
  settings.algorithms = env.coll;
  settings.deterministic = env.deterministic;
  settings.private_buffers = env.coll_private;
  settings.rows = read_rows(env.coll_file);
  settings.rows_file = env.coll_file;

  std::shared_ptr<rma::Fabric> fabric = make_fabric(bootstrap, env);
  NetworkModel model(*fabric, bootstrap->facts(), env);
  const rma::OperationScope user(*fabric, "Runtime::init");
  set_peer_addresses(*fabric, env, settings.rows, model);
  for (int peer = 0; peer < fabric->size; ++peer) choose_wire(*fabric, peer, env);
  fabric->log.info("rank {} of {}, launcher {}, waits by {}", fabric->rank, fabric->size, bootstrap->launcher(),
                   fabric->waiter.sleeps() ? "sleeping (ranks outnumber cores)" : "polling");

  auto world = base::make_owned<collectives::TeamObject>(fabric);
  settings.parameters = model.agree(*world);
  open_world(*world, settings);
  return {std::move(bootstrap), std::move(fabric), Team(std::move(world))};
}

JobCore::JobCore(std::unique_ptr<bootstrap::Bootstrap> bootstrap, const base::Env& env, bool over_store)
    : env_(env),
      joined_over_store_(over_store),
      told_(std::make_shared<Told>()),
      first_(std::move(bootstrap)),
      regroup_(first_, env) {
  memory::look_for_devices();
  if (bootstrap::Membership* const membership = first_->membership(); membership && membership->is_replacement()) {
    regroup_.stand_by([this](std::unique_ptr<bootstrap::Bootstrap> joined) { use(build(std::move(joined), env_)); });
    return;
  }
  try {
    use(build(first_, env_));
  } catch (const Error& error) {
    // The other ranks wait for this rank. The abort gives them the cause. Without it they would only detect its exit.
    if (is_own_shortage(error)) first_->abort(1, fmt::format("rank {} can't start: {}", first_->rank(), error.what()));
    throw;
  }
}

JobCore::~JobCore() {
  if (current_.fabric == nullptr) return;
  current_.link->end();
  current_.fabric->background.stop();
  current_.fabric->background.end_all();
  // Windows and teams may outlive this object. Their calls fail, because the fabric is closed.
  current_.fabric->life->open = 0;
}

int JobCore::node_count() const noexcept {
  int last = 0;
  for (const bootstrap::RankFacts& facts : current_.bootstrap->facts()) last = std::max(last, facts.node);
  return last + 1;
}

bool JobCore::is_replacement() const noexcept {
  const bootstrap::Membership* const membership = first_->membership();
  return membership != nullptr && membership->is_replacement();
}

void JobCore::use(Parts fresh) {
  // After the calls of build(). The bootstrap has set Activity::starting. Relaxed: hints for texts.
  base::ActivityLine& line = fresh.fabric->waiter.page().activity(fresh.fabric->waiter.local_index());
  line.since_ns.store(base::now_ns(), std::memory_order_relaxed);
  line.activity.store(static_cast<std::uint32_t>(base::Activity::computing), std::memory_order_relaxed);
  fresh.link = std::make_shared<Link>(*this, fresh.bootstrap);
  fresh.fabric->job = fresh.link;
  const std::lock_guard lock(mutex_);
  // hmcrun and hmcinfo follow the lines of the earlier jobs to this one. Relaxed: a hint for texts.
  for (const auto& earlier : {first_, current_.bootstrap}) {
    if (earlier == nullptr || earlier == fresh.bootstrap) continue;
    line_in(*earlier).later_page.store(fresh.bootstrap->node_page().segment()->fd(), std::memory_order_relaxed);
  }
  current_ = std::move(fresh);
}

/// The caller's Team keeps the old world, and with it the fabric, until this call returns. The old windows keep their
/// memory until Window::rebind.
Team JobCore::regroup(rma::Job::Regroup which, std::chrono::nanoseconds timeout) {
  const bool shrinks = which == rma::Job::Regroup::shrink;
  const char* const operation = shrinks ? "shrink" : "grow";
  const Parts old = current_;
  if (first_->membership() == nullptr)
    throw Error(Code::unavailable, operation, fmt::format("{} can't leave out or replace ranks", first_->launcher()));
  if (closing_) throw Error(Code::closed, operation, "Runtime::close was called");
  const base::Status status = old.bootstrap->node_page().aborted();
  if (status.code == Code::aborted) rma::throw_status(*old.fabric, status, {operation});
  const auto stop = [&old] {
    old.fabric->background.stop();
    old.fabric->background.end_all();
  };
  Parts fresh;
  const auto rebuild = [&](std::unique_ptr<bootstrap::Bootstrap> joined) {
    fresh = {};
    fresh = build(std::move(joined), env_);
  };
  if (shrinks) {
    // The other ranks may not have noticed a failure, for example if this rank has only lost a connection.
    if (status.ok())
      old.bootstrap->fail_job(old.fabric->rank, fmt::format("rank {} has called shrink()", old.fabric->rank));
    else
      old.bootstrap->fail_job(status.peer, old.bootstrap->node_page().abort_text());
    stop();  // this job has failed: after this no transfer of it accesses the caller's buffers
    regroup_.shrink(rebuild);
  } else {
    regroup_.grow(timeout, rebuild);  // if it throws, this job stays usable
    stop();
  }
  old.link->end();
  old.fabric->life->open = 0;
  use(std::move(fresh));
  if (old.bootstrap != first_) old.bootstrap->leave();
  return current_.world;
}

void JobCore::abort(int exit_code, std::string_view text) noexcept {
  if (base::this_process() != process_) return;  // a child of fork(); the lock may be held forever
  const std::lock_guard lock(mutex_);
  if (current_.bootstrap == nullptr) return;
  current_.bootstrap->abort(exit_code, text);
  if (current_.bootstrap != first_) first_->abort(exit_code, text);  // the launcher serves the first job only
}

void JobCore::close() {
  rma::Fabric& fabric = *current_.fabric;
  if (fabric.closed()) rma::throw_closed_runtime(fabric, "Runtime::close");
  // After a failed close the ranks may be at different steps, so no collective step can be repeated.
  if (std::exchange(closing_, true)) throw Error(Code::closed, "Runtime::close", "an earlier close failed");
  const rma::OperationScope user(fabric, "Runtime::close", base::SetupCall::runtime_close);
  base::Status streams;
  const auto take = [&](const base::Status& status) {
    if (streams.ok()) streams = status;
  };
  // First, and even if later steps fail: pending work on streams of any team still uses the ranks' memory.
  for (rma::OpenStreams* const each : fabric.devices->open_streams()) take(each->complete_streams());
  collectives::TeamObject& world = *current_.world.object();
  world.messages->close();
  const std::exception_ptr unheard = world.close_engines();
  fabric.background.stop();
  fabric.background.end_all();  // ends the operations in flight of other teams: the caller may free their buffers
  rma::close_step(unheard,
                  [&] { rma::barrier_for(fabric, *current_.bootstrap, fabric.deadline(), base::Activity::closing); });
  for (const rma::OpenStreams* const each : fabric.devices->open_streams()) take(each->compare());
  for (const auto& wire : fabric.wires) wire->all_left();
  current_.bootstrap->leave();
  if (current_.bootstrap != first_) {
    line_in(*first_).later_page.store(-1, std::memory_order_relaxed);  // the descriptor may be used for another file
    first_->leave();
  }
  fabric.life->open = 0;
  if (unheard != nullptr) std::rethrow_exception(unheard);
  rma::require(fabric, streams, {"Runtime::close"});
}

}  // namespace hmc::job
