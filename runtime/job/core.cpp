#include "runtime/job/core.hpp"

#include <algorithm>
#include <utility>

#include "runtime/window/device/open_streams.hpp"
#include "runtime/window/operation_scope.hpp"

namespace hmc::job {

Core::Core(std::shared_ptr<bootstrap::Bootstrap> bootstrap, std::shared_ptr<window::Fabric> fabric,
           std::shared_ptr<window::TeamCore> world)
    : bootstrap_(std::move(bootstrap)), fabric_(std::move(fabric)), world_(std::move(world)) {
  for (const bootstrap::RankFacts& facts : bootstrap_->facts()) node_count_ = std::max(node_count_, facts.node + 1);
}

Core::~Core() {
  fabric_->background.stop();
  fabric_->background.end_all();
  // Windows and teams may outlive this; they find the fabric closed.
  fabric_->life->open = 0;
}

void Core::close() {
  if (fabric_->closed()) window::throw_closed_runtime(*fabric_, "Runtime::close");
  // The ranks may stand at different steps by now: nothing that is collective can be begun again.
  if (std::exchange(closing_, true)) throw Error(Code::closed, "Runtime::close", "an earlier close failed");
  const window::OperationScope user(*fabric_, "Runtime::close", base::SetupCall::runtime_close);
  base::Status streams;
  const auto take = [&](const base::Status& status) {
    if (streams.ok()) streams = status;
  };
  // Streams of any team use the ranks' memory as long as they hold something, whatever fails below.
  for (window::OpenStreams* const each : fabric_->open_streams) take(each->run_dry());
  const std::exception_ptr unheard = world_.core()->collectives->close();
  fabric_->background.stop();
  fabric_->background.end_all();  // what other teams have under way: buffers are the caller's from here on
  window::close_step(unheard,
                     [&] { window::barrier_for(*fabric_, *bootstrap_, fabric_->deadline(), base::Activity::closing); });
  for (const window::OpenStreams* const each : fabric_->open_streams) take(each->compare());
  for (const auto& wire : fabric_->wires) wire->all_left();
  bootstrap_->leave();
  fabric_->life->open = 0;
  if (unheard != nullptr) std::rethrow_exception(unheard);
  window::require(*fabric_, streams, {"Runtime::close"});
}

}  // namespace hmc::job
