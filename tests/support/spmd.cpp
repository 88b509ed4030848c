#include "tests/support/spmd.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "bootstrap/inproc.hpp"

namespace hmc::spmd {

namespace {

struct Test {
  std::string name;
  TestFunction function;
};

// A function, not a namespace-scope object: the initialisers of other files register tests.
std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}

std::vector<Test> chosen(const Options& options) {
  std::vector<Test> some;
  for (const Test& test : tests())
    if (test.name.find(options.filter) != std::string::npos) some.push_back(test);
  return some;
}

[[noreturn]] void usage(const std::string& wrong) {
  std::fprintf(stderr,
               "%s\nusage: --ranks N [--nodes K] [--filter TEXT] [--seed N] [--set KEY=VALUE] [--list]\n"
               "       (under hmcrun, without --ranks and --nodes)\n",
               wrong.c_str());
  std::exit(2);
}

Options parse(int argc, char** argv) {
  Options options;
  options.processes = std::getenv("HMC_RANK") != nullptr;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const auto value = [&]() -> std::string {
      if (i + 1 >= argc) usage(std::string(word) + " wants a value");
      return argv[++i];
    };
    if (word == "--list")
      options.list = true;
    else if (word == "--threads")
      continue;  // the default without hmcrun
    else if (word == "--ranks")
      options.ranks = std::stoi(value());
    else if (word == "--nodes")
      options.nodes = std::stoi(value());
    else if (word == "--filter")
      options.filter = value();
    else if (word == "--seed")
      options.seed = std::stoull(value());
    else if (word == "--set") {
      const std::string pair = value();
      const auto equals = pair.find('=');
      if (equals == std::string::npos) usage("--set wants KEY=VALUE");
      options.settings[pair.substr(0, equals)] = pair.substr(equals + 1);
    } else
      usage("what is '" + std::string(word) + "'?");
  }
  return options;
}

/// The results of all ranks in this process.
struct Tally {
  std::mutex mutex;
  int passed = 0;
  int skipped = 0;
  int failed = 0;
  std::atomic<bool> broken{false};  ///< the job was aborted: no rank starts another test in it

  void report(int rank, const char* verdict, const std::string& test, const std::string& text) {
    const std::lock_guard lock(mutex);
    std::printf("[%s] rank %d: %s%s%s\n", verdict, rank, test.c_str(), text.empty() ? "" : ": ", text.c_str());
    std::fflush(stdout);
  }
};

/// The exit code for "skipped" (SKIP_RETURN_CODE in SpmdTest.cmake).
constexpr int exit_all_skipped = 77;

int exit_status(const Tally& tally) {
  if (tally.failed > 0 || tally.passed + tally.skipped == 0) return 1;
  return tally.passed == 0 ? exit_all_skipped : 0;
}

bool is_echo(const Error& error) { return error.code() == Code::aborted || error.code() == Code::peer_failed; }

/// Returns false if the job is broken afterwards.
bool run_one(const Test& test, Member& member, TestRank& me, Tally& tally) {
  const auto start = std::chrono::steady_clock::now();
  std::string skipped;
  std::string wrong;
  bool echo = false;
  try {
    try {
      test.function(me);
    } catch (const Skipped& reason) {
      skipped = reason.what();
    }
    member.barrier();
  } catch (const Error& error) {
    wrong = error.what();
    echo = is_echo(error);
  } catch (const std::exception& error) {
    wrong = error.what();
  }
  if (!wrong.empty()) {
    tally.broken = true;
    tally.report(me.rank, echo ? "ended " : "FAILED", test.name, wrong);
    member.abort("test " + test.name + " failed: " + wrong);
    return false;
  }
  if (me.rank == 0) {
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start);
    ++(skipped.empty() ? tally.passed : tally.skipped);
    tally.report(0, skipped.empty() ? "  ok  " : " skip ", test.name,
                 skipped.empty() ? std::to_string(ms.count()) + " ms" : skipped);
  }
  return true;
}

/// Runs tests [first, ...) as one rank; returns the number of tests that were started.
std::size_t run_rank(const std::vector<Test>& some, std::size_t first, Member& member, TestRank& me, Tally& tally) {
  member.attach(me);
  std::size_t i = first;
  while (i < some.size())
    if (!run_one(some[i++], member, me, tally)) return i - first;
  try {
    member.close();
  } catch (const std::exception& error) {
    tally.broken = true;
    tally.report(me.rank, "FAILED", "close", error.what());
    member.abort(error.what());
  }
  return i - first;
}

std::size_t run_threads(const std::vector<Test>& some, std::size_t first, const Options& options, Joiner& joiner,
                        Tally& tally) {
  auto places = bootstrap::make_inproc(options.ranks, options.nodes);
  std::atomic<std::size_t> tried{0};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < options.ranks; ++rank) {
    threads.emplace_back([&, rank, place = std::move(places[static_cast<std::size_t>(rank)])]() mutable {
      try {
        const base::Env env = base::Env::from_process();
        auto member = joiner.join_as_thread(std::move(place), env);
        TestRank me{rank, options.ranks, options, env};
        const std::size_t mine = run_rank(some, first, *member, me, tally);
        std::size_t seen = tried.load();
        while (seen < mine && !tried.compare_exchange_weak(seen, mine)) {
        }
      } catch (const std::exception& error) {
        tally.broken = true;
        tally.report(rank, "FAILED", "joining the job", error.what());
        std::_Exit(1);  // its peers wait for it in the rendezvous, and there is no Member to abort
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (tally.broken) ++tally.failed;
  return tried;
}

int run_processes(const std::vector<Test>& some, const Options& options, Joiner& joiner, Tally& tally) {
  const base::Env env = base::Env::from_process();
  auto member = joiner.join_as_process(env);
  TestRank me{0, 1, options, env};
  run_rank(some, 0, *member, me, tally);
  if (tally.broken) {
    std::fflush(nullptr);
    std::_Exit(1);  // the job was aborted; a destructor might block
  }
  if (me.rank == 0)
    std::printf("%d passed, %d skipped, 0 failed (%d ranks as processes)\n", tally.passed, tally.skipped, me.size);
  return me.rank == 0 ? exit_status(tally) : 0;
}

}  // namespace

Registered::Registered(const char* suite, const char* name, TestFunction function) {
  tests().push_back({std::string(suite) + "." + name, function});
}

int run(int argc, char** argv, Joiner& joiner) {
  Options options = parse(argc, argv);
  const std::vector<Test> some = chosen(options);
  if (options.list) {
    for (const Test& test : some) std::printf("%s\n", test.name.c_str());
    return 0;
  }
  if (some.empty()) usage("no test has '" + options.filter + "' in its name");
  Tally tally;
  if (options.processes) return run_processes(some, options, joiner, tally);
  for (std::size_t first = 0; first < some.size();) {
    tally.broken = false;
    first += std::max<std::size_t>(1, run_threads(some, first, options, joiner, tally));
  }
  std::printf("%d passed, %d skipped, %d failed (%d ranks as threads on %d nodes)\n", tally.passed, tally.skipped,
              tally.failed, options.ranks, options.nodes);
  return exit_status(tally);
}

}  // namespace hmc::spmd
