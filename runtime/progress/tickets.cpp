#include "runtime/progress/tickets.hpp"

#include <algorithm>

namespace hmc::progress {

using base::Status;

int Tickets::add(TicketSource& source) {
  const auto free = std::ranges::find(sources_, nullptr);
  const int index = -1 - static_cast<int>(free - sources_.begin());
  if (free == sources_.end()) {
    sources_.push_back(&source);
  } else {
    *free = &source;
  }
  return index;
}

Status Tickets::test(int index, Ticket ticket) const noexcept {
  if (TicketSource* const from = source(index)) return from->test(ticket);
  WireTickets& wire = *wires_[static_cast<std::size_t>(index)];
  const Status status = wire.test(ticket);
  if (status.code != Code::in_progress) return status;
  wire.progress();
  return wire.test(ticket);
}

void Tickets::abandon(int index, Ticket ticket) const noexcept {
  if (TicketSource* const from = source(index)) return from->abandon(ticket);
  wires_[static_cast<std::size_t>(index)]->abandon(ticket);
}

Status Tickets::await(int index, Ticket ticket, const base::WaitNote& note, std::chrono::nanoseconds timeout) noexcept {
  if (ticket == done) return {};
  Status outcome;
  const auto over = [&]() noexcept {
    outcome = test(index, ticket);
    return outcome.code != Code::in_progress;
  };
  const Status waited = waiter_.until(note, over, timeout);
  if (waited.ok()) return outcome;
  if (waited.code != Code::timeout) abandon(index, ticket);
  return waited;
}

std::uint64_t Tickets::moves() const noexcept {
  std::uint64_t moves = 0;
  for (const TicketSource* const source : sources_)
    if (source != nullptr) moves += source->moves();
  return moves;
}

Status Tickets::complete_sources() const noexcept {
  for (std::size_t i = 0; i < sources_.size(); ++i)  // a wait in complete() may let another thread add a source
    if (sources_[i] != nullptr)
      if (const Status status = sources_[i]->complete(); !status.ok()) return status;
  return {};
}

TicketSource* Tickets::unheard_mismatch(int world_rank) const noexcept {
  const auto found = std::ranges::find_if(sources_, [&](TicketSource* source) {
    return source != nullptr && world_rank >= 0 && source->has_unreported_mismatch(world_rank);
  });
  return found != sources_.end() ? *found : nullptr;
}

bool Tickets::is_closing(int world_rank) const noexcept {
  return std::ranges::any_of(sources_,
                             [&](TicketSource* source) { return source != nullptr && source->is_closing(world_rank); });
}

}  // namespace hmc::progress
