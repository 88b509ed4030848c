#include "verify/replay.hpp"

#include <algorithm>

#include "verify/contents.hpp"

namespace hmc::verify {
namespace {

using schedule::Schedule;
using schedule::Step;
using schedule::StepBuffer;
using schedule::StepKind;

/// A byte's value: a hash of the contributions in it. The combination is associative and not commutative, as a
/// concatenation of strings; or a sum, where order doesn't matter.
struct SampleByte {
  std::uint64_t hash = 0, power = 1;
  friend bool operator==(SampleByte, SampleByte) = default;
};
constexpr std::uint64_t base = 0x100000001b3U;

SampleByte contribution(std::uint64_t rank, std::uint64_t position) {
  const std::uint64_t mixed = (rank + 1) * 0x9e3779b97f4a7c15U ^ (position + 1) * 0xbf58476d1ce4e5b9U;
  return {mixed ^ mixed >> 31, base};
}
SampleByte combine(SampleByte left, SampleByte right, bool ordered) {
  if (!ordered) return {left.hash + right.hash, base};
  return {left.hash * right.power + right.hash, left.power * right.power};
}
SampleByte scaled(SampleByte cell) { return {cell.hash * 0xda942042e4dd58b5U + 1, cell.power}; }

/// A put in flight. States: source unread, source read, half of the target written, target written.
struct PutInFlight {
  std::uint32_t from = 0;
  Step step;
  std::vector<SampleByte> carried;
  enum { issued, read, half, done } state = issued;
};

struct ExecutedRank {
  std::vector<SampleByte> memories[3];
  BufferOverlap overlap;
  std::size_t at = 0;
  std::vector<bool> raised;
};

class Replay {
 public:
  Replay(const Case& subject, const std::vector<Schedule>& schedules, std::mt19937_64& random)
      : subject_(subject),
        schedules_(schedules),
        random_(random),
        call_(subject.call_of(0)),
        ordered_(subject.in_rank_order()),
        values_(ordered_) {}

  std::optional<std::string> run() {
    prepare();
    // The share of network events in percent: 5 (late), 50, or 95 (early).
    const unsigned network = static_cast<unsigned>(random_() % 3) * 45 + 5;
    for (;;) {
      const bool prefers_network = random_() % 100 < network;
      if (prefers_network ? advance_network() || advance_rank() : advance_rank() || advance_network()) continue;
      break;
    }
    if (wrong_) return wrong_;
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      if (ranks_[r].at < schedules_[r].steps.size()) return "rank " + std::to_string(r) + " waits forever";
    for (int rank = 0; rank < subject_.shape().size; ++rank)
      if (const auto wrong = compare(rank)) return wrong;
    return std::nullopt;
  }

 private:
  SampleByte* at(std::size_t rank, StepBuffer buffer, std::uint64_t offset) {
    ExecutedRank& r = ranks_[rank];
    if (buffer == StepBuffer::scratch) return r.memories[2].data() + offset;
    if (r.overlap.overlaps)
      return r.memories[1].data() + offset + (buffer == StepBuffer::input ? r.overlap.input_at : r.overlap.output_at);
    return r.memories[buffer == StepBuffer::input ? 0 : 1].data() + offset;
  }

  void prepare() {
    ranks_.resize(schedules_.size());
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      ExecutedRank& rank = ranks_[r];
      const int number = static_cast<int>(r);
      const schedule::Call call = subject_.call_of(number);
      rank.overlap = buffer_overlap_of(subject_, number);
      const std::uint64_t in = input_bytes(subject_.shape(), call, number);
      const std::uint64_t out = output_bytes(subject_.shape(), call, number);
      rank.memories[0].resize(in);
      rank.memories[1].resize(rank.overlap.overlaps ? std::max(in + rank.overlap.input_at, out + rank.overlap.output_at)
                                                    : out);
      rank.memories[2].resize(schedules_[r].scratch_bytes);
      for (auto& memory : rank.memories)
        for (SampleByte& cell : memory) cell = {random_(), base};
      for (const Content& content : input_of(subject_, number, values_))
        for (std::uint64_t i = 0; i < content.piece.bytes; ++i)
          *at(r, StepBuffer::input, content.begin + i) = cell_of(content.piece, i);
      rank.raised.resize(schedules_[r].slots);
    }
  }

  SampleByte cell_of(const ValueRun& piece, std::uint64_t i) {
    if (piece.value == all_blocks) return contribution(1 << 20, piece.position + i);
    bool is_first = true;
    SampleByte cell;
    values_.for_each_rank(piece.value, [&](std::uint32_t rank) {
      const SampleByte next = contribution(rank, piece.position + i);
      cell = is_first ? next : combine(cell, next, ordered_);
      is_first = false;
    });
    return values_.is_scaled(piece.value) ? scaled(cell) : cell;
  }

  bool advance_rank() {
    const std::size_t start = random_() % ranks_.size();
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      const std::size_t r = (start + i) % ranks_.size();
      ExecutedRank& rank = ranks_[r];
      if (rank.at < schedules_[r].steps.size() && execute_step(r, schedules_[r].steps[rank.at])) {
        if (++rank.at == schedules_[r].steps.size()) check_end(r);
        return true;
      }
    }
    return false;
  }

  /// The rank's schedule has ended. The caller may reuse its buffers; a barrier is complete.
  void check_end(std::size_t r) {
    for (const PutInFlight& put : puts_)
      if (put.from == r && put.state == PutInFlight::issued && put.step.bytes > 0)
        wrong_ = "rank " + std::to_string(r) + " ends before the source of a put is read";
    if (call_.collective != CollectiveKind::barrier) return;
    for (std::size_t other = 0; other < ranks_.size(); ++other)
      if (ranks_[other].at == 0)
        wrong_ = "rank " + std::to_string(r) + " leaves before rank " + std::to_string(other) + " enters";
  }

  bool execute_step(std::size_t r, const Step& step) {
    switch (step.kind) {
      case StepKind::wait: return ranks_[r].raised[step.slot];
      case StepKind::put: puts_.push_back({static_cast<std::uint32_t>(r), step, {}, PutInFlight::issued}); return true;
      case StepKind::flush_local:
        for (PutInFlight& put : puts_)
          if (put.from == r && put.state == PutInFlight::issued) read_source(put);
        return true;
      case StepKind::copy: {
        const SampleByte* from = at(r, step.from_buffer, step.from);
        const std::vector<SampleByte> carried(from, from + step.bytes);
        std::copy(carried.begin(), carried.end(), at(r, step.to_buffer, step.to));
        return true;
      }
      case StepKind::get: {
        const SampleByte* from = at(step.peer, StepBuffer::scratch, step.from);
        std::copy_n(from, step.bytes, at(r, step.to_buffer, step.to));
        return true;
      }
      case StepKind::reduce: reduce(r, step); return true;
      case StepKind::fold: fold(r, step); return true;
      case StepKind::scale: {
        SampleByte* to = at(r, step.to_buffer, step.to);
        std::transform(to, to + step.bytes, to, scaled);
        return true;
      }
    }
    return true;
  }

  void reduce(std::size_t r, const Step& step) {
    const SampleByte* from = at(r, step.from_buffer, step.from);
    SampleByte* to = at(r, step.to_buffer, step.to);
    for (std::uint64_t i = 0; i < step.bytes; ++i)
      to[i] = step.reversed ? combine(from[i], to[i], ordered_) : combine(to[i], from[i], ordered_);
  }

  void fold(std::size_t r, const Step& step) {
    const SampleByte* from = at(r, step.from_buffer, step.from);
    SampleByte* to = at(r, step.to_buffer, step.to);
    for (std::uint64_t i = 0; i < step.bytes; ++i) {
      SampleByte sum = from[i];
      for (std::uint32_t input = 1; input < step.inputs; ++input)
        sum = combine(sum, from[input * step.stride() + i], ordered_);
      to[i] = call_.op == Op::avg ? scaled(sum) : sum;
    }
  }

  void read_source(PutInFlight& put) {
    if (put.step.bytes > 0) {
      const SampleByte* from = at(put.from, put.step.from_buffer, put.step.from);
      put.carried.assign(from, from + put.step.bytes);
    }
    put.state = PutInFlight::read;
  }

  /// Advances one put by one state.
  bool advance_network() {
    if (puts_.empty()) return false;
    const std::size_t chosen = random_() % puts_.size();
    PutInFlight& put = puts_[chosen];
    const std::uint64_t middle = put.step.bytes / 2;
    SampleByte* to = put.step.bytes > 0 ? at(put.step.peer, StepBuffer::scratch, put.step.to) : nullptr;
    if (put.state == PutInFlight::issued) {
      read_source(put);
    } else if (put.state == PutInFlight::read) {
      std::copy_n(put.carried.begin(), middle, to);
      put.state = PutInFlight::half;
    } else {
      std::copy(put.carried.begin() + static_cast<std::ptrdiff_t>(middle), put.carried.end(), to + middle);
      ranks_[put.step.peer].raised[put.step.slot] = true;
      std::swap(put, puts_.back());
      puts_.pop_back();
    }
    return true;
  }

  std::optional<std::string> compare(int rank) {
    if (collectives::contributions(call_.collective, rank, subject_.shape().size) == 0) return std::nullopt;
    for (const Content& content : required_output_of(subject_, rank, values_))
      for (std::uint64_t i = 0; i < content.piece.bytes; ++i)
        if (*at(static_cast<std::size_t>(rank), StepBuffer::output, content.begin + i) != cell_of(content.piece, i))
          return "byte " + std::to_string(content.begin + i) + " of rank " + std::to_string(rank) + " is wrong";
    return std::nullopt;
  }

  const Case& subject_;
  const std::vector<Schedule>& schedules_;
  std::mt19937_64& random_;
  schedule::Call call_;
  bool ordered_;
  Values values_;
  std::vector<ExecutedRank> ranks_;
  std::vector<PutInFlight> puts_;
  std::optional<std::string> wrong_;
};

}  // namespace

std::optional<std::string> replay(const Case& subject, const std::vector<Schedule>& schedules,
                                  std::mt19937_64& random) {
  return Replay(subject, schedules, random).run();
}

}  // namespace hmc::verify
