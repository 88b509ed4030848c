#include "collectives/network/operation.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/kinds.hpp"

namespace hmc::collectives {

using base::Status;
using schedule::Call;

std::uint64_t extent_of(const Call& call) noexcept {
  if (!call.irregular()) return call.count;
  if (call.collective == CollectiveKind::alltoall) return call.largest;
  return *std::max_element(call.counts.begin(), call.counts.end());
}

namespace {

/// Copies counts and displacements. Without displacements the blocks are contiguous.
void copy_blocks(std::span<const std::uint64_t> counts, std::span<const std::uint64_t> displacements,
                 std::vector<std::uint64_t>& to_counts, std::vector<std::uint64_t>& to_displacements) {
  to_counts.assign(counts.begin(), counts.end());
  to_displacements.assign(displacements.begin(), displacements.end());
  if (!displacements.empty()) return;
  std::uint64_t at = 0;
  for (const std::uint64_t count : counts) {
    to_displacements.push_back(at);
    at += count;
  }
}

}  // namespace

void Operation::take(const CollectiveArgs& args, const schedule::Algorithm& algorithm, std::uint64_t longest,
                     int size) {
  args_ = args;
  algorithm_ = &algorithm;
  size_ = size;
  kept_.clear();
  counts_match_ = false;
  Call& call = args_.call;
  total_ = extent_of(call);
  if (call.irregular()) {
    copy_blocks(call.counts, call.displacements, whole_.counts, whole_.displacements);
    call.counts = whole_.counts;
    call.displacements = whole_.displacements;
    if (call.collective == CollectiveKind::alltoall) {
      copy_blocks(call.receive_counts, call.receive_displacements, whole_received_.counts,
                  whole_received_.displacements);
      call.receive_counts = whole_received_.counts;
      call.receive_displacements = whole_received_.displacements;
    }
  }
  // If pieces of blocks go between nodes in separate messages, make them slightly shorter than a power of two.
  // Otherwise a message and its header need one more, almost empty segment on a loopback with segments of 64 KiB. Each
  // segment costs both ends as much as a full one.
  constexpr std::uint64_t segment = 64 * 1024;
  if (algorithm.hierarchical && has_blocks(call.collective) && total_ > longest &&
      longest * call.element_bytes > segment)
    longest -= longest / 32;
  pieces_ = total_ <= longest ? 1 : (total_ + longest - 1) / longest;
  // Pieces of about equal length, in whole lines.
  const std::uint64_t line = std::max<std::uint64_t>(64 / call.element_bytes, 1);
  length_ = pieces_ == 1 ? total_ : std::min(longest, ((total_ + pieces_ - 1) / pieces_ + line - 1) / line * line);
  if (pieces_ > 1) pieces_ = (total_ + length_ - 1) / length_;
  // An in-place schedule saves the input in scratch, including the gaps between blocks, which leaves less scratch for
  // the pieces. So this operation copies the input itself.
  stages_ = call.collective == CollectiveKind::alltoall && call.in_place;
  if (stages_) call.in_place = false;
}

void Operation::stage_input() {
  staged_.resize(schedule::input_bytes({size_, 1}, args_.call, 0));
  if (!staged_.empty()) std::memcpy(staged_.data(), args_.output, staged_.size());
  args_.input = staged_.data();
}

bool Operation::synchronises() const noexcept {
  const CollectiveKind kind = args_.call.collective;
  // A v-form has the count 0: some ranks may have no data.
  return collectives::synchronises(kind) && (kind == CollectiveKind::barrier || args_.call.count > 0);
}

void Operation::cut_counts(std::uint64_t first, std::uint64_t count) {
  const auto cut = [&](const Blocks& whole, Blocks& part) {
    const std::size_t ranks = whole.counts.size();
    part.counts.resize(ranks);
    part.displacements.resize(ranks);
    for (std::size_t i = 0; i < ranks; ++i) {
      part.counts[i] = std::min(count, whole.counts[i] - std::min(whole.counts[i], first));
      part.displacements[i] = part.counts[i] > 0 ? whole.displacements[i] : 0;
    }
  };
  cut(whole_, part_);
  if (args_.call.collective == CollectiveKind::alltoall) cut(whole_received_, part_received_);
}

/// Elements [first, first + length_) of the vector or of every block. load() shifts the buffers by `first`, so that
/// blocks keep their displacements.
Call Operation::piece_call(std::uint64_t first) {
  Call call = args_.call;
  if (pieces_ == 1) return call;
  const std::uint64_t count = std::min(length_, total_ - first);
  if (!has_blocks(call.collective)) {
    call.count = count;
    return call;
  }
  if (!call.irregular()) {
    make_uniform(call, size_, count, total_, part_.counts, part_.displacements);
    return call;
  }
  cut_counts(first, count);
  call.counts = part_.counts;
  call.displacements = part_.displacements;
  if (call.collective == CollectiveKind::alltoall) {
    call.receive_counts = part_received_.counts;
    call.receive_displacements = part_received_.displacements;
    call.largest = count;
  }
  return call;
}

/// Pieces with equal parameters share a plan: all but the last piece of a vector; in a v-form, consecutive pieces in
/// which no rank's block ends.
void Operation::keep_plans(Plans& plans) {
  const auto exceeds = [&](std::uint64_t each) { return each > total_; };
  if (args_.compares_as >= 0 &&
      (std::ranges::any_of(whole_.counts, exceeds) || std::ranges::any_of(whole_received_.counts, exceeds)))
    return;  // every run reports that `largest` is wrong
  std::uint64_t count = 0;
  std::vector<std::uint64_t> counts, received;
  for (std::uint64_t i = 0; i < pieces_; ++i) {
    const Call call = piece_call(i * length_);
    if (i > 0 && call.count == count && std::ranges::equal(call.counts, counts) &&
        std::ranges::equal(call.receive_counts, received))
      continue;
    auto plan = plans.get(*algorithm_, call);
    if (plan == nullptr) return kept_.clear();  // load reports the failure
    kept_.push_back({i, std::move(plan)});
    count = call.count;
    counts.assign(call.counts.begin(), call.counts.end());
    received.assign(call.receive_counts.begin(), call.receive_counts.end());
  }
}

std::shared_ptr<const Plan> Operation::plan_of_piece(std::uint64_t piece, Plans& plans) {
  if (piece >= pieces_) return std::make_shared<const Plan>();
  if (kept_.empty()) return plans.get(*algorithm_, piece_call(piece * length_));
  const auto after = std::ranges::upper_bound(kept_, piece, {}, &Kept::first_piece);
  return std::prev(after)->plan;
}

void Operation::start(bool blocking) noexcept {
  piece_ = 0;
  blocking_ = blocking;
  runner_.nudge_peers(!blocking);
  running_ = false;
  stream_reached_ = false;
  compares_ = args_.compares_as >= 0 && !counts_match_;
  if (compares_)
    counts_ = {counts_of(args_.compares_as, whole_.counts, whole_received_.counts), total_, total_, turns(), turns()};
}

/// Piece 0: an allreduce of all ranks' count summaries. If the counts don't match, piece 1 sends each rank the counts
/// that its peers send to it, and piece 2 combines the mismatched pairs. The scratch of each piece doesn't grow with
/// the team.
Comparison comparison(std::uint64_t piece, std::uint64_t scratch_bytes) noexcept {
  Call call;
  call.count = 1;
  const char* algorithm = "recursive_doubling";
  if (piece == 1) {
    call.collective = CollectiveKind::alltoall;
    call.element_bytes = sizeof(std::uint64_t);
    call.segment_bytes = scratch_bytes / 16;
    algorithm = "pairwise";
  } else {
    call.collective = CollectiveKind::allreduce;
    call.element_bytes = piece == 0 ? sizeof(StartedCounts) : sizeof(CountMismatch);
    call.type = DType::located_i64;
    call.in_place = true;
  }
  return {call, schedule::find(call.collective, algorithm)};
}

Status Operation::load_comparison(Plans& plans) {
  const Comparison piece = comparison(piece_, plans.scratch_bytes());
  CollectiveArgs args;
  args.call = piece.call;
  args.reducer.type = piece.call.type;
  args.reducer.element = piece.call.element_bytes;
  args.reducer.function = piece_ == 0 ? combine_started_counts : combine_count_mismatches;
  const void* in = &counts_;
  void* out = &counts_;
  if (piece_ == 1) {
    sent_counts_.resize(static_cast<std::size_t>(size_));
    in = whole_.counts.data();
    out = sent_counts_.data();
  } else if (piece_ == 2) {
    count_mismatch = mine_ = first_count_mismatch(args_.compares_as, sent_counts_, whole_received_.counts);
    count_mismatch_ticket = ticket;
    in = out = &count_mismatch;
  }
  auto plan = plans.get(*piece.algorithm, piece.call);
  if (plan == nullptr) return Status::failure(Code::out_of_range, "a schedule needs more than its area");
  runner_.load(std::move(plan), args, turn, static_cast<const std::byte*>(in), static_cast<std::byte*>(out));
  running_ = true;
  return {};
}

Status Operation::load(Plans& plans) {
  const bool is_right = counts_.largest_is_right();
  if (compares_ && piece_ > 0) {
    counts_match_ = is_right && counts_.counts.balance == 0;
    if (!is_right) wrong_largest_ticket = ticket;
    if (counts_.least_turns != counts_.most_turns) return Status::failure(Code::invalid_argument, largest_differs);
  }
  const bool tells = compares_ && piece_ > 0 && !counts_match_;
  if (compares_ && (piece_ == 0 || (tells && is_right && piece_ <= reporting_pieces))) return load_comparison(plans);
  const std::uint64_t piece = tells ? pieces_ : piece_ - (compares_ ? 1 : 0);
  const std::uint64_t first = piece * length_;
  if (stages_ && piece == 0) stage_input();
  auto plan = plan_of_piece(piece, plans);
  if (plan == nullptr) return Status::failure(Code::out_of_range, "a schedule needs more than its area");
  const std::uint64_t shift = first * args_.call.element_bytes;
  const auto* const input = static_cast<const std::byte*>(args_.input);
  auto* const output = static_cast<std::byte*>(args_.output);
  // Null if a rank has no input or output (not the root's).
  runner_.load(std::move(plan), args_, turn, input == nullptr ? nullptr : input + shift,
               output == nullptr ? nullptr : output + shift);
  running_ = true;
  return {};
}

}  // namespace hmc::collectives
