// hmc::Store and hmc::StoreService: values, waits, watches, ranks, rounds, numbers, exit; limits and failures.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <fstream>
#include <mutex>
#include <set>
#include <thread>

#include <hmc/store.hpp>

#include "bootstrap/tcp/shared_store_messages.hpp"
#include "bootstrap/tcp/store_client.hpp"
#include "members.hpp"
#include "runtime/control/connection.hpp"
#include "tests/compat/processes.hpp"
#include "tests/support/code_of.hpp"

namespace hmc::test {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr Timeout long_enough = 30s;

/// What callbacks report, and a wait for it. Copies share it: a callback may run after the test's end.
template <typename T> class Inbox {
 public:
  void put(T value) const {
    const std::lock_guard guard(state_->lock);
    state_->values.push_back(std::move(value));
    state_->changed.notify_all();
  }
  std::vector<T> wait(std::size_t count) const {
    std::unique_lock guard(state_->lock);
    EXPECT_TRUE(state_->changed.wait_for(guard, long_enough, [&] { return state_->values.size() >= count; }));
    return state_->values;
  }

 private:
  struct State {
    std::mutex lock;
    std::condition_variable changed;
    std::vector<T> values;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

struct StoreValues : testing::Test {
  StoreService service{"127.0.0.1:0"};
  Store store = Store::connect(service.address());
  Store other = Store::connect(service.address());
};
using StoreRanks = StoreValues;
using StoreRounds = StoreValues;
using StoreNumbers = StoreValues;
using StoreFailure = StoreValues;

TEST_F(StoreValues, any_bytes_are_a_value) {
  const std::string binary("\0\xff\n\0x", 5);
  for (const std::string& value : {std::string(), binary, std::string(store_longest_value, 'v')}) {
    store.set("key", value);
    EXPECT_EQ(other.get("key", Timeout::zero()), value);
  }
  EXPECT_EQ(other.try_get("absent"), std::nullopt);
  EXPECT_TRUE(other.remove("key"));
  EXPECT_FALSE(other.remove("key"));
  EXPECT_EQ(code_of([&] { (void)store.get("key", Timeout::zero()); }), Code::not_found);
}

TEST_F(StoreValues, limits_are_checked_by_the_client) {
  EXPECT_EQ(code_of([&] { store.set("", "v"); }), Code::invalid_argument);
  EXPECT_EQ(code_of([&] { store.set(std::string(store_longest_key + 1, 'k'), "v"); }), Code::invalid_argument);
  EXPECT_EQ(code_of([&] { store.set("k", std::string(store_longest_value + 1, 'v')); }), Code::invalid_argument);
  store.set(std::string(store_longest_key, 'k'), "v");
  EXPECT_EQ(other.get(std::string(store_longest_key, 'k')), "v");
  EXPECT_EQ(code_of([&] { store.with_prefix("p").set(std::string(store_longest_key - 1, 'k'), "v"); }),
            Code::invalid_argument);
}

TEST_F(StoreValues, negative_timeout_is_rejected) {
  const Timeout negative{-2};
  EXPECT_EQ(code_of([&] { (void)store.get("k", negative); }), Code::invalid_argument);
  EXPECT_EQ(code_of([&] { store.barrier("b", 1, 0, negative); }), Code::invalid_argument);
  EXPECT_EQ(code_of([&] { (void)Store::connect(service.address(), negative); }), Code::invalid_argument);
}

TEST_F(StoreValues, limits_are_checked_by_the_server) {
  bootstrap::StoreCall call;
  call.op = bootstrap::StoreOp::set;
  EXPECT_EQ(code_of([&] { (void)store.client()->call("test", call); }), Code::invalid_argument);
  call.key.assign(store_longest_key + 1, 'k');
  EXPECT_EQ(code_of([&] { (void)store.client()->call("test", call); }), Code::invalid_argument);
  call.key = "k";
  call.value.resize(store_longest_value + 1);
  EXPECT_EQ(code_of([&] { (void)store.client()->call("test", call); }), Code::invalid_argument);
  call.op = bootstrap::StoreOp::write;
  for (const std::int64_t offset : {std::int64_t{1}, std::int64_t{-1}, INT64_MAX, INT64_MIN}) {
    call.value.resize(store_longest_value);
    call.number = offset;
    EXPECT_EQ(code_of([&] { (void)store.client()->call("test", call); }), Code::invalid_argument) << offset;
  }
  EXPECT_EQ(store.count(), 0U);
  EXPECT_TRUE(store.is_connected());
}

TEST_F(StoreValues, add_keeps_a_decimal_number) {
  EXPECT_EQ(store.add("n", 5), 5);
  EXPECT_EQ(other.add("n", -12), -7);
  EXPECT_EQ(store.get("n"), "-7");
  store.set("n", std::to_string(INT64_MAX));
  EXPECT_EQ(code_of([&] { (void)store.add("n", 1); }), Code::invalid_argument);
  EXPECT_EQ(store.get("n"), std::to_string(INT64_MAX));
  for (const char* const text : {"", "7x", " 7", "99999999999999999999"}) {
    store.set("n", text);
    EXPECT_EQ(code_of([&] { (void)store.add("n", 1); }), Code::invalid_argument) << text;
  }
}

TEST_F(StoreValues, append_and_write_return_the_length) {
  EXPECT_EQ(store.append("a", "abc"), 3U);
  EXPECT_EQ(other.append("a", ""), 3U);
  EXPECT_EQ(other.append("a", "de"), 5U);
  EXPECT_EQ(store.write("a", 1, "XY"), 5U);
  EXPECT_EQ(store.write("a", 7, "Z"), 8U);
  EXPECT_EQ(store.get("a"), std::string("aXYde\0\0Z", 8));
}

TEST_F(StoreValues, compare_and_swap_distinguishes_absent_and_empty) {
  const auto first = store.compare_and_swap("k", std::nullopt, "");
  EXPECT_TRUE(first.swapped);
  EXPECT_EQ(first.before, std::nullopt);
  const auto second = other.compare_and_swap("k", std::nullopt, "x");
  EXPECT_FALSE(second.swapped);
  EXPECT_EQ(second.before, "");
  EXPECT_TRUE(other.compare_and_swap("k", "", "x").swapped);
  const auto third = other.compare_and_swap("k", "y", "z");
  EXPECT_FALSE(third.swapped);
  EXPECT_EQ(third.before, "x");
  EXPECT_FALSE(other.compare_and_swap("absent", "", "z").swapped);
  EXPECT_EQ(other.try_get("absent"), std::nullopt);
}

TEST_F(StoreValues, concurrent_swaps_lose_no_update) {
  constexpr int threads = 4, rounds = 200;
  store.set("n", "0");
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([&] {
      const Store mine = Store::connect(service.address());
      for (int i = 0; i < rounds; ++i) {
        std::string seen = mine.get("n");
        for (;;) {
          const auto swap = mine.compare_and_swap("n", seen, std::to_string(std::stoi(seen) + 1));
          if (swap.swapped) break;
          seen = *swap.before;
        }
      }
    });
  }
  for (std::thread& each : workers) each.join();
  EXPECT_EQ(store.get("n"), std::to_string(threads * rounds));
}

TEST_F(StoreValues, concurrent_adds_have_an_exact_sum) {
  constexpr int threads = 8, rounds = 1000;
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      const Store mine = t % 2 == 0 ? Store::connect(service.address()) : store;  // also several threads on one client
      for (int i = 0; i < rounds; ++i) (void)mine.add("sum", t + 1);
    });
  }
  for (std::thread& each : workers) each.join();
  EXPECT_EQ(store.get("sum"), std::to_string(rounds * threads * (threads + 1) / 2));
}

TEST_F(StoreValues, get_waits_for_each_call_that_creates_the_key) {
  const std::vector<std::pair<std::string, std::function<void()>>> calls = {
      {"5", [&] { other.set("k", "5"); }},
      {"6", [&] { (void)other.add("k", 6); }},
      {"7", [&] { (void)other.append("k", "7"); }},
      {"8", [&] { (void)other.compare_and_swap("k", std::nullopt, "8"); }}};
  for (const auto& [value, create] : calls) {
    std::string seen;
    std::thread waiter([&] { seen = store.get("k", long_enough); });
    create();
    waiter.join();
    EXPECT_EQ(seen, value);
    (void)store.remove("k");
  }
}

TEST_F(StoreValues, get_ends_at_its_timeout) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(code_of([&] { (void)store.get("k", 200ms); }), Code::timeout);
  EXPECT_GE(std::chrono::steady_clock::now() - start, 200ms);
  // The cancelled call is forgotten: the next one gets the value.
  other.set("k", "v");
  EXPECT_EQ(store.get("k", 200ms), "v");
}

TEST_F(StoreValues, prefixes_nest_and_separate_keys) {
  const Store a = store.with_prefix("a"), ab = a.with_prefix("b"), joined = store.with_prefix("ab");
  a.set("bc", "1");
  ab.set("c", "2");
  joined.set("c", "3");
  EXPECT_EQ(a.get("bc"), "1");
  EXPECT_EQ(ab.get("c"), "2");
  EXPECT_EQ(joined.get("c"), "3");
  EXPECT_EQ(a.count(), 2U);
  EXPECT_EQ(ab.count(), 1U);
  EXPECT_EQ(store.count(), 3U);
}

TEST_F(StoreValues, a_watch_is_called_once) {
  const Inbox<std::string> seen;
  const auto put = [seen](std::optional<std::string> value) { seen.put(value.value_or("ended")); };
  (void)store.watch("now", put);
  other.set("now", "1");
  EXPECT_THAT(seen.wait(1), ElementsAre("1"));
  other.set("now", "2");
  (void)store.watch("now", put);  // exists already
  EXPECT_THAT(seen.wait(2), ElementsAre("1", "2"));
  const auto removed = store.watch("later", put);
  EXPECT_TRUE(store.unwatch(removed));
  EXPECT_FALSE(store.unwatch(removed));
  other.set("later", "no");
  (void)store.watch("end", put);
  other.set("end", "3");
  EXPECT_THAT(seen.wait(3), ElementsAre("1", "2", "3"));
}

TEST_F(StoreValues, a_callback_may_not_wait_for_the_store) {
  const Inbox<Code> seen;
  (void)store.watch("k", [&](const std::optional<std::string>&) { seen.put(code_of([&] { (void)store.get("k"); })); });
  other.set("k", "");
  EXPECT_THAT(seen.wait(1), ElementsAre(Code::invalid_argument));
}

TEST_F(StoreRanks, ranks_are_a_permutation_and_the_world_is_limited) {
  std::vector<Store> clients;
  std::set<int> ranks;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(Store::connect(service.address()));
    ranks.insert(clients.back().acquire_rank(4));
    EXPECT_EQ(clients.back().acquire_rank(4), *ranks.rbegin());  // stable
  }
  EXPECT_EQ(ranks, (std::set<int>{0, 1, 2, 3}));
  EXPECT_EQ(code_of([&] { (void)store.acquire_rank(4); }), Code::unavailable);
  EXPECT_EQ(store.with_prefix("other").acquire_rank(4), 0);
  clients[2].release_rank();
  EXPECT_EQ(store.acquire_rank(4), 2);
}

TEST_F(StoreRanks, a_rank_is_free_after_the_end_of_its_connection) {
  const Inbox<std::pair<int, bool>> seen;
  (void)store.watch_ranks([seen](int rank, bool alive) { seen.put({rank, alive}); });
  auto client = std::make_unique<Store>(Store::connect(service.address()));
  EXPECT_EQ(client->acquire_rank(1), 0);
  client.reset();
  EXPECT_THAT(seen.wait(2), ElementsAre(std::pair(0, true), std::pair(0, false)));
  EXPECT_EQ(other.acquire_rank(1), 0);
}

TEST_F(StoreRanks, a_wanted_rank_is_assigned_or_refused) {
  EXPECT_EQ(store.acquire_rank(4, 2), 2);
  EXPECT_EQ(code_of([&] { (void)other.acquire_rank(4, 2); }), Code::unavailable);
  EXPECT_EQ(code_of([&] { (void)other.acquire_rank(4, 4); }), Code::invalid_argument);
  EXPECT_EQ(code_of([&] { (void)other.acquire_rank(store_most_members + 1); }), Code::invalid_argument);
  EXPECT_EQ(other.acquire_rank(4), 0);
}

TEST_F(StoreRounds, allgather_orders_by_rank_and_repeats) {
  for (const int size : {1, 2, 3, 4, 5, 8}) {
    std::vector<std::thread> members;
    for (int rank = 0; rank < size; ++rank) {
      members.emplace_back([&, rank] {
        const Store mine = rank % 2 == 0 ? store : other;
        for (int call = 0; call < 50; ++call) {
          const auto parts = mine.allgather(
              "g", size, rank, fmt::format("{}:{}", rank, call) + std::string(static_cast<std::size_t>(rank), '\0'));
          ASSERT_EQ(parts.size(), static_cast<std::size_t>(size));
          for (int r = 0; r < size; ++r)
            ASSERT_EQ(parts[static_cast<std::size_t>(r)],
                      fmt::format("{}:{}", r, call) + std::string(static_cast<std::size_t>(r), '\0'));
        }
      });
    }
    for (std::thread& each : members) each.join();
  }
  EXPECT_EQ(store.count(), 0U);
}

TEST_F(StoreRounds, no_rank_leaves_a_barrier_early_and_nothing_stays) {
  constexpr int size = 16, rounds = 200;
  std::atomic<int> arrived{0};
  std::vector<std::thread> members;
  for (int rank = 0; rank < size; ++rank) {
    members.emplace_back([&, rank] {
      for (int i = 1; i <= rounds; ++i) {
        ++arrived;
        (rank % 2 == 0 ? store : other).barrier("b", size, rank, long_enough);
        ASSERT_GE(arrived.load(), i * size);
      }
    });
  }
  for (std::thread& each : members) each.join();
  EXPECT_EQ(store.count(), 0U);
}

TEST_F(StoreRounds, a_timeout_names_the_missing_ranks_and_the_call_may_be_repeated) {
  const auto text = text_of([&] { store.barrier("b", 4, 1, 100ms); });
  EXPECT_THAT(text, HasSubstr("ranks 0, 2, 3"));
  EXPECT_EQ(code_of([&] { (void)store.allgather("b", 2, 1, "x", 100ms); }), Code::timeout);  // the name is free again
  std::thread first([&] { store.barrier("b", 2, 0, long_enough); });
  other.barrier("b", 2, 1, long_enough);
  first.join();
}

/// Calls the barrier "b" and doesn't wait for its end. On return the server has the call.
void arrive_at_b(const Store& store, int size, int rank) {
  bootstrap::StoreCall call;
  call.op = bootstrap::StoreOp::barrier;
  call.key = "b";
  call.number = size;
  call.other = rank;
  store.client()->send(call);
  (void)store.count();
}

TEST_F(StoreRounds, different_calls_under_one_name_are_a_mismatch) {
  arrive_at_b(store, 3, 0);
  EXPECT_EQ(code_of([&] { other.barrier("b", 2, 1); }), Code::mismatch);
  EXPECT_EQ(code_of([&] { other.barrier("b", 3, 0); }), Code::mismatch);
  EXPECT_EQ(code_of([&] { (void)other.allgather("b", 3, 1, ""); }), Code::mismatch);
  for (const auto& wrong : {std::pair(0, 0), {3, 3}, {3, -1}, {store_most_members + 1, 0}})
    EXPECT_EQ(code_of([&] { other.barrier("c", wrong.first, wrong.second); }), Code::invalid_argument);
}

TEST_F(StoreRounds, an_allgather_may_be_larger_than_a_value) {
  constexpr int size = 8;
  std::vector<std::thread> members;
  for (int rank = 0; rank < size; ++rank) {
    members.emplace_back([&, rank] {
      const auto part = [](int of) { return std::string(store_longest_value / 4, static_cast<char>('a' + of)); };
      const auto parts = Store::connect(service.address()).allgather("g", size, rank, part(rank));
      for (int of = 0; of < size; ++of) EXPECT_TRUE(parts[static_cast<std::size_t>(of)] == part(of));
    });
  }
  for (std::thread& each : members) each.join();
}

/// The largest size of a process so far.
std::size_t most_resident_bytes(pid_t pid) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  std::string word;
  std::size_t kib = 0;
  while (status >> word)
    if (word == "VmHWM:") status >> kib;
  return kib * 1024;
}

TEST(StoreMemory, the_server_of_a_large_allgather_holds_few_answers_at_once) {
  pid_t server = 0;
  const std::string address = fork_store(server);
  constexpr int size = 32;
  constexpr std::size_t part_bytes = std::size_t{1} << 20;  // 1 GiB in all answers
  std::vector<std::thread> members;
  for (int rank = 0; rank < size; ++rank) {
    members.emplace_back([&, rank] {
      const auto part = [](int of) { return std::string(part_bytes, static_cast<char>('a' + of)); };
      const auto parts = Store::connect(address).allgather("g", size, rank, part(rank), long_enough);
      ASSERT_EQ(parts.size(), std::size_t{size});
      for (int of = 0; of < size; ++of) EXPECT_TRUE(parts[static_cast<std::size_t>(of)] == part(of));
    });
  }
  for (std::thread& each : members) each.join();
  const std::size_t bytes = most_resident_bytes(server);
  std::printf("the server's largest size: %zu MiB\n", bytes >> 20);
  EXPECT_GT(bytes, std::size_t{size} * part_bytes);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they keep freed memory
  EXPECT_LT(bytes, 14 * std::size_t{size} * part_bytes);
#endif
  ::kill(server, SIGKILL);
  ::waitpid(server, nullptr, 0);
}

TEST_F(StoreRounds, the_end_of_a_rank_that_has_arrived_ends_the_barrier) {
  auto gone = std::make_unique<Store>(Store::connect(service.address()));
  arrive_at_b(*gone, 4, 2);
  std::thread waiter([&] { EXPECT_EQ(code_of([&] { store.barrier("b", 4, 0, long_enough); }), Code::peer_failed); });
  // Until the waiter has arrived too.
  while (text_of([&] { other.barrier("b", 4, 1, 1ms); }).find("ranks 0") != std::string::npos) {
  }
  gone.reset();
  waiter.join();
}

TEST_F(StoreNumbers, numbers_are_unique_and_really_released) {
  constexpr int threads = 4, each_has = 256;
  std::mutex lock;
  std::set<unsigned> numbers;
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([&] {
      const Store mine = Store::connect(service.address());
      for (int i = 0; i < each_has; ++i) {
        const unsigned number = mine.acquire_number();
        const std::lock_guard guard(lock);
        EXPECT_TRUE(numbers.insert(number).second);
      }
    });
  }
  for (std::thread& each : workers) each.join();
  EXPECT_EQ(numbers.size(), 1024U);
  EXPECT_EQ(*numbers.rbegin(), 1023U);
  EXPECT_EQ(code_of([&] { (void)store.acquire_number(); }), Code::unavailable);
  store.release_number(77);
  EXPECT_EQ(code_of([&] { other.release_number(77); }), Code::not_found);
  EXPECT_EQ(other.acquire_number(), 77U);
  EXPECT_EQ(other.with_prefix("p").acquire_number(1), 0U);
  EXPECT_EQ(code_of([&] { (void)other.with_prefix("p").acquire_number(1); }), Code::unavailable);
  EXPECT_EQ(code_of([&] { (void)other.acquire_number(1025); }), Code::invalid_argument);
  EXPECT_EQ(code_of([&] { (void)other.acquire_number(0); }), Code::invalid_argument);
}

TEST_F(StoreNumbers, an_exit_runs_every_handler_once) {
  const Inbox<std::pair<int, int>> seen;
  store.on_exit([seen](int status) { seen.put({0, status}); });
  other.on_exit([seen](int status) { seen.put({1, status}); });
  other.with_prefix("p").on_exit([seen](int status) { seen.put({2, status}); });
  store.global_exit(7);
  other.global_exit(8);  // only the first status counts
  const Store late = Store::connect(service.address());
  EXPECT_EQ(seen.wait(2).size(), 2U);
  late.on_exit([seen](int status) { seen.put({3, status}); });
  EXPECT_THAT(seen.wait(3), testing::UnorderedElementsAre(std::pair(0, 7), std::pair(1, 7), std::pair(3, 7)));
}

TEST_F(StoreFailure, the_end_of_the_server_is_an_error_of_every_call) {
  auto own = std::make_unique<StoreService>("127.0.0.1:0");
  const Store client = Store::connect(own->address());
  const Inbox<std::string> seen;
  (void)client.watch("k", [seen](std::optional<std::string> value) { seen.put(value.value_or("ended")); });
  std::vector<std::thread> waiters;
  std::atomic<int> failed{0};
  const auto expect_end = [&](const std::function<void()>& call) {
    waiters.emplace_back([&, call] { failed += code_of(call) == Code::peer_failed ? 1 : 0; });
  };
  expect_end([&] { (void)client.get("k"); });
  expect_end([&] { client.barrier("b", 2, 0); });
  expect_end([&] { (void)client.allgather("g", 2, 0, "x"); });
  own.reset();
  for (std::thread& each : waiters) each.join();
  EXPECT_EQ(failed.load(), 3);
  EXPECT_THAT(seen.wait(1), ElementsAre("ended"));
  EXPECT_FALSE(client.is_connected());
  EXPECT_EQ(code_of([&] { client.set("k", "v"); }), Code::peer_failed);
  EXPECT_EQ(code_of([&] { (void)client.acquire_rank(2); }), Code::peer_failed);
  EXPECT_EQ(code_of([&] { client.on_exit([](int) {}); }), Code::peer_failed);
}

TEST_F(StoreFailure, values_survive_the_loss_of_all_clients) {
  Store::connect(service.address()).set("k", "kept");
  store = Store::connect(service.address());
  other = store;
  EXPECT_EQ(store.get("k", Timeout::zero()), "kept");
}

TEST_F(StoreFailure, a_client_that_sends_a_malformed_call_is_disconnected) {
  using control::Connection;
  const auto access = control::Access::of(base::Env::from_process(), "hmc store");
  for (const bool says_hello : {false, true}) {
    Connection bad(control::connect_tcp(service.address(), base::Deadline::after(long_enough)), access.key,
                   Connection::Side::client, &bootstrap::payload_limit);
    bootstrap::StoreCall hello;
    hello.op = bootstrap::StoreOp::hello;
    if (says_hello) bad.send(hello);
    bad.send_encoded(bootstrap::on_wire(bootstrap::MessageType::store_call), base::Bytes(13, std::byte{0xee}));
    std::vector<base::UniqueFd> fds;
    const auto deadline = base::Deadline::after(long_enough);
    while (!bad.ended() && !deadline.expired()) {
      (void)bad.next(fds);
      control::move_or_sleep(bad, 10);
    }
    EXPECT_TRUE(bad.ended());
  }
  store.set("k", "works");
  EXPECT_EQ(other.get("k"), "works");
}

TEST_F(StoreFailure, a_connection_with_another_secret_is_refused) {
  base::UniqueFd stranger = control::connect_tcp(service.address(), base::Deadline::after(long_enough));
  control::Connection connection(std::move(stranger), control::Secret::random(), control::Connection::Side::client,
                                 &bootstrap::payload_limit);
  std::vector<base::UniqueFd> fds;
  while (!connection.ended()) {
    (void)connection.next(fds);
    control::move_or_sleep(connection, 10);
  }
  EXPECT_EQ(service.refused_connections(), 1U);
  EXPECT_EQ(code_of([] { (void)Store::connect("127.0.0.1:1", 100ms); }), Code::timeout);
}

}  // namespace
}  // namespace hmc::test
