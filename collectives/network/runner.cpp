#include "collectives/network/runner.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "collectives/reduce/reduce.hpp"
#include "runtime/rma/begin.hpp"

namespace hmc::collectives {

using base::Status;
using schedule::Step;
using schedule::StepKind;

void Runner::load(std::shared_ptr<const Plan> plan, const CollectiveArgs& args, const Turn& turn,
                  const std::byte* input, std::byte* output) {
  plan_ = std::move(plan);
  next_ = 0;
  done_copy_ = none;
  number_ = turn.number;
  stamp_ = turn.stamp;
  // Only read, unless the call is in place: then the input is also the output.
  buffers_[static_cast<std::size_t>(schedule::StepBuffer::input)] = const_cast<std::byte*>(input);
  buffers_[static_cast<std::size_t>(schedule::StepBuffer::output)] = output;
  buffers_[static_cast<std::size_t>(schedule::StepBuffer::scratch)] = arena_->scratch(number_);
  puts_.clear();
  completed_puts_ = 0;
  if (puts_.capacity() < plan_->schedule.steps.size()) puts_.reserve(plan_->schedule.steps.size());
  begin_receives();
  if (!reduces(args.call.collective)) return;
  ins_.resize(std::max<std::size_t>(2, static_cast<std::size_t>(arena_->size())));
  step_ = fold_ = args.reducer;
  if (args.call.op == Op::avg) step_.kernel = reduce_kernel(args.call.type, Op::sum);
}

Status Runner::advance() noexcept {
  const std::vector<Step>& steps = plan_->schedule.steps;
  for (; next_ < steps.size(); ++next_, ++taken_) {
    if (received_ < receives_.size() && plan_->arrivals[received_].step == next_) end_receive();
    if (const Status status = take(steps[next_]); !status.ok()) return status;
  }
  return check_puts();
}

Status Runner::take(const Step& step) noexcept {
  switch (step.kind) {
    case StepKind::put: return put(step);
    case StepKind::wait: return check_signal(step);
    case StepKind::flush_local: return check_puts();
    case StepKind::copy: copy(step); return {};
    case StepKind::get: return get(step);
    case StepKind::reduce: reduce(step); return {};
    case StepKind::fold: fold(step); return {};
    case StepKind::scale:
      divide(fold_.type, at(step.to_buffer, step.to), step.bytes / fold_.element, arena_->size());
      return {};
  }
  return {};
}

void Runner::copy(const Step& step) noexcept {
  if (next_ == done_copy_) return;
  for (const Result& result : plan_->results)
    if (result.copy == next_) return;  // the sum was computed in the output
  std::byte* const to = at(step.to_buffer, step.to);
  const std::byte* const from = source_of(step);
  // Equal after a direct receive, or if a call in place has nothing to copy.
  if (to != from) std::memcpy(to, from, step.bytes);
}

/// Sees the peer's bytes: an earlier wait has read a signal by an acquire, and the peer has raised it after its writes
/// by a release. Later writes in this call follow a signal of this rank, those of later calls the end of this one on
/// all ranks (Numbering).
Status Runner::get(const Step& step) noexcept {
  if (step.from > arena_->scratch_bytes() || step.bytes > arena_->scratch_bytes() - step.from) [[unlikely]]
    return Status::failure(Code::out_of_range, "a schedule reaches past its area",
                           arena_->world(static_cast<int>(step.peer)));
  const std::byte* const theirs = arena_->window().peers()[step.peer].direct;
  std::memcpy(at(step.to_buffer, step.to), theirs + arena_->scratch_offset(number_) + step.from, step.bytes);
  return {};
}

const std::byte* Runner::source_of(const Step& step) const noexcept {
  for (std::size_t i = 0; i < received_ && step.from_buffer == schedule::StepBuffer::scratch; ++i) {
    const Arrival& arrival = plan_->arrivals[i];
    if (receives_[i].count > 0 && step.from >= arrival.scratch && step.from < arrival.scratch + arrival.bytes)
      return receives_[i].to + (step.from - arrival.scratch);
  }
  return at(step.from_buffer, step.from);
}

void Runner::begin_receives() {
  end_receives();
  receives_.clear();
  received_ = 0;
  if (plan_->arrivals.empty()) return;
  receives_.reserve(plan_->arrivals.size());  // no reallocation: a wire holds their addresses
  for (const Arrival& arrival : plan_->arrivals) {
    rma::DirectReceive& receive = receives_.emplace_back();
    receive.offset = arena_->scratch_offset(number_) + arrival.scratch;
    receive.bytes = arrival.bytes;
    receive.to = at(schedule::StepBuffer::output, arrival.output);
    (void)rma::receive_into(arena_->window(), receive);  // if the wire doesn't support it, the copy step copies all
  }
}

void Runner::end_receive() noexcept {
  rma::DirectReceive& receive = receives_[received_++];
  rma::end_receive_into(arena_->window(), receive);
  if (receive.count == 0) return;
  arena_->window().fabric().direct_receives.fetch_add(1, std::memory_order_relaxed);
  const auto parts = std::span(receive.parts).first(receive.count);
  std::ranges::sort(parts, {}, &rma::DirectReceive::Part::begin);
  const std::byte* const scratch = arena_->window().data() + receive.offset;
  std::uint64_t at = 0;
  const auto copy_up_to = [&](std::uint64_t end) noexcept {
    if (end > at) std::memcpy(receive.to + at, scratch + at, end - at);
  };
  for (const rma::DirectReceive::Part& part : parts) {
    copy_up_to(part.begin);
    at = std::max(at, part.end);
  }
  copy_up_to(receive.bytes);
}

Status Runner::put(const Step& step) noexcept {
  // A schedule that exceeds its area is a bug of this library. Report it instead of a put out of range.
  if (step.to > arena_->scratch_bytes() || step.bytes > arena_->scratch_bytes() - step.to ||
      step.slot >= arena_->slots()) [[unlikely]]
    return Status::failure(Code::out_of_range, "a schedule reaches past its area",
                           arena_->world(static_cast<int>(step.peer)));
  const auto peer = static_cast<int>(step.peer);
  std::uint64_t ticket = 0;
  const Status status =
      rma::begin_put_signal(arena_->window(), peer, arena_->scratch_offset(number_) + step.to, source_of(step),
                            step.bytes, arena_->slot_offset(number_, step.slot), stamp_, ticket);
  if (status.ok() && ticket != 0) puts_.push_back({peer, ticket});
  if (nudges_) rma::nudge(arena_->window(), peer);
  return status;
}

Status Runner::check_signal(const Step& step) noexcept {
  const std::uint64_t seen = arena_->slot(number_, step.slot);
  if (seen == stamp_) [[likely]]
    return {};
  const auto peer = static_cast<int>(step.peer);
  if (seen >> Arena::tag_bits >= number_)
    return Status::failure(Code::mismatch, "ranks called different collectives", arena_->world(peer));
  awaited_ = peer;
  return Status::in_progress();
}

Status Runner::check_puts() noexcept {
  for (; completed_puts_ < puts_.size(); ++completed_puts_, ++taken_) {
    const Put& put = puts_[completed_puts_];
    const Status status = rma::look(arena_->window(), put.peer, put.ticket);
    if (status.ok()) continue;
    awaited_ = put.peer;
    return status;
  }
  return {};
}

void Runner::abandon() noexcept {
  for (; completed_puts_ < puts_.size(); ++completed_puts_)
    rma::abandon(arena_->window(), puts_[completed_puts_].peer, puts_[completed_puts_].ticket);
  end_receives();
}

void Runner::end_receives() noexcept {
  for (; received_ < receives_.size(); ++received_) rma::end_receive_into(arena_->window(), receives_[received_]);
}

void Runner::reduce(const Step& step) noexcept {
  ins_[0] = at(step.to_buffer, step.to);
  ins_[1] = at(step.from_buffer, step.from);
  if (step.reversed) std::swap(ins_[0], ins_[1]);
  combine(step, step_, 2);
}

void Runner::fold(const Step& step) noexcept {
  for (std::size_t i = 0; i < step.inputs; ++i) ins_[i] = at(step.from_buffer, step.from + i * step.stride());
  combine(step, fold_, step.inputs);
}

std::byte* Runner::next_copy_of(const Step& sum, std::size_t inputs) const noexcept {
  const std::vector<Step>& steps = plan_->schedule.steps;
  if (next_ + 1 == steps.size()) return nullptr;
  const Step& copy = steps[next_ + 1];
  if (!schedule::is_copy_of_sum(copy, sum)) return nullptr;
  std::byte* const to = at(copy.to_buffer, copy.to);
  const auto may_store = [&](const void* input) {
    const auto* const from = static_cast<const std::byte*>(input);
    return from == to || from + copy.bytes <= to || to + copy.bytes <= from;
  };
  return std::all_of(ins_.begin(), ins_.begin() + static_cast<std::ptrdiff_t>(inputs), may_store) ? to : nullptr;
}

void Runner::combine(const Step& step, const Reducer& reducer, std::size_t inputs) noexcept {
  std::byte* const sum = at(step.to_buffer, step.to);
  void* to[2] = {sum, nullptr};
  int outputs = 1;
  for (const Result& result : plan_->results)
    if (result.step == next_) to[0] = at(schedule::StepBuffer::output, result.output);
  if (std::byte* const copy = to[0] == sum ? next_copy_of(step, inputs) : nullptr; copy != nullptr) {
    to[outputs++] = copy;
    done_copy_ = next_ + 1;
  }
  collectives::reduce(reducer, to, outputs, ins_.data(), static_cast<int>(inputs), step.bytes / reducer.element,
                      accumulator_);
}

}  // namespace hmc::collectives
