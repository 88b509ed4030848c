// A complete job in one process, over any kind of bootstrap.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <ostream>
#include <string>
#include <vector>

#include <hmc/error.hpp>
#include <hmc/key_value_store.hpp>

#include "bootstrap/bootstrap.hpp"
#include "bootstrap/tcp/node_agent.hpp"
#include "bootstrap/tcp/store_server.hpp"
#include "runtime/base/env.hpp"

namespace hmc::bootstrap::test {

enum class Kind { inproc, tcp, tcp6, by_hand, over_store };
const char* name_of(Kind kind) noexcept;

struct Shape {
  Kind kind = Kind::inproc;
  int size = 1;
  int nodes = 1;
  int node_of(int rank) const noexcept { return rank * nodes / size; }
};
std::ostream& operator<<(std::ostream& out, const Shape& shape);

/// All kinds with sizes 1 2 3 4 5 8, from one node to one node per rank.
std::vector<Shape> all_shapes(int least_size);
/// Of all_shapes: few of each kind, with one rank per node, several, and both. For tests that wait for a deadline.
std::vector<Shape> some_shapes();

inline base::Deadline soon() { return base::Deadline::after(std::chrono::seconds(20)); }
inline base::Deadline in_ms(int ms) { return base::Deadline::after(std::chrono::milliseconds(ms)); }

/// A loopback address with a port that is free at the time of the call.
std::string free_address();
bool has_ipv6();

/// Serves the store and an agent per node, as hmcrun does (Kind::tcp, tcp6).
class TestServers {
 public:
  explicit TestServers(const Shape& shape, control::Secret secret = control::Secret::random());
  base::Env env(int rank) const;
  StoreServer& store() { return *store_; }
  NodeAgent& agent(int node) { return *agents_[static_cast<std::size_t>(node)]; }
  const control::Secret& secret() const { return secret_; }

 private:
  Shape shape_;
  control::Secret secret_;
  std::unique_ptr<StoreServer> store_;
  std::vector<std::unique_ptr<NodeAgent>> agents_;
};

/// A KeyValueStore for ranks that are threads of this process.
class MemoryStore {
 public:
  KeyValueStore store();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

/// Thrown by a rank of a test that ends without a goodbye.
struct Gone {};

using Program = std::function<void(Bootstrap&)>;
/// Runs `program` for every rank, one thread per rank; each rank then sends its goodbye. An exception of a rank, except
/// Gone, is a test failure.
void run_job(const Shape& shape, const Program& program);
/// As run_job, with servers that the test creates.
void run_ranks(const Shape& shape, const std::function<base::Env(int)>& env, const Program& program);

/// The Error that `call` throws; an Error with Code::success if it doesn't throw.
Error error_of(const std::function<void()>& call);

}  // namespace hmc::bootstrap::test
