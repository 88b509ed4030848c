// join_over: joins a job whose launcher only passes one text from rank 0 to the other ranks.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <hmc/key_value_store.hpp>

#include "bootstrap/bootstrap.hpp"
#include "runtime/base/env.hpp"

namespace hmc::bootstrap {

/// Passes the text from rank 0 to the other ranks. Every rank calls one of the two functions once, so both may be
/// collective. Throws Error.
class RecordExchange {
 public:
  RecordExchange() = default;
  RecordExchange(const RecordExchange&) = delete;
  RecordExchange& operator=(const RecordExchange&) = delete;
  virtual ~RecordExchange() = default;
  virtual void publish(const std::string& record, base::Deadline deadline) = 0;  ///< rank 0; no spaces
  virtual std::string fetch(base::Deadline deadline) = 0;                        ///< the other ranks
};

struct Member {
  int rank = 0;
  int size = 1;
  std::string launcher;                   ///< for Runtime::launcher()
  bool on_one_node = false;               ///< all ranks are on this machine, so the store needs no network
  std::function<void()> check = nullptr;  ///< called while this rank waits for the others; throws to end the wait
  bool starts_once = false;               ///< the launcher starts each rank once: Team::grow is unavailable
};

/// Rank 0 runs the store on a free port and publishes {secret, machine, addresses}; the others connect to the first of
/// these addresses that answers. HMC_SECRET, if set, replaces the random secret and isn't published. Throws Error.
std::unique_ptr<Bootstrap> join_over(RecordExchange& exchange, const Member& member, base::Env env,
                                     base::Deadline deadline);

/// Rank 0 runs the store, and all ranks know its host and port. The process's next jobs use the next ports. Needs
/// HMC_SECRET. Throws Error.
std::unique_ptr<Bootstrap> join_at(const std::string& host, int port, const Member& member, base::Env env,
                                   base::Deadline deadline);

/// Runtime::init(store, rank, size).
std::unique_ptr<Bootstrap> join_over(const KeyValueStore& store, int rank, int size, const base::Env& env);

}  // namespace hmc::bootstrap
