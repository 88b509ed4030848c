#include "runtime/window/fabric.hpp"

#include "runtime/window/core.hpp"

namespace hmc::window {

Core* Fabric::window_by_id(std::uint64_t id) const noexcept {
  for (Core* const window : windows)
    if (window->id() == id) return window;
  return nullptr;
}

Core* Fabric::window_around(const void* address, std::size_t bytes) const noexcept {
  const auto first = reinterpret_cast<std::uintptr_t>(address);
  for (Core* const window : windows) {
    const auto start = reinterpret_cast<std::uintptr_t>(window->data());
    if (first >= start && first - start <= window->bytes() && bytes <= window->bytes() - (first - start)) return window;
  }
  return nullptr;
}

base::Status flush_wires(Fabric& fabric) noexcept {
  for (const auto& wire : fabric.wires) {
    transport::Ticket ticket = transport::done;
    if (const base::Status status = wire->flush(-1, ticket); !status.ok()) return status;
    if (ticket == transport::done) continue;
    base::Status result;
    const auto flushed = [&]() noexcept {
      wire->progress();
      result = wire->test(ticket);
      return result.code != Code::in_progress;
    };
    if (const base::Status status = fabric.waiter.until({base::Activity::flush}, flushed, fabric.timeout); !status.ok())
      return status;
    if (!result.ok()) return result;
  }
  return {};
}

void throw_status(const Fabric& fabric, const base::Status& status, const CallSite& call) {
  ErrorDetail detail;
  detail.code = status.code;
  detail.operation = call.operation;
  detail.rank = fabric.rank;
  detail.peer = status.peer >= 0 ? status.peer : call.peer;
  detail.offset = call.offset;
  detail.size = call.size;
  detail.has_extent = call.has_extent;
  detail.sys_errno = status.sys_errno;
  detail.message = status.what != nullptr ? status.what : name_of(status.code);
  if (status.code == Code::peer_failed || status.code == Code::aborted) {
    const std::string cause = fabric.waiter.page().abort_text();
    if (!cause.empty()) detail.message = cause;
  }
  if (status.code == Code::timeout)
    detail.hint = "HMC_TIMEOUT_S sets the deadline; hmcrun --timeout shows what each rank is in";
  throw Error(std::move(detail));
}

}  // namespace hmc::window
