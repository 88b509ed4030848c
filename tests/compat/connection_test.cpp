// Connections: identities, two sides that connect at once, peers that end, servers that close.
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <thread>

#include "runtime/control/socket.hpp"
#include "tests/compat/pair.hpp"

namespace hmc::test {
namespace {

using enum status_t;

/// Repeats `poll` until it returns true, for at most a minute.
bool eventually(const std::function<bool()>& poll) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!poll()) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::yield();
  }
  return true;
}

class Connection : public ByWire {};

TEST_P(Connection, crossing_connects_result_in_one_connection) {
  for (int round = 0; round < 10; ++round) {
    Side a(1 << 16), b(1 << 16);
    a.serve();
    b.serve();
    auto other =
        std::async(std::launch::async, [&] { return b.communicator->connectTo(loopback, a.port, conn_type()); });
    ASSERT_EQ(a.communicator->connectTo(loopback, b.port, conn_type()), SUCCESS);
    ASSERT_EQ(other.get(), SUCCESS);
    // By IP alone: fails if there are two connections.
    fill(a.at(0), 0, 1, 0, 1000);
    ASSERT_EQ(a.communicator->writeTo(loopback, 0, 1000), SUCCESS);
    EXPECT_EQ(mismatch(b.at(0), 0, 1, 0, 1000), 1000U);
    ASSERT_EQ(b.communicator->put(loopback, a.port, 0, 2000, 1000), SUCCESS);
    EXPECT_EQ(mismatch(a.at(2000), 0, 1, 0, 1000), 1000U);
    EXPECT_EQ(a.communicator->disConnect(loopback, b.port, conn_type()), SUCCESS);
    EXPECT_TRUE(eventually([&] { return b.communicator->checkConn(loopback, a.port, conn_type()) == ERROR; }));
    EXPECT_EQ(a.communicator->checkConn(loopback, b.port, conn_type()), NOT_FOUND);
    // Without a peer it has no effect.
    EXPECT_EQ(a.communicator->disConnect(loopback, b.port, conn_type()), SUCCESS);
    EXPECT_EQ(a.communicator->disConnect(loopback, conn_type()), SUCCESS);
  }
}

TEST_P(Connection, second_connect_is_the_same_connection_and_one_after_disconnect_is_new) {
  Pair pair(1 << 16);
  EXPECT_EQ(pair.c().connectTo(loopback, pair.port(), conn_type()), SUCCESS);
  EXPECT_EQ(pair.c().checkConn(loopback, conn_type()), SUCCESS);
  EXPECT_EQ(pair.s().checkConn(loopback, conn_type()), SUCCESS);
  for (std::uint64_t call = 0; call < 5; ++call) {
    EXPECT_EQ(pair.c().disConnect(loopback, conn_type()), SUCCESS);
    EXPECT_EQ(pair.c().put(loopback, pair.port(), 0, 0, 1), NOT_FOUND);
    ASSERT_EQ(pair.c().connectTo(loopback, pair.port(), conn_type()), SUCCESS);
    fill(pair.client.at(0), 0, call, 0, 5000);
    ASSERT_EQ(pair.c().put(loopback, pair.port(), 0, 0, 5000), SUCCESS);
    EXPECT_EQ(mismatch(pair.server.at(0), 0, call, 0, 5000), 5000U);
    ASSERT_TRUE(eventually([&] { return pair.s().checkConn(loopback, conn_type()) == SUCCESS; }));
  }
}

TEST_P(Connection, close_server_ends_accepting_only) {
  std::atomic<int> interrupts{0};
  static std::atomic<int>* count = nullptr;
  count = &interrupts;
  struct sigaction action {
  }, before{};
  action.sa_handler = [](int) { ++*count; };
  ASSERT_EQ(::sigaction(SIGINT, &action, &before), 0);
  {
    Pair pair(1 << 16);
    EXPECT_EQ(pair.s().initServer(loopback, pair.port(), conn_type()), INVALID_CONFIG);
    EXPECT_EQ(pair.s().closeServer(), SUCCESS);
    EXPECT_EQ(pair.c().put(loopback, pair.port(), 0, 0, 100), SUCCESS);
    EXPECT_EQ(pair.s().put(loopback, 0, 0, 0, 100), SUCCESS);
    EXPECT_EQ(pair.s().initServer(loopback, pair.port(), conn_type()), SUCCESS);  // the port is free again
    Side late(1 << 16);
    EXPECT_EQ(late.communicator->connectTo(loopback, pair.port(), conn_type()), SUCCESS);
  }
  ASSERT_EQ(::sigaction(SIGINT, &before, nullptr), 0);
  EXPECT_EQ(interrupts.load(), 0);
}

TEST_P(Connection, a_communicator_has_servers_and_connections_of_both_types) {
  Side server(1 << 16), client(1 << 16);
  constexpr ConnType types[] = {ConnType::RDMA, ConnType::UCX};
  std::uint16_t ports[2] = {};
  for (int i = 0; i < 2; ++i) {
    server.serve(types[i]);
    ports[i] = server.port;
    ASSERT_EQ(client.communicator->connectTo(loopback, ports[i], types[i]), SUCCESS);
  }
  std::vector<std::uint64_t> ids(4);
  fill(client.at(0), 0, 1, 0, 20000);
  for (std::size_t i = 0; i < 4; ++i) {  // each port with its own type, and with the other one
    const std::size_t at = i * 5000;
    ASSERT_EQ(client.communicator->putNB(loopback, ports[i % 2], at, at, 5000, &ids[i], types[i / 2]), SUCCESS);
  }
  EXPECT_EQ(client.communicator->wait(ids), SUCCESS);
  EXPECT_EQ(mismatch(server.at(0), 0, 1, 0, 20000), 20000U);
  for (int i = 0; i < 2; ++i) {
    fill(server.at(0), 1, static_cast<std::uint64_t>(i), 0, 300);
    ASSERT_TRUE(eventually([&] { return server.communicator->checkConn(loopback, types[i]) == SUCCESS; }));
    ASSERT_EQ(server.communicator->writeTo(loopback, 0, 300, types[i]), SUCCESS);
    EXPECT_EQ(mismatch(client.at(0), 1, static_cast<std::uint64_t>(i), 0, 300), 300U);
  }
  EXPECT_EQ(client.communicator->disConnect(loopback, ports[0], types[0]), SUCCESS);
  EXPECT_EQ(client.communicator->checkConn(loopback, ports[0], types[0]), NOT_FOUND);
  EXPECT_EQ(client.communicator->put(loopback, ports[0], 0, 0, 1), NOT_FOUND);
  EXPECT_EQ(client.communicator->checkConn(loopback, ports[1], types[1]), SUCCESS);
  EXPECT_EQ(server.communicator->closeServer(), SUCCESS);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(server.communicator->initServer(loopback, ports[i], types[i]), SUCCESS);
}

/// A server in another process, which serves until it is killed.
class OtherProcess {
 public:
  explicit OtherProcess(std::uint16_t port) : port_(port) {
    child_ = ::fork();
    if (child_ != 0) return;
    const auto buffer = std::make_shared<ConnBuffer>(0, 1 << 20, MemoryType::CPU);
    Communicator communicator(buffer);
    if (communicator.initServer(loopback, port, conn_type()) != SUCCESS) ::_exit(1);
    for (;;) ::pause();
  }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;
  ~OtherProcess() { kill(); }
  void kill() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    child_ = 0;
  }
  std::uint16_t port() const { return port_; }

 private:
  std::uint16_t port_;
  pid_t child_;
};

TEST_P(Connection, dead_peer_is_an_error_for_its_own_calls_only) {
  // The child is forked before this process has threads.
  OtherProcess dies(Side::next_port());
  Side client(1 << 20), lives(1 << 20);
  lives.serve();
  ASSERT_EQ(client.communicator->connectTo(loopback, dies.port(), conn_type()), SUCCESS);
  ASSERT_EQ(client.communicator->connectTo(loopback, lives.port, conn_type()), SUCCESS);
  ASSERT_EQ(client.communicator->put(loopback, dies.port(), 0, 0, 1000), SUCCESS);
  auto waits = std::async(std::launch::async, [&] {
    std::vector<std::uint8_t> in(100);
    return client.communicator->recvDataFrom(loopback, dies.port(), in.data(), in.size(), MemoryType::CPU, nullptr);
  });
  dies.kill();
  EXPECT_EQ(waits.get(), ERROR);  // ends without a timeout
  EXPECT_TRUE(eventually([&] { return client.communicator->checkConn(loopback, dies.port(), conn_type()) == ERROR; }));
  EXPECT_EQ(client.communicator->put(loopback, dies.port(), 0, 0, 1000), ERROR);
  fill(client.at(0), 0, 1, 0, 100000);
  EXPECT_EQ(client.communicator->put(loopback, lives.port, 0, 0, 100000), SUCCESS);
  EXPECT_EQ(mismatch(lives.at(0), 0, 1, 0, 100000), 100000U);
}

TEST_P(Connection, passive_side_needs_no_call_for_its_peers_transfers) {
  OtherProcess sleeps(Side::next_port());
  Side client(1 << 20);
  ASSERT_EQ(client.communicator->connectTo(loopback, sleeps.port(), conn_type()), SUCCESS);
  for (std::uint64_t call = 0; call < 100; ++call) {
    fill(client.at(0), 0, call, 0, 50000);
    ASSERT_EQ(client.communicator->put(loopback, sleeps.port(), 0, 1000, 50000), SUCCESS);
    ASSERT_EQ(client.communicator->get(loopback, sleeps.port(), 100000, 1000, 50000), SUCCESS);
    ASSERT_EQ(mismatch(client.at(100000), 0, call, 0, 50000), 50000U);
  }
}

TEST_P(Connection, client_that_restarts_replaces_its_dead_self) {
  Side server(1 << 16);
  server.serve();
  for (std::uint64_t call = 0; call < 3; ++call) {
    {
      Side client(1 << 16);
      ASSERT_EQ(client.communicator->connectTo(loopback, server.port, conn_type()), SUCCESS);
      fill(server.at(0), 1, call, 0, 777);
      ASSERT_EQ(server.communicator->writeTo(loopback, 0, 777), SUCCESS);
      EXPECT_EQ(mismatch(client.at(0), 1, call, 0, 777), 777U);
    }
    ASSERT_TRUE(eventually([&] { return server.communicator->checkConn(loopback, conn_type()) == ERROR; }));
  }
}

INSTANTIATE_TEST_SUITE_P(, Connection, ::testing::ValuesIn(tested_wires()), wire_name);

TEST(ConnectionTwice, has_no_effect_also_after_the_server_has_closed) {
  ScopedEnv timeout("HMC_TIMEOUT_S", "60");
  Side server(4096), client(4096);
  server.serve();
  const std::uint16_t port = server.port;
  Communicator::CtrlLink link;
  link.ip = loopback;
  int tries = 0;
  do {
    link.port = Side::next_port();
  } while (server.communicator->initCtrlServer(loopback, link.port) != SUCCESS && ++tries < 200);
  ASSERT_EQ(client.communicator->connectTo(0, 1, loopback, port, link, conn_type()), SUCCESS);
  ASSERT_EQ(server.communicator->closeServer(), SUCCESS);
  EXPECT_EQ(client.communicator->connectTo(0, 1, loopback, port, link, conn_type()), SUCCESS);
  EXPECT_EQ(client.communicator->ctrlSend(0, 5), SUCCESS);
  std::uint64_t tag = 0;
  EXPECT_EQ(server.communicator->ctrlRecv(1, &tag), SUCCESS);
  EXPECT_EQ(tag, 5U);
  EXPECT_EQ(server.communicator->closeCtrl(), SUCCESS);
}

/// A port of loopback that refuses connections while this object lives.
struct RefusingPort {
  RefusingPort() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(socket.get(), generic, length), 0);
    EXPECT_EQ(::getsockname(socket.get(), generic, &length), 0);
    number = ntohs(address.sin_port);
  }
  base::UniqueFd socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::uint16_t number = 0;
};

TEST(ConnectionToNobody, is_reported_with_the_address_while_it_waits_and_when_it_has_failed) {
  ScopedEnv timeout("HMC_TIMEOUT_S", "1.5");
  const RefusingPort refuses_data, refuses_control;
  const std::uint16_t data_port = refuses_data.number, control_port = refuses_control.number;
  Side client(4096);
  testing::internal::CaptureStderr();
  auto by_ids = std::async(std::launch::async, [&] {
    Side other(4096);
    Communicator::CtrlLink link;
    link.ip = loopback;
    link.port = control_port;
    return other.communicator->connectTo(0, 1, loopback, data_port, link, conn_type());
  });
  EXPECT_EQ(client.communicator->connectTo(loopback, data_port, conn_type()), TIMEOUT);
  EXPECT_EQ(by_ids.get(), TIMEOUT);
  const std::string log = testing::internal::GetCapturedStderr();
  const std::string data = std::string(loopback) + ":" + std::to_string(data_port);
  const std::string control = std::string(loopback) + ":" + std::to_string(control_port);
  EXPECT_THAT(log, testing::HasSubstr("connectTo: no process accepts connections at " + data + " yet"));
  EXPECT_THAT(log, testing::HasSubstr("no process accepts connections at " + data + ": "));
  EXPECT_THAT(log, testing::HasSubstr("control: no process accepts connections at " + control + " yet"));
  EXPECT_THAT(log, testing::HasSubstr("no connection to " + control));
}

TEST(ConnectionSecret, another_secret_is_refused) {
  ScopedEnv timeout("HMC_TIMEOUT_S", "60");
  Side server(4096), client(4096);
  {
    ScopedEnv secret("HMC_SECRET", std::string(64, 'a'));
    server.serve();
  }
  {
    ScopedEnv secret("HMC_SECRET", std::string(64, 'b'));
    EXPECT_EQ(client.communicator->connectTo(loopback, server.port, conn_type()), ERROR);
  }
}

TEST(UnknownConnections, header_that_announces_4_gib_and_silent_connections_do_not_disturb_the_server) {
  ScopedEnv timeout("HMC_TIMEOUT_S", "60");
  Side server(4096);
  server.serve();
  std::vector<base::UniqueFd> strangers;
  for (int i = 0; i < 20; ++i) {
    strangers.push_back(control::connect_tcp("127.0.0.1:" + std::to_string(server.port),
                                             base::Deadline::after(std::chrono::seconds(60))));
    // The frame header of a hello with a length of 4 GiB - 1; every second process sends nothing.
    const unsigned char header[16] = {'H', 'M', 'C', '1', 3, 0, 1, 0, 0, 0, 0, 0, 255, 255, 255, 255};
    if (i % 2 == 0) {
      EXPECT_EQ(::write(strangers.back().get(), header, sizeof header), 16);
    }
  }
  Side client(4096);
  EXPECT_EQ(client.communicator->connectTo(loopback, server.port, conn_type()), SUCCESS);
  EXPECT_EQ(client.communicator->put(loopback, server.port, 0, 0, 4096), SUCCESS);
}

}  // namespace
}  // namespace hmc::test
