#include "runtime/device/stream_group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <new>
#include <thread>
#include <tuple>
#include <utility>

#include "runtime/memory/device_stream.hpp"
#include "runtime/memory/kernels.hpp"
#include "runtime/rma/device_access.hpp"
#include "runtime/rma/operation_scope.hpp"
#include "runtime/rma/window_core.hpp"

namespace hmc::device {

using base::Status;

Status lies_with(const memory::Owner& owner, const void* buffer) noexcept {
  const memory::Owner of = memory::known_owner_of(buffer);
  const bool elsewhere = of.provider != owner.provider || of.info.device != owner.info.device;
  if (memory::is_host_accessible(of) || !elsewhere) return {};
  return Status::failure(Code::invalid_argument, "the buffer lies on another device than the team's calls on streams");
}

std::string first_objection(rma::TeamCore& team, const std::string& mine) {
  base::ByteWriter out;
  out.text(mine);
  const auto answers = allgather_for(team.fabric(), team.exchange(), out.view(), team.fabric().deadline());
  for (std::size_t rank = 0; rank < answers.size(); ++rank) {
    base::ByteReader in(answers[rank]);
    const std::string theirs = in.text();
    if (!theirs.empty())
      return fmt::format("not on the streams of rank {}'s device: {}", team.world_rank(static_cast<int>(rank)), theirs);
  }
  return {};
}

void throw_objection(const rma::Setup& setup, const std::string& objection) {
  throw Error(Code::unsupported, setup.operation.name(), objection,
              "the blocking form stages the buffers in host memory");
}

using base::Status;

/// The words of one rank, in host memory. Streams write `reached` and `trial`; hosts write the rest during calls. To
/// end waits, hosts write `reached` and `trial` too.
struct StreamGroup::Words {
  static constexpr std::size_t kept = 32;
  struct Call {
    std::atomic<std::uint64_t> number{0};  ///< number of the call that has this signature
    std::atomic<std::uint64_t> signature{0};
  };
  alignas(64) unsigned reached[2] = {};
  unsigned trial = 0;
  alignas(64) std::atomic<std::uint64_t> calls{0};
  std::atomic<std::uint64_t> broken{0};
  Call recent[kept];
};

/// The reason why the group accepts no further calls.
enum class StreamGroup::Broken : std::uint64_t { no, mismatch, failure };

namespace {

const char* const came_apart = "mismatch: the ranks' calls on streams differ";
const char* const failed_before = "an earlier call on streams has failed on a rank";
constexpr unsigned far_ahead = 0x40000000U;

}  // namespace

StreamGroup::Words& StreamGroup::words(int rank) const noexcept {
  return *reinterpret_cast<Words*>(words_->peers()[static_cast<std::size_t>(rank)].direct);
}

StreamGroup::StreamGroup(rma::TeamCore& team, const char* operation, const void* buffer)
    : team_(team), checked_(static_cast<std::size_t>(team.size())) {
  const rma::OperationScope user(team.fabric(), operation, base::SetupCall::streams);
  memory::look_for_devices();
  owner_ = memory::known_owner_of(buffer);
  const memory::Kernels* const kernels = owner_.provider->kernels();
  need_all(kernels == nullptr ? fmt::format("streams of {} memory", owner_.provider->name())
                              : kernels->calls().why_no_words(owner_.info.device));
  std::shared_ptr<memory::Allocation> memory;
  std::exception_ptr failure;
  try {
    memory = owner_.provider->allocate(owner_.info.device, staging_bytes);
    last_ = owner_.provider->make_event(owner_.info.device);
  } catch (const Error&) {
    failure = std::current_exception();
    memory.reset();
  }
  staging_ = rma::create_window_over(team, std::move(memory), failure, rma::WindowCore::Role::internal);
  words_ = rma::create_window(team, sizeof(Words), rma::WindowCore::Role::internal);
  new (words_->data()) Words;
  need_all(prepare());
  team_.fabric().devices->add(*this);
}

StreamGroup::~StreamGroup() {
  team_.fabric().devices->remove(*this);
  if (!open_ || !pending()) return;
  mark_broken(Broken::failure);
  if (!has_run_out_soon()) leak_resources();
}

/// Leaks the objects that unfinished streams still use. A static list holds them until the process exits, so leak
/// checkers find them reachable.
void StreamGroup::leak_resources() {
  static auto& left = *new std::vector<std::tuple<std::shared_ptr<rma::WindowCore>, std::shared_ptr<rma::WindowCore>,
                                                  std::vector<Registration>, std::unique_ptr<memory::Event>>>;
  static auto& mutex = *new std::mutex;
  const std::scoped_lock lock(mutex);
  left.emplace_back(std::move(staging_), std::move(words_), std::move(seen_), std::move(last_));
}

std::string StreamGroup::prepare() {
  const rma::KernelAccess& reach = staging_->devices().kernel_access();
  if (!reach.why_not().empty()) return reach.why_not();
  for (const rma::WindowPeer& peer : words_->peers()) {
    if (peer.direct == nullptr) return fmt::format("rank {} is on another node", peer.world);
    seen_.emplace_back(*owner_.provider, owner_.info.device, peer.direct, sizeof(Words));
    if (seen_.back().seen() == nullptr) return "the driver doesn't register host memory that ranks share";
  }
  return try_out();
}

/// Two reasons for this test:
/// - A driver may export the calls but reject them for this device.
/// - A driver loads a kernel at its first launch, and may first wait until the device is idle. If a stream waits for a
///   peer, that is a deadlock. So each kernel is launched here once.
std::string StreamGroup::try_out() const {
  std::unique_ptr<memory::Stream> stream;
  try {
    stream = owner_.provider->make_stream(owner_.info.device);
  } catch (const Error& error) {
    return error.detail().message;
  }
  Status status = enqueue_trial(*stream);
  memory::ReduceArguments nothing{};
  nothing.in_count = nothing.out_count = 1;
  nothing.ins[0] = nothing.outs[0] = staging_->devices().kernel_access().part(team_.rank());
  for (int type = 0; status.ok() && type < dtype_count; ++type)
    status = staging_->devices().kernel_access().kernels().reduce(owner_.info.device, static_cast<DType>(type), nothing,
                                                                  stream->native());
  const auto ended = [&] { return stream->query().code != Code::in_progress; };
  if (comes_true(team_.fabric().timeout, ended)) return status.ok() ? std::string() : status.what;
  std::atomic_ref<unsigned>(words(team_.rank()).trial).store(1);
  if (!comes_true(soon_over, ended)) (void)stream.release();  // its destructor would wait
  return "its streams don't get past a word that they have written";
}

Status StreamGroup::enqueue_trial(memory::Stream& stream) const noexcept {
  const memory::Kernels& kernels = *owner_.provider->kernels();
  auto* const word = &reinterpret_cast<Words*>(seen_[static_cast<std::size_t>(team_.rank())].seen())->trial;
  return kernels.failures().to_status(memory::on_device(kernels.vendor(), owner_.info.device, [&] {
    const memory::DriverResult result = kernels.calls().write_word(stream.native(), word, 1);
    return result.ok() ? kernels.calls().wait_word(stream.native(), word, 1) : result;
  }));
}

void StreamGroup::need_all(const std::string& why_not) {
  const std::string objection = first_objection(team_, why_not);
  if (objection.empty()) return;
  seen_.clear();
  if (words_ != nullptr) words_->close();
  if (staging_ != nullptr) staging_->close();
  throw_objection(team_.fabric(), objection);
}

void StreamGroup::close() {
  if (!open_) return;
  const rma::OperationScope user(team_.fabric(), "Team::close", base::SetupCall::team_close);
  // This rank's streams access the peers' memory until their work is complete. The peers' streams access this rank's
  // memory until the peers enter the allgather below.
  const bool was_broken = words(team_.rank()).broken.load() != 0;
  if (const Status ended = complete_streams(); !ended.ok())
    throw_status(team_.fabric(), ended, {team_.fabric().operation.name()});
  base::ByteWriter mine;
  mine.number(calls_);
  mine.number(called_);
  mine.number<std::uint64_t>(reported_ ? 1 : 0);
  const auto answers = allgather_for(team_.fabric(), team_.exchange(), mine.view(), team_.fabric().deadline());
  const bool is_broken = was_broken || words(team_.rank()).broken.load() != 0;
  const bool left = is_broken && pending() && !has_run_out_soon();
  const Status outcome = compare(answers);
  open_ = false;
  team_.fabric().devices->remove(*this);
  if (left) {
    leak_resources();
  } else {
    seen_.clear();
    words_->close();
    staging_->close();
  }
  require(team_.fabric(), outcome, {team_.fabric().operation.name()});
}

/// Compares for each rank the number of calls, their hash, and whether it has reported the group's failure to its user.
/// The result is ok on all ranks or an error on all ranks, because either all or none of them continue the close. It is
/// an error if calls differ or a call failed, and at least one rank hasn't reported that.
Status StreamGroup::compare(std::span<const base::Bytes> answers) const {
  std::size_t reported = 0;
  int other = -1;
  for (std::size_t rank = 0; rank < answers.size(); ++rank) {
    base::ByteReader in(answers[rank]);
    const auto calls = in.number<std::uint64_t>(), called = in.number<std::uint64_t>();
    reported += in.number<std::uint64_t>();
    if (other < 0 && (calls != calls_ || called != called_)) other = team_.world_rank(static_cast<int>(rank));
  }
  if (reported == answers.size() || (reported == 0 && other < 0)) return {};
  return other < 0 ? Status::failure(Code::error, failed_before) : Status::failure(Code::mismatch, came_apart, other);
}

Status StreamGroup::complete_streams() noexcept {
  const auto broken = static_cast<Broken>(words(team_.rank()).broken.load());
  const Status ended = broken != Broken::no ? end_group(broken, {}) : wait_for_streams();
  if (!ended.ok()) return end_group(Broken::failure, ended);
  // This rank makes no further calls. A peer's stream that waits for a call of this rank must continue; compare()
  // reports the difference.
  for (unsigned& word : words(team_.rank()).reached) std::atomic_ref<unsigned>(word).store(step_ + far_ahead);
  return {};
}

Status StreamGroup::compare() const noexcept {
  if (reported_) return {};
  const Words& mine = words(team_.rank());
  const auto broken = static_cast<Broken>(mine.broken.load());
  if (broken == Broken::failure) return Status::failure(Code::error, failed_before);
  for (int rank = 0; rank < team_.size(); ++rank) {
    const Words& theirs = words(rank);
    const std::size_t last = calls_ % Words::kept;
    if (theirs.calls.load() != calls_ || theirs.recent[last].signature.load() != mine.recent[last].signature.load())
      return Status::failure(Code::mismatch, came_apart, team_.world_rank(rank));
  }
  return broken == Broken::no ? Status() : Status::failure(Code::mismatch, came_apart);
}

/// Waits until the work of earlier calls in this rank's streams is complete.
Status StreamGroup::wait_for_streams() noexcept {
  rma::Fabric& fabric = team_.fabric();
  const auto done = [&]() noexcept { return last_->query().code != Code::in_progress; };
  return fabric.waiter.until({base::Activity::closing}, done, fabric.timeout);
}

bool StreamGroup::pending() noexcept {
  const auto holds = [](const Status& status) { return status.code == Code::in_progress; };
  return holds(last_->query()) || (stream_ != nullptr && holds(stream_->query()));
}

void StreamGroup::mark_broken(Broken why) noexcept {
  for (std::size_t rank = 0; rank < words_->peers().size(); ++rank)
    words(static_cast<int>(rank)).broken.store(static_cast<std::uint64_t>(why));
}

/// Releases all streams that wait for a word: stores a value far ahead of any step. Streams compare the signed
/// difference.
void StreamGroup::release_streams() noexcept {
  for (std::size_t rank = 0; rank < words_->peers().size(); ++rank)
    for (unsigned& word : words(static_cast<int>(rank)).reached)
      std::atomic_ref<unsigned>(word).store(step_ + far_ahead);
}

bool StreamGroup::has_run_out_soon() noexcept {
  return comes_true(soon_over, [this] {
    release_streams();
    return !pending();
  });
}

/// Ends the group: it accepts no further calls, and all streams continue with undefined data. First waits for earlier
/// calls in this rank's streams. These complete after they have seen all ranks' words, so their results stay valid.
/// Then overwrites the words of all ranks; this call's results are undefined. Repeats this while this rank's streams
/// have work, because a stream may still write an old step.
Status StreamGroup::end_group(Broken why, const Status& status) noexcept {
  rma::Fabric& fabric = team_.fabric();
  reported_ = reported_ || !status.ok();
  mark_broken(why);
  (void)wait_for_streams();
  const auto done = [this]() noexcept {
    release_streams();
    return !pending();
  };
  if (!fabric.waiter.until({base::Activity::closing}, done, fabric.timeout).ok()) (void)has_run_out_soon();
  release_streams();
  return status;
}

Status StreamGroup::check(std::uint64_t signature) noexcept {
  Words& mine = words(team_.rank());
  if (const auto broken = static_cast<Broken>(mine.broken.load()); broken != Broken::no)
    return end_group(broken, Status::failure(Code::closed, broken == Broken::mismatch ? came_apart : failed_before));
  ++calls_;
  called_ = (called_ ^ (signature + 1)) * 0x9E3779B97F4A7C15ULL;
  Words::Call& call = mine.recent[calls_ % Words::kept];
  call.number.store(0);
  // Release: pairs with the acquire load of `signature` below. A rank that loads this signature also sees number 0. The
  // stores of `number` before and after it are sequentially consistent.
  call.signature.store(signature, std::memory_order_release);
  call.number.store(calls_);
  mine.calls.store(calls_);
  for (int rank = 0; rank < team_.size(); ++rank) {
    const std::uint64_t last = std::min(words(rank).calls.load(), calls_);
    std::uint64_t& done = checked_[static_cast<std::size_t>(rank)];
    // A rank more than `kept` calls ahead has overwritten older entries. That rank compares these calls later.
    for (done = std::max(done, calls_ < Words::kept ? 0 : calls_ - Words::kept + 1); done < last;) {
      ++done;
      const Words::Call& theirs = words(rank).recent[done % Words::kept];
      const Words::Call& own = mine.recent[done % Words::kept];
      if (theirs.number.load() != done) continue;
      // Acquire: pairs with the release store of `signature`. If this load returns the signature of a later call, the
      // second load of `number` returns that call's 0 or a later value.
      if (theirs.signature.load(std::memory_order_acquire) == own.signature.load(std::memory_order_relaxed)) continue;
      if (theirs.number.load() == done)
        return end_group(Broken::mismatch, Status::failure(Code::mismatch, came_apart, team_.world_rank(rank)));
    }
  }
  return {};
}

Status StreamGroup::begin(void* stream, std::uint64_t signature) noexcept {
  if (const Status status = check(signature); !status.ok()) return status;
  Status status;
  try {
    stream_ = owner_.provider->borrow_stream(owner_.info.device, stream);
    if (calls_ > 1) status = stream_->wait(*last_);
  } catch (const std::exception&) {
    status = Status::failure(Code::out_of_memory, "no memory for a stream");
  }
  if (status.ok()) return {};
  stream_.reset();  // no work of this call is on it
  return end_group(Broken::failure, status);
}

Status StreamGroup::barrier(int stage) noexcept {
  if (stage == 0) ++step_;
  const memory::Kernels& kernels = *owner_.provider->kernels();
  const auto word = [&](int rank) {
    return &reinterpret_cast<Words*>(seen_[static_cast<std::size_t>(rank)].seen())->reached[stage];
  };
  return kernels.failures().to_status(memory::on_device(kernels.vendor(), owner_.info.device, [&] {
    memory::DriverResult result = kernels.calls().write_word(stream_->native(), word(team_.rank()), step_);
    for (int i = 1; result.ok() && i < team_.size(); ++i)
      result = kernels.calls().wait_word(stream_->native(), word((team_.rank() + i) % team_.size()), step_);
    return result;
  }));
}

Status StreamGroup::copy(void* out, const void* in, std::size_t bytes) noexcept {
  if (out == in || bytes == 0) return {};
  const memory::Owner to = memory::known_owner_of(out), from = memory::known_owner_of(in);
  return owner_.provider->copy_async(memory::transfer_between(out, to, in, from, bytes), *stream_);
}
Status StreamGroup::copy_input(const void* in, std::size_t bytes) noexcept { return copy(staging_->data(), in, bytes); }
Status StreamGroup::give_out(void* out, std::size_t bytes) noexcept { return copy(out, staging_->data(), bytes); }

Status StreamGroup::reduce(std::size_t first, std::size_t count, DType type, Op op) noexcept {
  const rma::KernelAccess& reach = staging_->devices().kernel_access();
  memory::ReduceArguments call{};
  for (int rank = 0; rank < team_.size(); ++rank) {
    call.ins[rank] = reach.part(rank) + first * size_of(type);
    call.outs[rank] = reach.part(rank) + first * size_of(type);
  }
  call.in_count = call.out_count = team_.size();
  call.op = static_cast<int>(op);
  call.count = count;
  return reach.kernels().reduce(reach.device(), type, call, stream_->native());
}

Status StreamGroup::end(const Status& so_far) noexcept {
  Status status = so_far;
  if (status.ok()) status = last_->record(*stream_);
  if (!status.ok()) {
    (void)end_group(Broken::failure, status);
    (void)last_->record(*stream_);  // records unfinished work for pending()
  }
  stream_.reset();
  return status;
}

}  // namespace hmc::device
