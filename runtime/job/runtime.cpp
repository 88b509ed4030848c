// The public Runtime.
#include <hmc/runtime.hpp>

#include <atomic>

#include "bootstrap/detect.hpp"
#include "runtime/base/env.hpp"
#include "runtime/base/fork.hpp"
#include "runtime/job/core.hpp"

namespace hmc {

namespace {

/// The process that joined a job of a launcher, by its number; a child of fork() inherits it, and its environment.
std::atomic<std::uint64_t> joined_in{0};

}  // namespace

Runtime Runtime::init() {
  const base::Env env = base::Env::from_process();
  if (env.rank) {
    // Relaxed: a number and nothing else. A second rank of this process finds its own.
    const std::uint64_t joined = joined_in.exchange(base::this_process(), std::memory_order_relaxed);
    if (joined != 0 && joined != base::this_process()) {
      joined_in.store(joined, std::memory_order_relaxed);
      base::throw_forked("Runtime::init", *env.rank);
    }
  }
  return Runtime(job::make_core(bootstrap::detect(env), env));
}

Runtime::Runtime(std::unique_ptr<job::Core> core) : core_(std::move(core)) {}
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

job::Core& Runtime::core() const {
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
Team& Runtime::world() { return core().world(); }

Path Runtime::path(int rank) const {
  const auto& paths = core().fabric().paths;
  if (rank < 0 || rank >= size())
    throw Error(Code::bad_rank, "Runtime::path", "there is no rank " + std::to_string(rank));
  return paths[static_cast<std::size_t>(rank)];
}

std::string Runtime::launcher() const { return core().bootstrap().launcher(); }
Counters Runtime::counters() const {
  Counters counters = core().fabric().counters;
  counters.runs_landed = core().fabric().runs_landed.load(std::memory_order_relaxed);
  return counters;
}
Timeout Runtime::timeout() const noexcept { return core_ != nullptr ? core_->fabric().timeout : Timeout::zero(); }

void Runtime::abort(int exit_code, const std::string& text) noexcept {
  if (core_ != nullptr && !core_->fabric().is_forked()) core_->bootstrap().abort(exit_code, text);
}

}  // namespace hmc
