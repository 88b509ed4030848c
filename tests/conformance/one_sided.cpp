// Wires whose target's CPU takes no part: a stopped target, a killed peer, and atomics from several devices.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/conformance/fixture.hpp"

namespace hmc::conformance {

using spmd::Pattern;

namespace {

void skip_unless_processes(Fixture& on) {
  const std::byte mine{on.wire().capabilities().one_sided};
  for (const base::Bytes& rank : on.allgather(std::span(&mine, 1)))
    if (rank.front() == std::byte{0}) spmd::skip("this wire's verbs need the target's CPU");
  if (on.wire().capabilities().direct) spmd::skip("this wire's verbs are loads and stores");
  if (!on.me.options.processes) spmd::skip("for ranks that are processes");
  if (on.me.size < 2) spmd::skip("for two ranks");
}

/// Waits until the process doesn't run: state T (stopped) or no such process.
void await_state(pid_t process, bool gone) {
  const auto limit = std::chrono::steady_clock::now() + wait_timeout;
  for (;;) {
    std::ifstream file("/proc/" + std::to_string(process) + "/stat");
    std::string stat;
    std::getline(file, stat);
    const bool zombie = stat.find(") Z ") != std::string::npos;
    if (gone ? stat.empty() || zombie : stat.find(") T ") != std::string::npos) return;
    HMC_CHECK_MSG(std::chrono::steady_clock::now() < limit, "process {} has the state: {}", process, stat);
    std::this_thread::yield();
  }
}

/// The process id of every rank, by the windows' own verbs: this also connects every pair.
std::vector<pid_t> exchange_processes(Fixture& on, const Window& window, std::uint64_t at) {
  const auto process = static_cast<std::uint64_t>(::getpid());
  for (const int peer : on.peers()) {
    window.put(peer, at + 8 * static_cast<std::uint64_t>(on.me.rank), std::as_bytes(std::span(&process, 1)));
    (void)window.atomic(peer, at + 8 * static_cast<std::uint64_t>(on.me.size), AtomicOp::fetch_add, 8, 0);
  }
  on.settle();
  std::vector<pid_t> processes;
  for (int rank = 0; rank < on.me.size; ++rank)
    processes.push_back(static_cast<pid_t>(*window.word(at + 8 * static_cast<std::uint64_t>(rank))));
  on.barrier();
  return processes;
}

}  // namespace

// All threads of the target are stopped, so only its device can execute the verbs.
HMC_SPMD_TEST(OneSided, verbs_complete_at_a_stopped_target) {
  Fixture on(me);
  skip_unless_processes(on);
  constexpr std::size_t bytes = 300000;
  constexpr std::uint64_t words = 2 * bytes;
  constexpr std::uint64_t processes_at = words + 64;
  Window window(on, processes_at + 8 * static_cast<std::size_t>(me.size + 1));
  Pattern{me.rank, 1}.fill(window.mine().first(bytes));
  const std::vector<pid_t> processes = exchange_processes(on, window, processes_at);
  const int stopped = on.peers().back();
  const auto sent = [&](int rank) { return Pattern{rank, 2}; };
  if (me.rank == stopped) {
    window.put_signal(0, 0, {}, words + 8, 1);
    on.flush();
    ::kill(::getpid(), SIGSTOP);
  } else if (me.rank == 0) {
    window.wait_signal(words + 8, 1);
    const pid_t process = processes[static_cast<std::size_t>(stopped)];
    await_state(process, false);
    std::exception_ptr failure;
    try {
      window.put(stopped, bytes, bytes_of(sent(0), bytes));
      on.flush(stopped);
      std::vector<std::byte> got(bytes);
      window.get(stopped, 0, got);
      HMC_CHECK_CLEAN((Pattern{stopped, 1}.verify(got)));
      window.get(stopped, bytes, got);
      HMC_CHECK_CLEAN(sent(0).verify(got));
      if (!on.wire().capabilities().needs_target) {  // otherwise the target's CPU executes atomics
        HMC_CHECK_EQ(window.atomic(stopped, words, AtomicOp::fetch_add, 8, 5), 0U);
        HMC_CHECK_EQ(window.atomic(stopped, words, AtomicOp::compare_swap, 8, 77, 5), 5U);
        HMC_CHECK_EQ(window.atomic(stopped, words, AtomicOp::swap, 8, 78), 77U);
      }
      await_state(process, false);
    } catch (...) {
      failure = std::current_exception();
    }
    ::kill(process, SIGCONT);
    if (failure != nullptr) std::rethrow_exception(failure);
  }
  on.settle();
  if (me.rank == stopped) {
    HMC_CHECK_CLEAN(sent(0).verify(window.mine().subspan(bytes, bytes)));
    if (!on.wire().capabilities().needs_target) HMC_CHECK_EQ(*window.word(words), 78U);
  }
  window.close();
}

// Operations of all kinds access the same words: native ones and loops of compare-swaps. With
// HMC_RDMA_DEVICE or UCX_NET_DEVICES per rank the requests come from different devices.
HMC_SPMD_TEST(OneSided, atomics_of_all_kinds_are_exact_at_one_target) {
  Fixture on(me);
  constexpr std::uint64_t each = 200;
  Window window(on, 64);
  on.barrier();
  const int target = on.peers().front();
  std::uint64_t returned = 0;
  for (std::uint64_t i = 0; i < each; ++i) {
    (void)window.atomic(target, 0, AtomicOp::add, 8, 1);
    returned += window.atomic(target, 8, AtomicOp::fetch_add, 8, 3);
    (void)window.atomic(target, 16, AtomicOp::add, 4, 1);
    (void)window.atomic(target, 20, AtomicOp::fetch_add, 4, 7);
    (void)window.atomic(target, 0, AtomicOp::bxor, 8, std::uint64_t{1} << 63);
    // A lock-free add by the caller's own compare-swaps.
    std::uint64_t seen = window.atomic(target, 24, AtomicOp::fetch, 8, 0);
    for (std::uint64_t before = seen + 1; before != seen;) {
      before = seen;
      seen = window.atomic(target, 24, AtomicOp::compare_swap, 8, before + 1, before);
    }
  }
  (void)window.atomic(target, 32, AtomicOp::add, 8, returned);
  on.settle();
  const std::uint64_t all = each * on.peers().size();
  if (me.rank == target) {
    HMC_CHECK_EQ(*window.word(0), all);  // an even number of changes of the upper bit
    HMC_CHECK_EQ(*window.word(8), 3 * all);
    HMC_CHECK_EQ(*window.word(16), all | (7 * all) << 32);
    HMC_CHECK_EQ(*window.word(24), all);
    HMC_CHECK_EQ(*window.word(32), 3 * (all * (all - 1) / 2));
  }
  on.barrier();
  window.close();
}

// The last rank kills itself while the others transfer; they continue among themselves.
HMC_SPMD_TEST(OneSided, killed_peer_fails_only_its_own_transfers) {
  Fixture on(me);
  skip_unless_processes(on);
  if (me.options.setting("kill") != "yes") spmd::skip("--set kill=yes: the job ends with this test");
  HMC_CHECK_GE(me.size, 3);
  constexpr std::size_t bytes = 200000;
  Window window(on, 2 * bytes + 8 * static_cast<std::size_t>(me.size + 3));
  Pattern{me.rank, 4}.fill(window.mine().first(bytes));
  const std::vector<pid_t> processes = exchange_processes(on, window, 2 * bytes);
  const int victim = on.peers().back();
  if (me.rank == victim) ::kill(::getpid(), SIGKILL);
  await_state(processes[static_cast<std::size_t>(victim)], true);

  const auto source = bytes_of({me.rank, 5}, bytes);
  const auto outcome_of = [&](auto&& start) {
    Ticket ticket = transport::done;
    base::Status status = start(ticket);
    const auto limit = std::chrono::steady_clock::now() + wait_timeout;
    while (status.ok() && ticket != transport::done) {
      on.wire().progress();
      status = on.wire().test(ticket);
      if (status.ok()) break;
      if (status.code == Code::in_progress) status = {};
      HMC_CHECK_MSG(std::chrono::steady_clock::now() < limit, "a transfer with a killed rank doesn't end");
    }
    return status;
  };
  const auto expect_failure = [&](const base::Status& status) {
    HMC_CHECK_EQ(static_cast<int>(status.code), static_cast<int>(Code::peer_failed));
    HMC_CHECK_EQ(status.peer, victim);
  };
  std::vector<std::byte> got(bytes);
  std::uint64_t result = 0;
  // The kernel releases the victim's memory and connections some time after its main thread has ended; until then its
  // device serves. A put may complete locally; then the flush reports the failure.
  base::Status put;
  const auto limit = std::chrono::steady_clock::now() + wait_timeout;
  while (put.ok()) {
    HMC_CHECK_MSG(std::chrono::steady_clock::now() < limit, "puts to rank {} still complete", victim);
    put = outcome_of([&](Ticket& t) { return window.to(victim).put(0, source.data(), 100, t); });
    if (put.ok()) put = outcome_of([&](Ticket& t) { return on.wire().flush(victim, t); });
  }
  expect_failure(put);
  expect_failure(outcome_of([&](Ticket& t) { return window.to(victim).get(0, got.data(), bytes, t); }));
  expect_failure(outcome_of([&](Ticket& t) {
    return window.to(victim).atomic({AtomicOp::fetch_add, 8, 1, 0}, 2 * bytes, &result, t);
  }));
  // Not by the fixture's waits, which end when the control plane notices the death.
  const auto pass = [&](auto&& start) { on.require(outcome_of(start), "a transfer with a living rank"); };
  for (const int peer : on.peers()) {
    if (peer == victim) continue;
    pass([&](Ticket& t) { return window.to(peer).get(0, got.data(), bytes, t); });
    HMC_CHECK_CLEAN((Pattern{peer, 4}.verify(got)));
    pass([&](Ticket& t) { return window.to(peer).put(bytes, source.data(), bytes, t); });
    pass([&](Ticket& t) { return on.wire().flush(peer, t); });
  }
  // The victim can't take part in a close. A rank that left early would fail the others' transfers.
  const std::uint64_t arrived = 2 * bytes + 8 * static_cast<std::uint64_t>(me.size);
  for (const int peer : on.peers())
    if (peer != victim)
      pass([&](Ticket& t) { return window.to(peer).atomic({AtomicOp::fetch_add, 8, 1, 0}, arrived + 8, &result, t); });
  while (std::atomic_ref(*window.word(arrived + 8)).load() != on.peers().size() - 1) std::this_thread::yield();
  std::fprintf(stderr, "rank %d: the transfers with rank %d failed, the others passed\n", me.rank, victim);
  std::fflush(nullptr);
  ::_exit(0);
}

}  // namespace hmc::conformance
