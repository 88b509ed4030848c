// allreduce by load and store.
//
// Small vectors: each rank publishes its input in its arrival line or slot, and computes the complete result itself.
//
// Large vectors: each rank reduces its own slice of all inputs, and stores the result for all ranks.
//
// An input in a window is read in place. The owner of any other input first copies it to its staging, except for the
// slice that it reduces itself. A result is stored directly into an output in a window. For any other output it is
// stored in staging, and the output's owner copies it.
//
// With two ranks the result is stored in the receiver's staging, in the cache lines that held the input. So no other
// lines move between the cores. With more ranks the result is stored once, in the reducing rank's staging.
//
// Why no rank overwrites staging that another rank may still read: the readers of a rank's staging are the ranks that
// reduce its slices and, if its result is stored there, the ranks that copy that result.
// - Piece 0: wait_staging_free() waits for the tag that an earlier call set with staging_in_use_until(). All readers of
//   that call have published this tag. A call without reads after finish() sets no tag: finish() has waited until all
//   its readers have published `reduced`.
// - Piece p > 0: finish(p-1) waited for all ranks' `reduced`, so the inputs have been read. If results were stored in
//   staging, stage() waits for all ranks' `finished` of p-1, which they publish after take_results().
// - With two ranks, the peer stores the result into the receiver's staging after it has read the same lines. The
//   receiver sees `reduced` and copies the result. Only the receiver writes these lines next, in program order.
//
// Each publish is a release and each wait an acquire (direct_team.hpp), so earlier reads are complete.
#include "collectives/node/engine.hpp"

#include <algorithm>
#include <cstring>

#include "collectives/node/stream_copy.hpp"

namespace hmc::collectives::node_engine {

using base::Status;

namespace {

Status allreduce_small(DirectTeam& team, const CollectiveArgs& args, bool in_line) noexcept {
  const std::size_t bytes = args.bytes();
  if (!in_line) std::memcpy(team.slot(team.rank()), args.input, bytes);
  team.arrive(args.input, in_line ? bytes : 0);
  if (const Status status = team.wait_arrivals(); !status.ok()) return status;
  for (int rank = 0; rank < team.size(); ++rank)
    team.ins[static_cast<std::size_t>(rank)] = in_line ? team.payload(rank) : team.slot(rank);
  // Read this rank's contribution from the caller's buffer: it is in this core's caches, the line or slot isn't.
  team.ins[static_cast<std::size_t>(team.rank())] = args.input;
  void* const to = args.output;
  reduce(args.reducer, &to, 1, team.ins.data(), team.size(), args.call.count, team.scratch);
  return {};
}

/// From this size on, results for other ranks' windows are stored with non-temporal stores.
constexpr std::size_t stream_from = std::size_t{1} << 20;
constexpr std::size_t stream_block = std::size_t{8} << 10;

/// Longer vectors are reduced in pieces, so that staged data is read while it is in caches near the cores: an allreduce
/// of 16 MiB took 1.4 to 1.5 times as long in one piece. With many ranks a slice has 64 KiB.
std::size_t longest_piece(std::size_t ranks) noexcept {
  if (ranks == 2) return std::size_t{1} << 20;
  return std::clamp(ranks * (std::size_t{64} << 10), std::size_t{2} << 20, std::size_t{16} << 20);
}

/// The slices of one piece, one per rank.
struct Slices {
  std::size_t first;   ///< the piece's first element
  std::size_t count;   ///< its elements
  std::size_t length;  ///< of one slice; the last slices may be shorter or empty

  std::size_t begin(int rank) const noexcept { return std::min(count, static_cast<std::size_t>(rank) * length); }
  std::size_t size(int rank) const noexcept { return std::min(length, count - begin(rank)); }
};

class Sliced {
 public:
  Sliced(DirectTeam& team, const CollectiveArgs& args) noexcept
      : team_(team),
        reducer_(args.reducer),
        in_(static_cast<const std::byte*>(args.input)),
        out_(static_cast<std::byte*>(args.output)),
        count_(args.call.count),
        element_(args.reducer.element),
        bytes_(args.bytes()),
        piece_length_(piece_length()) {}

  Status run() {
    announce_placements();
    // All ranks get the same result: it depends on the call and on the staging size, which are equal on all ranks.
    const bool fits = team_.staging_fits(staging_wanted());
    if (fits) {
      if (const Status status = stage(0); !status.ok()) return status;
    }
    team_.arrive(&mine_, sizeof mine_);
    return reduce_all(fits);
  }

  /// Requires that all ranks have arrived. The peers treat this rank's buffers as staged.
  Status run_after_devices() {
    team_.fabric().counters.buffers_staged += 2;
    devices_fall_back_ = true;
    return reduce_all(false);
  }

 private:
  /// `is_staged`: this rank has staged its first piece.
  Status reduce_all(bool is_staged) {
    if (const Status status = team_.wait_arrivals(); !status.ok()) return status;
    if (const Status status = read_announcements(); !status.ok()) return status;
    if (!someone_stages_) return finish(whole(), 0);
    if (!team_.staging_fits(staging_wanted())) {
      team_.grow_staging(staging_wanted());
      piece_length_ = piece_length();
    }
    const std::size_t pieces = (count_ + piece_length_ - 1) / piece_length_;
    for (std::size_t piece = 0; piece < pieces; ++piece) {
      // If all ranks have staged the first piece before their arrival, the arrivals publish it.
      if (piece > 0 || !is_staged || devices_fall_back_) {
        if (const Status status = stage_and_show(piece, piece == 0 && is_staged); !status.ok()) return status;
      }
      if (const Status status = finish(cut(piece), piece); !status.ok()) return status;
    }
    return {};
  }

  bool pair() const noexcept { return team_.size() == 2; }

  void announce_placements() noexcept {
    mine_.in = team_.place(in_, bytes_);
    mine_.out = team_.place(out_, bytes_);
    Counters& counters = team_.fabric().counters;
    ++(mine_.in ? counters.buffers_in_place : counters.buffers_staged);
    ++(mine_.out ? counters.buffers_in_place : counters.buffers_staged);
  }

  std::size_t ranks() const noexcept { return static_cast<std::size_t>(team_.size()); }
  /// Elements of a piece, which all ranks' staging holds with its borders. The pieces of a call have equal lengths.
  std::size_t piece_length() const noexcept {
    const std::size_t staging = team_.staging_bytes() * (pair() ? 2 : 1) / element_;
    const std::size_t borders = border(staging * element_) * ranks();
    const std::size_t longest = std::max<std::size_t>(longest_piece(ranks()) / element_, 1);
    const std::size_t most = std::clamp<std::size_t>(staging - std::min(staging, borders), 1, longest);
    const std::size_t pieces = std::max<std::size_t>((count_ + most - 1) / most, 1);
    return std::max<std::size_t>((count_ + pieces - 1) / pieces, 1);
  }
  /// In elements. Long slices of a piece of up to `bytes` end at page boundaries, others at line boundaries.
  std::size_t border(std::size_t bytes) const noexcept {
    return (std::min(bytes, bytes_) / ranks() >= 16384 ? 4096 : line_bytes) / element_;
  }
  Slices slices(std::size_t first, std::size_t count) const noexcept {
    const std::size_t even = (count + ranks() - 1) / ranks(), border = this->border(count * element_);
    return {first, count, (even + border - 1) / border * border};
  }
  Slices cut(std::size_t piece) const noexcept {
    const std::size_t first = piece * piece_length_;
    return slices(first, std::min(piece_length_, count_ - first));
  }
  Slices whole() const noexcept { return slices(0, count_); }

  const std::byte* in_at(const Slices& cut, int slice) const noexcept {
    return in_ + (cut.first + cut.begin(slice)) * element_;
  }
  std::byte* out_at(const Slices& cut, int slice) const noexcept {
    return out_ + (cut.first + cut.begin(slice)) * element_;
  }
  /// Address of a slice of a rank's input or result in its staging. With two ranks the staging holds one slice only.
  std::byte* staged_at(const Slices& cut, int owner, int slice) const noexcept {
    return team_.staging(owner) + (pair() ? 0 : cut.begin(slice) * element_);
  }

  /// Staging that each rank needs for the longest piece. A pair stages one slice, more ranks stage all.
  std::size_t staging_wanted() const noexcept {
    const std::size_t piece = std::min(bytes_, longest_piece(ranks()));
    return (pair() ? (piece + 1) / 2 : piece) + border(piece) * element_ * ranks();
  }

  Status stage_and_show(std::size_t piece, bool is_staged) noexcept {
    if (const Status status = is_staged ? Status{} : stage(piece); !status.ok()) return status;
    team_.publish(Phase::staged, team_.tag(piece));
    return team_.wait_phases(Phase::staged, team_.tag(piece));
  }

  Status stage(std::size_t piece) noexcept {
    if (mine_.in) return {};
    if (piece == 0) {
      if (const Status status = team_.wait_staging_free(); !status.ok()) return status;
    } else if (results_wait_ && !pair()) {
      // The last piece may be shorter: then its slices lie over the result that this rank's peers copy.
      if (const Status status = team_.wait_phases(Phase::finished, team_.tag(piece - 1)); !status.ok()) return status;
    }
    const Slices cut = this->cut(piece);
    for (int i = 1; i < team_.size(); ++i) {
      const int slice = (team_.rank() + i) % team_.size();
      if (cut.size(slice) > 0)
        std::memcpy(staged_at(cut, team_.rank(), slice), in_at(cut, slice), cut.size(slice) * element_);
    }
    return {};
  }

  Status read_announcements() noexcept {
    someone_stages_ = false;
    results_wait_ = false;
    for (int rank = 0; rank < team_.size(); ++rank) {
      Announcement theirs = mine_;
      if (rank != team_.rank()) std::memcpy(&theirs, team_.payload(rank), sizeof theirs);
      // Fallback: that rank's device supports the call, but another rank's doesn't. The rank's input isn't staged yet.
      devices_fall_back_ = devices_fall_back_ || theirs.in.device_window != 0;
      const auto index = static_cast<std::size_t>(rank);
      team_.ins[index] = theirs.in ? team_.reach(rank, theirs.in) : nullptr;
      team_.outs[index] = theirs.out ? team_.reach(rank, theirs.out) : nullptr;
      if ((theirs.in && team_.ins[index] == nullptr) || (theirs.out && team_.outs[index] == nullptr))
        return team_.fail(Status::failure(Code::closed, "a peer's window isn't open here", team_.world(rank)));
      someone_stages_ = someone_stages_ || !theirs.in || !theirs.out;
      results_wait_ = results_wait_ || !theirs.out;
    }
    return {};
  }

  /// Reduces this rank's slice, and copies the others' results.
  Status finish(const Slices& cut, std::size_t piece) noexcept {
    if (results_wait_ && !pair() && mine_.in) {
      // This rank stores its result in its staging. stage() didn't wait until that staging was free.
      const Status status =
          piece == 0 ? team_.wait_staging_free() : team_.wait_phases(Phase::finished, team_.tag(piece - 1));
      if (!status.ok()) return status;
    }
    if (cut.size(team_.rank()) > 0) reduce_own(cut);
    team_.publish(Phase::reduced, team_.tag(piece));
    if (const Status status = team_.wait_phases(Phase::reduced, team_.tag(piece)); !status.ok()) return status;
    if (!mine_.out) take_results(cut);
    if (results_wait_ && !pair()) {
      team_.staging_in_use_until(team_.tag(piece));
      team_.publish(Phase::finished, team_.tag(piece));
    }
    return {};
  }

  /// Stores this rank's slice of the result in its own output, in the peers' outputs in windows, and in staging for the
  /// other peers.
  void reduce_own(const Slices& cut) noexcept {
    const std::size_t bytes = cut.size(team_.rank()) * element_;
    // Stream each block while it is in this core's cache.
    const std::size_t block = streams() ? stream_block : bytes;
    for (std::size_t done = 0; done < bytes; done += block) reduce_block(cut, done, std::min(block, bytes - done));
    if (streams()) stream_fence();
  }

  bool streams() const noexcept { return bytes_ >= stream_from; }

  void reduce_block(const Slices& cut, std::size_t done, std::size_t bytes) noexcept {
    const int me = team_.rank();
    const std::size_t offset = (cut.first + cut.begin(me)) * element_ + done;
    std::byte* const own = out_at(cut, me) + done;
    // Separate vectors: team_.ins and team_.outs keep the windows' addresses for the next block.
    inputs_.clear();
    outputs_.assign(1, own);
    bool waits_here = false;
    for (int rank = 0; rank < team_.size(); ++rank) {
      const auto index = static_cast<std::size_t>(rank);
      const auto* const window = static_cast<const std::byte*>(team_.ins[index]);
      auto* const output = static_cast<std::byte*>(team_.outs[index]);
      if (rank == me) {
        inputs_.push_back(in_at(cut, me) + done);
        continue;
      }
      inputs_.push_back(window != nullptr ? window + offset : staged_at(cut, rank, me) + done);
      if (output != nullptr) {
        if (!streams()) outputs_.push_back(output + offset);
      } else if (pair()) {
        outputs_.push_back(staged_at(cut, rank, me) + done);
      } else {
        waits_here = true;
      }
    }
    if (waits_here) outputs_.push_back(staged_at(cut, me, me) + done);
    reduce(reducer_, outputs_.data(), static_cast<int>(outputs_.size()), inputs_.data(), team_.size(), bytes / element_,
           team_.scratch);
    if (!streams()) return;
    for (int i = 1; i < team_.size(); ++i) {
      auto* const output = static_cast<std::byte*>(team_.outs[static_cast<std::size_t>((me + i) % team_.size())]);
      if (output != nullptr) stream_copy(output + offset, own, bytes);
    }
  }

  void take_results(const Slices& cut) noexcept {
    for (int i = 1; i < team_.size(); ++i) {
      const int slice = (team_.rank() + i) % team_.size();
      const int holder = pair() ? team_.rank() : slice;
      if (cut.size(slice) > 0)
        std::memcpy(out_at(cut, slice), staged_at(cut, holder, slice), cut.size(slice) * element_);
    }
  }

  DirectTeam& team_;
  const Reducer& reducer_;
  const std::byte* in_;
  std::byte* out_;
  std::size_t count_;
  std::size_t element_;
  std::size_t bytes_;
  std::size_t piece_length_;  ///< for the present size of the staging
  Announcement mine_;
  bool devices_fall_back_ = false;
  bool someone_stages_ = false;
  bool results_wait_ = false;
  std::vector<const void*>& inputs_ = team_.slice_ins;
  std::vector<void*>& outputs_ = team_.slice_outs;
};

}  // namespace

Status allreduce(DirectTeam& team, const CollectiveArgs& args) {
  if (const Status status = team.begin(args.signature, args.bytes()); !status.ok()) return status;
  const std::size_t bytes = args.bytes();
  return bytes <= slot_bytes ? allreduce_small(team, args, bytes <= inline_bytes) : Sliced(team, args).run();
}

Status allreduce_after_devices(DirectTeam& team, const CollectiveArgs& args) {
  return Sliced(team, args).run_after_devices();
}

}  // namespace hmc::collectives::node_engine
