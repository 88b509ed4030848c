// SharedValues: the values of the shared store or of the job's ranks, the calls that wait for a key, and the watches of
// keys.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include <hmc/store.hpp>

#include "bootstrap/tcp/shared_store_messages.hpp"

namespace hmc::bootstrap {

/// No sockets. One thread. Clients check the limits before; they are checked here again.
class SharedValues {
 public:
  struct Limits {
    std::size_t value_bytes = store_longest_value;
    /// All keys and values together, so that clients can't use up the server's memory.
    std::size_t bytes = std::size_t{4} << 30;
  };
  SharedValues(StoreSink& sink, const Limits& limits) : sink_(sink), limits_(limits) {}
  /// Answers the call now, or later if it waits. False: it isn't a call on values.
  bool handle(StoreOwner from, const StoreCall& call);
  /// False if the owner has no such call that waits.
  bool cancel(StoreOwner owner, std::uint64_t id);
  void forget(StoreOwner owner);

  static constexpr std::size_t most_keys = std::size_t{4} << 20;

 private:
  struct Waiting {
    StoreOwner owner = 0;
    std::uint64_t id = 0;  ///< of the call, or of the watch
    bool is_watch = false;
  };
  void get(StoreOwner from, const StoreCall& call);
  void add(StoreOwner from, const StoreCall& call);
  void swap(StoreOwner from, const StoreCall& call);
  void write(StoreOwner from, const StoreCall& call);
  void watch(StoreOwner from, const StoreCall& call);
  void unwatch(StoreOwner from, const StoreCall& call);
  /// Stores the value, wakes the waiting calls, and answers. `number`, `flag` and `before` are for the answer.
  void put(StoreOwner from, const StoreCall& call, base::Bytes value, std::int64_t number = 0, bool flag = false,
           base::Bytes before = {});
  bool take(const std::string& key, StoreOwner owner, std::uint64_t id, bool is_watch);
  bool fits(StoreOwner from, const StoreCall& call, std::size_t added, bool is_new);
  void wake(const std::string& key);

  StoreSink& sink_;
  Limits limits_;
  std::map<std::string, base::Bytes> values_;
  std::size_t bytes_ = 0;
  std::unordered_map<std::string, std::vector<Waiting>> waiting_;
  std::map<std::pair<StoreOwner, std::uint64_t>, std::string> keys_of_calls_, keys_of_watches_;  // that wait
};

}  // namespace hmc::bootstrap
