// StreamGroup: ranks of a node whose devices' streams wait for each other. Words of host memory, registered with every
// device, say how far each rank's streams have come; a stream waits for the others' as it waits for its own work, so
// that no host does. Beside them each rank has some device memory that all devices reach.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <hmc/types.hpp>

#include "runtime/window/device/device_view.hpp"
#include "runtime/window/device/kernel_reach.hpp"
#include "runtime/window/device/open_streams.hpp"
#include "runtime/window/team_core.hpp"

namespace hmc::window {

class Core;

/// One thread at a time. Work put in by several calls runs in the calls' order, on whatever streams.
class StreamGroup final : public OpenStreams {
 public:
  static constexpr std::size_t staging_bytes = std::size_t{4} << 20;

  /// Collective. `buffer` lies on the device that the streams are of. Throws Error on every rank, with the first
  /// rank's reason, where some rank can't.
  StreamGroup(TeamCore& team, const char* operation, const void* buffer);
  ~StreamGroup();
  /// Collective. What the streams hold comes first, until the job's deadline. Throws Error on every rank where ranks
  /// called different things or one failed, unless all users know it, and where a rank never came; then the streams go
  /// on all the same.
  void close();
  /// As far as close() goes without the others.
  base::Status run_dry() noexcept override;
  base::Status compare() const noexcept override;

  // ---- one call: accepts, begin, steps, end. Nothing here waits; all is in `stream`'s order. Once begun, a failure
  // of one rank ends the group: its own end() says so, all streams go on over bytes that mean nothing, and who calls
  // next is refused (Status closed). It waits then, at most twice the job's deadline, for what my streams hold.
  /// Before anybody hears of the call: a buffer of another device is this rank's mistake alone.
  base::Status accepts(const void* buffer) const noexcept { return lies_with(owner_, buffer); }
  /// `signature` says what is called: Status mismatch where a rank is known to have called something else.
  base::Status begin(void* stream, std::uint64_t signature) noexcept;
  /// My streams have come here; then until all ranks' have. Twice per piece: `stage` 0 and 1.
  base::Status meet(int stage) noexcept;
  base::Status take_in(const void* in, std::size_t bytes) noexcept;
  base::Status give_out(void* out, std::size_t bytes) noexcept;
  base::Status copy(void* out, const void* in, std::size_t bytes) noexcept;
  /// My slice [first, first + count) of all ranks' staging, into all ranks' staging.
  base::Status reduce(std::size_t first, std::size_t count, DType type, Op op) noexcept;
  /// `so_far`: of the steps. The call's outcome.
  base::Status end(const base::Status& so_far) noexcept;

 private:
  struct Words;
  enum class Broken : std::uint64_t;
  Words& words(int rank) const noexcept;
  std::string prepare();
  std::string try_out() const;
  base::Status meet_trial(memory::Stream& stream) const noexcept;
  void need_all(const std::string& why_not);
  base::Status compare(std::span<const base::Bytes> answers) const;
  base::Status check(std::uint64_t signature) noexcept;
  base::Status break_up(Broken why, const base::Status& status) noexcept;
  base::Status run_out() noexcept;
  void tell(Broken why) noexcept;
  void let_all_go_on() noexcept;
  bool pending() noexcept;
  bool has_run_out_soon() noexcept;
  void leave_behind();

  TeamCore& team_;
  memory::Owner owner_;
  std::shared_ptr<Core> staging_;
  std::shared_ptr<Core> words_;
  std::vector<Registration> seen_;  // by rank: their words, as my device addresses them
  std::unique_ptr<memory::Event> last_;
  std::unique_ptr<memory::Stream> stream_;  // of the call under way
  bool open_ = true;
  bool told_ = false;  // the user, that the group has come apart
  std::uint64_t calls_ = 0;
  std::uint64_t called_ = 0;  // a hash of all signatures so far
  unsigned step_ = 0;
  std::vector<std::uint64_t> checked_;  // by rank: calls that were compared
};

}  // namespace hmc::window
