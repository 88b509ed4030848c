// The public Runtime.
#include <hmc/runtime.hpp>

#include <atomic>

#include "bootstrap/detect/detect.hpp"
#include "bootstrap/launchers/join_over.hpp"
#include "bootstrap/tcp/uncaught.hpp"
#include "job/job_core.hpp"
#include "runtime/base/env.hpp"
#include "runtime/base/fork.hpp"
#include "runtime/base/log.hpp"

namespace hmc {

namespace {

/// this_process() of the process that joined a launcher's job; 0: none. A child of fork() inherits the value and the
/// environment, but has another this_process().
std::atomic<std::uint64_t> joined_in{0};

/// The rank that a launcher's variables state; empty: none.
std::string stated_rank(const base::Env& env) {
  if (env.rank) return std::to_string(*env.rank);
  for (const char* const name : {"PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "RANK"})
    if (const auto found = env.foreign.find(name); found != env.foreign.end()) return found->second;
  return {};
}

/// Called once per process, before it joins the job, because a misspelt name can make the join fail. Only rank 0 warns,
/// because the ranks' environments are usually equal.
void warn_of_misspelt_names(const base::Env& env) {
  static std::atomic<bool> warned{false};
  // Relaxed: the flag orders no other data.
  const std::string rank = stated_rank(env);
  if ((!rank.empty() && rank != "0") || warned.exchange(true, std::memory_order_relaxed)) return;
  const base::Log log(env.log, env.rank.value_or(-1));
  for (const auto& [name, nearest] : base::Env::misspelt())
    log.warn("the environment has {}, which HMC doesn't read; the nearest name that it reads is {}", name, nearest);
}

}  // namespace

Runtime Runtime::init() {
  bootstrap::report_uncaught_errors();
  const base::Env env = base::Env::from_process();
  warn_of_misspelt_names(env);
  // Relaxed: the number is the only data. A second rank of this process finds the same number.
  const std::uint64_t joined = joined_in.load(std::memory_order_relaxed);
  if (!stated_rank(env).empty() && joined != 0 && joined != base::this_process())
    base::throw_forked("Runtime::init", env.rank.value_or(-1));
  std::unique_ptr<bootstrap::Bootstrap> bootstrap = bootstrap::detect(env);
  if (env.rank || bootstrap->size() > 1) joined_in.store(base::this_process(), std::memory_order_relaxed);
  return Runtime(std::make_unique<job::JobCore>(std::move(bootstrap), env));
}

Runtime Runtime::init(const KeyValueStore& store, int rank, int size, Timeout timeout) {
  base::require_timeout(timeout, "Runtime::init");
  base::Env env = base::Env::from_process();
  if (timeout != job_timeout) env.timeout = timeout;
  warn_of_misspelt_names(env);
  return Runtime(std::make_unique<job::JobCore>(bootstrap::join_over(store, rank, size, env), env, true));
}

Runtime::Runtime(std::unique_ptr<job::JobCore> core) : core_(std::move(core)) {}
Runtime::Runtime(Runtime&&) noexcept = default;
Runtime& Runtime::operator=(Runtime&& other) noexcept {
  if (this == &other) return *this;
  const Runtime last(std::move(*this));
  core_ = std::move(other.core_);
  return *this;
}
Runtime::~Runtime() {
  if (core_ != nullptr && core_->fabric().is_forked()) base::keep_until_exit(core_.release());
}

job::JobCore& Runtime::core() const {
  if (core_ == nullptr) throw Error(Code::closed, "Runtime", "the runtime was moved from");
  return *core_;
}

void Runtime::close() { core().close(); }

int Runtime::rank() const noexcept { return core_ != nullptr ? core_->fabric().rank : -1; }
int Runtime::size() const noexcept { return core_ != nullptr ? core_->fabric().size : 0; }
int Runtime::node() const noexcept {
  return core_ != nullptr ? core_->bootstrap().facts()[static_cast<std::size_t>(rank())].node : -1;
}

int Runtime::node(int rank) const {
  const auto& facts = core().bootstrap().facts();
  if (rank < 0 || rank >= size())
    throw Error(Code::bad_rank, "Runtime::node", "there is no rank " + std::to_string(rank));
  return facts[static_cast<std::size_t>(rank)].node;
}

int Runtime::node_count() const noexcept { return core_ != nullptr ? core_->node_count() : 0; }
bool Runtime::is_replacement() const { return core().is_replacement(); }
Team& Runtime::world() { return core().world(); }

Path Runtime::path(int rank) const {
  const rma::Fabric& fabric = core().fabric();
  if (rank < 0 || rank >= size())
    throw Error(Code::bad_rank, "Runtime::path", "there is no rank " + std::to_string(rank));
  return fabric.peer(rank).path;
}

std::string Runtime::launcher() const { return core().bootstrap().launcher(); }
Counters Runtime::counters() const {
  Counters counters = core().fabric().counters;
  counters.direct_receives = core().fabric().direct_receives.load(std::memory_order_relaxed);
  return counters;
}
Timeout Runtime::timeout() const noexcept { return core_ != nullptr ? core_->fabric().timeout : Timeout::zero(); }

void Runtime::set_timeout(Timeout timeout) {
  if (timeout < Timeout::zero()) throw Error(Code::invalid_argument, "Runtime::set_timeout", "the timeout is negative");
  core().fabric().timeout = timeout;
}

void Runtime::abort(int exit_code, const std::string& text) noexcept {
  if (core_ != nullptr) core_->abort(exit_code, text);
}

}  // namespace hmc
