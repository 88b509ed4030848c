#include "job/pool_control.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <hmc/error.hpp>

#include "bootstrap/tcp/store_client.hpp"
#include "runtime/base/interrupt.hpp"
#include "runtime/control/socket.hpp"

namespace hmc::job {

using bootstrap::StoreCall;
using bootstrap::StoreEvent;
using bootstrap::StoreOp;
using control::Connection;
using control::MessageType;
using pool::Shared;

namespace {

constexpr auto share_type = static_cast<MessageType>(112);  // not a type of another protocol on such connections

std::optional<std::size_t> share_limit(MessageType type) noexcept {
  return type == share_type ? std::optional<std::size_t>(std::size_t{1} << 20) : std::nullopt;
}

std::vector<control::SharedFd> duplicates(const std::vector<base::UniqueFd>& fds) {
  std::vector<control::SharedFd> copies;
  for (const base::UniqueFd& each : fds) {
    copies.push_back(std::make_shared<base::UniqueFd>(::fcntl(each.get(), F_DUPFD_CLOEXEC, 0)));
    if (!*copies.back()) throw Error(Code::error, "Pool::join", std::strerror(errno));
  }
  return copies;
}

/// A code, then the text of a failure or the shared bytes.
base::Bytes share_message(Code code, base::ByteView bytes) {
  base::ByteWriter out;
  return out.number(static_cast<std::int32_t>(code)).blob(bytes).take();
}

StoreCall call_of(StoreOp op, const std::string& group) {
  StoreCall call;
  call.op = op;
  call.key = group;
  return call;
}

}  // namespace

PoolControl::PoolControl(std::shared_ptr<Store::Client> client, std::string group, pool::Control::Handler& handler)
    : client_(std::move(client)),
      group_(std::move(group)),
      access_(client_->access()),
      local_name_("hmc-pool-" + control::Secret::random().hex().substr(0, 32)),
      handler_(handler),
      loop_((access_.key = access_.key.derive({base::as_bytes("hmc pool")})), *this, &share_limit,
            base::Log(client_->env().log)) {
  events_->handler = &handler;
  base::UniqueFd listener = control::listen_unix(local_name_);
  if (!listener) throw Error(Code::error, "Pool::create", "the name of a local socket is in use");
  loop_.add_listener(std::move(listener));
  loop_.start("hmc-pool-link");
}

PoolControl::~PoolControl() {
  stop();
  (void)client_->unwatch(watch_);
}

void PoolControl::stop() noexcept {
  {
    const std::lock_guard guard(events_->lock);
    events_->handler = nullptr;
  }
  loop_.stop();
}

pool::Control::Entry PoolControl::enter(int size, int wanted_rank, base::ByteView card) {
  StoreCall call = call_of(StoreOp::enter, group_);
  call.number = size;
  call.other = wanted_rank;
  call.value.assign(card.begin(), card.end());
  const auto on_event = [events = events_](const StoreEvent* event) {
    const std::lock_guard guard(events->lock);
    if (events->handler == nullptr) return;
    if (event == nullptr) return events->handler->on_end();
    const int rank = static_cast<int>(event->number);
    if (event->kind == StoreEvent::Kind::joined) events->handler->on_joined(rank, event->version, event->value);
    if (event->kind == StoreEvent::Kind::left) events->handler->on_left(rank, event->version, event->flag);
    if (event->kind == StoreEvent::Kind::post) events->handler->on_post(rank, event->value);
  };
  const bootstrap::StoreAnswer answer = client_->watch("Pool::join", std::move(call), on_event, true);
  watch_ = answer.id;
  const auto view = base::decode<bootstrap::GroupView>(answer.value);
  if (!view || view->rank < 0 || view->rank >= size)
    throw Error(Code::error, "Pool::join", "the store's answer can't be read");
  Entry entry{view->version, view->rank, {}};
  for (const bootstrap::GroupView::Member& each : view->members) {
    if (each.rank < 0 || each.rank >= size) throw Error(Code::error, "Pool::join", "the store's answer is wrong");
    entry.members.push_back({each.rank, each.is_candidate, each.card});
  }
  return entry;
}

std::uint64_t PoolControl::commit() {
  return static_cast<std::uint64_t>(client_->call("Pool::join", call_of(StoreOp::commit, group_)).number);
}

std::uint64_t PoolControl::leave() {
  (void)client_->unwatch(std::exchange(watch_, 0));  // first: the call may fail, and then no event may follow
  const auto answer = client_->call("Pool::leave", call_of(StoreOp::leave, group_));
  return static_cast<std::uint64_t>(answer.number);
}

void PoolControl::post(int rank, base::ByteView bytes) {
  StoreCall call = call_of(StoreOp::post, group_);
  call.other = rank;
  call.value.assign(bytes.begin(), bytes.end());
  client_->send(std::move(call));
}

/// The answer comes after the events, on the same connection.
void PoolControl::flush() { (void)client_->call("Pool", call_of(StoreOp::count, group_)); }

Shared PoolControl::share(const std::string& local_name, const Shared& mine, base::Deadline deadline,
                          const std::atomic<bool>& stop) {
  base::UniqueFd socket;
  control::ConnectResult result = control::ConnectResult::busy;
  // Relaxed: `stop` only ends the wait.
  const auto is_over = [&] {
    return deadline.expired() || stop.load(std::memory_order_relaxed) || base::is_interrupted();
  };
  while ((result = control::connect_unix(local_name, socket)) == control::ConnectResult::busy && !is_over())
    (void)::poll(nullptr, 0, 1);
  if (result == control::ConnectResult::busy)
    throw Error(Code::timeout, "Pool::join",
                fmt::format("the member at {} on this node accepts no connection", local_name));
  if (result != control::ConnectResult::connected || !access_.admits(socket.get())) return {};
  Connection connection(std::move(socket), access_.key, Connection::Side::client, &share_limit);
  connection.send_encoded(share_type, share_message(Code::success, mine.bytes), duplicates(mine.fds));
  Shared theirs;
  for (;;) {
    if (const auto frame = connection.next(theirs.fds)) {
      base::ByteReader in(frame->payload);
      const auto code = static_cast<Code>(in.number<std::int32_t>());
      const base::ByteView bytes = in.blob();
      if (!in.complete()) throw Error(Code::refused, "Pool::join", "a member's message can't be read");
      if (code != Code::success) throw Error(code, "Pool::join", std::string(base::as_text(bytes)));
      theirs.bytes.assign(bytes.begin(), bytes.end());
      return theirs;
    }
    if (connection.ended())
      throw Error(Code::peer_failed, "Pool::join",
                  "a member of this node closed the connection: " + connection.fault());
    if (is_over())
      throw Error(Code::timeout, "Pool::join",
                  fmt::format("the member at {} on this node doesn't answer{}", local_name,
                              base::is_interrupted() ? ", and the program interrupted the wait" : ""));
    control::move_or_sleep(connection, std::min<int>(deadline.left_ms(), base::interrupt_interval_ns / 1'000'000));
  }
}

void PoolControl::on_frame(control::Peer& from, const control::Frame& frame, std::vector<base::UniqueFd> fds) {
  base::ByteReader in(frame.payload);
  (void)in.number<std::int32_t>();
  const base::ByteView bytes = in.blob();
  if (!in.complete()) return loop_.drop(from);
  try {
    const Shared mine = handler_.on_share({{bytes.begin(), bytes.end()}, std::move(fds)});
    from.connection.send_encoded(share_type, share_message(Code::success, mine.bytes), duplicates(mine.fds));
  } catch (const Error& error) {
    from.connection.send_encoded(share_type, share_message(error.code(), base::as_bytes(error.detail().message)));
  }
  loop_.drop(from);
}

}  // namespace hmc::job
