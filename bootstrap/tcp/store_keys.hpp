// StoreKeys: what ranks published, and who waits for what.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "bootstrap/tcp/messages.hpp"

namespace hmc::bootstrap {

/// Plain state, no sockets. A rank waits for one key at a time: a new lookup replaces its last.
class StoreKeys {
 public:
  /// Replies that are due now: to the publisher first, then to those who waited.
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
