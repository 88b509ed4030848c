// Small inputs: in the owner's arrival line or slot. Large inputs: in the owner's window or private memory, or in
// chunks in the ring in its staging. A reduction combines all inputs in rank order, so results don't depend on the
// chunks.
//
// V-forms use the same steps. The largest block, which all ranks know, determines their number; shorter blocks end in
// an earlier step. In alltoallv the ranks get the largest block from the arrival payloads, so before the arrival each
// rank decides by its own counts if its input fits its slot. Only the owner has the displacements of the parts in its
// window. It publishes them as a table in its slot.
//
// In a gather of large blocks, the ranks write them into the root's output, all at the same time, if the root publishes
// it: an output in a window. A rank returns after its own copy; if the root copied all blocks, all ranks would wait for
// the root. (Not an output in private memory. After an error the root's caller may reuse it at once, but a write by
// another process can't be stopped. In a window, peers may write for a short time after an error.) Otherwise
// each rank except the root stages its whole block and returns.
//
// Why no rank overwrites bytes that another rank still reads:
// - Lines and slots: see Board.
// - A chunk of the ring is reused after all ranks have published `finished` for the step that used it. A rank that
//   reads nothing more has already published the last step's tag.
// - First chunk: a rank that has seen all arrivals stages it at once, because all ranks have returned from the previous
//   call. Any other rank first waits until all ranks have published the `finished` tag of the last call that used
//   stagings (staging_in_use_until).
// - If peers read an input in its window or in private memory, the owner returns after all ranks have finished.
// - In-place calls write a chunk of the output after they have staged that chunk of the input. Peers never read such an
//   input in its window. An in-place alltoallv with different displacements in its output copies the input first.
// - An in-place reduce_scatterv stores at or before the addresses that it reads. The kernels process the elements in
//   ascending order.
#include "collectives/node/engine.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>

#include "collectives/network/operation.hpp"
#include "collectives/node/parts.hpp"

namespace hmc::collectives::node_engine {

using base::Status;

namespace {

/// Payload of the arrival line. Only calls whose input fits the line or the slot don't use it, except alltoallv.
struct Shown {
  Placement in;               ///< the input; on the root of a gather: the output, if the peers may write to it
  CountsOf counts;            ///< in alltoallv
  std::uint64_t in_slot = 0;  ///< in alltoallv, not 0: the input lies in the slot, a part in each `slot_stride`
};
static_assert(sizeof(Shown) <= inline_bytes);
// A rank that attempts a device reduction publishes an Announcement, which the others read as a Shown.
static_assert(sizeof(Shown) == sizeof(Announcement) && offsetof(Shown, in) == offsetof(Announcement, in) &&
              offsetof(Shown, in_slot) == offsetof(Announcement, in_slot));

class Pull {
 public:
  Pull(DirectTeam& team, const CollectiveArgs& args) noexcept
      : team_(team),
        args_(args),
        roles_{args.call.collective, team.rank(), team.size(), args.call.root},
        parts_(team, args),
        rank_(team.rank()),
        size_(team.size()),
        me_(static_cast<std::size_t>(team.rank())),
        count_(parts_of(team, args.call.collective)),
        block_(parts_.block()),
        in_(static_cast<const std::byte*>(args.input)),
        out_(static_cast<std::byte*>(args.output)) {}

  Status run() {
    if (const Status status = begin(); !status.ok()) return status;
    return block_ <= slot_bytes / count_ ? small() : large();
  }

  /// Requires that all ranks have arrived. The peers treat this rank's input as staged.
  Status run_after_devices() noexcept {
    own_ = in_ + parts_.in_begin(me_);
    if (roles_.gives()) team_.count({});
    return step_by_step();
  }

  Status run_alltoallv(CountsOf& all) noexcept {
    if (const Status status = begin(); !status.ok()) return status;
    const std::size_t stride = slot_stride(count_);
    shown_.counts = counts_of(rank_, args_.call.counts, args_.call.receive_counts);
    shown_.in_slot = most_given() <= stride ? 1 : 0;
    choose_method(team_.largest_given);  // the ranks don't know the largest block of this call yet
    if (shown_.in_slot != 0) {
      pack(team_.slot(rank_), stride);
    } else if (roles_.gives()) {
      show_input();
      team_.count(shown_.in);
    }
    team_.arrive(&shown_, sizeof shown_);
    if (const Status status = team_.wait_arrivals(); !status.ok()) return status;

    all = shown_.counts;
    for (int i = 1; i < size_; ++i) {
      const Shown theirs = shown_by(next(i));
      combine_counts(&all, &theirs.counts, 1, DType::located_i64, nullptr);
    }
    if (all.balance != 0) return {};
    block_ = all.largest * args_.call.element_bytes;
    team_.largest_given = block_;
    if (block_ > stride) {
      if (!fits_ring(team_, args_.call, block_))
        return team_.fail(Status::failure(Code::invalid_argument, "blocks that are too large to go chunk by chunk"));
      return step_by_step();
    }
    keep_own();
    take_small(false, stride);
    return {};
  }

 private:
  static std::size_t index(int rank) noexcept { return static_cast<std::size_t>(rank); }
  int next(int i) const noexcept { return rank_ + i < size_ ? rank_ + i : rank_ + i - size_; }
  const void*& source(int peer) const noexcept { return team_.ins[index(peer)]; }
  std::byte* result_of(int peer) const noexcept { return out_ + parts_.out_begin(index(peer)); }
  /// Index of this rank's part in a peer's input.
  std::size_t my_part() const noexcept { return count_ == 1 ? 0 : me_; }
  bool reduces() const noexcept { return hmc::reduces(roles_.collective); }

  Status begin() noexcept {
    if (const Status status = team_.begin(args_.signature, args_.bytes()); !status.ok()) return status;
    if (roles_.sources() != Sources::root || roles_.is_root()) own_ = in_ + parts_.in_begin(me_);
    const bool in_place = parts_.irregular() && args_.call.in_place;
    if (!in_place || roles_.collective != CollectiveKind::alltoall || parts_.same_layout()) return {};
    try {
      copy_.assign(in_, in_ + schedule::input_bytes({size_, 1}, args_.call, rank_));
    } catch (const std::bad_alloc&) {
      return team_.fail(Status::failure(Code::out_of_memory, "no memory for a copy of an input in place"));
    }
    in_ = copy_.data();
    own_ = in_ + parts_.in_begin(me_);
    return {};
  }

  // ---- process up to `most` bytes from `offset` of every block; source() holds the addresses
  static std::size_t left(std::size_t all, std::size_t offset, std::size_t most) noexcept {
    return offset < all ? std::min(most, all - offset) : 0;
  }
  void consume(std::size_t offset, std::size_t most) noexcept {
    if (reduces()) return combine(offset, left(parts_.out_bytes(me_), offset, most));
    for (int i = 1; i < size_; ++i) {
      const int peer = next(i);
      if (!roles_.takes_from(peer)) continue;
      const std::size_t bytes = left(parts_.out_bytes(index(peer)), offset, most);
      if (bytes > 0 && source(peer) != nullptr) std::memcpy(result_of(peer) + offset, source(peer), bytes);
    }
  }
  void combine(std::size_t offset, std::size_t bytes) noexcept {
    const int end = contributions(roles_.collective, rank_, size_);
    if (rank_ < end) source(rank_) = own_ + offset;
    void* const to = out_ + offset;
    reduce(args_.reducer, &to, 1, team_.ins.data(), end, bytes / args_.call.element_bytes, team_.scratch);
  }
  /// Copies this rank's own part to its output, unless a reduction stores it.
  void keep_own() noexcept {
    if (reduces() || !roles_.takes_own()) return;
    const std::size_t bytes = parts_.out_bytes(me_);
    if (std::byte* const own = result_of(rank_); bytes > 0 && own != own_) std::memcpy(own, own_, bytes);
  }

  // ---- small
  Status small() noexcept {
    const bool in_line = count_ * block_ <= inline_bytes;
    show_small(in_line);
    if (!roles_.has_result()) return {};
    keep_own();
    if (const Status status = wait_arrivals(); !status.ok()) return status;
    take_small(in_line, block_);
    return {};
  }
  void show_small(bool in_line) noexcept {
    if (parts_.irregular() && count_ > 1) {
      std::byte packed[inline_bytes] = {};
      if (roles_.gives()) pack(in_line ? packed : team_.slot(rank_), block_);
      return team_.arrive(packed, roles_.gives() && in_line ? count_ * block_ : 0);
    }
    const std::size_t bytes = roles_.gives() ? count_ * parts_.in_bytes(me_) : 0;
    if (!in_line && bytes > 0) std::memcpy(team_.slot(rank_), in_, bytes);
    team_.arrive(in_, in_line ? bytes : 0);
  }
  /// Packs the parts that other ranks read.
  void pack(std::byte* to, std::size_t stride) const noexcept {
    for (std::size_t part = 0; part < count_; ++part)
      if (const std::size_t bytes = part == me_ ? 0 : parts_.in_bytes(part); bytes > 0)
        std::memcpy(to + part * stride, in_ + parts_.in_begin(part), bytes);
  }
  void take_small(bool in_line, std::size_t stride) noexcept {
    for (int i = 1; i < size_; ++i) {
      const int peer = next(i);
      source(peer) = (in_line ? team_.payload(peer) : team_.slot(peer)) + my_part() * stride;
    }
    consume(0, block_);
  }
  Status wait_arrivals() noexcept {
    if (roles_.takes_from_all()) return team_.wait_arrivals();
    for (int i = 1; i < size_; ++i) {
      if (!roles_.takes_from(next(i))) continue;
      if (const Status status = team_.wait_arrival(next(i)); !status.ok()) return status;
    }
    return {};
  }

  // ---- large
  Status large() {
    const bool is_gather = roles_.collective == CollectiveKind::gather;
    choose_method(block_);
    if (roles_.gives()) show_input();
    if (is_gather && roles_.is_root()) show_output();
    team_.arrive(&shown_, sizeof shown_);
    if (is_gather) {
      if (const Status status = roles_.is_root() ? Status{} : team_.wait_arrival(roles_.root); !status.ok())
        return status;
      if (const Placement output = roles_.is_root() ? shown_.in : shown_by(roles_.root).in; output) return push(output);
      if (const Status status = deepen_staging(); !status.ok()) return status;
    }
    if (roles_.gives()) team_.count(shown_.in);
    if (roles_.has_result()) {
      if (const Status status = wait_arrivals(); !status.ok()) return status;
    }
    if (stages() && !(roles_.has_result() && roles_.takes_from_all())) {
      if (const Status status = team_.wait_staging_free(); !status.ok()) return status;
    }
    return step_by_step();
  }
  /// Grows the staging for a gather in which the root copies the blocks, so that each rank can stage its whole block
  /// and return. All ranks get the same result.
  Status deepen_staging() {
    constexpr std::size_t of_all = std::size_t{128} << 20;
    const std::size_t wanted = std::min(block_, of_all / index(size_));
    if (size_ == 1 || team_.staging_fits(wanted)) return {};
    // After this wait all ranks have returned from earlier calls, so no staging is in use.
    if (const Status status = team_.wait_arrivals(); !status.ok()) return status;
    team_.grow_staging(wanted);
    return {};
  }
  /// Publishes the location of the root's output, if the peers may write to it. In a v-form only the root has the
  /// displacements of the blocks. It publishes them as a table in its slot.
  void show_output() noexcept {
    const std::size_t* const begins = parts_.out_begins();
    const std::size_t table = begins == nullptr ? 0 : index(size_) * sizeof *begins;
    if (table > slot_bytes) return;
    shown_.in = team_.place(out_, schedule::output_bytes({size_, 1}, args_.call, rank_));
    if (shown_.in && table > 0) std::memcpy(team_.slot(rank_), begins, table);
  }
  /// gather: writes this rank's block into the root's output. The root waits for all blocks.
  Status push(const Placement& output) noexcept {
    if (roles_.is_root()) {
      keep_own();
      if (const Status status = team_.wait_arrivals(); !status.ok()) return status;
      return team_.wait_phases(Phase::finished, team_.tag(0));
    }
    ++team_.fabric().counters.buffers_in_place;
    std::byte* const there = team_.reach(roles_.root, output);
    if (there == nullptr)
      return team_.fail(Status::failure(Code::closed, "the root's window isn't open here", team_.world(roles_.root)));
    std::size_t begin = parts_.out_begin(me_);
    if (parts_.irregular()) std::memcpy(&begin, team_.slot(roles_.root) + me_ * sizeof begin, sizeof begin);
    if (const std::size_t bytes = parts_.in_bytes(me_); bytes > 0) std::memcpy(there + begin, own_, bytes);
    team_.publish(Phase::finished, team_.tag(0));
    return {};
  }
  bool stages() const noexcept { return roles_.gives() && !shown_.in && shown_.in_slot == 0; }
  /// Selects the location from which peers read the input: this rank's window, its private memory, or the ring.
  void show_input() noexcept {
    const std::size_t* const begins = count_ > 1 ? parts_.in_begins() : nullptr;
    const bool has_room = begins == nullptr || count_ * sizeof *begins <= slot_bytes;
    const bool may_stay = has_room && !(args_.call.in_place && roles_.overwrites_input());
    const std::size_t bytes = may_stay ? schedule::input_bytes({size_, 1}, args_.call, rank_) : 0;
    if (may_stay) shown_.in = team_.place(in_, bytes);
    if (may_stay && !shown_.in && !reduces()) shown_.in = show_private(bytes);
    if (shown_.in && begins != nullptr) std::memcpy(team_.slot(rank_), begins, count_ * sizeof *begins);
  }
  /// `agreed`: a size of the blocks that is equal on all ranks.
  void choose_method(std::size_t agreed) noexcept {
    agreed_ = agreed;
    if (!reduces()) method_ = team_.choose_method(private_buffer_method(roles_.collective, size_, agreed), agreed);
  }
  Placement show_private(std::size_t bytes) noexcept {
    const std::size_t block = roles_.collective == CollectiveKind::allgather ? block_ : most_given();
    const bool is_short = private_buffer_method(roles_.collective, size_, std::min(block, agreed_)) ==
                          PrivateBufferMethod::stage;  // shorter blocks than other ranks'
    return team_.show_private(in_, bytes, is_short ? PrivateBufferMethod::stage : method_);
  }
  /// Requires that all ranks have arrived.
  bool some_input_is_private() const noexcept {
    for (int rank = 0; rank < size_; ++rank)
      if (const Shown shown = rank == rank_ ? shown_ : shown_by(rank); shown.in_slot == 0 && !shown.in.is_in_window())
        return true;
    return false;
  }
  /// Position of this rank's part in an input that a peer exposes in its window or private memory.
  std::size_t begin_at(int peer) const noexcept {
    if (count_ == 1) return 0;
    if (!parts_.irregular()) return me_ * block_;
    std::size_t begin = 0;
    std::memcpy(&begin, team_.slot(peer) + me_ * sizeof begin, sizeof begin);
    return begin;
  }
  Shown shown_by(int peer) const noexcept {
    Shown theirs;
    std::memcpy(&theirs, team_.payload(peer), sizeof theirs);
    return theirs;
  }

  std::size_t steps_of(std::size_t bytes) const noexcept { return (bytes + chunk_ - 1) / chunk_; }
  std::size_t most_given() const noexcept {
    std::size_t most = 0;
    for (std::size_t part = 0; part < count_; ++part)
      if (count_ == 1 || part != me_) most = std::max(most, parts_.in_bytes(count_ == 1 ? me_ : part));
    return most;
  }
  std::size_t most_taken() const noexcept {
    if (!roles_.has_result()) return 0;
    if (reduces()) return parts_.out_bytes(me_);
    std::size_t most = 0;
    for (int peer = 0; peer < size_; ++peer)
      if (roles_.takes_from(peer)) most = std::max(most, parts_.out_bytes(index(peer)));
    return most;
  }
  std::byte* staged(int rank, std::size_t step, std::size_t part) const noexcept {
    return team_.staging(rank) + (step % slots_ * count_ + part) * chunk_;
  }

  Status step_by_step() noexcept {
    team_.begin_trial();
    const Status status = take_steps();
    if (status.ok() && team_.in_trial() && some_input_is_private()) team_.end_trial(block_);
    return status;
  }
  Status take_steps() noexcept {
    chunk_ = chunk_of(team_, args_.call, block_);
    if (roles_.collective == CollectiveKind::gather) slots_ = team_.staging_bytes() / chunk_;
    const std::uint64_t last = team_.tag(steps_of(block_) - 1);
    const std::size_t gives = stages() ? steps_of(most_given()) : 0;
    std::size_t takes = steps_of(most_taken());
    team_.staging_in_use_until(last);
    if (takes == 0) team_.publish(Phase::finished, last);
    std::size_t done = 0;
    for (std::size_t step = 0; step < std::max<std::size_t>({gives, takes, 1}); ++step) {
      // Fill the ring one step ahead, so that peers don't wait for the next chunk. A rank that reads nothing fills all
      // free slots.
      for (; done < gives && (takes == 0 || done <= step + 1); ++done) {
        if (const Status status = stage(done); !status.ok()) return status;
      }
      if (step == 0) keep_own();
      if (step >= takes) continue;
      if (const Status status = await_sources(step); !status.ok()) return status;
      if (!reduces() && !takes_chunks_) takes = 1;
      consume(step * chunk_, chunk_);
      team_.publish(Phase::finished, step + 1 == takes ? last : team_.tag(step));
    }
    return shown_.in ? team_.wait_phases(Phase::finished, last) : Status{};
  }

  Status stage(std::size_t step) noexcept {
    if (step >= slots_) {
      if (const Status status = team_.wait_phases(Phase::finished, team_.tag(step - slots_)); !status.ok())
        return status;
    }
    const std::size_t offset = step * chunk_;
    for (std::size_t part = 0; part < count_; ++part) {
      // No peer reads this rank's own part.
      if (count_ > 1 && part == me_) continue;
      const std::size_t to = count_ == 1 ? me_ : part;
      if (const std::size_t bytes = left(parts_.in_bytes(to), offset, chunk_); bytes > 0)
        std::memcpy(staged(rank_, step, part), in_ + parts_.in_begin(to) + offset, bytes);
    }
    team_.publish(Phase::staged, team_.tag(step));
    return {};
  }

  /// Sets source() for each peer, and waits for staged chunks. Step 0 copies all data of a peer's private memory. An
  /// in-place call copies it chunk by chunk, because this rank must stage its input before it writes the output. A
  /// gather also copies all data of a peer's window in step 0: large copies bypass the caches (0.7 of the time for 4
  /// MiB from each of 4 ranks).
  Status await_sources(std::size_t step) noexcept {
    const std::size_t offset = step * chunk_;
    const bool whole = !args_.call.in_place;
    for (int i = 1; i < size_; ++i) {
      const int peer = next(i);
      if (!roles_.takes_from(peer) || parts_.out_bytes(index(peer)) <= offset) continue;
      const Shown theirs = shown_by(peer);
      const bool at_once =
          whole && (theirs.in.is_private() || (theirs.in && roles_.collective == CollectiveKind::gather));
      if (at_once && step > 0) continue;
      const std::size_t all = parts_.out_bytes(index(peer));
      takes_chunks_ = takes_chunks_ || !at_once;
      if (theirs.in_slot != 0) {
        source(peer) = team_.slot(peer) + me_ * slot_stride(count_) + offset;
      } else if (theirs.in.is_private()) {
        source(peer) = nullptr;
        const Status status = team_.read(peer, theirs.in, begin_at(peer) + offset, result_of(peer) + offset,
                                         at_once ? all : left(all, offset, chunk_));
        if (!status.ok()) return status;
      } else if (!theirs.in) {
        if (const Status status = team_.wait_phase(Phase::staged, peer, team_.tag(step)); !status.ok()) return status;
        source(peer) = staged(peer, step, my_part());
      } else {
        const std::byte* const input = team_.reach(peer, theirs.in);
        if (input == nullptr)
          return team_.fail(Status::failure(Code::closed, "a peer's window isn't open here", team_.world(peer)));
        source(peer) = at_once ? nullptr : input + begin_at(peer) + offset;
        if (at_once) std::memcpy(result_of(peer), input + begin_at(peer), all);
      }
    }
    return {};
  }

  DirectTeam& team_;
  const CollectiveArgs& args_;
  Roles roles_;
  Parts parts_;
  int rank_;
  int size_;
  std::size_t me_;
  std::size_t count_;  // parts of an input
  std::size_t block_;  // of the largest block, in bytes
  const std::byte* in_;
  const std::byte* own_ = nullptr;  // this rank's own part
  std::byte* out_;
  Shown shown_;
  std::size_t agreed_ = 0;
  PrivateBufferMethod method_ = PrivateBufferMethod::stage;
  std::size_t chunk_ = 0;
  std::size_t slots_ = ring_slots;
  bool takes_chunks_ = false;
  std::vector<std::byte> copy_;
};

}  // namespace

bool can_pull(const DirectTeam& team, const CollectiveArgs& args) noexcept {
  const schedule::Call& call = args.call;
  // Only this rank's counts are known before the ranks have arrived, so the decision depends on the team's size only.
  if (call.collective == CollectiveKind::alltoall && call.irregular()) return fits_ring(team, call, least_chunk);
  // These values are equal on all ranks.
  const std::size_t block = extent_of(call) * call.element_bytes;
  return block <= slot_bytes / parts_of(team, call.collective) || fits_ring(team, call, block);
}

Status pull(DirectTeam& team, const CollectiveArgs& args) { return Pull(team, args).run(); }

Status pull_after_devices(DirectTeam& team, const CollectiveArgs& args) noexcept {
  return Pull(team, args).run_after_devices();
}

Status alltoallv(DirectTeam& team, const CollectiveArgs& args, CountsOf& all) noexcept {
  return Pull(team, args).run_alltoallv(all);
}

}  // namespace hmc::collectives::node_engine
