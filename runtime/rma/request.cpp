#include <hmc/request.hpp>

#include <optional>
#include <string>
#include <utility>

#include "runtime/rma/window_core.hpp"

namespace hmc {

namespace {

/// Waits for a collective: each step restarts the timeout.
base::Status await_while_it_moves(rma::Fabric& fabric, const progress::TicketSource& source, int wire,
                                  std::uint64_t ticket, const base::WaitNote& note) noexcept {
  const progress::Background::Waiting waiting(fabric.background);
  for (;;) {
    const std::uint64_t before = source.moves();
    base::Status outcome;
    const auto over_or_moved = [&]() noexcept {
      outcome = fabric.tickets.test(wire, ticket);
      return outcome.code != Code::in_progress || source.moves() != before;
    };
    const base::Status waited = fabric.waiter.until(note, over_or_moved, fabric.timeout);
    if (!waited.ok() && waited.code != Code::timeout) fabric.tickets.abandon(wire, ticket);
    if (!waited.ok()) return waited;
    if (outcome.code != Code::in_progress) return outcome;
  }
}

}  // namespace

Request Request::from_raw(const Raw& raw) {
  Request request(raw.operation, raw.peer);
  request.ticket_ = raw.ticket;
  request.wire_ = raw.wire;
  if (raw.window != nullptr) request.window_ = raw.window->weak_from_this();
  return request;
}

Request::Raw Request::raw() const noexcept { return {window_.lock().get(), ticket_, operation_, wire_, peer_}; }

Request::Raw Request::release() noexcept {
  const Raw bytes = raw();
  ticket_ = transport::done;
  operation_ = nullptr;
  return bytes;
}

Request& Request::operator=(Request&& other) noexcept {
  if (this == &other) return *this;
  const Request old = std::move(*this);
  window_ = std::move(other.window_);
  ticket_ = std::exchange(other.ticket_, transport::done);
  operation_ = std::exchange(other.operation_, nullptr);
  wire_ = other.wire_;
  peer_ = other.peer_;
  return *this;
}

void Request::drop() noexcept {
  const auto window = this->window();  // null: closed, which has ended the operation
  if (auto* const source = window != nullptr ? window->fabric().tickets.source(wire_) : nullptr)
    source->dropped(ticket_, operation_);
}

std::shared_ptr<rma::WindowCore> Request::window() const noexcept {
  std::shared_ptr<rma::WindowCore> window = window_.lock();
  return window != nullptr && window->is_open() ? window : nullptr;
}

base::Status Request::look(const rma::WindowCore* window) const noexcept {
  if (ticket_ == transport::done) return {};
  if (window == nullptr) return base::Status::failure(Code::closed, "its window was closed");
  return window->fabric().tickets.test(wire_, ticket_);
}

void Request::end(const std::shared_ptr<rma::WindowCore>& window, const base::Status& status) {
  Request over = std::move(*this);  // a failed request also becomes empty
  over.ticket_ = transport::done;
  if (status.ok()) return;
  if (window == nullptr) {
    if (const auto last = over.window_.lock(); last != nullptr && last->fabric().is_forked())
      base::throw_forked(over.operation_, last->fabric().rank);
    ErrorDetail detail;
    detail.code = Code::closed;
    detail.operation = over.operation_;
    detail.peer = over.peer_;
    detail.message = status.what;
    throw Error(std::move(detail));
  }
  if (auto* const source = window->fabric().tickets.source(over.wire_)) source->throw_failure(status, over.operation_);
  throw_status(window->fabric(), status, {over.operation_, over.peer_});
}

bool Request::test() {
  if (is_empty()) return true;
  const auto window = this->window();
  base::Status status = look(window.get());
  if (status.code == Code::in_progress) {
    // Report a rank's failure or an abort to a caller that polls and never waits.
    status = window->fabric().waiter.page().aborted();
    if (status.ok()) return false;
    window->fabric().tickets.abandon(wire_, ticket_);
  }
  end(window, status);
  return true;
}

void Request::wait(Timeout timeout) {
  base::require_timeout(timeout, "Request::wait");
  if (is_empty()) return;
  const auto window = this->window();
  if (window == nullptr || ticket_ == transport::done) return end(window, look(window.get()));
  rma::Fabric& fabric = window->fabric();
  progress::TicketSource* const source = fabric.tickets.source(wire_);
  base::WaitNote note{base::Activity::wait_request, peer_};
  if (source != nullptr && !source->is_transfer() && timeout == job_timeout) {
    note.watch = source->watch();
    const base::Status status = await_while_it_moves(fabric, *source, wire_, ticket_, note);
    if (status.code == Code::timeout) source->expired(ticket_);  // it can no longer complete
    return end(window, status);
  }
  if (source != nullptr && source->is_transfer()) note.watch = source->watch();
  base::Status status;
  {
    std::optional<progress::Background::Waiting> waiting;
    if (source != nullptr) waiting.emplace(fabric.background);
    status = fabric.tickets.await(wire_, ticket_, note, fabric.resolve(timeout));  // steps don't restart this timeout
  }
  if (status.code != Code::timeout) return end(window, status);
  const std::string more = source != nullptr ? source->text_at_timeout() : std::string();
  throw_status(fabric, status, {operation_, peer_, 0, 0, false, more});  // the request stays valid
}

void Request::abandon() noexcept {
  Request over = std::move(*this);
  const std::uint64_t ticket = std::exchange(over.ticket_, transport::done);
  // A single rank can't abandon a collective: it continues, and its buffers stay in use.
  if (const auto window = over.window(); window != nullptr && ticket != transport::done)
    window->fabric().tickets.abandon(over.wire_, ticket);
}

void Request::wait_all(std::span<Request> requests, Timeout timeout) {
  base::require_timeout(timeout, "Request::wait_all");
  const base::Deadline deadline = base::Deadline::after(timeout);
  try {
    for (Request& request : requests) request.wait(timeout == job_timeout ? timeout : deadline.left());
  } catch (const Error& error) {
    if (error.code() != Code::timeout) abandon_all(requests);
    throw;
  }
}

void Request::abandon_all(std::span<Request> requests) noexcept {
  for (Request& request : requests) request.abandon();
}

/// After a timeout, throws for the first collective among `requests`: its error names the missing ranks.
void Request::throw_timeout(std::span<Request> requests, const base::Status& status) {
  for (Request& request : requests) {
    const auto window = request.is_empty() ? nullptr : request.window();
    auto* const source = window != nullptr ? window->fabric().tickets.source(request.wire_) : nullptr;
    if (source == nullptr || source->is_transfer() || request.ticket_ == transport::done) continue;
    source->expired(request.ticket_);
    request.end(window, status);
  }
}

std::size_t Request::wait_any(std::span<Request> requests, Timeout timeout) {
  base::require_timeout(timeout, "Request::wait_any");
  std::size_t finished = none;
  std::shared_ptr<rma::WindowCore> some;  // the window of a request in progress
  base::Status result;
  const auto one_over = [&]() noexcept {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (requests[i].is_empty()) continue;
      auto window = requests[i].window();
      result = requests[i].look(window.get());
      if (result.code == Code::in_progress) {
        if (some == nullptr) some = std::move(window);
        continue;
      }
      finished = i;
      return true;
    }
    return false;
  };
  if (!one_over()) {
    if (some == nullptr) return none;  // all requests are empty
    rma::Fabric& fabric = some->fabric();
    const bool renewed = timeout == job_timeout;
    base::Status status;
    const progress::Background::Waiting waiting(fabric.background);
    for (std::uint64_t before = 0; status.ok() && finished == none;) {
      before = fabric.tickets.moves();
      const auto over_or_moved = [&]() noexcept { return one_over() || (renewed && fabric.tickets.moves() != before); };
      status = fabric.waiter.until({base::Activity::wait_request, -1}, over_or_moved, fabric.resolve(timeout));
    }
    if (status.code == Code::timeout && renewed) throw_timeout(requests, status);
    if (!status.ok() && status.code != Code::timeout) abandon_all(requests);
    std::string more;
    for (std::size_t i = 0; status.code == Code::timeout && more.empty() && i < requests.size(); ++i)
      if (auto* const source = fabric.tickets.source(requests[i].wire_)) more = source->text_at_timeout();
    rma::require(fabric, status, {"Request::wait_any", -1, 0, 0, false, more});
  }
  requests[finished].end(requests[finished].window(), result);
  return finished;
}

}  // namespace hmc
