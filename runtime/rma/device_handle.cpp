// The window's handle for kernels, and the ranks' user contexts.
#include <fmt/format.h>

#include "runtime/memory/kernels.hpp"
#include "runtime/rma/core.hpp"
#include "runtime/rma/device_access.hpp"
#include "runtime/rma/operation_scope.hpp"

namespace hmc::rma {

KernelReach& Core::kernel_reach() { return devices().kernel_reach(); }

void Core::open_context(TeamCore& team) {
  if (!open_) refuse_closed("Window::open_context");
  if (context_ != nullptr) throw Error(Code::invalid_argument, "Window::open_context", "the window has its context");
  if (team.id() != team_id())
    throw Error(Code::invalid_argument, "Window::open_context", "this isn't the team that the window was made over");
  const OperationScope user(*fabric_, "Window::open_context", base::SetupCall::context);
  context_ = Core::create(team, Window::context_bytes, Role::internal);
}

Core& Core::context(const char* operation) const {
  if (!open_) refuse_closed(operation);
  if (context_ == nullptr)
    throw Error(Code::invalid_argument, operation, "the window has no context", "open_context makes it");
  return *context_;
}

DeviceHandle Core::device_handle(MemoryType type, int device) {
  if (!open_) refuse_closed("Window::device_handle");
  const memory::Provider* provider = on_device() ? allocation_->provider : &memory::provider_for(type);
  if (on_device()) device = allocation_->device;
  if (provider->host_accessible() || provider->kernels() == nullptr)
    throw Error(Code::unsupported, "Window::device_handle",
                fmt::format("HMC knows no kernels of {} devices", provider->name()));
  // Check the caller's device number: the functions below use it as an index.
  const int count = provider->kernels()->vendor().device_count();
  if (device < 0 || device >= count)
    throw Error(Code::invalid_argument, "Window::device_handle",
                fmt::format("{} has {} devices, and no device {}", provider->name(), count, device));
  return devices().handle(*provider, device, context_.get());
}

}  // namespace hmc::rma
