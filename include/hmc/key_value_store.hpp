// KeyValueStore: a store of the embedding program, through which ranks find each other.
#pragma once

#include <functional>
#include <string>

#include <hmc/request.hpp>

namespace hmc {

/// For Runtime::init. Rank 0 sets one key to a text of at most 1,000 characters, and the other ranks get it, several
/// times while they wait for the others. A text that an earlier job has left in the store is replaced by rank 0. Keys
/// begin with "hmc" and have at most 64 characters. A function that fails throws.
///
/// Only the thread that calls Runtime::init calls the functions, before init returns. If HMC_SECRET isn't set, the text
/// contains the job's secret: then the store must be private to the job.
struct KeyValueStore {
  std::function<void(const std::string& key, const std::string& value)> set;
  /// Waits until the key is set, at most `timeout`, and returns its value. May be called again for the same key.
  std::function<std::string(const std::string& key, Timeout timeout)> get;
  /// Optional. If the key's value is `expected` (empty: the key isn't set), sets it to `desired`. Returns the value
  /// after the call. Each rank then claims a key of its own, so a second process with the same rank fails at once.
  std::function<std::string(const std::string& key, const std::string& expected, const std::string& desired)>
      compare_set;
};

}  // namespace hmc
