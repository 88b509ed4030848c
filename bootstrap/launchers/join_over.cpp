#include "bootstrap/launchers/join_over.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include <hmc/error.hpp>

#include "bootstrap/common.hpp"
#include "bootstrap/launchers/texts.hpp"
#include "bootstrap/tcp/tcp_bootstrap.hpp"
#include "runtime/base/interfaces.hpp"

namespace hmc::bootstrap {

using base::Deadline;

namespace {

constexpr std::string_view no_secret = "-";         // every rank has HMC_SECRET
constexpr std::string_view failed = "hmc1;failed";  // rank 0 has no record

/// Without the port.
Record own_record(const RankFacts& mine, const std::string& secret, bool on_one_node) {
  std::uint64_t job = 0;
  std::memcpy(&job, control::random_bytes().data(), sizeof job);
  Record record{secret, job, mine.machine, mine.network, {}, {}};
  if (on_one_node) return record;
  for (const base::Ip& ip : base::usable_addresses())
    record.addresses.push_back(ip.bytes_used == 4 ? text_of(ip) : "[" + text_of(ip) + "]");
  return record;
}

control::Secret key_of(const control::Secret& secret, std::uint64_t job) {
  return secret.derive({base::as_bytes("job"), std::as_bytes(std::span(&job, 1))});
}

/// Loopback on one machine, else all addresses in the form that connect_tcp accepts.
std::string store_of(const Record& record, const RankFacts& mine) {
  if (record.machine == mine.machine && record.network == mine.network) return "127.0.0.1:" + record.port;
  std::string all;
  for (const std::string& each : record.addresses) all += (all.empty() ? "" : ",") + each + ":" + record.port;
  if (all.empty())
    throw Error(Code::unavailable, "join",
                "rank 0 is on another machine, and published no address that this rank can reach",
                "does rank 0's machine have a network interface that is up? HMC_NET selects interfaces");
  return all;
}

/// Why nobody will replace a rank that has ended; empty: a process may come.
std::string no_replacement(const Member& member) {
  if (!member.starts_once) return {};
  return fmt::format("{} replaces no rank; start the job by hmcrun --respawn", member.launcher);
}

}  // namespace

std::unique_ptr<Bootstrap> join_over(RecordExchange& exchange, const Member& member, base::Env env, Deadline deadline) {
  env.rank = member.rank;
  env.size = member.size;
  env.launcher = member.launcher;
  const RankFacts mine = own_facts(member.rank);
  if (member.rank > 0) {
    if (!env.secret.empty()) (void)control::Secret::from_hex(env.secret);  // an invalid one is reported at once
    const std::string text = exchange.fetch(deadline);
    if (text == failed) throw Error(Code::unavailable, "join", "rank 0 can't start the job; see its error");
    const auto record = Record::parse(text);
    if (!record)
      throw Error(Code::invalid_config, "join", "rank 0's record has an unknown format",
                  "do all ranks use the same version of HMC?");
    if ((record->secret == no_secret) == env.secret.empty())
      throw Error(Code::invalid_config, "join",
                  fmt::format("HMC_SECRET is set {} rank 0 and {} this rank", env.secret.empty() ? "for" : "not for",
                              env.secret.empty() ? "not for" : "for"),
                  "set the same one for every rank, or for none");
    env.store = store_of(*record, mine);
    const control::Secret secret =
        key_of(control::Secret::from_hex(env.secret.empty() ? record->secret : env.secret), record->job);
    return join_tcp(env, std::make_unique<HostedServices>(secret, nullptr), deadline, member.check);
  }
  control::Secret secret;
  Record record;
  std::unique_ptr<StoreServer> store;
  try {
    secret = env.secret.empty() ? control::Secret::random() : control::Secret::from_hex(env.secret);
    record = own_record(mine, env.secret.empty() ? secret.hex() : std::string(no_secret), member.on_one_node);
    store = std::make_unique<StoreServer>(key_of(secret, record.job), member.size,
                                          member.on_one_node ? "127.0.0.1:0" : ":0", StoreServer::Events{},
                                          no_replacement(member));
    record.port = store->address().substr(store->address().rfind(':') + 1);
  } catch (...) {
    exchange.publish(std::string(failed), deadline);  // so that the other ranks don't wait
    throw;
  }
  exchange.publish(record.text(), deadline);
  env.store = "127.0.0.1:" + record.port;
  return join_tcp(env, std::make_unique<HostedServices>(key_of(secret, record.job), std::move(store)), deadline,
                  member.check);
}

std::unique_ptr<Bootstrap> join_at(const std::string& host, int port, const Member& member, base::Env env,
                                   Deadline deadline) {
  // Counts this process's jobs: equal on all ranks, because joining is collective. Each job has its own port, because a
  // rank may join the next job before rank 0 has left the last. Relaxed: orders no other data.
  static std::atomic<int> jobs{0};
  const std::string number = fmt::format("{}", port + jobs.fetch_add(1, std::memory_order_relaxed));
  if (env.secret.empty())
    throw Error(Code::invalid_config, "join",
                fmt::format("{} runs ranks on several machines, and HMC_SECRET is not set", member.launcher),
                "set the same one for every rank: export HMC_SECRET=$(openssl rand -hex 32)");
  env.rank = member.rank;
  env.size = member.size;
  env.launcher = member.launcher;
  env.store = fmt::format("{}:{}", host, number);
  const control::Secret secret =
      control::Secret::from_hex(env.secret).derive({base::as_bytes("port"), base::as_bytes(number)});
  std::unique_ptr<StoreServer> store;
  if (member.rank == 0) {
    store =
        std::make_unique<StoreServer>(secret, member.size, ":" + number, StoreServer::Events{}, no_replacement(member));
    env.store = "127.0.0.1:" + number;
  }
  return join_tcp(env, std::make_unique<HostedServices>(secret, std::move(store)), deadline);
}

namespace {

class StoreExchange final : public RecordExchange {
 public:
  StoreExchange(const KeyValueStore& store, int rank) : store_(store) {
    if (!store.compare_set) return;
    const std::string mine = fmt::format("{}:{}", own_facts(rank).machine, ::getpid());
    const std::string key = fmt::format("hmc/{}", rank);
    if (const std::string owner = store.compare_set(key, "", mine); owner != mine)
      throw Error(Code::invalid_config, "Runtime::init",
                  fmt::format("another process or Runtime has joined as rank {} over this store", rank),
                  "is each rank started once? A further Runtime needs a store with another prefix");
  }
  void publish(const std::string& record, Deadline /*deadline*/) override { store_.set("hmc/0/record", record); }
  std::string fetch(Deadline deadline) override { return fetched_ = store_.get("hmc/0/record", deadline.left()); }
  /// The record of an earlier job with this store's keys may be in the store until rank 0 replaces it.
  bool has_changed() const { return !fetched_.empty() && store_.get("hmc/0/record", Timeout{0}) != fetched_; }

 private:
  const KeyValueStore& store_;
  std::string fetched_;
};

struct RecordChanged {};

/// Ranks other than 0: joins again whenever rank 0 publishes another record.
std::unique_ptr<Bootstrap> join_latest(StoreExchange& exchange, Member member, const base::Env& env,
                                       Deadline deadline) {
  member.check = [&] {
    if (exchange.has_changed()) throw RecordChanged{};
  };
  for (;;) {
    try {
      return join_over(exchange, member, env, deadline);
    } catch (const RecordChanged&) {
    } catch (const Error& error) {
      // A job that has ended or failed, or another program on its port: its successor's record may come soon.
      if (error.code() == Code::timeout || error.code() == Code::invalid_config) throw;
      const Deadline soon =
          Deadline::after(std::min<std::chrono::nanoseconds>(deadline.left(), std::chrono::seconds(1)));
      while (!exchange.has_changed()) {
        if (soon.expired()) throw;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    }
  }
}

}  // namespace

std::unique_ptr<Bootstrap> join_over(const KeyValueStore& store, int rank, int size, const base::Env& env) {
  if (!store.set || !store.get)
    throw Error(Code::invalid_argument, "Runtime::init", "the key-value store has no set or no get");
  if (size < 1 || rank < 0 || rank >= size)
    throw Error(Code::invalid_argument, "Runtime::init", fmt::format("there is no rank {} of {}", rank, size));
  StoreExchange exchange(store, rank);
  const Member member{rank, size, "a key-value store", false};
  const Deadline deadline = Deadline::after(env.timeout_or(base::Env::start_timeout));
  return rank == 0 ? join_over(exchange, member, env, deadline) : join_latest(exchange, member, env, deadline);
}

}  // namespace hmc::bootstrap
