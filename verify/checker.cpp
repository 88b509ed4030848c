// Follows all ranks' steps in an order that signals allow. Any such order suffices: if two accesses aren't ordered by
// happens-before, the clock at the later one doesn't include the earlier one.
#include "verify/checker.hpp"

#include <algorithm>

#include "verify/contents.hpp"
#include "verify/storage.hpp"
#include "verify/structure.hpp"

namespace hmc::verify {
namespace {

using schedule::Schedule;
using schedule::Step;
using schedule::StepBuffer;
using schedule::StepKind;
using Schedules = std::vector<Schedule>;

/// A range in a buffer of a rank: 0 input, 1 output (and input, if they overlap), 2 scratch.
struct ByteRange {
  int memory = 0;
  std::uint64_t begin = 0, bytes = 0;

  bool overlaps(const ByteRange& other) const {
    return memory == other.memory && begin < other.begin + other.bytes && other.begin < begin + bytes;
  }
  bool operator==(const ByteRange&) const = default;
};

/// A put's source, which may be read until the message has arrived or the rank has flushed. Or the source of a get,
/// which is complete after the getting rank's step.
struct PendingRead {
  ByteRange range;
  std::uint32_t step = 0;
  std::uint32_t target = 0, arrives = 0;         ///< complete after the target's wait (the getting rank's step),
  std::uint32_t flushed = MatchedMessage::none;  ///< or after the owner's flush
  bool is_get = false;
};

struct RankState {
  Storage memories[3];
  BufferOverlap overlap;
  VectorClock clock;
  std::shared_ptr<const VectorClock> sent_clock;  ///< null when `clock` has changed since
  std::uint32_t at = 0;
  std::vector<PendingRead> pending_reads, pending_input_reads;
  std::size_t cleanup_at = 64;  ///< number of pending reads at which complete ones are removed
};

class Checker {
 public:
  Checker(const Case& subject, const Schedules& schedules)
      : subject_(subject), schedules_(schedules), values_(subject.in_rank_order()) {}

  void run() {
    messages_ = match_messages(schedules_);
    check_bounds(subject_, schedules_);
    prepare();
    follow_all();
    for (int rank = 0; rank < subject_.shape().size; ++rank) check_end(rank);
  }

 private:
  [[noreturn]] void reject(const std::string& what) const {
    throw Counterexample{static_cast<int>(me_), static_cast<long>(ranks_[me_].at), what};
  }

  void prepare();
  void follow_all();
  bool follow(const Step& step);
  void follow_put(const Step& step);
  void follow_get(const Step& step);
  void follow_fold(const Step& step);
  void follow_flush();
  void remove_completed_reads();
  bool follow_wait(const Step& step);
  void check_is_after(std::uint32_t owner, const LastAccess& touched, const char* what) const;
  void check_no_reader(const ByteRange& range, std::uint32_t owner, const char* what) const;
  bool is_complete(const PendingRead& pending, const VectorClock& clock, std::uint32_t owner) const;
  void check_written(const ValueRuns& pieces) const;
  void read(const ByteRange& range, ValueRuns& out);
  void write(const ByteRange& range, const ValueRuns& pieces);
  void check_own_put_arrived(const ByteRange& range) const;
  void combine(const ValueRuns& left, const ValueRuns& right, ValueRuns& out);
  void check_disjoint(const ByteRange& from, const ByteRange& to) const;
  void check_barrier_entries() const;
  void check_end(int rank);
  void compare(const Storage& result, const Storage& expected) const;
  void report_stuck() const;
  ByteRange range_of(std::uint32_t rank, StepBuffer buffer, std::uint64_t at, std::uint64_t bytes) const;

  const Case& subject_;
  const Schedules& schedules_;
  Values values_;
  MatchedMessages messages_;
  std::vector<RankState> ranks_;
  std::vector<std::uint32_t> ready_;
  std::uint32_t me_ = 0;  ///< the rank whose step is being followed
  bool deterministic_ = false, averages_ = false;
  std::uint64_t element_bytes_ = 1;
};

ByteRange Checker::range_of(std::uint32_t rank, StepBuffer buffer, std::uint64_t at, std::uint64_t bytes) const {
  const BufferOverlap& overlap = ranks_[rank].overlap;
  if (buffer == StepBuffer::scratch) return {2, at, bytes};
  if (overlap.overlaps) return {1, at + (buffer == StepBuffer::input ? overlap.input_at : overlap.output_at), bytes};
  return {buffer == StepBuffer::input ? 0 : 1, at, bytes};
}

void Checker::prepare() {
  const auto size = schedules_.size();
  const schedule::Call call = subject_.call_of(0);
  deterministic_ = call.deterministic && reduces(call.collective);
  averages_ = call.op == Op::avg;
  element_bytes_ = call.element_bytes;
  ranks_.resize(size);
  for (std::uint32_t r = 0; r < size; ++r) {
    RankState& rank = ranks_[r];
    const int number = static_cast<int>(r);
    const schedule::Call mine = subject_.call_of(number);
    rank.overlap = buffer_overlap_of(subject_, number);
    const std::uint64_t in = input_bytes(subject_.shape(), mine, number);
    const std::uint64_t out = output_bytes(subject_.shape(), mine, number);
    const BufferOverlap& overlap = rank.overlap;
    rank.memories[0] = Storage(in, undefined);
    rank.memories[1] =
        Storage(overlap.overlaps ? std::max(in + overlap.input_at, out + overlap.output_at) : out, callers);
    rank.memories[2] = Storage(schedules_[r].scratch_bytes, undefined);
    for (const Content& content : input_of(subject_, number, values_)) {
      const ByteRange range = range_of(r, StepBuffer::input, content.begin, content.piece.bytes);
      rank.memories[range.memory].write(range.begin, {content.piece});
    }
    rank.clock.assign(size, 0);
    ready_.push_back(static_cast<std::uint32_t>(size) - 1 - r);
  }
}

void Checker::follow_all() {
  while (!ready_.empty()) {
    me_ = ready_.back();
    ready_.pop_back();
    RankState& rank = ranks_[me_];
    const auto& steps = schedules_[me_].steps;
    while (rank.at < steps.size() && follow(steps[rank.at])) ++rank.at;
  }
  for (std::size_t r = 0; r < ranks_.size(); ++r)
    if (ranks_[r].at < schedules_[r].steps.size()) report_stuck();
}

/// Returns false if the step waits for a message that hasn't been sent.
bool Checker::follow(const Step& step) {
  ValueRuns from, to, result;
  const ByteRange source = range_of(me_, step.from_buffer, step.from, step.bytes);
  const ByteRange target = range_of(me_, step.to_buffer, step.to, step.bytes);
  switch (step.kind) {
    case StepKind::wait: return follow_wait(step);
    case StepKind::put: follow_put(step); break;
    case StepKind::flush_local: follow_flush(); break;
    case StepKind::get: follow_get(step); break;
    case StepKind::fold: follow_fold(step); break;
    case StepKind::copy:
      if (source == target) break;  // in place
      check_disjoint(source, target);
      read(source, from);
      write(target, from);
      break;
    case StepKind::reduce:
      check_disjoint(source, target);
      read(source, from);
      read(target, to);
      step.reversed ? combine(from, to, result) : combine(to, from, result);
      write(target, result);
      break;
    case StepKind::scale:
      read(target, to);
      for (ValueRun& piece : to) piece.value = values_.scaled(piece.value);
      write(target, to);
      break;
  }
  return true;
}

bool Checker::follow_wait(const Step& step) {
  MatchedMessage& message = messages_[me_][step.slot];
  if (!message.raised) return false;
  RankState& rank = ranks_[me_];
  const VectorClock& theirs = *message.clock;
  for (std::size_t i = 0; i < theirs.size(); ++i) rank.clock[i] = std::max(rank.clock[i], theirs[i]);
  rank.clock[message.sender] = std::max(rank.clock[message.sender], message.put_step + 1);
  rank.sent_clock.reset();
  message.clock.reset();
  return true;
}

/// Checks that this rank knows of the last accesses to bytes of `owner`.
void Checker::check_is_after(std::uint32_t owner, const LastAccess& touched, const char* what) const {
  const std::uint32_t known = ranks_[me_].clock[owner];
  if (touched.locally > known)
    reject(std::string(what) + " bytes that rank " + std::to_string(owner) + " may still use in its step " +
           std::to_string(touched.locally - 1));
  if (touched.arrives > known)
    reject(std::string(what) + " bytes of another message, which rank " + std::to_string(owner) +
           " awaits in its step " + std::to_string(touched.arrives - 1));
}

void Checker::follow_put(const Step& step) {
  RankState& rank = ranks_[me_];
  MatchedMessage& message = messages_[step.peer][step.slot];
  if (step.bytes > 0) {
    ValueRuns pieces;
    const ByteRange source = range_of(me_, step.from_buffer, step.from, step.bytes);
    read(source, pieces);
    if (rank.pending_reads.size() >= rank.cleanup_at) remove_completed_reads();
    // An input that doesn't overlap the output is never written. It is checked only at the end.
    (source.memory == 0 ? rank.pending_input_reads : rank.pending_reads)
        .push_back({source, rank.at, step.peer, message.wait_step, MatchedMessage::none});
    const ByteRange target{2, step.to, step.bytes};
    Storage& memory = ranks_[step.peer].memories[2];
    check_is_after(step.peer, memory.touched(step.to, step.bytes), "overwrites");
    check_no_reader(target, step.peer, "overwrites");
    memory.write(step.to, pieces);
    memory.touch(step.to, step.bytes, {0, message.wait_step + 1});
  }
  if (!rank.sent_clock) rank.sent_clock = std::make_shared<const VectorClock>(rank.clock);
  message.clock = rank.sent_clock;
  message.raised = true;
  const auto& theirs = schedules_[step.peer].steps;
  const std::uint32_t at = ranks_[step.peer].at;
  if (at < theirs.size() && at == message.wait_step) ready_.push_back(step.peer);
}

/// All earlier accesses of these bytes, by their owner or by messages, must be ordered before the get. Later writes are
/// checked when they are followed.
void Checker::follow_get(const Step& step) {
  RankState& rank = ranks_[me_];
  RankState& owner = ranks_[step.peer];
  check_is_after(step.peer, owner.memories[2].touched(step.from, step.bytes), "gets");
  ValueRuns pieces;
  owner.memories[2].read(step.from, step.bytes, pieces);
  check_written(pieces);
  owner.pending_reads.push_back({{2, step.from, step.bytes}, rank.at, me_, rank.at, MatchedMessage::none, true});
  write(range_of(me_, step.to_buffer, step.to, step.bytes), pieces);
}

void Checker::follow_flush() {
  RankState& rank = ranks_[me_];
  for (PendingRead& pending : rank.pending_reads)
    if (!pending.is_get) pending.flushed = std::min(pending.flushed, rank.at);
  rank.pending_input_reads.clear();
  remove_completed_reads();
}

/// Removes reads that are complete for this rank. Keeps reads of scratch: other ranks write scratch too, and each write
/// must be ordered after the read.
void Checker::remove_completed_reads() {
  RankState& rank = ranks_[me_];
  std::erase_if(rank.pending_reads, [&](const PendingRead& pending) {
    return pending.range.memory != 2 && is_complete(pending, rank.clock, me_);
  });
  rank.cleanup_at = 2 * rank.pending_reads.size() + 64;
}

bool Checker::is_complete(const PendingRead& pending, const VectorClock& clock, std::uint32_t owner) const {
  return clock[pending.target] > pending.arrives || (pending.is_get && pending.target == me_) ||
         (pending.flushed != MatchedMessage::none && (owner == me_ || clock[owner] > pending.flushed));
}

/// Checks a write of this rank to `owner`'s memory.
void Checker::check_no_reader(const ByteRange& range, std::uint32_t owner, const char* what) const {
  for (const PendingRead& pending : ranks_[owner].pending_reads)
    if (pending.range.overlaps(range) && !is_complete(pending, ranks_[me_].clock, owner))
      reject(std::string(what) + " bytes that the " + (pending.is_get ? "get" : "put") + " of rank " +
             std::to_string(pending.is_get ? pending.target : owner) + "'s step " + std::to_string(pending.step) +
             " may still be reading");
}

void Checker::check_own_put_arrived(const ByteRange& range) const {
  if (range.memory != 2) return;
  const LastAccess touched = ranks_[me_].memories[2].touched(range.begin, range.bytes);
  if (touched.arrives > ranks_[me_].at)
    reject("uses bytes of a message that it awaits only in step " + std::to_string(touched.arrives - 1));
}

void Checker::check_written(const ValueRuns& pieces) const {
  for (const ValueRun& piece : pieces)
    if (piece.value == undefined || piece.value == callers) reject("reads bytes that weren't written");
}

void Checker::read(const ByteRange& range, ValueRuns& out) {
  RankState& rank = ranks_[me_];
  check_own_put_arrived(range);
  rank.memories[range.memory].read(range.begin, range.bytes, out);
  check_written(out);
  if (range.memory == 2) rank.memories[2].touch(range.begin, range.bytes, {rank.at + 1, 0});
}

void Checker::write(const ByteRange& range, const ValueRuns& pieces) {
  RankState& rank = ranks_[me_];
  check_own_put_arrived(range);
  check_no_reader(range, me_, "overwrites");
  rank.memories[range.memory].write(range.begin, pieces);
  if (range.memory == 2) rank.memories[2].touch(range.begin, range.bytes, {rank.at + 1, 0});
}

void Checker::combine(const ValueRuns& left, const ValueRuns& right, ValueRuns& out) {
  out.clear();
  if (!left.empty() && left[0].position % element_bytes_ != 0) reject("begins within an element");
  std::size_t i = 0, j = 0;
  std::uint64_t used_i = 0, used_j = 0;
  while (i < left.size() && j < right.size()) {
    const std::uint64_t bytes = std::min(left[i].bytes - used_i, right[j].bytes - used_j);
    const std::uint64_t position = left[i].position + used_i;
    if (position != right[j].position + used_j)
      reject("combines byte " + std::to_string(position) + " with byte " + std::to_string(right[j].position + used_j));
    out.push_back({bytes, position, values_.combine(left[i].value, right[j].value)});
    used_i += bytes;
    used_j += bytes;
    if (used_i == left[i].bytes) ++i, used_i = 0;
    if (used_j == right[j].bytes) ++j, used_j = 0;
  }
}

void Checker::follow_fold(const Step& step) {
  ValueRuns part, sum, next;
  const ByteRange target = range_of(me_, step.to_buffer, step.to, step.bytes);
  for (std::uint32_t i = 0; i < step.inputs; ++i) {
    const ByteRange source = range_of(me_, step.from_buffer, step.from + i * step.stride(), step.bytes);
    if (!(source == target)) check_disjoint(source, target);
    read(source, part);
    for (const ValueRun& piece : part)
      if (deterministic_ && !values_.is_single(piece.value)) reject("folds what was combined already");
    if (i == 0)
      sum = part;
    else
      combine(sum, part, next), sum.swap(next);
  }
  if (averages_)
    for (ValueRun& piece : sum) piece.value = values_.scaled(piece.value);
  write(target, sum);
}

void Checker::check_disjoint(const ByteRange& from, const ByteRange& to) const {
  if (from.overlaps(to)) reject("its source and its target overlap");
}

/// A rank that leaves a barrier must know that all others have entered it.
void Checker::check_barrier_entries() const {
  const VectorClock& clock = ranks_[me_].clock;
  for (std::uint32_t other = 0; other < clock.size(); ++other)
    if (other != me_ && clock[other] == 0)
      throw Counterexample{static_cast<int>(me_), -1,
                           "ends without a signal that shows the entry of rank " + std::to_string(other)};
}

void Checker::check_end(int number) {
  me_ = static_cast<std::uint32_t>(number);
  RankState& rank = ranks_[me_];
  if (subject_.call_of(number).collective == CollectiveKind::barrier) check_barrier_entries();
  for (const auto* pending_reads : {&rank.pending_reads, &rank.pending_input_reads})
    for (const PendingRead& pending : *pending_reads)
      if (!pending.is_get && !is_complete(pending, rank.clock, me_))
        throw Counterexample{number, pending.step, "its source may still be read when the schedule has ended"};
  const BufferOverlap& overlap = rank.overlap;
  Storage expected(rank.memories[1].size(), callers);
  if (overlap.overlaps)
    for (const Content& content : input_of(subject_, number, values_))
      expected.write(overlap.input_at + content.begin, {content.piece});
  for (const Content& content : required_output_of(subject_, number, values_))
    expected.write(overlap.output_at + content.begin, {content.piece});
  // The result of exscan on rank 0 is undefined.
  if (collectives::contributions(subject_.call_of(number).collective, number, subject_.shape().size) == 0) return;
  compare(rank.memories[1], expected);
}

/// Compares each run of the result with the required contents.
void Checker::compare(const Storage& result, const Storage& expected) const {
  ValueRuns have, want;
  result.read(0, expected.size(), have);
  std::uint64_t at = 0;
  for (const ValueRun& piece : have) {
    expected.read(at, piece.bytes, want);
    std::uint64_t inside = 0;
    for (const ValueRun& promised : want) {
      if (piece.value != promised.value || piece.position + inside != promised.position)
        throw Counterexample{static_cast<int>(me_), -1,
                             "byte " + std::to_string(at + inside) + " of the output holds byte " +
                                 std::to_string(piece.position + inside) + " of " + values_.text(piece.value) +
                                 " instead of byte " + std::to_string(promised.position) + " of " +
                                 values_.text(promised.value)};
      inside += promised.bytes;
    }
    at += piece.bytes;
  }
}

void Checker::report_stuck() const {
  std::uint32_t rank = 0;
  while (ranks_[rank].at == schedules_[rank].steps.size()) ++rank;
  // The rank that is waited for waits too. After N hops in a team of N ranks, `rank` is on the cycle.
  const auto next = [&](std::uint32_t r) { return schedules_[r].steps[ranks_[r].at].peer; };
  for (std::size_t i = 0; i < ranks_.size(); ++i) rank = next(rank);
  std::string what = "waits forever: rank " + std::to_string(rank);
  std::uint32_t r = rank;
  do {
    r = next(r);
    what += " <- rank " + std::to_string(r) + " in its step " + std::to_string(ranks_[r].at);
  } while (r != rank && what.size() < 400);
  throw Counterexample{static_cast<int>(rank), static_cast<long>(ranks_[rank].at), what};
}

}  // namespace

std::optional<Counterexample> check(const Case& subject, const Schedules& schedules, std::size_t* steps) {
  if (steps)
    for (const Schedule& schedule : schedules) *steps += schedule.steps.size();
  try {
    Checker(subject, schedules).run();
  } catch (const Counterexample& found) {
    return found;
  }
  return std::nullopt;
}

std::string text_of(const schedule::Step& step) {
  constexpr const char* buffers[] = {"input", "output", "scratch"};
  const std::string from = std::string(buffers[static_cast<int>(step.from_buffer)]) + "+" + std::to_string(step.from);
  const std::string to = std::string(buffers[static_cast<int>(step.to_buffer)]) + "+" + std::to_string(step.to);
  const std::string bytes = std::to_string(step.bytes) + " B";
  const std::string peer = "rank " + std::to_string(step.peer), slot = "slot " + std::to_string(step.slot);
  using schedule::StepKind;
  switch (step.kind) {
    case StepKind::put: return "put " + bytes + " of " + from + " to " + to + " of " + peer + ", " + slot;
    case StepKind::wait: return "wait for " + slot + " by " + peer;
    case StepKind::flush_local: return "flush_local";
    case StepKind::get: return "get " + bytes + " of " + from + " of " + peer + " to " + to;
    case StepKind::copy: return "copy " + bytes + " of " + from + " to " + to;
    case StepKind::reduce:
      return "reduce " + bytes + ": " + to + " = " + (step.reversed ? from + " op " + to : to + " op " + from);
    case StepKind::fold:
      return "fold " + bytes + " of " + std::to_string(step.inputs) + " at " + from + ", stride " +
             std::to_string(step.stride()) + ", to " + to;
    case StepKind::scale: return "scale " + bytes + " of " + to;
  }
  return "?";
}

}  // namespace hmc::verify
