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
struct Cell {
  std::uint64_t hash = 0, power = 1;
  friend bool operator==(Cell, Cell) = default;
};
constexpr std::uint64_t base = 0x100000001b3U;

Cell contribution(std::uint64_t rank, std::uint64_t position) {
  const std::uint64_t mixed = (rank + 1) * 0x9e3779b97f4a7c15U ^ (position + 1) * 0xbf58476d1ce4e5b9U;
  return {mixed ^ mixed >> 31, base};
}
Cell join(Cell left, Cell right, bool ordered) {
  if (!ordered) return {left.hash + right.hash, base};
  return {left.hash * right.power + right.hash, left.power * right.power};
}
Cell scaled(Cell cell) { return {cell.hash * 0xda942042e4dd58b5U + 1, cell.power}; }

/// A put in flight: its source is unread, then read; then its target is half written, then written.
struct Put {
  std::uint32_t from = 0;
  Step step;
  std::vector<Cell> carried;
  enum { issued, read, half, done } state = issued;
};

struct Rank {
  std::vector<Cell> memories[3];
  Overlap overlap;
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
    // How often the network gets a turn: rarely, as often as the ranks, nearly always.
    const unsigned network = static_cast<unsigned>(random_() % 3) * 45 + 5;
    for (;;) {
      const bool prefers_network = random_() % 100 < network;
      if (prefers_network ? move_network() || move_rank() : move_rank() || move_network()) continue;
      break;
    }
    if (wrong_) return wrong_;
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      if (ranks_[r].at < schedules_[r].steps.size()) return "rank " + std::to_string(r) + " waits for ever";
    for (int rank = 0; rank < subject_.shape().size; ++rank)
      if (const auto wrong = compare(rank)) return wrong;
    return std::nullopt;
  }

 private:
  Cell* at(std::size_t rank, StepBuffer buffer, std::uint64_t offset) {
    Rank& r = ranks_[rank];
    if (buffer == StepBuffer::scratch) return r.memories[2].data() + offset;
    if (r.overlap.overlaps)
      return r.memories[1].data() + offset + (buffer == StepBuffer::input ? r.overlap.input_at : r.overlap.output_at);
    return r.memories[buffer == StepBuffer::input ? 0 : 1].data() + offset;
  }

  void prepare() {
    ranks_.resize(schedules_.size());
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      Rank& rank = ranks_[r];
      const int number = static_cast<int>(r);
      const schedule::Call call = subject_.call_of(number);
      rank.overlap = overlap_of(subject_, number);
      const std::uint64_t in = input_bytes(subject_.shape(), call, number);
      const std::uint64_t out = output_bytes(subject_.shape(), call, number);
      rank.memories[0].resize(in);
      rank.memories[1].resize(rank.overlap.overlaps ? std::max(in + rank.overlap.input_at, out + rank.overlap.output_at)
                                                    : out);
      rank.memories[2].resize(schedules_[r].scratch_bytes);
      for (auto& memory : rank.memories)
        for (Cell& cell : memory) cell = {random_(), base};
      for (const Content& content : input_of(subject_, number, values_))
        for (std::uint64_t i = 0; i < content.piece.bytes; ++i)
          *at(r, StepBuffer::input, content.begin + i) = cell_of(content.piece, i);
      rank.raised.resize(schedules_[r].slots);
    }
  }

  Cell cell_of(const Piece& piece, std::uint64_t i) {
    if (piece.value == all_blocks) return contribution(1 << 20, piece.position + i);
    bool is_first = true;
    Cell cell;
    values_.for_each_rank(piece.value, [&](std::uint32_t rank) {
      const Cell next = contribution(rank, piece.position + i);
      cell = is_first ? next : join(cell, next, ordered_);
      is_first = false;
    });
    return values_.is_scaled(piece.value) ? scaled(cell) : cell;
  }

  bool move_rank() {
    const std::size_t start = random_() % ranks_.size();
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      const std::size_t r = (start + i) % ranks_.size();
      Rank& rank = ranks_[r];
      if (rank.at < schedules_[r].steps.size() && take(r, schedules_[r].steps[rank.at])) {
        if (++rank.at == schedules_[r].steps.size()) note_end(r);
        return true;
      }
    }
    return false;
  }

  /// The rank's schedule has ended: its caller may reuse the buffers, and a barrier is over.
  void note_end(std::size_t r) {
    for (const Put& put : puts_)
      if (put.from == r && put.state == Put::issued && put.step.bytes > 0)
        wrong_ = "rank " + std::to_string(r) + " ends while a put still has to read";
    if (call_.collective != schedule::Collective::barrier) return;
    for (std::size_t other = 0; other < ranks_.size(); ++other)
      if (ranks_[other].at == 0)
        wrong_ = "rank " + std::to_string(r) + " leaves before rank " + std::to_string(other) + " comes";
  }

  bool take(std::size_t r, const Step& step) {
    switch (step.kind) {
      case StepKind::wait: return ranks_[r].raised[step.slot];
      case StepKind::put: puts_.push_back({static_cast<std::uint32_t>(r), step, {}, Put::issued}); return true;
      case StepKind::flush_local:
        for (Put& put : puts_)
          if (put.from == r && put.state == Put::issued) read_source(put);
        return true;
      case StepKind::copy: {
        const Cell* from = at(r, step.from_buffer, step.from);
        const std::vector<Cell> carried(from, from + step.bytes);
        std::copy(carried.begin(), carried.end(), at(r, step.to_buffer, step.to));
        return true;
      }
      case StepKind::reduce: reduce(r, step); return true;
      case StepKind::fold: fold(r, step); return true;
      case StepKind::scale: {
        Cell* to = at(r, step.to_buffer, step.to);
        std::transform(to, to + step.bytes, to, scaled);
        return true;
      }
    }
    return true;
  }

  void reduce(std::size_t r, const Step& step) {
    const Cell* from = at(r, step.from_buffer, step.from);
    Cell* to = at(r, step.to_buffer, step.to);
    for (std::uint64_t i = 0; i < step.bytes; ++i)
      to[i] = step.reversed ? join(from[i], to[i], ordered_) : join(to[i], from[i], ordered_);
  }

  void fold(std::size_t r, const Step& step) {
    const Cell* from = at(r, step.from_buffer, step.from);
    Cell* to = at(r, step.to_buffer, step.to);
    for (std::uint64_t i = 0; i < step.bytes; ++i) {
      Cell sum = from[i];
      for (std::uint32_t way = 1; way < step.inputs; ++way) sum = join(sum, from[way * step.stride() + i], ordered_);
      to[i] = call_.op == Op::avg ? scaled(sum) : sum;
    }
  }

  void read_source(Put& put) {
    if (put.step.bytes > 0) {
      const Cell* from = at(put.from, put.step.from_buffer, put.step.from);
      put.carried.assign(from, from + put.step.bytes);
    }
    put.state = Put::read;
  }

  /// Advances one put by one state.
  bool move_network() {
    if (puts_.empty()) return false;
    const std::size_t chosen = random_() % puts_.size();
    Put& put = puts_[chosen];
    const std::uint64_t middle = put.step.bytes / 2;
    Cell* to = put.step.bytes > 0 ? at(put.step.peer, StepBuffer::scratch, put.step.to) : nullptr;
    if (put.state == Put::issued) {
      read_source(put);
    } else if (put.state == Put::read) {
      std::copy_n(put.carried.begin(), middle, to);
      put.state = Put::half;
    } else {
      std::copy(put.carried.begin() + static_cast<std::ptrdiff_t>(middle), put.carried.end(), to + middle);
      ranks_[put.step.peer].raised[put.step.slot] = true;
      std::swap(put, puts_.back());
      puts_.pop_back();
    }
    return true;
  }

  std::optional<std::string> compare(int rank) {
    if (call_.collective == schedule::Collective::exscan && rank == 0) return std::nullopt;
    for (const Content& content : promised_to(subject_, rank, values_))
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
  std::vector<Rank> ranks_;
  std::vector<Put> puts_;
  std::optional<std::string> wrong_;
};

}  // namespace

std::optional<std::string> replay(const Case& subject, const std::vector<Schedule>& schedules,
                                  std::mt19937_64& random) {
  return Replay(subject, schedules, random).run();
}

}  // namespace hmc::verify
