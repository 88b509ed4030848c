#include "collectives/mismatch/relay.hpp"

#include <algorithm>
#include <bit>

namespace hmc::collectives {

namespace {

/// Start of each pass after the rank's failure. Reports of waiting ranks arrive within milliseconds. A rank that throws
/// its error waits up to active_ns for reports.
constexpr std::int64_t pass_at_ns[Relay::passes] = {0, 15'000'000, 60'000'000, 130'000'000};
/// Interval between the messages of a pass. The ranks send to their partners in the same order at about the same times.
/// So a report can travel several distances in one pass.
constexpr std::int64_t between_messages_ns = 2'000'000;

}  // namespace

int Relay::partners(int size) noexcept { return static_cast<int>(std::bit_width(static_cast<unsigned>(size - 1))); }

void Relay::begin(int rank, int size, const FailureSummary& own, std::int64_t now) {
  has_report_.resize(static_cast<std::size_t>(size));
  rank_ = rank;
  size_ = missing_ = size;
  begun_at_ = now;
  summary_ = own;
  count(rank);
}

int Relay::at(std::uint32_t distance_below) const noexcept {
  return static_cast<int>((static_cast<std::uint32_t>(rank_ + size_) - distance_below) %
                          static_cast<std::uint32_t>(size_));
}

void Relay::count(int rank) noexcept {
  const auto index = static_cast<std::size_t>(rank);
  if (has_report_[index]) return;
  has_report_[index] = true;
  has_news_ = true;
  --missing_;
  while (behind_ < static_cast<std::uint32_t>(size_) && has_report_of(at(behind_))) ++behind_;
}

void Relay::add(int rank, const FailureSummary& report) noexcept {
  if (has_report_of(rank)) return;
  summary_.merge(report);
  count(rank);
}

void Relay::take(const FailureSummary& received) noexcept {
  if (!received.is_sound(size_)) return;
  summary_.merge(received);
  std::uint32_t gap = 0;
  const auto size = static_cast<std::uint32_t>(size_);
  for (std::uint32_t distance = 0; distance < received.covered; ++distance) {
    while (gap < received.gap_count && distance >= received.gaps[gap].end) ++gap;
    if (gap < received.gap_count && distance >= received.gaps[gap].begin) continue;
    count(static_cast<int>((received.from + size - distance) % size));
  }
}

/// Sets the ranks that the summary covers, as far down the ring as the gaps fit into its list.
void Relay::describe_coverage() noexcept {
  summary_.from = static_cast<std::uint32_t>(rank_);
  summary_.gap_count = 0;
  std::uint32_t distance = behind_;
  const auto size = static_cast<std::uint32_t>(size_);
  while (distance < size && summary_.gap_count < FailureSummary::most_gaps) {
    FailureSummary::Gap& gap = summary_.gaps[summary_.gap_count++];
    gap.begin = distance;
    while (distance < size && !has_report_of(at(distance))) ++distance;
    gap.end = distance;
    while (distance < size && has_report_of(at(distance))) ++distance;
  }
  summary_.covered = distance;
}

bool Relay::next(std::int64_t now, Message& message) noexcept {
  if (!has_begun()) return false;
  const int partners = Relay::partners(size_);
  const bool is_whole = missing_ == 0;
  if (sent_ < partners && (is_whole || behind_ >= std::uint32_t{1} << sent_)) {
    message = {partner(rank_, size_, sent_), sent_};
    ++sent_;
    describe_coverage();
    return true;
  }
  if (pass_ == passes || partners == 0) return false;
  if (now - begun_at_ < pass_at_ns[pass_] + (is_whole ? 0 : sent_of_pass_ * between_messages_ns)) return false;
  if (sent_of_pass_ == 0) {
    if (!has_news_) return false;
    has_news_ = false;
  }
  const int k = pass_ == 2 ? partners - 1 - sent_of_pass_ : sent_of_pass_;  // pass 2 in reverse order: other paths
  message = {partner(rank_, size_, k), pass_ * partners + k};
  describe_coverage();
  if (++sent_of_pass_ == partners) {
    sent_of_pass_ = 0;
    ++pass_;
  }
  return true;
}

int Relay::first_missing() const noexcept {
  const auto found = std::find(has_report_.begin(), has_report_.end(), false);
  return found == has_report_.end() ? -1 : static_cast<int>(found - has_report_.begin());
}

}  // namespace hmc::collectives
