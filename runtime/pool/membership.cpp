#include "runtime/pool/membership.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include <hmc/error.hpp>

#include "runtime/base/interrupt.hpp"
#include "runtime/base/machine.hpp"
#include "runtime/memory/pointer_lookup.hpp"

namespace hmc::pool {

using base::Deadline;

namespace {

std::uint64_t reserved_bytes(const PoolOptions& options) {
  return static_cast<std::uint64_t>(options.most_members) * (options.host_stride + options.device_stride);
}

}  // namespace

Membership::Membership(const PoolOptions& options, std::uint64_t start, const MakeControl& make_control,
                       MakeWires make_wires, const base::Env& env)
    : options_(options),
      rules_(options.rules),
      node_(env.node),
      forced_(env.transport),
      log_(env.log),
      own_(options),
      addresses_(start, reserved_bytes(options)),
      make_wires_(std::move(make_wires)),
      known_(static_cast<std::size_t>(options.most_members)),
      rank_(options.rank),
      table_(options.most_members, [this](int rank, Member& member) { discard(rank, member); }),
      service_(std::make_unique<TaskThread>("hmc-pool")),
      copies_(std::make_unique<TaskThread>("hmc-pool-owner")),
      removals_(std::make_unique<TaskThread>("hmc-pool-drop")),
      handlers_(std::make_unique<TaskThread>("hmc-pool-call")),
      tellers_(std::make_unique<TaskThread>("hmc-pool-tell")),
      control_(make_control(*this)) {}

Membership::~Membership() { close(); }

void Membership::close() noexcept {
  if (control_ == nullptr) return;
  try {
    if (is_member()) leave();
  } catch (const Error& error) {
    log_.info("a pool is closed without its store: {}", error.detail().message);
  }
  // Tasks may still send answers.
  control_->stop();
  handlers_.reset();
  tellers_.reset();
  service_.reset();
  copies_.reset();
  removals_.reset();
  control_.reset();
  for (int rank = 0; rank < options_.most_members; ++rank) remove(rank);
}

Card Membership::own_card() const {
  Card card;
  card.settings = settings_of(options_);
  card.host_bytes = options_.host_bytes;
  card.device_bytes = options_.device_bytes;
  card.device_type = static_cast<std::int32_t>(own_.device_type());
  card.device = options_.device;
  card.machine = base::machine_id();
  card.staging = own_.staging();
  card.node = node_;
  card.local_name = control_->local_name();
  card.join = joins_;
  card.tag = options_.tag;
  return card;
}

PoolPlace Membership::place_of(const void* address) const noexcept {
  if (!addresses_.contains(address)) return {};
  const auto at = static_cast<std::uint64_t>(static_cast<const std::byte*>(address) - addresses_.base());
  const std::uint64_t hosts = static_cast<std::uint64_t>(options_.most_members) * options_.host_stride;
  const PoolPart part = at < hosts ? PoolPart::host : PoolPart::device;
  const std::uint64_t in_part = at < hosts ? at : at - hosts;
  const std::uint64_t stride = at < hosts ? options_.host_stride : options_.device_stride;
  return {static_cast<int>(in_part / stride), part, in_part % stride};
}

void* Membership::address_of(const PoolPlace& place) const noexcept {
  const std::uint64_t stride = place.part == PoolPart::host ? options_.host_stride : options_.device_stride;
  if (place.rank < 0 || place.rank >= options_.most_members || place.offset >= stride) return nullptr;
  const std::uint64_t hosts = static_cast<std::uint64_t>(options_.most_members) * options_.host_stride;
  return addresses_.base() + (place.part == PoolPart::host ? 0 : hosts) +
         static_cast<std::uint64_t>(place.rank) * stride + place.offset;
}

MemberUse Membership::use(int rank) noexcept {
  MemberUse known(table_, rank);
  if (known || !is_member()) return known;
  try {
    control_->flush();
  } catch (const Error&) {  // without the store the list doesn't change
    return known;
  }
  return {table_, rank};
}

// ---- join and leave, on the caller's thread

int Membership::join(Deadline deadline) {
  if (is_member()) return rank();
  ++joins_;
  stop_join_.store(false, std::memory_order_relaxed);  // a former join may have been given up
  {
    const std::lock_guard guard(lock_);
    join_ = own_card().join_name();
    early_.clear();
  }
  int assigned = -1;
  try {
    const Control::Entry entry = control_->enter(options_.most_members, options_.rank, base::encode(own_card()));
    assigned = entry.rank;
    add_self(entry.rank);
    apply(entry);
    connect_to_all(entry.members, deadline);
    control_->commit();
  } catch (...) {
    try {
      leave();
    } catch (const Error&) {  // the first error is thrown
    }
    throw;
  }
  is_member_.store(true, std::memory_order_release);
  return assigned;
}

void Membership::add_self(int rank) {
  await_absent(rank, Deadline::after(absent_within));
  {
    const std::lock_guard guard(lock_);
    known(rank).join = join_;
  }
  Member self;
  self.host_bytes = options_.host_bytes;
  self.device_bytes = options_.device_bytes;
  self.device = own_.device();
  if (own_.host() != nullptr) {
    const base::Segment& segment = *own_.host()->segment;
    addresses_.map(offset_of(rank), segment.fd(), options_.host_bytes,
                   segment.file_offset() + own_.host()->segment_offset);
    self.host = addresses_.base() + offset_of(rank);
    self.host_path = {PoolWay::own, "this member"};
  }
  if (own_.device() != nullptr) self.device_path = {PoolWay::own, "this member"};
  rank_.store(rank, std::memory_order_relaxed);
  prepare(rank, own_card(), std::move(self));
}

/// The members at the time of the entry, then the events that have arrived since.
void Membership::apply(const Control::Entry& entry) {
  std::vector<std::function<void()>> early;
  {
    const std::lock_guard guard(lock_);
    departed_.clear();
    version_ = entry.version;
    for (const Control::Entry::Member& each : entry.members) {
      known(each.rank).is_member = !each.is_candidate;
      known(each.rank).join = Card::decode(each.card).join_name();
    }
    early.swap(early_);
    for (const auto& event : early) event();
    has_view_ = true;
  }
  changed_.notify_all();
}

void Membership::leave() {
  std::uint64_t version = 0;
  std::optional<Error> failed;
  try {
    version = control_->leave();
  } catch (const Error& error) {
    failed.emplace(error);
  }
  is_member_.store(false, std::memory_order_release);
  {
    const std::lock_guard guard(lock_);
    has_view_ = false;
    join_.clear();
    early_.clear();
    version_ = std::max(version_, version);
    for (auto& [id, call] : pending_) call.rank = -1;
  }
  changed_.notify_all();
  { const std::lock_guard connecting(connecting_); }  // requests for the join that has ended are over
  for (int rank = 0; rank < options_.most_members; ++rank) remove(rank);
  rank_.store(options_.rank, std::memory_order_relaxed);
  changed_.notify_all();
  if (failed) throw Error(*failed);
}

// ---- the table

/// The member's memory isn't used any more.
void Membership::discard(int rank, Member& member) noexcept {
  if (member.host != nullptr)
    (void)addresses_.unmap(offset_of(rank), base::round_up(member.host_bytes, base::page_size()));
  member.host = nullptr;
  member.device.reset();
}

void Membership::remove(int rank) noexcept {
  int far = -1;
  {
    const std::lock_guard guard(lock_);
    Known& gone = known(rank);
    if (gone.prepared) discard(rank, *gone.prepared);
    gone.prepared.reset();
    gone.is_member = false;
    gone.join.clear();
    far = std::exchange(gone.far, -1);
    table_.remove(rank);
  }
  if (far >= 0) endpoint_->remove(far);
}

// ---- events, on the store's thread

void Membership::on_joined(int rank, std::uint64_t version, base::ByteView card) {
  const std::unique_lock guard(lock_);
  auto apply = [this, rank, version, join = Card::decode(card).join_name()] {
    Known& joined = known(rank);
    joined.is_member = true;
    departed_.erase(rank);
    version_ = std::max(version_, version);
    // A request of the rank's former holder may have been handled late.
    if (joined.join != join && joined.prepared) {
      discard(rank, *joined.prepared);
      joined.prepared.reset();
    }
    joined.join = join;
    if (joined.prepared) table_.put(rank, *std::exchange(joined.prepared, std::nullopt));
    tell({version, rank, true, false});
  };
  if (has_view_)
    apply();
  else
    early_.emplace_back(std::move(apply));
}

void Membership::on_left(int rank, std::uint64_t version, bool died) {
  const std::unique_lock guard(lock_);
  auto apply = [this, rank, version, died] {
    Known& gone = known(rank);
    const bool was_member = std::exchange(gone.is_member, false);
    gone.join.clear();
    departed_.insert(rank);
    version_ = std::max(version_, version);
    for (auto& [id, call] : pending_)
      if (call.rank == rank) call.rank = -1;
    if (gone.prepared) discard(rank, *gone.prepared);
    gone.prepared.reset();
    table_.remove(rank);
    if (const int far = std::exchange(gone.far, -1); far >= 0) removals_->run([this, far] { endpoint_->remove(far); });
    if (was_member) tell({version, rank, false, died});
  };
  if (has_view_)
    apply();
  else
    early_.emplace_back(std::move(apply));
}

/// Under lock_, so that the order is that of the versions.
void Membership::tell(const PoolChange& change) {
  changed_.notify_all();
  if (!on_change_) return;
  tellers_->run([this, handler = on_change_, change] {
    try {
      handler(change);
    } catch (const std::exception& error) {
      log_.error("the handler of Pool::on_change has thrown: {}", error.what());
    }
  });
}

void Membership::on_end() {
  {
    const std::lock_guard guard(lock_);
    ended_ = true;
  }
  changed_.notify_all();
}

std::uint64_t Membership::version() const {
  const std::lock_guard guard(lock_);
  return version_;
}

std::vector<int> Membership::members() const {
  const std::lock_guard guard(lock_);
  std::vector<int> ranks;
  for (int rank = 0; rank < options_.most_members && has_view_; ++rank)
    if (known_[static_cast<std::size_t>(rank)].is_member) ranks.push_back(rank);
  return ranks;
}

void Membership::wait_version(std::uint64_t version, Deadline deadline) const {
  constexpr std::chrono::nanoseconds interval{base::interrupt_interval_ns};
  std::unique_lock guard(lock_);
  const auto is_over = [&] { return ended_ || version_ >= version; };
  while (!changed_.wait_for(guard, std::min(deadline.left(), interval), is_over)) {
    if (deadline.expired() || base::is_interrupted())
      throw Error(Code::timeout, "Pool::wait_version", fmt::format("the version is {}, not {}", version_, version));
  }
  if (version_ < version) throw Error(Code::peer_failed, "Pool::wait_version", "the store has ended");
}

void Membership::on_change(std::function<void(const PoolChange&)> changed) {
  const std::lock_guard guard(lock_);
  on_change_ = std::move(changed);
}

// ---- requests between members

base::Bytes Membership::call(int rank, Message::Kind kind, base::ByteView request, Deadline deadline) {
  return finish_call(start_call(rank, kind, request), deadline);
}

std::uint64_t Membership::start_call(int rank, Message::Kind kind, base::ByteView request) {
  Message message;
  message.kind = kind;
  message.bytes.assign(request.begin(), request.end());
  if (kind != Message::Kind::offer && !use(rank))
    throw Error(Code::peer_failed, "Pool::call", fmt::format("rank {} isn't a member", rank));
  {
    const std::lock_guard guard(lock_);
    if (ended_) throw Error(Code::peer_failed, "Pool::call", "the store has ended");
    // A message to a rank that isn't in the group is lost, and only later leaves end the wait.
    if (kind == Message::Kind::offer ? departed_.contains(rank) : !known(rank).is_member)
      throw Error(Code::peer_failed, "Pool::call", fmt::format("rank {} isn't a member", rank));
    message.id = ++last_id_;
    pending_[message.id].rank = pending_[message.id].to = rank;
  }
  try {
    control_->post(rank, base::encode(message));
  } catch (...) {
    const std::lock_guard guard(lock_);
    pending_.erase(message.id);
    throw;
  }
  return message.id;
}

base::Bytes Membership::finish_call(std::uint64_t id, Deadline deadline) {
  constexpr std::chrono::nanoseconds interval{base::interrupt_interval_ns};
  std::unique_lock guard(lock_);
  Pending& call = pending_[id];
  const int rank = call.to;
  const auto is_over = [&] { return ended_ || call.done || call.rank < 0; };
  bool expired = false;
  while (!expired && !changed_.wait_for(guard, std::min(deadline.left(), interval), is_over))
    expired = deadline.expired() || base::is_interrupted();
  const Pending result = std::move(call);
  pending_.erase(id);
  if (result.done && result.answer.code == Code::success) return result.answer.bytes;
  if (result.done) throw Error(result.answer.code, "Pool::call", result.answer.text);
  if (expired) throw Error(Code::timeout, "Pool::call", fmt::format("rank {} doesn't answer", rank));
  throw Error(Code::peer_failed, "Pool::call",
              ended_ ? std::string("the store has ended") : fmt::format("rank {} isn't a member any more", rank));
}

void Membership::forget_call(std::uint64_t id) noexcept {
  const std::lock_guard guard(lock_);
  pending_.erase(id);
}

void Membership::report_failed_way(int rank, PoolPart part, const Member& member) const {
  const PoolPath path = member.path(part);
  log_.warn("the {} part of rank {}: now by {}: {}", name_of(part), rank, name_of(path.way), path.why);
}

void Membership::on_call(OnCall handler) {
  const std::lock_guard guard(lock_);
  on_call_ = std::move(handler);
}

void Membership::on_post(int from, base::ByteView bytes) {
  auto message = base::decode<Message>(bytes);
  if (!message || from < 0 || from >= options_.most_members) return log_.warn("a member's message can't be read");
  if (message->kind == Message::Kind::answer) {
    const std::lock_guard guard(lock_);
    const auto found = pending_.find(message->id);
    if (found != pending_.end() && found->second.rank == from) {
      found->second.done = true;
      found->second.answer = *std::move(message);
      changed_.notify_all();
    }
    return;
  }
  const auto shared = std::make_shared<Message>(*std::move(message));
  if (shared->kind == Message::Kind::offer) {
    note_candidate(from, *shared);
    service_->run([this, from, shared] { answer_offer(from, *shared); });
  }
  if (shared->kind == Message::Kind::staged) {
    const auto join_of_sender = [this, from] {
      const std::lock_guard guard(lock_);
      return known(from).join;
    };
    copies_->run([this, from, shared, join_of_sender, join = join_of_sender()] {
      if (join == join_of_sender()) answer_call(from, *shared);  // otherwise its place is another member's now
    });
  }
  if (shared->kind == Message::Kind::call) handlers_->run([this, from, shared] { answer_call(from, *shared); });
}

void Membership::answer_call(int from, const Message& message) {
  Message answer;
  answer.kind = Message::Kind::answer;
  answer.id = message.id;
  try {
    if (message.kind == Message::Kind::staged) {
      answer.bytes = run_staged(from, message.bytes);
    } else {
      OnCall handler;
      {
        const std::lock_guard guard(lock_);
        handler = on_call_;
      }
      if (!handler) throw Error(Code::unsupported, "Pool::call", "the member has no handler");
      const std::string result = handler(from, base::as_text(message.bytes));
      const base::ByteView view = base::as_bytes(result);
      answer.bytes.assign(view.begin(), view.end());
    }
  } catch (const Error& error) {
    answer.code = error.code();
    answer.text = error.detail().message;
  } catch (const std::exception& error) {
    answer.code = Code::error;
    answer.text = error.what();
  }
  control_->post(from, base::encode(answer));
}

/// A copy between this process's part and a message, or the sender's place in the staging memory.
base::Bytes Membership::run_staged(int from, base::ByteView bytes) {
  const auto copy = StagedCopy::decode(bytes);
  if (!copy) throw Error(Code::refused, "Pool::copy", "the request can't be read");
  const auto& part = copy->part == 0 ? own_.host() : own_.device();
  if (part == nullptr || copy->offset > part->bytes || copy->size > part->bytes - copy->offset)
    throw Error(Code::out_of_range, "Pool::copy", "the range exceeds the member's part");
  if (copy->size == 0) return {};  // asks whether this process answers
  const bool is_in_place = copy->half >= 0;
  base::Bytes read(copy->writes || is_in_place ? 0 : copy->size);
  const std::byte* source = bytes.data() + StagedCopy::header_bytes;
  std::byte* destination = read.data();
  if (is_in_place) {
    const std::size_t half = OwnParts::half_of_a_place(options_.most_members);
    if (own_.staging() == 0 || copy->size > half)
      throw Error(Code::refused, "Pool::copy", "the member has no such staging memory");
    const auto index = static_cast<std::size_t>(2 * from + copy->half);
    source = destination = own_.exposed()->address + own_.staging() + index * half;
  }
  // The wire's thread accesses the place under the wire's lock, before the request was sent and after the answer. That
  // order passes through the sender's process; the lock shows it in this one.
  const auto synchronize_with_wire = [&] {
    if (!is_in_place) return;
    std::unique_lock guard(lock_);
    const int far = known(from).far;
    guard.unlock();
    (void)endpoint().status(far);
  };
  synchronize_with_wire();
  std::byte* const at = part->address + copy->offset;
  const memory::Owner owner = memory::owner_of(*part);
  const base::Status status = copy->writes
                                  ? memory::copy_between(at, owner, source, memory::host_owner(), copy->size)
                                  : memory::copy_between(destination, memory::host_owner(), at, owner, copy->size);
  synchronize_with_wire();
  if (!status.ok())
    throw Error(status.code, "Pool::copy", status.what != nullptr ? status.what : "the owner's copy failed");
  return read;
}

}  // namespace hmc::pool
