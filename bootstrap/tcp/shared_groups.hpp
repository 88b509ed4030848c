// SharedRanks and SharedGroups: what connections of the shared store own: ranks, exits, memberships of a pool.
#pragma once

#include <bitset>
#include <map>
#include <string>
#include <vector>

#include <hmc/store.hpp>

#include "bootstrap/tcp/shared_store_messages.hpp"

namespace hmc::bootstrap {

/// Ranks, small numbers and the exit of each prefix. One thread.
class SharedRanks {
 public:
  explicit SharedRanks(StoreSink& sink) : sink_(sink) {}
  /// False: it isn't a call on ranks, numbers or the exit.
  bool handle(StoreOwner from, const StoreCall& call);
  void forget(StoreOwner owner);
  void unwatch(StoreOwner owner, std::uint64_t number);

 private:
  struct Watch {
    StoreOwner owner = 0;
    std::uint64_t number = 0;
  };
  struct Prefix {
    std::map<std::int64_t, StoreOwner> ranks;
    std::vector<Watch> rank_watches, exit_watches;
    std::bitset<store_most_numbers> numbers;
    bool has_exited = false;
    std::int64_t status = 0;
    bool is_unused() const noexcept {
      return ranks.empty() && rank_watches.empty() && exit_watches.empty() && numbers.none() && !has_exited;
    }
  };
  using Prefixes = std::map<std::string, Prefix>;
  void acquire_rank(StoreOwner from, const StoreCall& call, Prefix& prefix);
  bool release(StoreOwner owner, Prefix& prefix);
  void acquire_number(StoreOwner from, const StoreCall& call, Prefix& prefix);
  void release_number(StoreOwner from, const StoreCall& call, Prefix& prefix);
  void notify(const Prefix& prefix, std::int64_t rank, bool alive);

  StoreSink& sink_;
  Prefixes prefixes_;
};

/// The members of each pool. A candidate has a rank, and becomes a member by its commit. One thread.
class SharedGroups {
 public:
  explicit SharedGroups(StoreSink& sink) : sink_(sink) {}
  /// False: it isn't a call on groups.
  bool handle(StoreOwner from, const StoreCall& call);
  void forget(StoreOwner owner);
  static constexpr std::size_t most_groups = 65536;

 private:
  struct Member {
    StoreOwner owner = 0;
    std::uint64_t watch = 0;  ///< the id of its enter call
    bool is_candidate = true;
    base::Bytes card;
  };
  struct Group {
    std::int64_t size = 0;
    std::uint64_t version = 0;
    std::map<std::int64_t, Member> members;
  };
  using Groups = std::map<std::string, Group>;
  void enter(StoreOwner from, const StoreCall& call);
  void commit(StoreOwner from, const StoreCall& call, Group& group, std::int64_t rank);
  void post(StoreOwner from, const StoreCall& call, Group& group, std::int64_t rank);
  void remove(Group& group, std::int64_t rank, bool died);
  void send(const Group& group, StoreEvent event);

  StoreSink& sink_;
  Groups groups_;  // kept when they are empty: versions never repeat
};

}  // namespace hmc::bootstrap
