// Membership: the connections to the other members.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include <hmc/error.hpp>

#include "runtime/base/interrupt.hpp"
#include "runtime/pool/membership.hpp"
#include "runtime/transport/shm/peer_reads.hpp"
#include "runtime/transport/signal_mask.hpp"

namespace hmc::pool {

using base::Deadline;

namespace {

/// Of one join, at the same time.
constexpr std::size_t most_handshakes = 16;

}  // namespace

bool Membership::goes_by_wire(const Card& card, std::string& why) const {
  if (!card.is_on_node_of(own_card())) return true;
  const auto way = rules_.way_between(options_.tag, card.tag);
  if (way == PoolWay::tcp || way == PoolWay::ucx || way == PoolWay::verbs) why = "a rule";
  if (!forced_.empty() && forced_ != "shm") why = "HMC_TRANSPORT=" + forced_;
  return !why.empty();
}

/// At once, because each handshake waits for threads of its member and for the store.
void Membership::connect_to_all(const std::vector<Control::Entry::Member>& members, Deadline deadline) {
  std::mutex lock;
  std::condition_variable changed;
  std::size_t next = 0, running = 0;
  std::exception_ptr failure;
  const auto work = [&]() noexcept {
    std::unique_lock guard(lock);
    while (next < members.size() && failure == nullptr) {
      const Control::Entry::Member& member = members[next++];
      guard.unlock();
      std::exception_ptr failed;
      try {
        connect_to(member.rank, Card::decode(member.card), deadline);
      } catch (...) {
        failed = std::current_exception();
      }
      guard.lock();
      if (failure == nullptr) failure = failed;
    }
    --running;
    changed.notify_all();
  };
  std::vector<std::thread> threads;
  const auto end = [&] {
    for (std::thread& each : threads) each.join();
    if (failure != nullptr) std::rethrow_exception(failure);
  };
  try {
    const transport::SignalMask mask;
    threads.reserve(most_handshakes);
    while (threads.size() < std::min(members.size(), most_handshakes)) {
      const std::lock_guard guard(lock);
      threads.emplace_back(work);
      ++running;
    }
  } catch (const std::exception&) {  // fewer threads are enough
  }
  if (threads.empty()) {
    running = 1;
    work();
    return end();
  }
  std::unique_lock guard(lock);
  constexpr std::chrono::nanoseconds interval{base::interrupt_interval_ns};
  while (!changed.wait_for(guard, interval, [&] { return running == 0; })) {
    if (failure == nullptr && !base::is_interrupted()) continue;
    guard.unlock();
    stop_join_.store(true, std::memory_order_relaxed);
    {
      const std::lock_guard calls(lock_);
      for (auto& [id, call] : pending_) call.rank = -1;  // all of them are offers: this process isn't a member
    }
    changed_.notify_all();
    guard.lock();
  }
  guard.unlock();
  end();
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
      if (known(rank).join != card.join_name()) return;  // it has left
      if (ended_ || stop_join_.load(std::memory_order_relaxed) || base::is_interrupted() ||
          (error.code() != Code::timeout && error.code() != Code::peer_failed) || deadline.expired())
        throw;
    }
    // The member may have left, and the event is on its way.
    (void)::poll(nullptr, 0, 1);
  }
}

bool Membership::connect_near(int rank, const Card& card, Deadline deadline, std::string& why) {
  try {
    Shared mine = own_.share();
    base::ByteWriter out;
    out.text(card.join_name()).number(static_cast<std::int32_t>(this->rank()));
    out.blob(base::encode(own_card())).blob(mine.bytes);
    mine.bytes = out.take();
    Shared theirs = control_->share(card.local_name, mine, deadline, stop_join_);
    if (theirs.bytes.empty()) {
      require_current(rank, card);  // the socket of a process that has ended isn't a reason for a wire
      why = "the member's socket can't be reached";
      return false;
    }
    control_->flush();  // the leave of the rank's former holder comes first
    const std::lock_guard connecting(connecting_);
    require_join(rank, card);
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
  const std::string target = in.text();
  const auto rank = in.number<std::int32_t>();
  const Card card = Card::decode(in.blob());
  const base::ByteView memory = in.blob();
  if (!in.complete() || rank < 0 || rank >= options_.most_members)
    throw Error(Code::refused, "Pool::join", "a candidate's message can't be read");
  const std::lock_guard connecting(connecting_);
  {
    std::unique_lock guard(lock_);
    require_target(guard, target);
  }
  control_->flush();  // the leave of the rank's former holder comes first
  {
    std::unique_lock guard(lock_);
    require_target(guard, target);
    known(rank).join = card.join_name();
  }
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
  const bool by_process = rule == PoolWay::process_copy && try_process();
  if (rule != PoolWay::staged) {
    try {
      addresses_.map(offset_of(rank), parts.host.get(), member.host_bytes, parts.host_offset);
      member.host = addresses_.base() + offset_of(rank);
      if (!by_process) member.host_path = {PoolWay::load_store, why + "; its memory is mapped"};
      return;
    } catch (const Error& error) {
      why += "; not mapped: " + error.detail().message;
      log_.warn("the host part of rank {} can't be mapped: {}", rank, error.detail().message);
    }
    if (by_process || (rule != PoolWay::process_copy && try_process())) return;
  }
  member.host_path = {PoolWay::staged, why};
}

rma::Endpoint& Membership::endpoint() {
  const std::lock_guard guard(endpoint_lock_);
  if (endpoint_ == nullptr) {
    auto part = own_.exposed() != nullptr
                    ? own_.exposed()
                    : memory::provider_for(MemoryType::CPU).allocate(0, 1, memory::Backing::plain);
    endpoint_ = std::make_unique<rma::Endpoint>(std::move(part), nullptr, make_wires_(), log_);
    for (const auto& [memory, bytes] : locals_) endpoint_->register_local(memory, bytes);
  }
  return *endpoint_;
}

void Membership::register_local(std::byte* memory, std::size_t bytes) {
  const std::lock_guard guard(endpoint_lock_);
  locals_.emplace_back(memory, bytes);
  if (endpoint_ != nullptr) endpoint_->register_local(memory, bytes);
}

void Membership::deregister_local(const std::byte* memory, std::size_t bytes) noexcept {
  const std::lock_guard guard(endpoint_lock_);
  if (std::erase(locals_, std::pair(const_cast<std::byte*>(memory), bytes)) > 0 && endpoint_ != nullptr)
    endpoint_->deregister_local(memory, bytes);
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
  if (rules_.way_between(options_.tag, card.tag) == PoolWay::staged) {
    if (card.host_bytes > 0) member.host_path = {PoolWay::staged, "a rule"};
    if (card.device_bytes > 0) member.device_path = {PoolWay::staged, "a rule"};
    return member;
  }
  if (card.device_bytes > 0) member.device_path = {PoolWay::staged, "device memory of another node: its owner copies"};
  if (card.device_bytes > 0 && card.staging > 0) {
    const std::size_t half = OwnParts::half_of_a_place(options_.most_members);
    member.place = card.staging + 2 * half * static_cast<std::size_t>(rank());
    for (const PoolWay way : {PoolWay::verbs, PoolWay::ucx, PoolWay::tcp})
      if (path.starts_with(name_of(way)))
        member.device_path = {way, reason + "; to host memory of its owner, which copies"};
  }
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
    offer.target = card.join_name();
    offer.card = base::encode(own_card());
    offer.bytes = mine.offer(number);
    const base::Bytes sent = base::encode(offer);
    const base::Bytes answer = call(rank, Message::Kind::offer, sent, deadline);
    const auto accept = base::decode<Message>(answer);
    if (!accept) throw Error(Code::refused, "Pool::join", fmt::format("rank {}'s answer can't be read", rank));
    mine.connect(number, accept->bytes, accept->text, {});
    control_->flush();
    const std::lock_guard connecting(connecting_);
    require_join(rank, card);
    await_absent(rank, deadline);
    prepare(rank, card, far_member(card, number, why));
  } catch (...) {
    mine.remove(number);
    throw;
  }
}

void Membership::note_candidate(int from, const Message& message) noexcept {
  try {
    const auto offer = base::decode<Message>(message.bytes);
    const std::string join = offer ? Card::decode(offer->card).join_name() : std::string();
    const std::lock_guard guard(lock_);
    known(from).join = join;
  } catch (const std::exception&) {  // answer_offer reports what it can't read
  }
}

/// On the service thread.
void Membership::answer_offer(int from, const Message& message) {
  Message answer;
  answer.kind = Message::Kind::answer;
  answer.id = message.id;
  int number = -1;
  try {
    const auto offer = base::decode<Message>(message.bytes);
    if (!offer) throw Error(Code::refused, "Pool::join", "the offer can't be read");
    const Card card = Card::decode(offer->card);
    const std::lock_guard connecting(connecting_);
    {
      std::unique_lock guard(lock_);
      require_target(guard, offer->target);
    }
    require_current(from, card);
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
    answer.bytes = base::encode(accept);
  } catch (const Error& error) {
    answer.code = error.code();
    answer.text = error.detail().message;
    if (number >= 0) endpoint().remove(number);
  }
  control_->post(from, base::encode(answer));
}

void Membership::require_current(int rank, const Card& card) {
  control_->flush();
  require_join(rank, card);
}

/// Else the rank may be another process's by now, whose connection must not be touched.
void Membership::require_join(int rank, const Card& card) {
  const std::lock_guard guard(lock_);
  if (known(rank).join != card.join_name())
    throw Error(Code::peer_failed, "Pool::join", fmt::format("rank {} has left", rank));
}

void Membership::require_target(std::unique_lock<std::mutex>& guard, const std::string& target) const {
  // The candidate may have entered between this process's entry and its view of the others.
  (void)changed_.wait_for(guard, absent_within, [&] { return has_view_ || ended_ || target != join_; });
  if (target != join_ || !has_view_)
    throw Error(Code::peer_failed, "Pool::join", "a candidate's request is for a member that has left");
}

void Membership::await_absent(int rank, Deadline deadline) {
  {
    const std::lock_guard guard(lock_);
    // Of a candidate that ended before its commit.
    if (known(rank).prepared) discard(rank, *known(rank).prepared);
    known(rank).prepared.reset();
  }
  std::unique_lock guard(lock_);
  while (!table_.is_absent(rank)) {
    // Then no event removes the former holder: leave() waits for this call, and removes it afterwards.
    if (join_.empty()) throw Error(Code::peer_failed, "Pool::join", "this process has left the pool");
    if (ended_) throw Error(Code::peer_failed, "Pool::join", "the store has ended");
    if (stop_join_.load(std::memory_order_relaxed) && !is_member())
      throw Error(Code::timeout, "Pool::join", "the join was given up");
    if (deadline.expired())
      throw Error(Code::timeout, "Pool::join",
                  fmt::format("copies of the former rank {} haven't ended, or its leave isn't known", rank));
    (void)changed_.wait_for(guard, std::chrono::milliseconds(1));  // the end of a copy notifies nobody
  }
}

void Membership::prepare(int rank, const Card& card, Member member) {
  const std::lock_guard guard(lock_);
  if (known(rank).join != card.join_name()) {
    discard(rank, member);
    throw Error(Code::peer_failed, "Pool::join", fmt::format("rank {} has left", rank));
  }
  const int old = std::exchange(known(rank).far, member.far);
  if (old >= 0) removals_->run([this, old] { endpoint_->remove(old); });
  if (known(rank).is_member)
    table_.put(rank, std::move(member));
  else
    known(rank).prepared = std::move(member);
}

}  // namespace hmc::pool
