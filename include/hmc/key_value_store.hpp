// KeyValueStore: a store of the embedding program, through which ranks find each other.
#pragma once

#include <functional>
#include <string>

#include <hmc/request.hpp>

namespace hmc {

/// For Runtime::init. Rank 0 sets one key of at most 64 characters to a text of at most 1,000 characters, and the
/// others get it. The keys begin with "hmc". A function that fails throws.
///
/// Calls come from the thread that calls Runtime::init, and only until it returns. If HMC_SECRET isn't set, the text
/// contains the job's secret: the store must be private to the job.
struct KeyValueStore {
  std::function<void(const std::string& key, const std::string& value)> set;
  /// Waits until the key is set, at most `timeout`, and returns its value.
  std::function<std::string(const std::string& key, Timeout timeout)> get;
  /// Optional. If the key's value is `expected` (empty: the key isn't set), sets it to `desired`. Returns the value
  /// after the call. With it, a second process that claims a rank gets an error at once.
  std::function<std::string(const std::string& key, const std::string& expected, const std::string& desired)>
      compare_set;
};

}  // namespace hmc
