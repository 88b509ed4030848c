#include "runtime/rma/fabric.hpp"

#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <span>
#include <string>
#include <thread>

#include "runtime/base/interrupt.hpp"
#include "runtime/rma/operation_scope.hpp"
#include "runtime/rma/window_core.hpp"

namespace hmc::rma {

WindowCore* WindowRegistry::find(std::uint64_t id) const noexcept {
  for (WindowCore* const window : windows_)
    if (window->id() == id) return window;
  return nullptr;
}

WindowCore* WindowRegistry::around(const void* address, std::size_t bytes, std::uint64_t team,
                                   bool on_device) const noexcept {
  const auto first = reinterpret_cast<std::uintptr_t>(address);
  for (WindowCore* const window : windows_) {
    if (window->team_id() != 0 && window->team_id() != team) continue;
    if (window->on_device() != on_device) continue;
    const auto start = reinterpret_cast<std::uintptr_t>(window->data());
    if (first >= start && first - start <= window->bytes() && bytes <= window->bytes() - (first - start)) return window;
  }
  return nullptr;
}

base::Status Fabric::flush_wires(base::Activity activity) noexcept {
  if (!has_unflushed_) return {};
  for (std::size_t wire = 0; wire < wires.size(); ++wire) {
    transport::Ticket ticket = transport::done;
    base::Status status = wires[wire]->flush(-1, ticket);
    if (status.ok()) status = tickets.finish(static_cast<int>(wire), ticket, {activity}, timeout);
    if (!status.ok()) return status;
  }
  if (const base::Status status = tickets.complete_sources(); !status.ok()) return status;
  has_unflushed_ = false;
  return {};
}

base::Status abort_dropped(const Fabric& fabric, std::string_view what) noexcept {
  try {
    const char* const unwinding = std::uncaught_exceptions() > 0 ? "; an exception unwinds the stack" : "";
    const std::string text = fmt::format(
        "rank {} has destroyed the request of {} in flight, so its buffers may have ended; call wait(), or abandon(){}",
        fabric.rank, what, unwinding);
    if (fabric.job != nullptr) fabric.job->abort(text);
  } catch (const std::exception&) {  // no memory for the text
    if (fabric.job != nullptr) fabric.job->abort("a request was destroyed in flight");
  }
  const base::Status aborted = fabric.waiter.page().aborted();
  return aborted.ok() ? base::Status::failure(Code::aborted, "a request was destroyed in flight", fabric.rank)
                      : aborted;
}

void throw_closed_runtime(const Fabric& fabric, const char* operation) {
  if (fabric.is_forked()) base::throw_forked(operation, fabric.rank);
  throw Error(Code::closed, operation, "the runtime is closed");
}

namespace {

/// If a rank has died, further failures follow: connections break, new ones can't be made, and ranks that unwind close
/// their windows. The control plane reports the death before them, or shortly after. Then the death is the cause. The
/// program's interrupt ends this wait.
base::Status first_cause(const Fabric& fabric, const base::Status& status) {
  const bool names_peer = status.peer >= 0 && (status.code == Code::error || status.code == Code::unavailable);
  const bool may_follow = status.code == Code::peer_failed || status.code == Code::aborted || names_peer;
  if (!may_follow) return status;
  const base::NodePage& page = fabric.waiter.page();
  const auto limit = base::Deadline::after(std::chrono::seconds(1));
  base::Deadline check = base::Deadline::after(std::chrono::nanoseconds(0));
  while (page.aborted().ok() && !limit.expired()) {
    if (check.expired()) {
      if (base::is_interrupted()) break;
      check = base::Deadline::after(std::chrono::nanoseconds(base::interrupt_interval_ns));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const base::Status aborted = page.aborted();
  return aborted.ok() ? status : aborted;
}

}  // namespace

void throw_status(const Fabric& fabric, const base::Status& found, const CallSite& call) {
  throw_known(fabric, first_cause(fabric, found), call);
}

void throw_known(const Fabric& fabric, const base::Status& status, const CallSite& call) {
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
    if (!cause.empty())
      detail.message = cause;
    else if (status.code == Code::peer_failed && status.peer >= 0 && fabric.waiter.page().aborted().ok())
      // The wire detected the failure before the control plane did.
      detail.message = "rank " + std::to_string(status.peer) + " is lost: " + detail.message;
  }
  if (status.code == Code::mismatch && fabric.job != nullptr && detail.peer >= 0 &&
      fabric.tickets.is_closing(detail.peer))
    fabric.job->blame(detail.peer);
  if (status.code == Code::peer_failed && fabric.job != nullptr)
    if (const std::string text = fabric.job->explain_failure(detail.peer); !text.empty()) detail.message += "; " + text;
  if (status.code == Code::timeout && detail.peer >= 0) {
    const std::string state = what_ranks_are_in(fabric, std::span(&detail.peer, 1), "rank");
    if (!state.empty()) detail.message += "; " + state;
  }
  if (!call.more.empty()) detail.message.append("; ").append(call.more);
  if (status.code == Code::timeout)
    detail.hint = "HMC_TIMEOUT_S sets the deadline; hmcrun --timeout shows what each rank is in";
  throw Error(std::move(detail));
}

}  // namespace hmc::rma
