#include "runtime/pool/membership.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>
#include <utility>

#include <hmc/error.hpp>

#include "runtime/base/interrupt.hpp"
#include "runtime/base/machine.hpp"
#include "runtime/memory/pointer_lookup.hpp"
#include "runtime/transport/shm/peer_reads.hpp"

namespace hmc::pool {

using base::Deadline;

namespace {

/// Of a former member, until its last copy has ended.
constexpr auto absent_within = std::chrono::seconds(10);

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
  control_.reset();
  handlers_.reset();
  tellers_.reset();
  service_.reset();
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
  card.node = node_;
  card.local_name = control_->local_name();
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
  const Control::Entry entry = control_->enter(options_.most_members, options_.rank, own_card().encode());
  try {
    add_self(entry.rank);
    apply(entry);
    for (const Control::Entry::Member& each : entry.members) connect_to(each.rank, Card::decode(each.card), deadline);
    control_->commit();
  } catch (...) {
    try {
      leave();
    } catch (const Error&) {  // the first error is thrown
    }
    throw;
  }
  is_member_.store(true, std::memory_order_release);
  return entry.rank;
}

void Membership::add_self(int rank) {
  await_absent(rank, Deadline::after(absent_within));
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
    for (const Control::Entry::Member& each : entry.members) known(each.rank).is_member = !each.is_candidate;
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
    early_.clear();
    version_ = std::max(version_, version);
    for (auto& [id, call] : pending_) call.rank = -1;
  }
  for (int rank = 0; rank < options_.most_members; ++rank) remove(rank);
  rank_.store(options_.rank, std::memory_order_relaxed);
  changed_.notify_all();
  if (failed) throw Error(*failed);
}

// ---- connections

bool Membership::goes_by_wire(const Card& card, std::string& why) const {
  if (!card.is_on_node_of(own_card())) return true;
  const auto way = rules_.way_between(options_.tag, card.tag);
  if (way == PoolWay::tcp || way == PoolWay::ucx || way == PoolWay::verbs) why = "a rule";
  if (!forced_.empty() && forced_ != "shm") why = "HMC_TRANSPORT=" + forced_;
  return !why.empty();
}

void Membership::connect_to(int rank, const Card& card, Deadline deadline) {
  if (card.settings != settings_of(options_))
    throw Error(Code::mismatch, "Pool::join",
                fmt::format("rank {} has other limits, strides or rules than this process", rank));
  std::string why;
  for (;;) {
    try {
      if (goes_by_wire(card, why) || !connect_near(rank, card, deadline, why)) connect_far(rank, card, deadline, why);
      return;
    } catch (const Error& error) {
      const std::unique_lock guard(lock_);
      if (departed_.contains(rank)) return;
      if (ended_ || (error.code() != Code::timeout && error.code() != Code::peer_failed) || deadline.expired()) throw;
    }
    // The member may have left, and the event is on its way.
    (void)::poll(nullptr, 0, 1);
  }
}

bool Membership::connect_near(int rank, const Card& card, Deadline deadline, std::string& why) {
  try {
    Shared mine = own_.share();
    base::ByteWriter out;
    out.number(static_cast<std::int32_t>(this->rank())).blob(own_card().encode()).blob(mine.bytes);
    mine.bytes = out.take();
    Shared theirs = control_->share(card.local_name, mine, deadline);
    if (theirs.bytes.empty()) {
      why = "the member's socket can't be reached";
      return false;
    }
    await_absent(rank, deadline);
    SharedParts parts = SharedParts::open(std::move(theirs), {card.host_bytes, card.device_bytes,
                                                              static_cast<MemoryType>(card.device_type), card.device});
    prepare(rank, card, near_member(rank, card, std::move(parts)));
    return true;
  } catch (const Error& error) {
    if (error.code() == Code::timeout || error.code() == Code::peer_failed) throw;
    why = error.detail().message;
    return false;
  }
}

/// On the thread of the control plane's local sockets.
Shared Membership::on_share(Shared theirs) {
  base::ByteReader in(theirs.bytes);
  const auto rank = in.number<std::int32_t>();
  const Card card = Card::decode(in.blob());
  const base::ByteView memory = in.blob();
  if (!in.complete() || rank < 0 || rank >= options_.most_members)
    throw Error(Code::refused, "Pool::join", "a candidate's message can't be read");
  await_absent(rank, Deadline::after(absent_within));
  SharedParts parts =
      SharedParts::open({{memory.begin(), memory.end()}, std::move(theirs.fds)},
                        {card.host_bytes, card.device_bytes, static_cast<MemoryType>(card.device_type), card.device});
  prepare(rank, card, near_member(rank, card, std::move(parts)));
  return own_.share();
}

Member Membership::near_member(int rank, const Card& card, SharedParts parts) {
  Member member;
  member.host_bytes = card.host_bytes;
  member.device_bytes = card.device_bytes;
  const auto rule = rules_.way_between(options_.tag, card.tag);
  if (card.host_bytes > options_.host_stride || card.device_bytes > options_.device_stride)
    throw Error(Code::refused, "Pool::join", "a member's part exceeds the stride");
  if (card.host_bytes > 0) connect_host(rank, parts, rule, member);
  if (card.device_bytes > 0 && parts.device != nullptr && rule != PoolWay::staged) {
    member.device = std::move(parts.device);
    member.device_path = {PoolWay::mapped, parts.device_why};
  } else if (card.device_bytes > 0) {
    member.device_path = {PoolWay::staged, rule == PoolWay::staged ? "a rule" : parts.device_why};
  }
  return member;
}

/// The rule's way, or the first one that works.
void Membership::connect_host(int rank, const SharedParts& parts, std::optional<PoolWay> rule, Member& member) {
  std::string why = rule ? "a rule" : "on this node";
  const auto try_process = [&] {
    std::uint64_t seen = 0;
    const auto status = transport::PeerReads::read(parts.process, parts.nonce_address, &seen, sizeof seen, rank);
    if (!status.ok() || seen != parts.nonce) {
      why += "; process copies aren't possible";
      return false;
    }
    member.process = parts.process;
    member.remote = parts.host_address;
    member.host_path = {PoolWay::process_copy, why};
    return true;
  };
  if (rule == PoolWay::process_copy && try_process()) return;
  if (rule != PoolWay::staged) {
    try {
      addresses_.map(offset_of(rank), parts.host.get(), member.host_bytes, parts.host_offset);
      member.host = addresses_.base() + offset_of(rank);
      member.host_path = {PoolWay::load_store, why + "; its memory is mapped"};
      return;
    } catch (const Error& error) {
      why += "; not mapped: " + error.detail().message;
      log_.warn("the host part of rank {} can't be mapped: {}", rank, error.detail().message);
    }
    if (rule != PoolWay::process_copy && try_process()) return;
  }
  member.host_path = {PoolWay::staged, why};
}

rma::Endpoint& Membership::endpoint() {
  const std::lock_guard guard(endpoint_lock_);
  if (endpoint_ == nullptr) {
    auto part = own_.host() != nullptr ? own_.host()
                                       : memory::provider_for(MemoryType::CPU).allocate(0, 1, memory::Backing::plain);
    endpoint_ = std::make_unique<rma::Endpoint>(std::move(part), nullptr, make_wires_(), log_);
  }
  return *endpoint_;
}

/// The wires of both sides, the one of the rule first.
std::vector<std::string> Membership::wires_for(const Card& card) {
  std::vector<std::string> wires = endpoint().wire_names();
  if (const auto rule = rules_.way_between(options_.tag, card.tag))
    std::stable_partition(wires.begin(), wires.end(), [&](const std::string& each) { return each == name_of(*rule); });
  return wires;
}

Member Membership::far_member(const Card& card, int number, const std::string& why) {
  Member member;
  member.host_bytes = card.host_bytes;
  member.device_bytes = card.device_bytes;
  member.far = number;
  const std::string path = endpoint().path(number);
  const std::string reason = why.empty() ? path : fmt::format("{}; no shared memory: {}", path, why);
  for (const PoolWay way : {PoolWay::verbs, PoolWay::ucx, PoolWay::tcp})
    if (card.host_bytes > 0 && path.starts_with(name_of(way))) member.host_path = {way, reason};
  if (card.device_bytes > 0) member.device_path = {PoolWay::staged, "device memory of another node: its owner copies"};
  return member;
}

void Membership::connect_far(int rank, const Card& card, Deadline deadline, const std::string& why) {
  rma::Endpoint& mine = endpoint();
  const int number = mine.reserve();
  if (number < 0) throw Error(Code::unavailable, "Pool::join", "too many members on other nodes");
  try {
    base::ByteWriter wires;
    const auto names = wires_for(card);
    Message offer;
    offer.kind = Message::Kind::offer;
    offer.text = fmt::format("{}", fmt::join(names, ","));
    offer.card = own_card().encode();
    offer.bytes = mine.offer(number);
    const base::Bytes sent = offer.encode();
    const base::Bytes answer = call(rank, Message::Kind::offer, sent, deadline);
    const auto accept = Message::decode(answer);
    if (!accept) throw Error(Code::refused, "Pool::join", fmt::format("rank {}'s answer can't be read", rank));
    mine.connect(number, accept->bytes, accept->text, {});
    await_absent(rank, deadline);
    prepare(rank, card, far_member(card, number, why));
  } catch (...) {
    mine.remove(number);
    throw;
  }
}

/// On the service thread.
void Membership::answer_offer(int from, const Message& message) {
  Message answer;
  answer.kind = Message::Kind::answer;
  answer.id = message.id;
  int number = -1;
  try {
    const auto offer = Message::decode(message.bytes);
    if (!offer) throw Error(Code::refused, "Pool::join", "the offer can't be read");
    const Card card = Card::decode(offer->card);
    const auto mine = wires_for(card);
    Message accept;
    accept.kind = Message::Kind::accept;
    for (std::size_t begin = 0; begin <= offer->text.size() && accept.text.empty();) {
      const std::size_t end = std::min(offer->text.find(',', begin), offer->text.size());
      const std::string wire = offer->text.substr(begin, end - begin);
      if (std::find(mine.begin(), mine.end(), wire) != mine.end()) accept.text = wire;
      begin = end + 1;
    }
    if (accept.text.empty())
      throw Error(Code::unavailable, "Pool::join",
                  fmt::format("no wire in common: {} here, {} there", fmt::join(mine, ","), offer->text));
    number = endpoint().reserve();
    if (number < 0) throw Error(Code::unavailable, "Pool::join", "too many members on other nodes");
    accept.bytes = endpoint().offer(number);
    endpoint().connect(number, offer->bytes, accept.text, {});
    await_absent(from, Deadline::after(absent_within));
    prepare(from, card, far_member(card, number, {}));
    number = -1;
    answer.bytes = accept.encode();
  } catch (const Error& error) {
    answer.code = error.code();
    answer.text = error.detail().message;
    if (number >= 0) endpoint().remove(number);
  }
  control_->post(from, answer.encode());
}

void Membership::await_absent(int rank, Deadline deadline) {
  {
    const std::lock_guard guard(lock_);
    // Of a candidate that ended before its commit.
    if (known(rank).prepared) discard(rank, *known(rank).prepared);
    known(rank).prepared.reset();
  }
  while (!table_.is_absent(rank)) {
    if (deadline.expired())
      throw Error(Code::timeout, "Pool::join",
                  fmt::format("copies of the former rank {} haven't ended, or its leave isn't known", rank));
    (void)::poll(nullptr, 0, 1);
  }
}

void Membership::prepare(int rank, const Card& card, Member member) {
  const std::lock_guard guard(lock_);
  known(rank).card = card;
  known(rank).far = member.far;
  if (known(rank).is_member)
    table_.put(rank, std::move(member));
  else
    known(rank).prepared = std::move(member);
}

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
    far = std::exchange(gone.far, -1);
    table_.remove(rank);
  }
  if (far >= 0) endpoint_->remove(far);
}

// ---- events, on the store's thread

void Membership::on_joined(int rank, std::uint64_t version, base::ByteView card) {
  const std::unique_lock guard(lock_);
  auto apply = [this, rank, version, copy = base::Bytes(card.begin(), card.end())] {
    Known& joined = known(rank);
    joined.is_member = true;
    departed_.erase(rank);
    version_ = std::max(version_, version);
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
    departed_.insert(rank);
    version_ = std::max(version_, version);
    for (auto& [id, call] : pending_)
      if (call.rank == rank) call.rank = -1;
    if (gone.prepared) discard(rank, *gone.prepared);
    gone.prepared.reset();
    table_.remove(rank);
    if (const int far = std::exchange(gone.far, -1); far >= 0) service_->run([this, far] { endpoint_->remove(far); });
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
  if (on_change_) tellers_->run([handler = on_change_, change] { handler(change); });
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
    pending_[message.id].rank = rank;
  }
  control_->post(rank, message.encode());
  constexpr std::chrono::nanoseconds interval{base::interrupt_interval_ns};
  std::unique_lock guard(lock_);
  Pending& call = pending_[message.id];
  const auto is_over = [&] { return ended_ || call.done || call.rank < 0; };
  bool expired = false;
  while (!expired && !changed_.wait_for(guard, std::min(deadline.left(), interval), is_over))
    expired = deadline.expired() || base::is_interrupted();
  const Pending result = std::move(call);
  pending_.erase(message.id);
  if (result.done && result.answer.code == Code::success) return result.answer.bytes;
  if (result.done) throw Error(result.answer.code, "Pool::call", result.answer.text);
  if (expired) throw Error(Code::timeout, "Pool::call", fmt::format("rank {} doesn't answer", rank));
  throw Error(Code::peer_failed, "Pool::call",
              ended_ ? std::string("the store has ended") : fmt::format("rank {} isn't a member any more", rank));
}

void Membership::on_call(OnCall handler) {
  const std::lock_guard guard(lock_);
  on_call_ = std::move(handler);
}

void Membership::on_post(int from, base::ByteView bytes) {
  auto message = Message::decode(bytes);
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
  if (shared->kind == Message::Kind::offer) service_->run([this, from, shared] { answer_offer(from, *shared); });
  if (shared->kind == Message::Kind::staged) service_->run([this, from, shared] { answer_call(from, *shared); });
  if (shared->kind == Message::Kind::call) handlers_->run([this, from, shared] { answer_call(from, *shared); });
}

void Membership::answer_call(int from, const Message& message) {
  Message answer;
  answer.kind = Message::Kind::answer;
  answer.id = message.id;
  try {
    if (message.kind == Message::Kind::staged) {
      answer.bytes = run_staged(message.bytes);
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
  control_->post(from, answer.encode());
}

/// A copy between this process's part and a message.
base::Bytes Membership::run_staged(base::ByteView bytes) {
  const auto copy = StagedCopy::decode(bytes);
  if (!copy) throw Error(Code::refused, "Pool::copy", "the request can't be read");
  const auto& part = copy->part == 0 ? own_.host() : own_.device();
  if (part == nullptr || copy->offset > part->bytes || copy->size > part->bytes - copy->offset)
    throw Error(Code::out_of_range, "Pool::copy", "the range exceeds the member's part");
  base::Bytes read(copy->writes ? 0 : copy->size);
  std::byte* const at = part->address + copy->offset;
  const memory::Owner owner = memory::owner_of(*part);
  const base::Status status =
      copy->writes
          ? memory::copy_between(at, owner, bytes.data() + StagedCopy::header_bytes, memory::host_owner(), copy->size)
          : memory::copy_between(read.data(), memory::host_owner(), at, owner, copy->size);
  if (!status.ok())
    throw Error(status.code, "Pool::copy", status.what != nullptr ? status.what : "the owner's copy failed");
  return read;
}

}  // namespace hmc::pool
