// The checks common to calls on device streams. StreamGroup: lets the device streams of a node's ranks wait for each
// other. Words in host memory, registered with every device, hold the progress of each rank's streams. A stream waits
// for the words of the other ranks, so no host thread waits. Each rank also has staging memory on its device, which all
// devices can access.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <hmc/types.hpp>

#include "runtime/device/kernel_reach.hpp"
#include "runtime/memory/pointer_lookup.hpp"
#include "runtime/rma/team_core.hpp"

namespace hmc::device {

/// Returns invalid_argument if the buffer is memory of a device other than `owner`'s.
base::Status lies_with(const memory::Owner& owner, const void* buffer) noexcept;

/// Collective. Each rank passes the reason why it can't execute calls on streams, or an empty text. Returns the reason
/// of the lowest such rank; empty if all ranks can.
std::string first_objection(rma::TeamCore& team, const std::string& mine);
/// Error{unsupported}.
[[noreturn]] void throw_objection(const rma::Setup& setup, const std::string& objection);

/// Time limit for streams that no longer wait for a peer.
inline constexpr std::chrono::seconds soon_over{2};
/// Polls until `done()` is true; returns false at the limit. Doesn't use the job's Waiter, so destructors may call it.
template <typename Done> bool comes_true(std::chrono::nanoseconds within, Done&& done) noexcept {
  const auto limit = base::Deadline::after(within);
  while (!done()) {
    if (limit.expired()) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

/// One thread at a time. The work of several calls runs in the order of the calls, even on different streams.
class StreamGroup final : public rma::OpenStreams {
 public:
  static constexpr std::size_t staging_bytes = std::size_t{4} << 20;

  /// Collective. `buffer` is memory of the streams' device. If any rank can't take part, every rank throws Error with
  /// the reason of the lowest such rank.
  StreamGroup(rma::TeamCore& team, const char* operation, const void* buffer);
  ~StreamGroup();
  /// Collective. Waits for the work in this rank's streams, at most for the job's timeout. Throws Error on every rank:
  /// - if the ranks' calls differ or a call failed, unless all ranks have reported that already;
  /// - if a rank doesn't call close() in time. The streams also continue in this case.
  void close();
  /// The part of close() that needs no other rank.
  base::Status complete_streams() noexcept override;
  base::Status compare() const noexcept override;

  // ---- one call: accepts, begin, steps, end. None of these waits: all work is queued on `stream`.
  // A failure after begin() on one rank ends the group; that rank's end() returns it. All streams continue, with
  // undefined data. Later calls on any rank return Status closed. A failing call waits for the work in this rank's
  // streams, at most for twice the job's timeout.
  /// Before begin: a buffer of another device is an error on this rank only.
  base::Status accepts(const void* buffer) const noexcept { return lies_with(owner_, buffer); }
  /// `signature` identifies the call. Returns Status mismatch if another rank's call is known to differ.
  base::Status begin(void* stream, std::uint64_t signature) noexcept;
  /// Enqueues a barrier of all ranks' streams on this call's stream. Called twice per piece, with `stage` 0 and 1.
  base::Status barrier(int stage) noexcept;
  base::Status copy_input(const void* in, std::size_t bytes) noexcept;
  base::Status give_out(void* out, std::size_t bytes) noexcept;
  base::Status copy(void* out, const void* in, std::size_t bytes) noexcept;
  /// Reduces the slice [first, first + count) over the staging memory of all ranks, and stores the result in all.
  base::Status reduce(std::size_t first, std::size_t count, DType type, Op op) noexcept;
  /// `so_far`: the status of the steps. Returns the outcome of the call.
  base::Status end(const base::Status& so_far) noexcept;

 private:
  struct Words;
  enum class Broken : std::uint64_t;
  Words& words(int rank) const noexcept;
  std::string prepare();
  std::string try_out() const;
  base::Status enqueue_trial(memory::Stream& stream) const noexcept;
  void need_all(const std::string& why_not);
  base::Status compare(std::span<const base::Bytes> answers) const;
  base::Status check(std::uint64_t signature) noexcept;
  base::Status end_group(Broken why, const base::Status& status) noexcept;
  base::Status wait_for_streams() noexcept;
  void mark_broken(Broken why) noexcept;
  void release_streams() noexcept;
  bool pending() noexcept;
  bool has_run_out_soon() noexcept;
  void leak_resources();

  rma::TeamCore& team_;
  memory::Owner owner_;
  std::shared_ptr<rma::WindowCore> staging_;
  std::shared_ptr<rma::WindowCore> words_;
  std::vector<Registration> seen_;  // by rank: the address of its words for this rank's device
  std::unique_ptr<memory::Event> last_;
  std::unique_ptr<memory::Stream> stream_;  // of the call in progress
  bool open_ = true;
  bool reported_ = false;  // a call has reported the group's failure to this rank's user
  std::uint64_t calls_ = 0;
  std::uint64_t called_ = 0;  // a hash of all signatures so far
  unsigned step_ = 0;
  std::vector<std::uint64_t> checked_;  // by rank: number of calls compared
};

}  // namespace hmc::device
