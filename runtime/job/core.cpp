#include "runtime/job/core.hpp"

#include <algorithm>
#include <utility>

namespace hmc::job {

Core::Core(std::shared_ptr<bootstrap::Bootstrap> bootstrap, std::shared_ptr<window::Fabric> fabric,
           std::shared_ptr<window::TeamCore> world)
    : bootstrap_(std::move(bootstrap)), fabric_(std::move(fabric)), world_(std::move(world)) {
  for (const bootstrap::RankFacts& facts : bootstrap_->facts()) node_count_ = std::max(node_count_, facts.node + 1);
}

Core::~Core() {
  // Windows and teams may outlive this; they find the fabric closed.
  fabric_->closed = true;
}

void Core::close() {
  if (fabric_->closed) throw Error(Code::closed, "Runtime::close", "the runtime is closed");
  // The ranks may stand at different steps by now: nothing that is collective can be begun again.
  if (std::exchange(closing_, true)) throw Error(Code::closed, "Runtime::close", "an earlier close failed");
  world_.core()->collectives->close();
  bootstrap_->barrier(fabric_->deadline());
  bootstrap_->leave();
  fabric_->closed = true;
}

}  // namespace hmc::job
