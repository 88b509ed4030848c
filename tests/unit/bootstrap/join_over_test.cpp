// Joining over a key-value store and over a Unix socket. The suite of bootstrap_test.cpp runs over the store too.
#include "bootstrap/launchers/join_over.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "bootstrap/launchers/pmi1.hpp"
#include "bootstrap/tcp/local_value.hpp"
#include "runtime/control/socket.hpp"
#include "test_job.hpp"

namespace hmc::bootstrap::test {
namespace {

using testing::HasSubstr;

base::Env with_secret(const std::string& secret, int timeout_ms = 20'000) {
  base::Env env;
  env.secret = secret;
  env.timeout = std::chrono::milliseconds(timeout_ms);
  return env;
}

/// Joins as rank 0 of 2 in a thread, and as rank 1 here. Returns the error of rank 1.
Error error_of_rank_1(const base::Env& zero, const base::Env& one) {
  MemoryStore memory;
  const KeyValueStore store = memory.store();
  std::thread rank_0([&] { EXPECT_EQ(error_of([&] { (void)join_over(store, 0, 2, zero); }).code(), Code::timeout); });
  const Error error = error_of([&] { (void)join_over(store, 1, 2, one); });
  rank_0.join();
  return error;
}

TEST(JoinOverStore, secret_of_the_user_is_not_published) {
  const std::string secret = control::Secret::random().hex();
  MemoryStore memory;
  KeyValueStore store = memory.store();
  std::string published;
  store.set = [&, set = store.set](const std::string& key, const std::string& value) {
    published += key + "=" + value;
    set(key, value);
  };
  std::thread rank_1([&] { join_over(store, 1, 2, with_secret(secret))->leave(); });
  join_over(store, 0, 2, with_secret(secret))->leave();
  rank_1.join();
  EXPECT_THAT(published, HasSubstr("hmc"));
  EXPECT_EQ(published.find(secret), std::string::npos);
}

TEST(JoinOverStore, ranks_with_and_without_a_secret_are_rejected) {
  const std::string secret = control::Secret::random().hex();
  EXPECT_THAT(error_of_rank_1(with_secret(secret, 500), with_secret("")).what(),
              HasSubstr("is set for rank 0 and not for this rank"));
  EXPECT_THAT(error_of_rank_1(with_secret("", 500), with_secret(secret)).what(),
              HasSubstr("is set not for rank 0 and for this rank"));
}

TEST(JoinOverStore, rank_that_two_processes_claim_is_rejected_at_once) {
  MemoryStore memory;
  const KeyValueStore store = memory.store();
  EXPECT_EQ(store.compare_set("hmc/1", "", "another process"), "another process");
  const Error error = error_of([&] { (void)join_over(store, 1, 2, with_secret("")); });
  EXPECT_EQ(error.code(), Code::invalid_config);
  EXPECT_THAT(error.what(), HasSubstr("rank 1"));
}

TEST(JoinOverStore, invalid_records_are_rejected) {
  for (const char* const record :
       {"", "hmc2;a;b;c;d;1", "hmc1;-;0;0;0", "hmc1;-;zz;0;1;1", "hmc1;xy;1;1;1;1;10.0.0.1"}) {
    MemoryStore memory;
    const KeyValueStore store = memory.store();
    store.set("hmc/0/record", record);
    EXPECT_EQ(error_of([&] { (void)join_over(store, 1, 2, with_secret("")); }).code(), Code::invalid_config) << record;
  }
}

TEST(JoinOverStore, record_of_an_earlier_job_is_replaced) {
  MemoryStore memory;
  KeyValueStore store = memory.store();
  store.compare_set = nullptr;  // an earlier process has claimed each rank
  std::thread first([&] { join_over(store, 1, 2, with_secret(""))->leave(); });
  join_over(store, 0, 2, with_secret(""))->leave();
  first.join();
  std::atomic<bool> has_read{false};
  KeyValueStore seen = store;
  seen.get = [&](const std::string& key, Timeout timeout) {
    std::string record = store.get(key, timeout);
    has_read = true;
    has_read.notify_all();
    return record;
  };
  std::thread early([&] { join_over(seen, 1, 2, with_secret(""))->leave(); });
  has_read.wait(false);  // it has the first job's record
  join_over(store, 0, 2, with_secret(""))->leave();
  early.join();
}

TEST(JoinOverStore, failure_of_rank_0_ends_the_others) {
  MemoryStore memory;
  const KeyValueStore store = memory.store();
  EXPECT_EQ(error_of([&] { (void)join_over(store, 0, 2, with_secret("no hex")); }).code(), Code::invalid_config);
  const Error error = error_of([&] { (void)join_over(store, 1, 2, with_secret("")); });
  EXPECT_EQ(error.code(), Code::unavailable);
  EXPECT_THAT(error.what(), HasSubstr("rank 0"));
}

TEST(JoinOverStore, missing_rank_0_is_a_timeout) {
  MemoryStore memory;
  const KeyValueStore store = memory.store();
  EXPECT_EQ(error_of([&] { (void)join_over(store, 1, 2, with_secret("", 50)); }).code(), Code::timeout);
}

TEST(JoinOverStore, missing_rank_is_named) {
  MemoryStore memory;
  const KeyValueStore store = memory.store();
  const Error error = error_of([&] { (void)join_over(store, 0, 2, with_secret("", 300)); });
  EXPECT_EQ(error.code(), Code::timeout);
  EXPECT_THAT(error.what(), HasSubstr("rank 1"));
}

TEST(JoinOverStore, ranks_outside_the_job_and_stores_without_functions_are_rejected) {
  MemoryStore memory;
  KeyValueStore store = memory.store();
  for (const auto& [rank, size] : {std::pair(2, 2), std::pair(-1, 2), std::pair(0, 0)})
    EXPECT_EQ(error_of([&, r = rank, s = size] { (void)join_over(store, r, s, with_secret("")); }).code(),
              Code::invalid_argument);
  store.get = nullptr;
  EXPECT_EQ(error_of([&] { (void)join_over(store, 0, 1, with_secret("")); }).code(), Code::invalid_argument);
}

TEST(JoinOverStore, jobs_with_one_hmc_secret_run_at_the_same_time) {
  const std::string secret = control::Secret::random().hex();
  MemoryStore first, second;
  const KeyValueStore outer = first.store(), inner = second.store();
  const auto one = join_over(outer, 0, 1, with_secret(secret));
  const auto two = join_over(inner, 0, 1, with_secret(secret));
  two->barrier(soon());
  one->barrier(soon());
  two->leave();
  one->leave();
}

TEST(ConnectTcp, first_address_that_accepts_is_used) {
  const std::string closed = free_address();
  const base::UniqueFd listener = control::listen_tcp("127.0.0.1:0");
  const std::string open = control::address_of(listener.get());
  EXPECT_TRUE(control::connect_tcp(closed + "," + open, soon()));
  EXPECT_TRUE(control::connect_tcp("no-such-host.invalid:1," + open, soon()));
  EXPECT_EQ(error_of([&] { (void)control::connect_tcp(closed + "," + closed, in_ms(20)); }).code(), Code::timeout);
}

TEST(LocalValue, arrives_whole_while_it_is_offered) {
  const std::string name = free_address();
  const control::Secret secret = control::Secret::random();
  base::Bytes value(LocalValue::longest);
  for (std::size_t i = 0; i < value.size(); ++i) value[i] = static_cast<std::byte>(i * 7 + i / 256);
  EXPECT_FALSE(LocalValue::fetch(secret, name, in_ms(20)).has_value());
  {
    const LocalValue offer(secret, name, value);
    for (int time = 0; time < 3; ++time) EXPECT_EQ(LocalValue::fetch(secret, name, soon()), value);
    EXPECT_EQ(error_of([&] { const LocalValue second(secret, name, value); }).code(), Code::invalid_config);
    EXPECT_FALSE(LocalValue::fetch(control::Secret::random(), name, in_ms(20)).has_value());
  }
  EXPECT_FALSE(LocalValue::fetch(secret, name, in_ms(20)).has_value());
}

TEST(Pmi1, file_descriptor_without_a_process_manager_is_an_error) {
  const Error error = error_of([] { (void)make_pmi1(-1); });
  EXPECT_EQ(error.code(), Code::unavailable);
  EXPECT_THAT(error.what(), HasSubstr("PMI_FD"));
}

}  // namespace
}  // namespace hmc::bootstrap::test
