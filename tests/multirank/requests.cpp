// Requests: transfers in flight.
#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <hmc/hmc.hpp>

#include "tests/multirank/stopped_peer.hpp"
#include "tests/support/pattern.hpp"
#include "tests/support/spmd.hpp"

namespace {

using namespace std::chrono_literals;
using hmc::Request;
using hmc::Window;
using hmc::spmd::Pattern;
using hmc::spmd::TestRank;
using Clock = std::chrono::steady_clock;

/// More than a wire sends at once, so that a transfer that isn't a plain copy stays in flight.
constexpr std::size_t piece = 3001;

}  // namespace

HMC_SPMD_TEST(Requests, empty_request_is_done) {
  Request request;
  HMC_CHECK(request.test());
  request.wait();
  request.wait(0ns);
  Request none[2];
  Request::wait_all(none);
  HMC_CHECK_EQ(Request::wait_any(none), Request::none);
  HMC_CHECK_EQ(Request::wait_any({}), Request::none);
}

// Each rank draws tickets at every rank, and claims slots by compare_swap, with all atomics in flight at once.
HMC_SPMD_TEST(Requests, atomics_in_flight_return_each_old_value_once) {
  constexpr std::uint64_t draws = 300;
  const auto size = static_cast<std::uint64_t>(me.size);
  const std::uint64_t slots = size * draws;
  Window win = Window::create(me.runtime->world(), 24 + 8 * slots);
  std::vector<std::uint64_t> tickets(slots), owners(slots);
  std::vector<std::uint32_t> narrow(slots + 1, 0xabcdefU);
  std::vector<Request> requests;
  for (std::uint64_t i = 0; i < slots; ++i)
    requests.push_back(win.fetch_add_nb(static_cast<int>(i % size), 0, 1, &tickets[i]));
  for (std::uint64_t i = 0; i < slots; ++i)
    requests.push_back(win.fetch_add_nb(static_cast<int>(i % size), 8, 3, &narrow[i]));
  Request::wait_all(requests);
  HMC_CHECK_EQ(narrow[slots], 0xabcdefU);  // a 32-bit result doesn't overwrite its neighbour
  requests.clear();
  for (std::uint64_t i = 0; i < slots; ++i)
    requests.push_back(win.compare_swap_nb(static_cast<int>(i % size), 16 + 8 * tickets[i], 0,
                                           static_cast<std::uint64_t>(me.rank) + 1, &owners[i]));
  std::uint64_t before = 7;
  requests.push_back(win.swap_nb(me.next(), 16 + 8 * slots, static_cast<std::uint64_t>(me.rank) + 50, &before));
  while (!std::ranges::all_of(requests, [](Request& request) { return request.test(); })) {
  }
  for (const std::uint64_t owner : owners) HMC_CHECK_EQ(owner, 0U);  // no other rank got this ticket
  HMC_CHECK_EQ(before, 0U);
  me.runtime->world().barrier();
  HMC_CHECK_EQ(*win.local<std::uint64_t>(16 + 8 * slots), static_cast<std::uint64_t>(me.previous()) + 50);
  std::vector<std::uint64_t> claimed(slots);
  requests.clear();
  for (std::uint64_t i = 0; i < slots; ++i) requests.push_back(win.fetch_nb(me.next(), 16 + 8 * i, &claimed[i]));
  Request::wait_all(requests);
  for (int rank = 0; rank < me.size; ++rank)
    HMC_CHECK_EQ(std::ranges::count(claimed, static_cast<std::uint64_t>(rank) + 1), static_cast<std::ptrdiff_t>(draws));
  HMC_CHECK_EQ(win.fetch<std::uint32_t>(me.next(), 8), static_cast<std::uint32_t>(3 * slots));
  me.runtime->world().barrier();
  win.close();
}

// Each rank waits for its predecessor's swap and doesn't look at its own requests. No word has the value that a wire
// without these atomics expects first.
HMC_SPMD_TEST(Requests, atomics_in_flight_continue_while_the_rank_waits_for_a_word) {
  Window win = Window::create(me.runtime->world(), 64);
  for (std::uint64_t round = 1; round <= 50; ++round) {
    *win.local<std::uint64_t>(0) = 1000 + round;
    *win.local<std::uint32_t>(8) = 7;
    *win.local<std::uint32_t>(12) = 9;
    me.runtime->world().barrier();
    const auto value_of = [&](int rank) { return 5000 * round + static_cast<std::uint64_t>(rank); };
    std::uint64_t old = 0;
    std::uint32_t narrow = 0;
    Request requests[2] = {
        win.fetch_add_nb<std::uint32_t>(me.next(), 8, 30 + static_cast<std::uint32_t>(me.rank), &narrow),
        win.swap_nb(me.next(), 0, value_of(me.rank), &old)};
    win.wait_until(0, hmc::Cmp::eq, value_of(me.previous()), 30s);
    Request::wait_all(requests);
    HMC_CHECK_EQ(old, 1000 + round);
    HMC_CHECK_EQ(narrow, 7U);
    me.runtime->world().barrier();
    HMC_CHECK_EQ(*win.local<std::uint32_t>(8), 37 + static_cast<std::uint32_t>(me.previous()));
    HMC_CHECK_EQ(*win.local<std::uint32_t>(12), 9U);
  }
  win.close();
}

// The progress thread continues the allreduce, whose last rank is late, while the rank uses the same wire.
HMC_SPMD_TEST(Requests, verbs_and_collectives_of_the_progress_thread_use_a_wire_at_the_same_time) {
  constexpr std::size_t count = 20'000;
  Window win = Window::create(me.runtime->world(), 1 << 16);
  std::vector<double> in(count), out(count);
  std::vector<std::byte> sent(9'000), got(9'000);
  std::uint64_t draws = 0;
  for (int round = 0; round < 20; ++round) {
    for (std::size_t i = 0; i < count; ++i) in[i] = static_cast<double>(i + 1) * (me.rank + round + 1);
    if (round % me.size == me.rank) std::this_thread::sleep_for(3ms);
    Request request = me.runtime->world().iallreduce(std::span<const double>(in), std::span<double>(out), hmc::sum);
    const auto end = Clock::now() + 6ms;
    for (std::uint64_t call = 0; call < 10 || Clock::now() < end; ++call) {
      const Pattern pattern{me.rank, static_cast<std::uint64_t>(round) << 32 | call};
      pattern.fill(sent);
      win.put(me.next(), 64, sent.data(), sent.size());
      win.fence();
      win.get(me.next(), 64, got.data(), got.size());
      HMC_CHECK_CLEAN(pattern.verify(got));
      HMC_CHECK_EQ(win.fetch_add<std::uint64_t>(me.next(), 0, 1), draws++);
    }
    request.wait();
    const double ranks = me.size * (me.size + 1) / 2.0 + round * me.size;
    for (std::size_t i = 0; i < count; ++i) HMC_CHECK_EQ(out[i], static_cast<double>(i + 1) * ranks);
  }
  me.runtime->world().barrier();
  win.close();
}

HMC_SPMD_TEST(Requests, many_requests_in_flight_complete) {
  constexpr std::size_t count = 1000;
  Window win = Window::create(me.runtime->world(), count * piece);
  std::vector<std::byte> source(count * piece);
  Pattern{me.rank, 1}.fill(source);
  std::vector<Request> requests;
  for (std::size_t i = 0; i < count; ++i)
    requests.push_back(win.put_nb(me.next(), i * piece, source.data() + i * piece, piece));
  Request::wait_all(requests);
  for (Request& request : requests) HMC_CHECK(request.test());
  win.flush();
  me.runtime->world().barrier();
  HMC_CHECK_CLEAN((Pattern{me.previous(), 1}.verify({win.data(), count * piece})));
  me.runtime->world().barrier();

  std::vector<std::byte> got(count * piece);
  requests.clear();
  for (std::size_t i = 0; i < count; ++i)
    requests.push_back(win.get_nb(me.next(), i * piece, got.data() + i * piece, piece));
  std::reverse(requests.begin(), requests.end());  // waited for in reverse order
  for (Request& request : requests) request.wait();
  HMC_CHECK_CLEAN((Pattern{me.rank, 1}.verify(got)));
  me.runtime->world().barrier();
  win.close();
}

// As MPI_Waitany: a returned request becomes empty and isn't returned again. The array isn't reordered.
HMC_SPMD_TEST(Requests, wait_any_returns_each_request_once) {
  constexpr std::size_t count = 50;
  Window win = Window::create(me.runtime->world(), count * piece);
  Pattern{me.rank, 3}.fill({win.data(), count * piece});
  me.runtime->world().barrier();
  std::vector<std::byte> got(count * piece);
  std::vector<Request> requests(2 * count);  // every other request is empty from the start
  for (std::size_t i = 0; i < count; ++i)
    requests[2 * i] = win.get_nb(me.next(), i * piece, got.data() + i * piece, piece);
  std::vector<int> times(requests.size());
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t index = Request::wait_any(requests);
    HMC_CHECK_LT(index, requests.size());
    HMC_CHECK_EQ(index % 2, 0U);
    HMC_CHECK_EQ(++times[index], 1);
    const std::span<const std::byte> bytes(got.data() + index / 2 * piece, piece);
    HMC_CHECK_CLEAN((Pattern{me.next(), 3}.verify(bytes, index / 2 * piece)));
    HMC_CHECK(requests[index].test());
  }
  HMC_CHECK_EQ(Request::wait_any(requests), Request::none);
  me.runtime->world().barrier();
  win.close();
}

// wait_any doesn't return a request whose completion test() or wait() has reported.
HMC_SPMD_TEST(Requests, wait_any_ignores_completed_requests) {
  Window win = Window::create(me.runtime->world(), 3 * piece);
  std::vector<std::byte> got(3 * piece);
  std::vector<Request> requests;
  for (std::size_t i = 0; i < 3; ++i)
    requests.push_back(win.get_nb(me.next(), i * piece, got.data() + i * piece, piece));
  requests[0].wait();
  HMC_CHECK_NE(Request::wait_any(requests), 0U);
  HMC_CHECK_NE(Request::wait_any(requests), 0U);
  HMC_CHECK_EQ(Request::wait_any(requests), Request::none);
  me.runtime->world().barrier();
  win.close();
}

HMC_SPMD_TEST(Requests, request_of_a_closed_window_reports_closed) {
  const auto large = std::size_t{1} << 20;
  std::vector<std::byte> bytes(large), more(large);
  Request kept, other;
  {
    Window win = Window::create(me.runtime->world(), large);
    kept = win.get_nb(me.next(), 0, bytes.data(), large);
    other = win.get_nb(me.next(), 0, more.data(), large);
    me.runtime->world().barrier();
    if (me.runtime->path(me.next()).direct) {
      kept.wait();  // a direct get completed at once, and stays complete
      win.close();
      HMC_CHECK(kept.test());
      return;
    }
    win.close();
    HMC_CHECK_THROWS(hmc::Code::closed, other.test());
  }
  HMC_CHECK_THROWS(hmc::Code::closed, kept.wait());
  HMC_CHECK(kept.test());  // reported once; now empty
}

// Destroying a window while transfers are in flight releases the caller's memory.
HMC_SPMD_TEST(Requests, destroyed_window_abandons_requests_in_flight) {
  const auto large = std::size_t{4} << 20;
  std::vector<std::byte> got(large);
  Request request;
  {
    Window win = Window::create(me.runtime->world(), large);
    Pattern{me.rank, 8}.fill({win.data(), large});
    me.runtime->world().barrier();
    {
      Window mine = std::move(win);
      request = mine.get_nb(me.next(), 0, got.data(), large);
      win = std::move(mine);
    }
    if (me.rank % 2 == 0) win = Window();  // the peers keep their windows: only local state is released
    if (me.rank % 2 == 0) std::fill(got.begin(), got.end(), std::byte{0x5a});
    me.runtime->world().barrier();
    if (me.rank % 2 == 0 && !me.runtime->path(me.next()).direct)
      HMC_CHECK_THROWS(hmc::Code::closed, Request::wait_any({&request, 1}));
  }
  for (int i = 0; i < 20; ++i) me.runtime->world().barrier();  // drives progress of the wires
  if (me.rank % 2 == 0)
    HMC_CHECK_EQ(std::count(got.begin(), got.end(), std::byte{0x5a}), static_cast<std::ptrdiff_t>(large));
}

HMC_SPMD_TEST(Requests, abandoned_request_is_empty_and_releases_its_buffer) {
  const auto large = std::size_t{4} << 20;
  Window win = Window::create(me.runtime->world(), large);
  Pattern{me.rank, 9}.fill({win.data(), large});
  me.runtime->world().barrier();
  std::vector<std::byte> got(large);
  Request request = win.get_nb(me.next(), 0, got.data(), large);
  request.abandon();
  std::fill(got.begin(), got.end(), std::byte{0x5a});
  HMC_CHECK(request.test());
  HMC_CHECK_EQ(Request::wait_any({&request, 1}), Request::none);
  win.flush();
  HMC_CHECK_EQ(std::count(got.begin(), got.end(), std::byte{0x5a}), static_cast<std::ptrdiff_t>(large));
  me.runtime->world().barrier();
  win.close();
}

HMC_SPMD_TEST(Requests, test_becomes_true_without_a_wait) {
  constexpr std::size_t bytes = std::size_t{1} << 20;
  Window win = Window::create(me.runtime->world(), bytes);
  Pattern{me.rank, 4}.fill({win.data(), bytes});
  me.runtime->world().barrier();
  std::vector<std::byte> got(bytes);
  Request request = win.get_nb(me.next(), 0, got.data(), bytes);
  const auto deadline = Clock::now() + 30s;
  while (!request.test()) HMC_CHECK(Clock::now() < deadline);
  HMC_CHECK(request.test());
  HMC_CHECK_CLEAN((Pattern{me.next(), 4}.verify(got)));
  me.runtime->world().barrier();
  win.close();
}

// A dropped request's transfer still completes, and flush waits for it.
HMC_SPMD_TEST(Requests, flush_completes_a_dropped_put) {
  constexpr std::size_t large = 100'000;  // more than a wire sends at once
  Window win = Window::create(me.runtime->world(), 20 * large);
  std::vector<std::byte> source(20 * large);
  Pattern{me.rank, 5}.fill(source);
  for (std::size_t i = 0; i < 20; ++i)
    static_cast<void>(win.put_nb(me.next(), i * large, source.data() + i * large, large));
  win.flush();
  std::fill(source.begin(), source.end(), std::byte{0xee});
  me.runtime->world().barrier();
  HMC_CHECK_CLEAN((Pattern{me.previous(), 5}.verify({win.data(), 20 * large})));
  me.runtime->world().barrier();
  win.close();
}

HMC_SPMD_TEST(Requests, flush_completes_a_dropped_get) {
  constexpr std::size_t large = 100'000;
  Window win = Window::create(me.runtime->world(), 20 * large);
  Pattern{me.rank, 7}.fill({win.data(), 20 * large});
  me.runtime->world().barrier();
  win.flush();  // leaves nothing in flight before the gets
  std::vector<std::byte> got(20 * large);
  for (std::size_t i = 0; i < 20; ++i)
    static_cast<void>(win.get_nb(me.next(), i * large, got.data() + i * large, large));
  win.flush();
  HMC_CHECK_CLEAN((Pattern{me.next(), 7}.verify(got)));
  me.runtime->world().barrier();
  win.close();
}

// On a wire that needs the target's CPU a stopped process can't answer. The wait times out, the request stays valid,
// and it completes once the process continues.
HMC_SPMD_TEST(Requests, request_stays_valid_after_a_timeout) {
  if (!me.options.processes || me.size < 2) hmc::spmd::skip("it needs a peer in another process");
  const hmc::Path path = me.runtime->path(me.size - 1);
  const bool by_device = path.wire == "verbs" || path.why.find("one-sided put and get by") != std::string::npos;
  int direct = path.direct || by_device ? 1 : 0;
  me.runtime->world().broadcast(&direct, sizeof direct, 0);  // rank 0's value counts
  if (direct == 1) hmc::spmd::skip("mapped memory, and memory that a device reads, need no reply of the peer");
  constexpr std::uint64_t signal = (piece + 63) / 64 * 64;
  Window win = Window::create(me.runtime->world(), signal + 64);
  Pattern{me.rank, 6}.fill({win.data(), piece});
  std::vector<std::byte> got(piece);
  if (me.rank == 0) win.get(me.size - 1, 0, got.data(), piece);  // makes the connection
  me.runtime->world().barrier();
  if (me.rank == me.size - 1) {
    hmc::spmd::stand_still(win, 0, signal);
  } else if (me.rank == 0) {
    Request request;
    {
      const hmc::spmd::Standing stands(win, signal);
      request = win.get_nb(me.size - 1, 0, got.data(), piece);
      HMC_CHECK(!request.test());
      const auto start = Clock::now();
      HMC_CHECK_THROWS(hmc::Code::timeout, request.wait(100ms));
      HMC_CHECK_THROWS(hmc::Code::timeout, Request::wait_any({&request, 1}, 50ms));
      HMC_CHECK_THROWS(hmc::Code::timeout, win.flush(me.size - 1, 50ms));
      HMC_CHECK_LT(Clock::now() - start, me.runtime->timeout() / 2);  // by the call's timeout, not the job's
      HMC_CHECK(!request.test());
    }
    request.wait(30s);
    HMC_CHECK_CLEAN((Pattern{me.size - 1, 6}.verify(got)));
  }
  me.runtime->world().barrier();
  win.close();
}
