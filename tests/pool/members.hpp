// Programs of several processes that form pools. They run under hmcrun, or start their processes themselves:
//   hmcrun -np 4 [--nodes 2] PROGRAM [filter]      PROGRAM --fork 4 [--nodes 2] [filter]
#pragma once

#include <fmt/format.h>
#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <hmc/pool.hpp>

#include "tests/support/check.hpp"
#include "tests/support/code_of.hpp"
#include "tests/support/pattern.hpp"

namespace hmc::test {

/// One process of the program. A failed check (tests/support/check.hpp) ends the process with 1.
class Process {
 public:
  Process(int rank, int size, int nodes);
  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  int nodes() const noexcept { return nodes_; }
  int node_of(int rank) const noexcept { return rank * nodes_ / size_; }
  const Store& store() const noexcept { return store_; }
  /// Of all processes.
  void barrier() { store_.barrier("test", size_, rank_, std::chrono::seconds(60)); }
  std::vector<std::string> allgather(std::string_view mine) {
    return store_.allgather("test", size_, rank_, mine, std::chrono::seconds(60));
  }
  /// A name that no earlier case has used.
  std::string new_name() { return fmt::format("{}-{}", case_, ++names_); }
  void begin(std::string name) {
    case_ = std::move(name);
    barrier();
  }

 private:
  int rank_, size_, nodes_;
  Store store_;
  std::string case_;
  int names_ = 0;
};

struct Case {
  const char* name;
  void (*run)(Process& me);
};
int run_cases(int argc, char** argv, const std::vector<Case>& cases);

/// The bytes are the pattern of (rank, call) from byte `from` on.
inline void check_pattern(const spmd::Pattern& pattern, const void* bytes, std::size_t count, std::uint64_t from = 0) {
  const std::string wrong = pattern.verify({static_cast<const std::byte*>(bytes), count}, from);
  HMC_CHECK_MSG(wrong.empty(), "{}", wrong);
}
/// A StoreService in a process of its own; returns its address. The caller has no threads.
std::string fork_store(pid_t& pid);
/// Waits for a condition that another process makes true.
void wait_until(const std::function<bool()>& is_true);

}  // namespace hmc::test
