#include "verify/case.hpp"

namespace hmc::verify {
namespace {

/// The count of a pair of ranks: some are 0, some equal, most different.
std::uint64_t varied(std::uint64_t a, std::uint64_t b, std::uint64_t largest) {
  const std::uint64_t mixed = (a * 7 + b * 13 + 3) % 11;
  return mixed == 0 ? 0 : mixed == 1 ? largest : (a * 5 + b * 3) % (largest + 1);
}

std::vector<std::uint64_t> displacements_of(const std::vector<std::uint64_t>& counts, bool gaps) {
  std::vector<std::uint64_t> displacements;
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (gaps) at += i % 3;
    displacements.push_back(at);
    at += counts[i];
  }
  return displacements;
}

}  // namespace

Case::Case(const schedule::Algorithm& algorithm, schedule::Shape shape, const schedule::Call& call)
    : algorithm_(algorithm), shape_(shape), call_(call) {}

void Case::make_irregular(std::uint64_t largest, bool gaps) {
  const auto size = static_cast<std::size_t>(shape_.size);
  if (call_.collective != schedule::Collective::alltoall) {
    for (std::size_t r = 0; r < size; ++r) counts_.push_back(varied(r, 1, largest));
    if (gaps) displacements_ = displacements_of(counts_, true);
    call_.counts = counts_;
    call_.displacements = displacements_;
    return;
  }
  // In place, a rank's outgoing block is replaced by the incoming one, so the counts must be equal.
  const bool symmetric = call_.in_place;
  for (std::size_t me = 0; me < size; ++me) {
    Counts to, from;
    for (std::size_t r = 0; r < size; ++r) {
      to.push_back(symmetric ? varied(me + r, 1, largest) : varied(me, r, largest));
      from.push_back(symmetric ? varied(me + r, 1, largest) : varied(r, me, largest));
    }
    if (gaps) {
      sent_at_.push_back(displacements_of(to, true));
      received_at_.push_back(displacements_of(from, true));
    }
    sent_.push_back(std::move(to));
    received_.push_back(std::move(from));
  }
  call_.largest = largest;
}

bool Case::applies() const {
  for (const int rank : {0, shape_.size - 1})
    if (!algorithm_.applies(shape_, call_of(rank))) return false;
  return true;
}

schedule::Call Case::call_of(int rank) const {
  schedule::Call call = call_;
  if (sent_.empty()) return call;
  const auto r = static_cast<std::size_t>(rank);
  call.counts = sent_[r];
  call.receive_counts = received_[r];
  if (!sent_at_.empty()) {
    call.displacements = sent_at_[r];
    call.receive_displacements = received_at_[r];
  }
  return call;
}

std::vector<schedule::Schedule> Case::build() const {
  std::vector<schedule::Schedule> schedules(static_cast<std::size_t>(shape_.size));
  for (int rank = 0; rank < shape_.size; ++rank)
    algorithm_.build_into(shape_, call_of(rank), rank, schedules[static_cast<std::size_t>(rank)]);
  return schedules;
}

std::string Case::text() const {
  std::string text = std::string(name_of(call_.collective)) + ":" + std::string(algorithm_.name) + ", " +
                     std::to_string(shape_.size) + " ranks";
  if (shape_.per_node > 1) text += " (" + std::to_string(shape_.per_node) + " per node)";
  if (!counts_.empty() || !sent_.empty())
    text += ", irregular counts";
  else
    text += ", count " + std::to_string(call_.count);
  text += " x " + std::to_string(call_.element_bytes) + " B, root " + std::to_string(call_.root);
  if (!displacements_.empty() || !sent_at_.empty()) text += ", gaps";
  if (call_.in_place) text += ", in place";
  if (!call_.commutative) text += ", not commutative";
  if (call_.deterministic) text += ", deterministic";
  if (call_.op == Op::avg) text += ", avg";
  if (call_.segment_bytes > 0) text += ", segments of " + std::to_string(call_.segment_bytes) + " B";
  if (call_.radix > 0) text += ", radix " + std::to_string(call_.radix);
  return text;
}

}  // namespace hmc::verify
