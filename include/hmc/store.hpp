// Store: a key-value store that the processes of a program share, with ranks, barriers and numbers. StoreService: its
// server.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <hmc/error.hpp>
#include <hmc/request.hpp>

namespace hmc {

inline constexpr std::size_t store_longest_key = 1024;                       ///< with its prefix; at least 1 byte
inline constexpr std::size_t store_longest_value = std::size_t{16} << 20;    ///< also after appends
inline constexpr std::size_t store_largest_gather = std::size_t{128} << 20;  ///< all parts of one allgather
inline constexpr int store_most_members = 1024;  ///< of a barrier, of an allgather, and of the ranks of a prefix
inline constexpr unsigned store_most_numbers = 1024;

/// The server. Under hmcrun none is needed: the job's own store serves, see Store::connect. Otherwise one process of
/// the program creates a StoreService, or a process of its own.
///
/// Access: with HMC_SECRET, processes that have the same secret. Without HMC_SECRET, only processes of the same user on
/// this machine. They prove it by a secret that the first of them makes, in a file that only this user can read:
/// hmc-secret in XDG_RUNTIME_DIR, /run/user/UID or /tmp/hmc-UID. Other users, other machines and mount namespaces
/// with other folders need HMC_SECRET. Connections of others are refused and counted, and so are malformed messages.
///
/// A client that doesn't read its replies is disconnected. The values stay when their clients end; they are lost when
/// the StoreService is destroyed.
///
/// Threads: any. It owns one thread. The destructor closes all connections: clients get Error{peer_failed}.
class HMC_API StoreService {
 public:
  /// Listens on "host:port", "[v6]:port" or ":port" (all interfaces). Port 0: a free one. Throws Error, for example if
  /// the port is in use.
  explicit StoreService(const std::string& address);
  ~StoreService();
  StoreService(StoreService&&) noexcept;
  StoreService& operator=(StoreService&&) noexcept;

  const std::string& address() const noexcept;  ///< with the actual port
  std::size_t refused_connections() const noexcept;

 private:
  struct Core;
  std::unique_ptr<Core> core_;
};

/// A client. Copies and prefixed stores share one connection and one thread; both end with the last copy.
///
/// ERRORS. Throws Error: invalid_argument (a key of 0 or more than 1,024 bytes, a value that is too long),
/// timeout, not_found, peer_failed (the server has ended, or the connection is lost: this is final, each call fails at
/// once). The server checks the limits again.
///
/// THREADS. Any number of threads at a time. Callbacks run on the client's thread, one at a time: they must not call
/// functions of the Store that wait for a reply, and must not block.
class HMC_API Store {
 public:
  /// Connects, and retries until the timeout, as the server may start later. An empty address: HMC_STORE, which hmcrun
  /// sets for its ranks, and which a job by hand has. Throws Error{timeout, refused, invalid_config}.
  static Store connect(const std::string& address = {}, Timeout timeout = job_timeout);
  Store(const Store&);
  Store(Store&&) noexcept;
  Store& operator=(const Store&);
  Store& operator=(Store&&) noexcept;
  ~Store();

  /// The same connection; each key, rank, barrier and number belongs to the prefix. Prefixes nest.
  Store with_prefix(std::string_view prefix) const;
  const std::string& prefix() const noexcept;
  bool is_connected() const noexcept;

  // ---- values: any bytes, also none

  /// Waits until the key exists. Timeout 0 doesn't wait: Error{not_found}. Otherwise Error{timeout}.
  std::string get(std::string_view key, Timeout timeout = job_timeout) const;
  std::optional<std::string> try_get(std::string_view key) const;
  void set(std::string_view key, std::string_view value) const;
  /// The value is a decimal number; an absent key counts as 0. Returns the sum. Error{invalid_argument}: the value
  /// isn't a number, or the sum overflows.
  std::int64_t add(std::string_view key, std::int64_t increment) const;
  /// Returns the length of the new value. An absent key counts as empty.
  std::size_t append(std::string_view key, std::string_view value) const;
  struct Swap {
    bool swapped = false;
    std::optional<std::string> before;  ///< the value before the call; nullopt: the key was absent
  };
  /// Sets the value to `desired` if it is `expected`; nullopt: if the key is absent. An existing empty value isn't an
  /// absent key.
  Swap compare_and_swap(std::string_view key, std::optional<std::string_view> expected, std::string_view desired) const;
  /// Replaces the bytes from `offset`; a longer value grows, and a gap is filled with zero bytes. Returns the length.
  /// Doesn't wake waiting calls of get().
  std::size_t write(std::string_view key, std::size_t offset, std::string_view bytes) const;
  /// False if the key is absent.
  bool remove(std::string_view key) const;
  /// The number of keys with this prefix, for tests and reports.
  std::size_t count() const;

  /// Calls `changed` once: when the key exists, with its value. nullopt: the connection has ended.
  std::uint64_t watch(std::string_view key, std::function<void(std::optional<std::string> value)> changed) const;
  /// After the return the callback doesn't start. False if it has already started, or if the number is unknown.
  bool unwatch(std::uint64_t watch) const;

  // ---- ranks: a number for each connection, one per prefix

  /// This connection's rank in 0..size-1: the rank that it has, else `wanted`, else (wanted < 0) the lowest free one. A
  /// rank is free again after release_rank() or the end of the connection. All clients of a prefix pass the same size.
  /// Error{unavailable}: all ranks are in use, or the wanted one is.
  int acquire_rank(int size, int wanted = -1) const;
  void release_rank() const;
  /// Calls `changed` for each rank in use now, and then for each change, in the order in which they occur, until
  /// unwatch(). Rank -1: the connection has ended.
  std::uint64_t watch_ranks(std::function<void(int rank, bool alive)> changed) const;

  // ---- subgroups: `size` callers with the ranks 0..size-1 meet by the name; there is no set-up, and nothing is left

  /// Each name has its own sequence of calls.
  ///  - timeout: names the missing ranks. This call hasn't happened, and may be repeated.
  ///  - peer_failed: a caller that had arrived has ended.
  ///  - mismatch: the callers pass different sizes, one calls an allgather, or two callers have one rank.
  void barrier(std::string_view name, int size, int rank, Timeout timeout = job_timeout) const;
  /// The bytes of all ranks, by rank; lengths may differ.
  std::vector<std::string> allgather(std::string_view name, int size, int rank, std::string_view mine,
                                     Timeout timeout = job_timeout) const;

  // ---- small numbers, unique in the prefix

  /// The lowest free number below `limit` (1..1024). It stays in use if its owner ends. Error{unavailable}: none is
  /// free.
  unsigned acquire_number(unsigned limit = store_most_numbers) const;
  /// Any client may release a number. Error{not_found}: it isn't in use.
  void release_number(unsigned number) const;

  // ---- exit

  /// Sets the handler of this client and prefix; null: none. It runs on the client's thread, once, also if the exit was
  /// announced before.
  void on_exit(std::function<void(int status)> handler) const;
  /// Runs the handler of each client of the prefix, this one's too. Only the first status counts. Returns when the
  /// server has it.
  void global_exit(int status) const;

  /// For HMC's own use.
  class Client;
  const std::shared_ptr<Client>& client() const noexcept { return client_; }

 private:
  Store(std::shared_ptr<Client> client, std::string prefix);
  std::string full(std::string_view key) const;

  std::shared_ptr<Client> client_;
  std::string prefix_;
};

}  // namespace hmc
