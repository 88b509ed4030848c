// SPMD tests: every rank of a job runs the same test. Ranks are threads or processes.
//
//   HMC_SPMD_TEST(Put, put_reaches_every_peer) {
//     hmc::Window win = hmc::Window::create(me.runtime->world(), 4096);
//     HMC_CHECK_EQ(win.bytes(), 4096u);
//   }
//
// Two methods start such a program:
//   program --ranks 4 [--nodes 2]     ranks are threads of this process, over the inproc bootstrap
//   hmcrun -np 4 [--nodes 2] program  ranks are processes (HMC_RANK is set)
// Both accept --list, --filter TEXT, --seed N and --set KEY=VALUE.
//
// A failure of one rank aborts the job. If ranks are threads, a new job continues with the next test.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "bootstrap/bootstrap.hpp"
#include "runtime/base/env.hpp"
#include "tests/support/check.hpp"

namespace hmc {
class Runtime;
}

namespace hmc::spmd {

/// The command line's options, the same for all ranks.
struct Options {
  int ranks = 1;
  int nodes = 1;
  bool processes = false;  ///< started by hmcrun
  bool list = false;
  std::string filter;  ///< runs tests whose "suite.name" contains it
  std::uint64_t seed = 1;
  std::map<std::string, std::string> settings;

  std::string setting(const std::string& key, const std::string& fallback = {}) const {
    const auto found = settings.find(key);
    return found == settings.end() ? fallback : found->second;
  }
};

/// One rank in the job. The program's Joiner sets exactly one of `runtime` and `bootstrap`.
struct TestRank {
  int rank = 0;
  int size = 1;
  const Options& options;
  const base::Env& env;
  Runtime* runtime = nullptr;
  bootstrap::Bootstrap* bootstrap = nullptr;

  int next() const { return (rank + 1) % size; }
  int previous() const { return (rank + size - 1) % size; }
};

/// A rank's membership in a job while its tests run.
class Member {
 public:
  virtual ~Member() = default;
  virtual void attach(TestRank& me) = 0;  ///< sets rank, size and one of the pointers
  virtual void barrier() = 0;
  virtual void abort(const std::string& text) noexcept = 0;
  virtual void close() = 0;
};

/// How the ranks of a program join their job.
class Joiner {
 public:
  virtual ~Joiner() = default;
  virtual std::unique_ptr<Member> join_as_thread(std::unique_ptr<bootstrap::Bootstrap> place, const base::Env& env) = 0;
  virtual std::unique_ptr<Member> join_as_process(const base::Env& env) = 0;
};
/// Tests get a Runtime. Link hmc_spmd_main for a main() that uses it.
std::unique_ptr<Joiner> over_runtime();
/// Tests get the Bootstrap without a Runtime.
std::unique_ptr<Joiner> over_bootstrap();

using TestFunction = void (*)(TestRank& me);
struct Registered {
  Registered(const char* suite, const char* name, TestFunction function);
};

/// Runs the registered tests. Returns main()'s exit code: 77 if all of them were skipped.
int run(int argc, char** argv, Joiner& joiner);

}  // namespace hmc::spmd

#define HMC_SPMD_TEST(suite, name)                                                                 \
  static void suite##_##name([[maybe_unused]] ::hmc::spmd::TestRank& me);                          \
  static const ::hmc::spmd::Registered registered_##suite##_##name(#suite, #name, suite##_##name); \
  static void suite##_##name([[maybe_unused]] ::hmc::spmd::TestRank& me)
