// The public Runtime.
#include <hmc/runtime.hpp>

#include "bootstrap/detect.hpp"
#include "runtime/base/env.hpp"
#include "runtime/job/core.hpp"

namespace hmc {

Runtime Runtime::init() {
  const base::Env env = base::Env::from_process();
  return Runtime(job::make_core(bootstrap::detect(env), env));
}

Runtime::Runtime(std::unique_ptr<job::Core> core) : core_(std::move(core)) {}
Runtime::Runtime(Runtime&&) noexcept = default;
Runtime& Runtime::operator=(Runtime&&) noexcept = default;
Runtime::~Runtime() = default;

void Runtime::close() { core_->close(); }

int Runtime::rank() const noexcept { return core_->fabric().rank; }
int Runtime::size() const noexcept { return core_->fabric().size; }
int Runtime::node() const noexcept { return core_->bootstrap().facts()[static_cast<std::size_t>(rank())].node; }

int Runtime::node(int rank) const {
  if (rank < 0 || rank >= size())
    throw Error(Code::bad_rank, "Runtime::node", "there is no rank " + std::to_string(rank));
  return core_->bootstrap().facts()[static_cast<std::size_t>(rank)].node;
}

int Runtime::node_count() const noexcept { return core_->node_count(); }
Team& Runtime::world() noexcept { return core_->world(); }

Path Runtime::path(int rank) const {
  if (rank < 0 || rank >= size())
    throw Error(Code::bad_rank, "Runtime::path", "there is no rank " + std::to_string(rank));
  return core_->fabric().paths[static_cast<std::size_t>(rank)];
}

std::string Runtime::launcher() const { return core_->bootstrap().launcher(); }
Counters Runtime::counters() const { return core_->fabric().counters; }
Timeout Runtime::timeout() const noexcept { return core_->fabric().timeout; }

void Runtime::abort(int exit_code, const std::string& text) noexcept { core_->bootstrap().abort(exit_code, text); }

}  // namespace hmc
