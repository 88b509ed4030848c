#include "bootstrap/tcp/store_client.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/base/fork.hpp"
#include "runtime/base/interrupt.hpp"
#include "runtime/base/outage.hpp"
#include "runtime/control/socket.hpp"

namespace hmc {

using bootstrap::StoreAnswer;
using bootstrap::StoreCall;
using bootstrap::StoreEvent;
using bootstrap::StoreOp;
using control::Connection;

namespace {

/// For the answer to a call that doesn't wait, or that was cancelled.
constexpr auto answer_within = std::chrono::seconds(60);

[[noreturn]] void throw_ended(const char* operation, const std::string& why) {
  throw Error(Code::peer_failed, operation, fmt::format("the store has ended{}{}", why.empty() ? "" : ": ", why));
}

/// Connects to the store. Throws Error{refused} if it has another key.
Connection greet(const std::string& address, const control::Access& access, base::Deadline deadline) {
  base::UniqueFd socket = control::connect_tcp(address, deadline);
  if (!access.admits(socket.get()))
    throw Error(Code::invalid_config, "Store::connect",
                fmt::format("HMC_SECRET isn't set, and {} is another machine", address), control::same_secret_hint);
  base::detect_lost_host(socket.get(), base::Env::lost_host_s());
  Connection connection(std::move(socket), access.key, Connection::Side::client, &bootstrap::payload_limit);
  StoreCall hello;
  hello.op = StoreOp::hello;
  connection.send(hello);
  std::vector<base::UniqueFd> fds;
  for (;;) {
    if (const auto frame = connection.next(fds)) {
      const auto answer = bootstrap::decode<StoreAnswer>(*frame);
      if (answer && answer->code == Code::success) return connection;
      throw Error(Code::refused, "Store::connect", fmt::format("{} isn't a store", address));
    }
    if (connection.ended())
      throw Error(connection.fault_code(), "Store::connect",
                  fmt::format("{} closed the connection{}{}", address, connection.fault().empty() ? "" : ": ",
                              connection.fault()),
                  control::same_secret_hint);
    if (deadline.expired()) throw Error(Code::timeout, "Store::connect", fmt::format("{} doesn't answer", address));
    control::move_or_sleep(connection, std::min(deadline.left_ms(), 100));
  }
}

}  // namespace

std::shared_ptr<Store::Client> Store::Client::connect(const std::string& given, Timeout timeout) {
  base::require_timeout(timeout, "Store::connect");
  const base::Env env = base::Env::from_process();
  const std::string address = given.empty() ? env.store : given;
  if (address.empty())
    throw Error(Code::invalid_config, "Store::connect", "no address was passed, and HMC_STORE isn't set",
                "create a StoreService, and pass its address");
  const auto deadline =
      base::Deadline::after(timeout == job_timeout ? env.timeout_or(base::Env::start_timeout) : timeout);
  const std::vector<control::Access> accesses = control::Access::of_stores(env, address);
  for (std::size_t i = 0;; ++i) {
    try {
      return base::make_owned<Client>(greet(address, accesses[i], deadline), accesses[i], env);
    } catch (const Error& error) {
      if (error.code() != Code::refused || i + 1 == accesses.size()) throw;
    }
  }
}

Store::Client::Client(Connection connection, const control::Access& access, const base::Env& env)
    : env_(env),
      access_(access),
      process_(base::this_process()),
      loop_(access.key, *this, &bootstrap::payload_limit, base::Log(env.log)) {
  server_ = &loop_.add(std::move(connection));
  loop_.start("hmc-store");
  loop_.post([this] {
    const std::lock_guard guard(lock_);
    thread_ = std::this_thread::get_id();
  });
}

Store::Client::~Client() { loop_.stop(); }

bool Store::Client::is_connected() const {
  const std::lock_guard guard(lock_);
  return !ended_;
}

std::chrono::nanoseconds Store::Client::timeout_of(Timeout timeout) const {
  return timeout == job_timeout ? env_.timeout : timeout;
}

void Store::Client::require_usable(const char* operation) const {
  if (base::this_process() != process_) base::throw_forked(operation);
  const std::lock_guard guard(lock_);
  if (ended_) throw_ended(operation, why_ended_);
}

void Store::Client::post(const std::shared_ptr<StoreCall>& call) {
  loop_.post([this, call] {
    if (server_ != nullptr) server_->connection.send(*call);
  });
}

void Store::Client::send(StoreCall call) {
  {
    const std::lock_guard guard(lock_);
    call.id = ++last_number_;
  }
  post(std::make_shared<StoreCall>(std::move(call)));
}

StoreAnswer Store::Client::call(const char* operation, StoreCall call, Timeout timeout, bool waits) {
  base::require_timeout(timeout, operation);
  require_usable(operation);
  {
    const std::lock_guard guard(lock_);
    if (std::this_thread::get_id() == thread_)
      throw Error(Code::invalid_argument, operation, "a callback of the store can't wait for the store");
    call.id = ++last_number_;
    pending_.try_emplace(call.id);
  }
  const std::uint64_t id = call.id;
  post(std::make_shared<StoreCall>(std::move(call)));
  return await(operation, id, waits ? timeout_of(timeout) : std::chrono::nanoseconds(answer_within), waits);
}

StoreAnswer Store::Client::await(const char* operation, std::uint64_t id, std::chrono::nanoseconds timeout,
                                 bool waits) {
  auto deadline = base::Deadline::after(timeout);
  constexpr std::chrono::nanoseconds interval{base::interrupt_interval_ns};
  std::unique_lock guard(lock_);
  const auto is_over = [&] { return ended_ || pending_.at(id).done; };
  while (!changed_.wait_for(guard, std::min(deadline.left(), interval), is_over)) {
    guard.unlock();
    const bool gives_up = base::is_interrupted() || deadline.expired();
    if (gives_up && waits) {
      waits = false;  // the server answers the cancelled call, or has answered it already
      deadline = base::Deadline::after(answer_within);
      StoreCall cancel;
      cancel.op = StoreOp::cancel;
      cancel.number = static_cast<std::int64_t>(id);
      send(std::move(cancel));
    } else if (gives_up) {
      guard.lock();
      pending_.erase(id);
      throw Error(Code::timeout, operation, "the store doesn't answer");
    }
    guard.lock();
  }
  Pending pending = std::move(pending_.at(id));
  pending_.erase(id);
  if (!pending.done) throw_ended(operation, why_ended_);
  if (pending.answer.code != Code::success)
    throw Error(pending.answer.code, operation, std::string(base::as_text(pending.answer.value)));
  return std::move(pending.answer);
}

StoreAnswer Store::Client::watch(const char* operation, StoreCall call, OnEvent on_event, bool by_id) {
  require_usable(operation);
  std::uint64_t number = 0;
  {
    const std::lock_guard guard(lock_);
    if (std::this_thread::get_id() == thread_)
      throw Error(Code::invalid_argument, operation, "a callback of the store can't wait for the store");
    if (ended_) throw_ended(operation, why_ended_);
    number = ++last_number_;
    call.id = by_id ? number : ++last_number_;
    if (!by_id) call.number = static_cast<std::int64_t>(number);
    watches_[number] = std::make_shared<OnEvent>(std::move(on_event));
    pending_.try_emplace(call.id);
  }
  const std::uint64_t id = call.id;
  post(std::make_shared<StoreCall>(std::move(call)));
  try {
    StoreAnswer answer = await(operation, id, answer_within, false);
    answer.id = number;
    return answer;
  } catch (...) {
    const std::lock_guard guard(lock_);
    watches_.erase(number);
    throw;
  }
}

bool Store::Client::unwatch(std::uint64_t number) {
  {
    const std::lock_guard guard(lock_);
    if (watches_.erase(number) == 0) return false;
    if (ended_) return true;
  }
  StoreCall call;
  call.op = StoreOp::unwatch;
  call.number = static_cast<std::int64_t>(number);
  send(std::move(call));
  return true;
}

void Store::Client::on_frame(control::Peer& from, const control::Frame& frame, std::vector<base::UniqueFd> /*fds*/) {
  if (const auto event = bootstrap::decode<StoreEvent>(frame)) return on_event(*event);
  auto answer = bootstrap::decode<StoreAnswer>(frame);
  if (!answer) return loop_.drop(from);
  {
    const std::lock_guard guard(lock_);
    const auto found = pending_.find(answer->id);
    if (found == pending_.end()) return;
    found->second = {true, *std::move(answer)};
  }
  changed_.notify_all();
}

void Store::Client::on_event(const StoreEvent& event) {
  std::shared_ptr<OnEvent> watch;
  {
    const std::lock_guard guard(lock_);
    const auto found = watches_.find(event.watch);
    if (found == watches_.end()) return;
    watch = found->second;
    if (event.kind == StoreEvent::Kind::value) watches_.erase(found);
  }
  (*watch)(&event);
}

void Store::Client::on_end(control::Peer& peer) {
  server_ = nullptr;
  std::map<std::uint64_t, std::shared_ptr<OnEvent>> watches;
  {
    const std::lock_guard guard(lock_);
    ended_ = true;
    why_ended_ = peer.connection.fault();
    watches.swap(watches_);
  }
  changed_.notify_all();
  for (const auto& [number, watch] : watches) (*watch)(nullptr);
}

}  // namespace hmc
