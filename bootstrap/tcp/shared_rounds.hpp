// SharedRounds: barriers and allgathers of callers that meet by a name in the shared store.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "bootstrap/tcp/shared_store_messages.hpp"

namespace hmc::bootstrap {

/// A round exists from the first arrival until it completes or fails, so nothing is left of it. If all answers of an
/// allgather are large together, they wait for deliver(), and share one copy of the result. One thread.
class SharedRounds {
 public:
  explicit SharedRounds(StoreSink& sink) : sink_(sink) {}
  /// False: the call is neither a barrier nor an allgather.
  bool handle(StoreOwner from, const StoreCall& call);
  /// The call is answered with the missing ranks, and hasn't happened. False if it doesn't wait here.
  bool cancel(StoreOwner owner, std::uint64_t id);
  /// Fails the rounds that the owner had joined.
  void forget(StoreOwner owner);
  /// True if an answer waits for deliver().
  bool owes() const noexcept { return !owed_.empty(); }
  void deliver();
  static constexpr std::size_t most_at_once = std::size_t{64} << 20;
  std::size_t open() const noexcept { return rounds_.size(); }

 private:
  struct Arrival {
    StoreOwner owner = 0;
    std::uint64_t id = 0;
    base::Bytes bytes;
  };
  struct Round {
    StoreOp op{};
    std::int64_t size = 0;
    std::map<std::int64_t, Arrival> by_rank;
    std::size_t bytes = 0;
  };
  using Rounds = std::map<std::string, Round>;
  void complete(Rounds::iterator round);
  void fail(Rounds::iterator round, Code code, const std::string& text);

  struct Owed {
    StoreOwner owner = 0;
    std::uint64_t id = 0;
    std::shared_ptr<const base::Bytes> result;
  };

  StoreSink& sink_;
  std::deque<Owed> owed_;
  Rounds rounds_;
  std::map<std::pair<StoreOwner, std::uint64_t>, std::string> names_;  // of the calls that wait
};

}  // namespace hmc::bootstrap
