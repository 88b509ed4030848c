#include "job/job_core.hpp"

#include <algorithm>
#include <utility>

#include "runtime/device/open_streams.hpp"
#include "runtime/rma/operation_scope.hpp"

namespace hmc::job {

JobCore::JobCore(std::shared_ptr<bootstrap::Bootstrap> bootstrap, std::shared_ptr<rma::Fabric> fabric,
                 std::shared_ptr<rma::TeamCore> world)
    : bootstrap_(std::move(bootstrap)), fabric_(std::move(fabric)), world_(std::move(world)) {
  for (const bootstrap::RankFacts& facts : bootstrap_->facts()) node_count_ = std::max(node_count_, facts.node + 1);
}

JobCore::~JobCore() {
  fabric_->background.stop();
  fabric_->background.end_all();
  // Windows and teams may outlive this object. Their calls fail, because the fabric is closed.
  fabric_->life->open = 0;
}

void JobCore::close() {
  if (fabric_->closed()) rma::throw_closed_runtime(*fabric_, "Runtime::close");
  // After a failed close the ranks may be at different steps, so no collective step can be repeated.
  if (std::exchange(closing_, true)) throw Error(Code::closed, "Runtime::close", "an earlier close failed");
  const rma::OperationScope user(*fabric_, "Runtime::close", base::SetupCall::runtime_close);
  base::Status streams;
  const auto take = [&](const base::Status& status) {
    if (streams.ok()) streams = status;
  };
  // First, and even if later steps fail: pending work on streams of any team still uses the ranks' memory.
  for (rma::OpenStreams* const each : fabric_->open_streams) take(each->complete_streams());
  const std::exception_ptr unheard = world_.core()->collectives->close();
  fabric_->background.stop();
  fabric_->background.end_all();  // ends the operations in flight of other teams: the caller may free their buffers
  rma::close_step(unheard,
                  [&] { rma::barrier_for(*fabric_, *bootstrap_, fabric_->deadline(), base::Activity::closing); });
  for (const rma::OpenStreams* const each : fabric_->open_streams) take(each->compare());
  for (const auto& wire : fabric_->wires) wire->all_left();
  bootstrap_->leave();
  fabric_->life->open = 0;
  if (unheard != nullptr) std::rethrow_exception(unheard);
  rma::require(*fabric_, streams, {"Runtime::close"});
}

}  // namespace hmc::job
