// Connections that are rejected: unknown ones, duplicates of a rank, ranks of another job.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "bootstrap/tcp/tcp_bootstrap.hpp"
#include "runtime/base/interfaces.hpp"
#include "runtime/control/connection.hpp"
#include "runtime/control/socket.hpp"
#include "test_job.hpp"

namespace hmc::bootstrap::test {
namespace {

using testing::HasSubstr;

const Shape two_ranks{Kind::tcp, 2, 1};

/// True once the other side has closed.
bool ends(int socket) {
  const auto deadline = soon();
  std::array<std::byte, 4096> chunk;
  std::vector<base::UniqueFd> none;
  while (!deadline.expired()) {
    const control::Io io = control::receive_some(socket, chunk, none).io;
    if (io == control::Io::ended || io == control::Io::failed) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

void wait_for_unknown_connections(StoreServer& store, std::size_t count) {
  const auto deadline = soon();
  while (store.unknown_connections() < count && !deadline.expired())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(store.unknown_connections(), count);
}

void expect_a_working_job(TestServers& servers) {
  run_ranks(
      two_ranks, [&](int rank) { return servers.env(rank); }, [](Bootstrap& me) { me.barrier(soon()); });
}

/// The other end's name of this socket.
std::string own_address(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  EXPECT_EQ(::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length), 0);
  return base::text_of(address);
}

TEST(UnknownConnection, garbage_is_dropped_and_counted_and_the_job_continues) {
  TestServers servers(two_ranks);
  std::string first;
  testing::internal::CaptureStderr();
  base::ByteWriter huge;
  huge.number(control::frame_magic)
      .number(control::protocol_version)
      .number(control::MessageType::hello)
      .number(0)
      .number(0x7fffffff);
  const base::Bytes header = huge.take();
  const std::string_view texts[] = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
                                    base::as_text(header)};
  std::size_t count = 0;
  for (const std::string_view text : texts) {
    const base::UniqueFd socket = control::connect_tcp(servers.store().address(), soon());
    if (first.empty()) first = own_address(socket.get());
    const std::string padded = std::string(text) + std::string(16, '\0');
    (void)control::send_some(socket.get(), base::as_bytes(padded), {});
    EXPECT_TRUE(ends(socket.get()));
    wait_for_unknown_connections(servers.store(), ++count);
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("refused a connection from " + first + ": "));
  EXPECT_EQ(log.find("refused"), log.rfind("refused")) << log;  // logged once
  expect_a_working_job(servers);
}

TEST(UnknownConnection, silent_connection_is_dropped_after_two_seconds) {
  TestServers servers(two_ranks);
  const auto start = base::Clock::now();
  const base::UniqueFd silent = control::connect_tcp(servers.store().address(), soon());
  expect_a_working_job(servers);  // meanwhile
  EXPECT_TRUE(ends(silent.get()));
  EXPECT_GE(base::Clock::now() - start, std::chrono::milliseconds(1900));
  wait_for_unknown_connections(servers.store(), 1);
}

TEST(UnknownConnection, many_silent_and_slow_connections_delay_no_rank) {
  constexpr std::size_t count = 200;
  // A busy machine may need more than the two seconds after which such connections are dropped. Then once more.
  bool in_time = false;
  for (int attempt = 0; attempt < 5 && !in_time; ++attempt) {
    TestServers servers(two_ranks);
    std::vector<base::UniqueFd> silent, slow;
    for (std::size_t i = 0; i < count; ++i) {
      silent.push_back(control::connect_tcp(servers.store().address(), soon()));
      slow.push_back(control::connect_tcp(servers.store().address(), soon()));
      const std::byte first{'H'};  // of a hello that never gets complete
      (void)control::send_some(slow.back().get(), {&first, 1}, {});
    }
    expect_a_working_job(servers);
    in_time = servers.store().unknown_connections() == 0;
    for (const auto* all : {&silent, &slow})
      for (const base::UniqueFd& each : *all) EXPECT_TRUE(ends(each.get()));
    wait_for_unknown_connections(servers.store(), 2 * count);
  }
  EXPECT_TRUE(in_time);
}

TEST(UnknownConnection, connection_with_a_different_secret_is_rejected) {
  TestServers servers(two_ranks);
  const Error error = error_of(
      [&] { (void)NodeAgent::start(control::Secret::random(), servers.store().address(), "x", 2, {}, soon()); });
  EXPECT_EQ(error.code(), Code::refused);
  EXPECT_THAT(error.what(), HasSubstr("HMC_SECRET"));
  wait_for_unknown_connections(servers.store(), 1);
  expect_a_working_job(servers);
}

TEST(UnknownConnection, rank_with_a_different_secret_gets_the_reason) {
  TestServers servers(two_ranks);
  base::Env env = servers.env(0);
  env.secret = control::Secret::random().hex();
  const Error error = error_of([&] { (void)join_tcp(env, soon()); });
  EXPECT_EQ(error.code(), Code::refused);
  EXPECT_THAT(error.what(), HasSubstr("HMC_SECRET"));
  expect_a_working_job(servers);
}

TEST(UnknownConnection, node_of_another_job_size_gets_the_reason) {
  TestServers servers(two_ranks);
  const Error error =
      error_of([&] { (void)NodeAgent::start(servers.secret(), servers.store().address(), "x", 3, {}, soon()); });
  EXPECT_EQ(error.code(), Code::invalid_config);
  EXPECT_THAT(error.what(), HasSubstr("2 ranks"));
  expect_a_working_job(servers);
}

TEST(UnknownConnection, rank_of_another_job_size_gets_the_reason) {
  TestServers servers(two_ranks);
  base::Env env = servers.env(1);
  env.size = 3;
  const Error error = error_of([&] { (void)join_tcp(env, soon()); });
  EXPECT_EQ(error.code(), Code::invalid_config);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("2 ranks"), HasSubstr("HMC_SIZE=3")));
  expect_a_working_job(servers);
}

/// Joins as rank 0 a second time while the first rank 0 waits for rank 1, then completes the job.
void expect_duplicate_rejected(const Shape& shape, const std::string& second_node) {
  TestServers servers(shape);
  std::thread first([&] {
    const auto me = join_tcp(servers.env(0), soon());
    me->barrier(soon());
    me->leave();
  });
  // The first of the two to connect is accepted. The delay ensures that this is not the copy.
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  base::Env env = servers.env(0);
  env.node = second_node;
  const Error error = error_of([&] { (void)join_tcp(env, soon()); });
  EXPECT_EQ(error.code(), Code::invalid_config);
  EXPECT_THAT(error.what(), HasSubstr("rank 0 has joined already"));
  const auto me = join_tcp(servers.env(1), soon());
  me->barrier(soon());
  me->leave();
  first.join();
}

TEST(UnknownConnection, duplicate_rank_on_its_node_is_rejected) { expect_duplicate_rejected({Kind::tcp, 2, 1}, "0"); }
TEST(UnknownConnection, duplicate_rank_on_another_node_is_rejected) {
  expect_duplicate_rejected({Kind::tcp, 2, 2}, "1");
}

TEST(UnknownConnection, second_agent_of_a_node_is_rejected) {
  TestServers servers(two_ranks);
  EXPECT_EQ(NodeAgent::start(servers.secret(), servers.store().address(), "0", 2, {}, soon()), nullptr);
  EXPECT_NE(NodeAgent::socket_name(servers.secret(), "0"), NodeAgent::socket_name(servers.secret(), "1"));
  EXPECT_NE(NodeAgent::socket_name(servers.secret(), "0"), NodeAgent::socket_name(control::Secret::random(), "0"));
}

TEST(UnknownConnection, agent_without_a_store_fails_at_its_deadline) {
  const std::string store = free_address();
  const Error error =
      error_of([&] { (void)NodeAgent::start(control::Secret::random(), store, "x", 2, {}, in_ms(50)); });
  EXPECT_EQ(error.code(), Code::timeout);
  EXPECT_THAT(error.what(), HasSubstr("no store at " + store));
}

TEST(Address, invalid_addresses_are_rejected) {
  for (const char* bad : {"", "host", "host:", "host:x", "host:70000", "::1:5", "127.0.0.1"}) {
    EXPECT_EQ(error_of([&] { (void)control::listen_tcp(bad); }).code(), Code::invalid_config) << bad;
  }
}

TEST(Address, all_interfaces_support_both_families) {
  const control::Secret secret = control::Secret::random();
  StoreServer store(secret, 1, ":0", {});
  const std::string port = store.address().substr(store.address().rfind(':'));
  std::vector<std::string> hosts{"127.0.0.1"};
  if (has_ipv6()) hosts.emplace_back("[::1]");
  for (const std::string& host : hosts) {
    EXPECT_NE(NodeAgent::start(secret, host + port, host, 1, {}, soon()), nullptr) << host;
  }
}

TEST(ManualStart, without_a_secret_only_loopback_is_accepted) {
  base::Env env;
  env.rank = 0;
  env.size = 2;
  env.store = "192.0.2.1:4242";
  const Error error = error_of([&] { (void)join_tcp(env, soon()); });
  EXPECT_EQ(error.code(), Code::invalid_config);
  EXPECT_THAT(error.what(), HasSubstr("openssl rand -hex 32"));
  env.launcher = "somebody";
  EXPECT_EQ(error_of([&] { (void)join_tcp(env, soon()); }).code(), Code::invalid_config);
}

TEST(ManualStart, rank_without_the_others_names_them) {
  base::Env env;
  env.rank = 0;
  env.size = 4;
  // On a busy machine the deadline may pass before the agent's answer arrives: then use a longer one.
  std::string text;
  for (int limit_ms = 100; limit_ms < 20'000 && text.find("ranks 1-3") == std::string::npos; limit_ms *= 2) {
    env.store = free_address();
    const Error error = error_of([&] { (void)join_tcp(env, in_ms(limit_ms)); });
    EXPECT_EQ(error.code(), Code::timeout);
    text = error.what();
  }
  EXPECT_THAT(text, HasSubstr("ranks 1-3"));
  env.rank = 1;
  EXPECT_EQ(error_of([&] { (void)join_tcp(env, in_ms(100)); }).code(), Code::timeout) << "no rank 0";
}

}  // namespace
}  // namespace hmc::bootstrap::test
