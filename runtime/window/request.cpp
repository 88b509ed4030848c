#include <hmc/request.hpp>

#include "runtime/window/core.hpp"

namespace hmc {

bool Request::test() {
  if (window_ == nullptr) return true;
  const base::Status status = test_ticket(window_->fabric(), wire_, ticket_);
  if (status.code == Code::in_progress) return false;
  window::Core* const window = std::exchange(window_, nullptr);  // a failed request is over too
  require(window->fabric(), status, {operation_, peer_});
  return true;
}

void Request::wait(Timeout timeout) {
  if (window_ == nullptr) return;
  window::Fabric& fabric = window_->fabric();
  const base::Status status =
      finish(fabric, wire_, ticket_, {base::Activity::wait_request, peer_}, fabric.resolve(timeout));
  if (status.code != Code::timeout) window_ = nullptr;  // at a deadline the request stays valid
  window::require(fabric, status, {operation_, peer_});
}

void Request::wait_all(std::span<Request> requests, Timeout timeout) {
  if (timeout < Timeout::zero()) {
    for (Request& request : requests) request.wait(timeout);
    return;
  }
  const base::Deadline deadline = base::Deadline::after(timeout);
  for (Request& request : requests) request.wait(deadline.left());
}

std::size_t Request::wait_any(std::span<Request> requests, Timeout timeout) {
  if (requests.empty()) throw Error(Code::invalid_argument, "Request::wait_any", "there are no requests");
  std::size_t finished = 0;
  base::Status result;
  const auto one_done = [&]() noexcept {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      Request& request = requests[i];
      result = request.window_ == nullptr ? base::Status{}
                                          : test_ticket(request.window_->fabric(), request.wire_, request.ticket_);
      finished = i;
      if (result.code != Code::in_progress) return true;
    }
    return false;
  };
  if (one_done() && requests[finished].window_ == nullptr) return finished;
  Request& first = requests[finished];
  window::Fabric& fabric = first.window_->fabric();
  if (result.code == Code::in_progress) {
    const base::Status status =
        fabric.waiter.until({base::Activity::wait_request, -1}, one_done, fabric.resolve(timeout));
    window::require(fabric, status, {"Request::wait_any"});
  }
  Request& over = requests[finished];
  over.window_ = nullptr;
  window::require(fabric, result, {over.operation_, over.peer_});
  return finished;
}

}  // namespace hmc
