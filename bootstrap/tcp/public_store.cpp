// hmc::Store and hmc::StoreService.
#include <fmt/format.h>

#include <utility>

#include <hmc/store.hpp>

#include "bootstrap/tcp/shared_store.hpp"
#include "bootstrap/tcp/store_client.hpp"
#include "runtime/control/socket.hpp"

namespace hmc {

using bootstrap::StoreAnswer;
using bootstrap::StoreCall;
using bootstrap::StoreEvent;
using bootstrap::StoreOp;

// ---- StoreService

struct StoreService::Core final : private control::PeerLoop::Handler {
  Core(const std::string& at, const base::Env& env)
      : access(control::Access::of(env, env.secret.empty() ? "hmc store" : "")),
        shared(loop),
        loop(access.key, *this, &bootstrap::payload_limit, base::Log(env.log)) {
    base::UniqueFd listener = control::listen_tcp(at);
    address = control::address_of(listener.get());
    loop.add_listener(std::move(listener));
    loop.start("hmc-store");
  }
  ~Core() override { loop.stop(); }

  std::string refusal_of(int socket) override {
    control::tune_tcp(socket);
    return access.refusal_of(socket);
  }
  void on_frame(control::Peer& from, const control::Frame& frame, std::vector<base::UniqueFd>) override {
    if (!bootstrap::SharedStore::serves(bootstrap::type_of(frame))) return loop.drop(from);
    shared.on_frame(from, frame);
  }
  void on_end(control::Peer& peer) override { shared.on_end(peer); }
  int on_turn() override { return shared.on_turn(); }

  const control::Access access;
  std::string address;
  bootstrap::SharedStore shared;
  control::PeerLoop loop;  // last: its thread uses the other members
};

StoreService::StoreService(const std::string& address)
    : core_(std::make_unique<Core>(address, base::Env::from_process())) {}
StoreService::~StoreService() = default;
StoreService::StoreService(StoreService&&) noexcept = default;
StoreService& StoreService::operator=(StoreService&&) noexcept = default;
const std::string& StoreService::address() const noexcept { return core_->address; }
std::size_t StoreService::refused_connections() const noexcept { return core_->loop.unknown_connections(); }

// ---- Store

namespace {

base::Bytes bytes_of(std::string_view text) {
  const base::ByteView view = base::as_bytes(text);
  return {view.begin(), view.end()};
}
std::string text_of(const base::Bytes& bytes) { return std::string(base::as_text(bytes)); }

void check_value(const char* operation, std::string_view value, std::size_t most = store_longest_value) {
  if (value.size() > most)
    throw Error(Code::invalid_argument, operation, fmt::format("{} bytes, at most {} are allowed", value.size(), most));
}

StoreCall call_of(StoreOp op, std::string key, std::int64_t number = 0, std::int64_t other = 0) {
  StoreCall call;
  call.op = op;
  call.key = std::move(key);
  call.number = number;
  call.other = other;
  return call;
}

}  // namespace

Store::Store(std::shared_ptr<Client> client, std::string prefix)
    : client_(std::move(client)), prefix_(std::move(prefix)) {}
Store::Store(const Store&) = default;
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(const Store&) = default;
Store& Store::operator=(Store&&) noexcept = default;
Store::~Store() = default;

Store Store::connect(const std::string& address, Timeout timeout) { return {Client::connect(address, timeout), {}}; }

/// A prefix ends with a zero byte, so that "a" with the key "bc" differs from "ab" with the key "c".
Store Store::with_prefix(std::string_view prefix) const {
  if (prefix.empty()) throw Error(Code::invalid_argument, "with_prefix", "the prefix is empty");
  return {client_, prefix_ + std::string(prefix) + '\0'};
}
const std::string& Store::prefix() const noexcept { return prefix_; }
bool Store::is_connected() const noexcept { return client_->is_connected(); }

std::string Store::full(std::string_view key) const {
  if (key.empty() || key.size() + prefix_.size() > store_longest_key)
    throw Error(Code::invalid_argument, "Store",
                fmt::format("a key has 1 to {} bytes with its prefix, this one {}", store_longest_key,
                            key.empty() ? 0 : key.size() + prefix_.size()));
  return prefix_ + std::string(key);
}

std::string Store::get(std::string_view key, Timeout timeout) const {
  StoreCall call = call_of(StoreOp::get, full(key));
  call.flag = timeout != Timeout::zero();
  return text_of(client_->call("Store::get", std::move(call), timeout, true).value);
}

std::optional<std::string> Store::try_get(std::string_view key) const {
  try {
    return get(key, Timeout::zero());
  } catch (const Error& error) {
    if (error.code() == Code::not_found) return std::nullopt;
    throw;
  }
}

void Store::set(std::string_view key, std::string_view value) const {
  check_value("Store::set", value);
  StoreCall call = call_of(StoreOp::set, full(key));
  call.value = bytes_of(value);
  (void)client_->call("Store::set", std::move(call));
}

std::int64_t Store::add(std::string_view key, std::int64_t increment) const {
  return client_->call("Store::add", call_of(StoreOp::add, full(key), increment)).number;
}

std::size_t Store::append(std::string_view key, std::string_view value) const {
  check_value("Store::append", value);
  StoreCall call = call_of(StoreOp::append, full(key));
  call.value = bytes_of(value);
  return static_cast<std::size_t>(client_->call("Store::append", std::move(call)).number);
}

Store::Swap Store::compare_and_swap(std::string_view key, std::optional<std::string_view> expected,
                                    std::string_view desired) const {
  check_value("Store::compare_and_swap", desired);
  StoreCall call = call_of(StoreOp::swap, full(key));
  call.flag = expected.has_value();
  if (expected) {
    // Both values are in one message.
    check_value("Store::compare_and_swap", *expected, store_longest_value - desired.size());
    call.expected = bytes_of(*expected);
  }
  call.value = bytes_of(desired);
  const StoreAnswer answer = client_->call("Store::compare_and_swap", std::move(call));
  return {answer.number != 0, answer.flag ? std::optional(text_of(answer.value)) : std::nullopt};
}

std::size_t Store::write(std::string_view key, std::size_t offset, std::string_view bytes) const {
  check_value("Store::write", bytes, store_longest_value - std::min(offset, store_longest_value));
  StoreCall call = call_of(StoreOp::write, full(key), static_cast<std::int64_t>(offset));
  call.value = bytes_of(bytes);
  return static_cast<std::size_t>(client_->call("Store::write", std::move(call)).number);
}

bool Store::remove(std::string_view key) const {
  return client_->call("Store::remove", call_of(StoreOp::remove, full(key))).number != 0;
}

std::size_t Store::count() const {
  return static_cast<std::size_t>(client_->call("Store::count", call_of(StoreOp::count, prefix_)).number);
}

std::uint64_t Store::watch(std::string_view key, std::function<void(std::optional<std::string>)> changed) const {
  const auto on_event = [changed = std::move(changed)](const StoreEvent* event) {
    changed(event != nullptr ? std::optional(text_of(event->value)) : std::nullopt);
  };
  return client_->watch("Store::watch", call_of(StoreOp::watch, full(key)), on_event).id;
}

bool Store::unwatch(std::uint64_t watch) const { return client_->unwatch(watch); }

int Store::acquire_rank(int size, int wanted) const {
  return static_cast<int>(
      client_->call("Store::acquire_rank", call_of(StoreOp::acquire_rank, prefix_, size, wanted)).number);
}

void Store::release_rank() const {
  (void)client_->call("Store::release_rank", call_of(StoreOp::release_rank, prefix_));
}

std::uint64_t Store::watch_ranks(std::function<void(int, bool)> changed) const {
  const auto on_event = [changed = std::move(changed)](const StoreEvent* event) {
    if (event != nullptr)
      changed(static_cast<int>(event->number), event->flag);
    else
      changed(-1, false);
  };
  return client_->watch("Store::watch_ranks", call_of(StoreOp::watch_ranks, prefix_), on_event).id;
}

void Store::barrier(std::string_view name, int size, int rank, Timeout timeout) const {
  (void)client_->call("Store::barrier", call_of(StoreOp::barrier, full(name), size, rank), timeout, true);
}

std::vector<std::string> Store::allgather(std::string_view name, int size, int rank, std::string_view mine,
                                          Timeout timeout) const {
  check_value("Store::allgather", mine);
  StoreCall call = call_of(StoreOp::allgather, full(name), size, rank);
  call.value = bytes_of(mine);
  const auto parts =
      base::decode<bootstrap::StoreParts>(client_->call("Store::allgather", std::move(call), timeout, true).value);
  if (!parts) throw Error(Code::error, "Store::allgather", "the store's answer can't be read");
  std::vector<std::string> result;
  for (const base::Bytes& each : parts->by_rank) result.push_back(text_of(each));
  return result;
}

unsigned Store::acquire_number(unsigned limit) const {
  return static_cast<unsigned>(
      client_->call("Store::acquire_number", call_of(StoreOp::acquire_number, prefix_, limit)).number);
}

void Store::release_number(unsigned number) const {
  (void)client_->call("Store::release_number", call_of(StoreOp::release_number, prefix_, number));
}

void Store::on_exit(std::function<void(int)> handler) const {
  const std::lock_guard guard(client_->exit_lock());
  auto& watches = client_->exit_watches();
  if (const auto old = watches.find(prefix_); old != watches.end()) {
    (void)client_->unwatch(old->second);
    watches.erase(old);
  }
  if (!handler) return;
  const auto on_event = [handler = std::move(handler)](const StoreEvent* event) {
    if (event != nullptr) handler(static_cast<int>(event->number));
  };
  watches[prefix_] = client_->watch("Store::on_exit", call_of(StoreOp::watch_exit, prefix_), on_event).id;
}

void Store::global_exit(int status) const {
  (void)client_->call("Store::global_exit", call_of(StoreOp::exit, prefix_, status));
}

}  // namespace hmc
