// The public Pool.
#include <hmc/pool.hpp>

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <utility>

#include "bootstrap/tcp/store_client.hpp"
#include "job/pool_control.hpp"
#include "job/wires.hpp"
#include "runtime/base/fork.hpp"
#include "runtime/pool/copies.hpp"
#include "runtime/pool/membership.hpp"

namespace hmc {

using pool::Membership;

namespace {

enum class Operation { copy, copy_batch, copy_2d, copy_async, copy_on_stream, wait, join, leave, call, count };
constexpr const char* operation_names[] = {"copy", "copy_batch", "copy_2d", "copy_async", "copy_on_stream",
                                           "wait", "join",       "leave",   "call"};

/// Of a join, and of a call, without HMC_TIMEOUT_S.
constexpr std::chrono::seconds default_timeout{60};

/// The start of the addresses: that of the first process that creates a pool with these settings.
std::uint64_t agree_on_start(const Store& store, const PoolOptions& options) {
  const base::Bytes settings = pool::settings_of(options);
  const std::string key = "start/" + std::string(base::as_text(settings)).substr(0, 512);
  if (const auto known = store.try_get(key)) return std::stoull(*known);
  const std::uint64_t bytes =
      static_cast<std::uint64_t>(options.most_members) * (options.host_stride + options.device_stride);
  const pool::Reservation probe(0, bytes);
  const std::string mine = std::to_string(reinterpret_cast<std::uint64_t>(probe.base()));
  const auto swap = store.compare_and_swap(key, std::nullopt, mine);
  return std::stoull(swap.swapped ? mine : *swap.before);
}

/// Forced by HMC_TRANSPORT, named by a rule, or the best between nodes.
std::vector<std::string> wire_names(const PoolOptions& options, const base::Env& env) {
  if (!env.transport.empty() && env.transport != "shm") return {env.transport};
  std::vector<std::string> names;
  const pool::Rules rules(options.rules);
  for (const PoolWay way : {PoolWay::verbs, PoolWay::ucx})
    if (rules.names(way) || job::wire_between_nodes(false) == name_of(way)) names.emplace_back(name_of(way));
  names.emplace_back("tcp");
  return names;
}

}  // namespace

struct Pool::Core {
  Core(const Store& at, const PoolOptions& options)
      : store(at.with_prefix("pool/" + options.name)),
        env(base::Env::from_process()),
        members(
            options, agree_on_start(store, options),
            [this](pool::Control::Handler& handler) {
              return std::make_unique<job::PoolControl>(store.client(), store.prefix() + "members", handler);
            },
            [this, names = wire_names(options, env)] {
              std::vector<std::string> why_not;
              const base::Log log(env.log);
              auto wires = job::make_open_wires(names, rma::Endpoint::most_peers, 1, log, why_not);
              for (const std::string& why : why_not) log.info("a wire isn't used: {}", why);
              return wires;
            },
            env),
        copies(members, env.timeout) {}

  struct Count {
    std::atomic<std::uint64_t> calls{0}, failures{0}, pieces{0}, bytes{0};
  };
  Count& count(Operation operation) { return counts[static_cast<std::size_t>(operation)]; }
  /// Runs `body`, and counts it. Relaxed: counts order nothing.
  template <typename Body> auto counted(Operation operation, std::uint64_t pieces, std::uint64_t bytes, Body&& body) {
    Count& count = this->count(operation);
    count.calls.fetch_add(1, std::memory_order_relaxed);
    try {
      struct Add {
        Count& count;
        std::uint64_t pieces, bytes;
        const int before = std::uncaught_exceptions();
        ~Add() {
          if (std::uncaught_exceptions() != before) return;
          count.pieces.fetch_add(pieces, std::memory_order_relaxed);
          count.bytes.fetch_add(bytes, std::memory_order_relaxed);
        }
      } const add{count, pieces, bytes};
      return body();
    } catch (...) {
      count.failures.fetch_add(1, std::memory_order_relaxed);
      throw;
    }
  }
  base::Deadline deadline(Timeout timeout) const {
    base::require_timeout(timeout, "Pool");
    return base::Deadline::after(timeout == job_timeout ? env.timeout_or(default_timeout) : timeout);
  }
  base::Deadline patient_deadline(Timeout timeout) const {
    base::require_timeout(timeout, "Pool");
    return base::Deadline::after(timeout == job_timeout ? env.timeout : timeout);
  }

  const Store store;
  const base::Env env;
  std::array<Count, static_cast<std::size_t>(Operation::count)> counts;
  Membership members;
  pool::Copies copies;  // after `members`: its thread uses them
};

Pool::Pool() noexcept = default;
Pool::Pool(std::shared_ptr<Core> core) : core_(std::move(core)) {}
Pool::Pool(Pool&&) noexcept = default;
Pool& Pool::operator=(Pool&& other) noexcept {
  if (this == &other) return *this;
  close();
  core_ = std::move(other.core_);
  return *this;
}
Pool::~Pool() { close(); }

Pool Pool::create(const Store& store, const PoolOptions& options) {
  memory::look_for_devices();
  return Pool(base::make_owned<Core>(store, pool::checked(options)));
}

void Pool::close() noexcept {
  if (core_ == nullptr) return;
  try {
    core_->copies.wait(base::Deadline::after(base::Env::no_timeout));
  } catch (const Error&) {  // of a copy that the program hasn't waited for
  }
  core_->members.close();
  core_.reset();
}

// ---- membership

int Pool::join(Timeout timeout) {
  return core_->counted(Operation::join, 0, 0, [&] { return core_->members.join(core_->deadline(timeout)); });
}
void Pool::leave(Timeout timeout) {
  core_->counted(Operation::leave, 0, 0, [&] {
    core_->copies.wait(core_->patient_deadline(timeout));
    core_->members.leave();
  });
}
bool Pool::is_member() const noexcept { return core_->members.is_member(); }
int Pool::rank() const noexcept { return core_->members.rank(); }
int Pool::most_members() const noexcept { return core_->members.options().most_members; }
std::uint64_t Pool::version() const noexcept { return core_->members.version(); }
std::vector<int> Pool::members() const { return core_->members.members(); }
void Pool::wait_version(std::uint64_t version, Timeout timeout) const {
  core_->members.wait_version(version, core_->patient_deadline(timeout));
}
void Pool::on_change(std::function<void(const PoolChange&)> changed) { core_->members.on_change(std::move(changed)); }

// ---- addresses

bool Pool::has_one_address_space() const noexcept { return why_not_one().empty(); }
const std::string& Pool::why_not_one() const noexcept { return core_->members.addresses().why_elsewhere(); }
std::size_t Pool::stride(PoolPart part) const noexcept {
  const PoolOptions& options = core_->members.options();
  return part == PoolPart::host ? options.host_stride : options.device_stride;
}
void* Pool::address(int rank, PoolPart part, std::uint64_t offset) const noexcept {
  return core_->members.address_of({rank, part, offset});
}
PoolPlace Pool::place_of(const void* address) const noexcept { return core_->members.place_of(address); }

std::size_t Pool::bytes(PoolPart part, int rank) const noexcept {
  if (rank < 0 || rank >= most_members()) return 0;
  const pool::MemberUse member = core_->members.use(rank);
  return member ? member->bytes(part) : 0;
}

void* Pool::pointer(int rank, PoolPart part) const noexcept {
  if (rank < 0 || rank >= most_members()) return nullptr;
  const pool::MemberUse member = core_->members.use(rank);
  if (!member) return nullptr;
  if (part == PoolPart::host)
    return member->way(part) == PoolWay::own || member->way(part) == PoolWay::load_store ? member->host : nullptr;
  return member->device != nullptr ? member->device->address : nullptr;
}

PoolPath Pool::path(int rank, PoolPart part) const {
  if (rank < 0 || rank >= most_members()) return {PoolWay::none, "the rank is outside the pool"};
  const pool::MemberUse member = core_->members.use(rank);
  if (!member) return {PoolWay::none, "the rank isn't a member"};
  PoolPath path = member->path(part);
  return path.way == PoolWay::none ? PoolPath{PoolWay::none, "the member has no such part"} : path;
}

// ---- copies

namespace {
std::uint64_t sum_of(std::span<const PoolCopy> pieces) noexcept {
  std::uint64_t bytes = 0;
  for (const PoolCopy& each : pieces) bytes += each.bytes;
  return bytes;
}
}  // namespace

void Pool::copy(void* destination, const void* source, std::size_t bytes, PoolDirection direction) {
  core_->counted(Operation::copy, 1, bytes, [&] { core_->copies.copy(destination, source, bytes, direction); });
}
void Pool::copy_batch(std::span<const PoolCopy> pieces, PoolDirection direction) {
  core_->counted(Operation::copy_batch, pieces.size(), sum_of(pieces), [&] {
    pool::Batch batch = core_->copies.resolve(pieces, direction);
    core_->copies.run(batch);
  });
}
void Pool::copy_2d(void* destination, std::size_t destination_pitch, const void* source, std::size_t source_pitch,
                   std::size_t width, std::size_t height, PoolDirection direction) {
  core_->counted(Operation::copy_2d, height, width * height, [&] {
    core_->copies.copy_2d({destination, destination_pitch, source, source_pitch, width, height}, direction);
  });
}
void Pool::copy_async(std::span<const PoolCopy> pieces, PoolDirection direction) {
  core_->counted(Operation::copy_async, pieces.size(), sum_of(pieces),
                 [&] { core_->copies.start(core_->copies.resolve(pieces, direction)); });
}
void Pool::wait(Timeout timeout) {
  core_->counted(Operation::wait, 0, 0, [&] { core_->copies.wait(core_->patient_deadline(timeout)); });
}
void Pool::copy_on_stream(void* destination, const void* source, std::size_t bytes, MemoryType type, void* stream) {
  core_->counted(Operation::copy_on_stream, 1, bytes,
                 [&] { core_->copies.on_stream(destination, source, bytes, type, stream); });
}
void Pool::register_memory(void* address, std::size_t bytes) { core_->copies.register_memory(address, bytes); }
void Pool::deregister_memory(void* address) noexcept { core_->copies.deregister_memory(address); }

// ---- control

const Store& Pool::store() const noexcept { return core_->store; }

struct PoolCall::State {
  std::weak_ptr<Pool::Core> core;  // the Pool may be closed first
  std::uint64_t id = 0;
  ~State() {
    if (const auto pool = core.lock(); pool != nullptr && id != 0) pool->members.forget_call(id);
  }
};

PoolCall::PoolCall() noexcept = default;
PoolCall::PoolCall(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
PoolCall::PoolCall(PoolCall&&) noexcept = default;
PoolCall& PoolCall::operator=(PoolCall&&) noexcept = default;
PoolCall::~PoolCall() = default;
bool PoolCall::in_flight() const noexcept { return state_ != nullptr; }

std::string PoolCall::wait(Timeout timeout) {
  base::require_timeout(timeout, "PoolCall::wait");  // before the call's state is taken
  const auto state = std::move(state_);
  const auto core = state == nullptr ? nullptr : state->core.lock();
  if (core == nullptr) throw Error(Code::closed, "PoolCall::wait", "no call is in flight, or the pool is closed");
  const base::Deadline deadline = core->deadline(timeout);
  try {
    return std::string(base::as_text(core->members.finish_call(std::exchange(state->id, 0), deadline)));
  } catch (...) {
    core->count(Operation::call).failures.fetch_add(1, std::memory_order_relaxed);
    throw;
  }
}

std::string Pool::call(int rank, std::string_view request, Timeout timeout) const {
  base::require_timeout(timeout, "Pool::call");  // before the member executes the call
  return start_call(rank, request).wait(timeout);
}

PoolCall Pool::start_call(int rank, std::string_view request) const {
  constexpr std::size_t most = std::size_t{1} << 20;
  return core_->counted(Operation::call, 1, request.size(), [&] {
    if (rank < 0 || rank >= most_members()) throw Error(Code::bad_rank, "Pool::call", fmt::format("rank {}", rank));
    if (request.size() > most)
      throw Error(Code::invalid_argument, "Pool::call", fmt::format("a request has at most {} bytes", most));
    auto state = std::make_unique<PoolCall::State>();
    state->core = core_;
    state->id = core_->members.start_call(rank, pool::Message::Kind::call, base::as_bytes(request));
    return PoolCall(std::move(state));
  });
}

void Pool::on_call(std::function<std::string(int, std::string_view)> handler) {
  core_->members.on_call(std::move(handler));
}

std::vector<PoolCounter> Pool::counters() const {
  std::vector<PoolCounter> result;
  for (std::size_t i = 0; i < core_->counts.size(); ++i) {
    const Core::Count& count = core_->counts[i];
    const auto value = [](const std::atomic<std::uint64_t>& of) { return of.load(std::memory_order_relaxed); };
    result.push_back(
        {operation_names[i], value(count.calls), value(count.failures), value(count.pieces), value(count.bytes)});
  }
  return result;
}

}  // namespace hmc
