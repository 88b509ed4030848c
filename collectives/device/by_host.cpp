// Supports devices of any vendor and several nodes.
//
// One piece of an allreduce. In the stream:
// - copy the input to a slot of host memory;
// - record an event, which the progress thread polls;
// - block at a gate;
// - copy the slot to the output.
// In the progress thread: when the stream has reached the event, run an in-place allreduce on the slot by schedules;
// then open the gate.
//
// The next piece's input is enqueued before this piece's gate, into the other slot, so that copies and messages
// overlap. A slot's next input is ordered after its last output, by the same stream or by an event in the previous
// stream.
//
// The progress thread polls the event, because host functions in the stream could deadlock. A driver may run all host
// functions on one thread. Then a gate that is a host function blocks the function that should open it.
//
// The calls use the schedules of a private duplicate of the team, so that other collectives don't change their order.
#include <algorithm>
#include <array>
#include <mutex>
#include <utility>
#include <vector>

#include "collectives/device/by_host.hpp"
#include "collectives/network/schedule_team.hpp"
#include "collectives/team/derive.hpp"
#include "runtime/device/stream_group.hpp"
#include "runtime/rma/operation_scope.hpp"

namespace hmc::collectives {

namespace {

using base::Status;

const char* const failed_before = "an earlier call on streams has failed on a rank";

/// Host memory from a memory provider. Owner: the destructor returns it to the provider.
class Slot {
 public:
  static constexpr std::size_t bytes = std::size_t{2} << 20;
  Slot() = default;
  explicit Slot(const memory::Owner& owner)
      : provider_(owner.provider), block_(owner.provider->take_block(owner.info.device, bytes)) {}
  Slot(Slot&& other) noexcept : provider_(std::exchange(other.provider_, nullptr)), block_(std::move(other.block_)) {}
  Slot& operator=(Slot&& other) noexcept {
    std::swap(provider_, other.provider_);
    std::swap(block_, other.block_);
    return *this;
  }
  ~Slot() {
    if (provider_ != nullptr) provider_->give_back(std::move(block_));
  }
  std::byte* data() const noexcept { return block_.data; }
  /// Empty if copies between the block and a device execute in stream order. Otherwise the reason.
  const std::string& why_not_in_order() const noexcept { return block_.why_pageable; }

 private:
  const memory::Provider* provider_ = nullptr;
  memory::HostBlock block_;
};

class HostPlace final : public StreamPosition {
 public:
  HostPlace(std::unique_ptr<memory::Event> point, std::unique_ptr<memory::Gate> gate)
      : point_(std::move(point)), gate_(std::move(gate)) {}
  Status reached() noexcept override { return point_->query(); }
  void continue_stream() noexcept override { gate_->open(); }

 private:
  std::unique_ptr<memory::Event> point_;
  std::unique_ptr<memory::Gate> gate_;
};

class ByHost final : public CallsOnStreams, public rma::OpenStreams {
 public:
  ByHost(TeamObject& team, const char* operation, const void* buffer);
  ~ByHost() override;
  void allreduce(void* stream, const CollectiveArgs& args) override;
  void barrier(void* stream, const void* buffer) override;
  void close() override;
  Status complete_streams() noexcept override;
  Status compare() const noexcept override;

 private:
  /// A part of a call, from its first work in the stream to its start.
  struct Piece {
    CollectiveArgs args;  ///< the buffers are ones that the host can access
    const void* in;       ///< copied into args.input; null: args.input is the caller's
    void* out;            ///< likewise, from args.output
    std::size_t bytes = 0;
    std::unique_ptr<memory::Event> point;
  };

  std::string prepare();
  ScheduleTeam& schedules() const noexcept { return own_->schedules(); }
  template <typename Enqueue> void call(void* stream, const char* operation, Enqueue&& enqueue);
  Piece piece_of(const CollectiveArgs& args, std::size_t first, std::size_t count) noexcept;
  Status stage_input(Piece& piece, memory::Stream& stream) const;
  Status go_through(Piece& piece, memory::Stream& stream);
  Status copy(void* out, const void* in, std::size_t bytes, memory::Stream& stream) const noexcept;
  void give_up(const Status& status, memory::Stream& stream) noexcept;
  [[noreturn]] void throw_failure(const Status& status, const char* operation);
  bool pending() const noexcept { return is_recorded_ && last_->query().code == Code::in_progress; }
  Status announce_end() noexcept;
  Status until_over(bool on_all_ranks) noexcept;
  Status outcome() const noexcept;
  void leak_resources();

  rma::TeamCore& team_;
  memory::Owner owner_;
  std::array<Slot, 2> slots_;
  std::unique_ptr<memory::Event> last_;
  std::shared_ptr<TeamObject> own_;  // destroyed before the members that its calls use
  std::uint64_t pieces_ = 0;
  std::uint64_t end_ = 0;     // the ticket of the barrier that announces the end of calls
  bool is_recorded_ = false;  // last_ is recorded
  bool is_lost_ = false;      // unknown if a stream still uses the slots
  bool open_ = true;
  bool has_thrown_ = false;  // the caller has received an error, so it makes no further calls
};

ByHost::ByHost(TeamObject& team, const char* operation, const void* buffer) : team_(team) {
  const rma::OperationScope user(team_.fabric(), operation, base::SetupCall::streams);
  memory::look_for_devices();
  owner_ = memory::known_owner_of(buffer);
  if (const std::string objection = device::first_objection(team_, prepare()); !objection.empty())
    device::throw_objection(team_.fabric(), objection);
  own_ = duplicate(team);
  team_.fabric().devices->add(*this);
}

std::string ByHost::prepare() {
  if (memory::is_host_accessible(owner_)) return "its buffers are the host's";
  if (std::string why = owner_.provider->why_no_gates(owner_.info.device); !why.empty()) return why;
  if (!team_.fabric().background.begin()) return "there is no thread to go on with it (HMC_PROGRESS)";
  try {
    for (Slot& slot : slots_) {
      slot = Slot(owner_);
      // OpenCL's queues keep their order with any memory.
      if (owner_.provider->type() != MemoryType::OPENCL && !slot.why_not_in_order().empty())
        return slot.why_not_in_order();
    }
    last_ = owner_.provider->make_event(owner_.info.device);
  } catch (const Error& error) {
    return error.detail().message;
  }
  return {};
}

ByHost::~ByHost() {
  if (own_ == nullptr) return;
  team_.fabric().devices->remove(*this);
  if (!pending() && !is_lost_) return;
  schedules().fail(Status::failure(Code::closed, "a rank let its calls on streams go"));
  if (!device::comes_true(device::soon_over, [this] { return !pending(); }) || is_lost_) leak_resources();
}

/// A stream that can't be drained still uses the slots and the event. They stay allocated until the process ends,
/// reachable for leak checkers.
void ByHost::leak_resources() {
  static auto& left = *new std::vector<std::pair<std::array<Slot, 2>, std::unique_ptr<memory::Event>>>;
  static auto& mutex = *new std::mutex;
  const std::scoped_lock lock(mutex);
  left.emplace_back(std::move(slots_), std::move(last_));
}

// ---- calls

void ByHost::allreduce(void* stream, const CollectiveArgs& args) {
  rma::require(team_.fabric(), device::lies_with(owner_, args.input), {"allreduce_on"});
  rma::require(team_.fabric(), device::lies_with(owner_, args.output), {"allreduce_on"});
  call(stream, "allreduce_on", [&](memory::Stream& on) {
    const std::size_t count = args.call.count, most = Slot::bytes / args.call.element_bytes;
    Piece next = piece_of(args, 0, std::min(most, count));
    Status status = stage_input(next, on);
    for (std::size_t first = 0; status.ok() && (first < count || first == 0); first += most) {
      Piece now = std::move(next);
      if (const std::size_t after = first + most; after < count) {
        next = piece_of(args, after, std::min(most, count - after));
        status = stage_input(next, on);
      }
      if (status.ok()) status = go_through(now, on);
    }
    return status;
  });
}

void ByHost::barrier(void* stream, const void* buffer) {
  rma::require(team_.fabric(), device::lies_with(owner_, buffer), {"barrier_on"});
  call(stream, "barrier_on", [&](memory::Stream& on) {
    Piece piece{barrier_args(), nullptr, nullptr, 0, nullptr};
    const Status status = stage_input(piece, on);
    return status.ok() ? go_through(piece, on) : status;
  });
}

template <typename Enqueue> void ByHost::call(void* stream, const char* operation, Enqueue&& enqueue) {
  if (has_thrown_) rma::throw_status(team_.fabric(), Status::failure(Code::closed, failed_before), {operation});
  if (!schedules().failure().ok()) throw_failure(schedules().explain(), operation);
  const auto on = owner_.provider->borrow_stream(owner_.info.device, stream);
  Status status;
  try {
    if (is_recorded_) status = on->wait(*last_);
    if (status.ok()) status = enqueue(*on);
    if (status.ok()) status = last_->record(*on);
    is_recorded_ = true;
    if (status.ok()) return;
  } catch (...) {
    give_up(Status::failure(Code::error, "a rank's driver refused an event"), *on);
    has_thrown_ = true;
    throw;
  }
  const bool had_failed = !schedules().failure().ok();
  give_up(status, *on);
  if (had_failed) throw_failure(schedules().explain(), operation);
  has_thrown_ = true;
  rma::throw_status(team_.fabric(), status, {operation});
}

/// Fails the schedules, which opens all gates on all ranks.
void ByHost::give_up(const Status& status, memory::Stream& stream) noexcept {
  schedules().fail(status);
  is_recorded_ = last_->record(stream).ok();  // after the work already enqueued for this call
  is_lost_ = is_lost_ || !is_recorded_;
}

ByHost::Piece ByHost::piece_of(const CollectiveArgs& args, std::size_t first, std::size_t count) noexcept {
  const std::size_t offset = first * args.call.element_bytes;
  std::byte* const slot = slots_[pieces_++ % slots_.size()].data();
  const auto* const in = static_cast<const std::byte*>(args.input) + offset;
  auto* const out = static_cast<std::byte*>(args.output) + offset;
  const bool reads_device = !memory::is_host_accessible(in), writes_device = !memory::is_host_accessible(out);
  Piece piece{args, reads_device ? in : nullptr, writes_device ? out : nullptr, count * args.call.element_bytes,
              nullptr};
  piece.args.call.count = count;
  piece.args.input = reads_device ? slot : in;
  piece.args.output = writes_device ? slot : out;
  piece.args.call.in_place = piece.args.input == piece.args.output;
  return piece;
}

Status ByHost::stage_input(Piece& piece, memory::Stream& stream) const {
  if (piece.in != nullptr)
    if (const Status status = copy(const_cast<void*>(piece.args.input), piece.in, piece.bytes, stream); !status.ok())
      return status;
  piece.point = owner_.provider->make_event(owner_.info.device);
  return piece.point->record(stream);
}

/// Starts the collective as the last step. If an earlier step fails, nothing starts, and the gate's destructor opens
/// it.
Status ByHost::go_through(Piece& piece, memory::Stream& stream) {
  std::unique_ptr<memory::Gate> gate;
  if (const Status status = stream.stop(gate); !status.ok()) return status;
  if (piece.out != nullptr)
    if (const Status status = copy(piece.out, piece.args.output, piece.bytes, stream); !status.ok()) return status;
  std::uint64_t ticket = 0;  // only the stream waits for the result
  return schedules().start(piece.args, ticket, nullptr,
                           std::make_unique<HostPlace>(std::move(piece.point), std::move(gate)));
}

Status ByHost::copy(void* out, const void* in, std::size_t bytes, memory::Stream& stream) const noexcept {
  if (bytes == 0) return {};
  return owner_.provider->copy_async(
      memory::transfer_between(out, memory::known_owner_of(out), in, memory::known_owner_of(in), bytes), stream);
}

/// Throws the error of an earlier call that failed on another rank or in the progress thread.
void ByHost::throw_failure(const Status& status, const char* operation) {
  has_thrown_ = true;
  if (status.code == Code::mismatch || status.code == Code::peer_failed || status.code == Code::aborted)
    schedules().throw_error(status, operation);
  const bool is_mine = !status.ok() && !schedules().received_alarm();
  rma::throw_status(team_.fabric(), is_mine ? status : Status::failure(Code::closed, failed_before), {operation});
}

// ---- the end

/// Starts a barrier with the signature of close(). Ranks that wait for another call of this rank compare the signatures
/// and detect the mismatch.
Status ByHost::announce_end() noexcept {
  if (end_ != 0) return {};
  CollectiveArgs args = barrier_args();
  args.operation = "Team::close";
  args.signature = Signature::make(base::SetupCall::team_close, 0, static_cast<int>(CollectiveKind::barrier));
  return schedules().start(args, end_);
}

/// Waits until this rank's streams are drained. With `on_all_ranks`, also waits until all ranks have announced the end.
Status ByHost::until_over(bool on_all_ranks) noexcept {
  Status status = announce_end();
  if (!status.ok()) {
    schedules().fail(status);
    return status;
  }
  const auto over = [&]() noexcept {
    status = schedules().test(end_);
    if (!status.ok() && status.code != Code::in_progress) return true;
    return !pending() && (status.ok() || !on_all_ranks);
  };
  const Status waited = team_.fabric().waiter.until({base::Activity::closing}, over, team_.fabric().timeout);
  if (waited.code == Code::timeout && status.code == Code::in_progress) schedules().expired(end_);
  if (!waited.ok()) {
    schedules().fail(waited);  // no effect if it has failed already
    return waited;
  }
  return status.code == Code::in_progress ? Status{} : status;
}

void ByHost::close() {
  if (!open_) return;
  rma::Fabric& fabric = team_.fabric();
  const rma::OperationScope user(fabric, "Team::close", base::SetupCall::team_close);
  const Status over = until_over(true);
  if (over.code == Code::timeout && !schedules().received_alarm()) {
    has_thrown_ = true;
    const Status why = schedules().failure();
    if (why.peer < 0)
      rma::throw_status(fabric, Status::failure(Code::timeout, "this rank's streams didn't run out"), {"Team::close"});
    schedules().throw_error(why, "Team::close");
  }
  if (over.code == Code::peer_failed || over.code == Code::aborted) throw_failure(over, "Team::close");
  const Status status = over.ok() ? over : outcome();
  // Messages of the private team must arrive before a rank destroys it.
  if (!status.ok()) (void)fabric.flush_wires();
  // All ranks must get the same result, because all or none continue to close. They fail if any rank hasn't yet
  // reported the failure to its caller.
  base::ByteWriter mine;
  mine.number<std::uint64_t>(status.ok() || has_thrown_ ? 1 : 0);
  bool all_know = true;
  for (const base::Bytes& answer : rma::allgather_for(fabric, team_.exchange(), mine.view(), fabric.deadline())) {
    base::ByteReader in(answer);
    all_know = in.number<std::uint64_t>() == 1 && all_know;
  }
  if (!all_know) throw_failure(status, "Team::close");
  if (status.ok()) collectives::close(open(own_, "Team::close"));
  open_ = false;
}

Status ByHost::complete_streams() noexcept {
  const Status over = until_over(false);
  if (over.ok()) return {};
  const Status status = outcome();
  return has_thrown_ ? Status{} : status;
}

Status ByHost::compare() const noexcept {
  if (has_thrown_) return {};
  const Status failed = schedules().failure();
  return failed.ok() || failed.code == Code::closed ? Status{} : schedules().explain();
}

/// The gates are open: the streams complete the work that they still hold.
Status ByHost::outcome() const noexcept {
  (void)device::comes_true(device::soon_over, [this] { return !pending(); });
  return schedules().explain();
}

}  // namespace

std::unique_ptr<CallsOnStreams> make_by_host(TeamObject& team, const char* operation, const void* buffer) {
  return std::make_unique<ByHost>(team, operation, buffer);
}

}  // namespace hmc::collectives
