// StoreKeys: the published keys, and the lookups that wait for a key.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "bootstrap/tcp/messages.hpp"

namespace hmc::bootstrap {

/// State only, no sockets. A rank waits for one key at a time: a new lookup replaces the previous one.
class StoreKeys {
 public:
  /// Both return the replies to send; publish() first to the publisher, then to the waiting ranks.
  std::vector<Reply> publish(const Publish& message);
  std::vector<Reply> lookup(const Lookup& message);
  void forget(int rank) { waiting_.erase(rank); }

 private:
  struct Waiting {
    std::uint64_t id = 0;
    std::string key;
  };
  std::map<std::string, base::Bytes> values_;
  std::map<std::int32_t, Waiting> waiting_;  // by rank
  std::size_t bytes_ = 0;
};

}  // namespace hmc::bootstrap
