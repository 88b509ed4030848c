// The control plane of <hmc.h> between processes.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <hmc.h>

#include "bootstrap/tcp/protocol.hpp"
#include "tests/compat/processes.hpp"

namespace hmc::compat {

namespace {

CtrlSocketManager& control() { return CtrlSocketManager::instance(); }

/// A port that no process listens on.
std::uint16_t free_port() {
  const int probe = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  EXPECT_EQ(::bind(probe, reinterpret_cast<const sockaddr*>(&address), length), 0);
  EXPECT_EQ(::getsockname(probe, reinterpret_cast<sockaddr*>(&address), &length), 0);
  ::close(probe);
  return ntohs(address.sin_port);
}

class CompatControl : public testing::Test {
 protected:
  CompatControl() {
    ::setenv("HMC_SECRET", std::string(64, 'a').c_str(), 1);
    ::setenv("HMC_TIMEOUT_S", "60", 1);
    char name[] = "/tmp/compat-test-XXXXXX";
    folder = ::mkdtemp(name);
  }
  ~CompatControl() override { std::filesystem::remove_all(folder); }
  std::string folder;
  const std::uint16_t port = free_port();
};

struct Record {
  std::uint32_t call;
  std::uint64_t value;
};

/// Sends `count` messages of each kind; the values depend on the sender and on the call.
bool send_all(CtrlSocketManager::CtrlId peer, int self, int count) {
  for (int call = 0; call < count; ++call) {
    const auto number = static_cast<std::uint64_t>(self) << 40 | static_cast<std::uint64_t>(call);
    if (!control().sendInt(peer, self * 1000 + call) || !control().sendU64(peer, number) ||
        !control().sendStruct(peer, Record{static_cast<std::uint32_t>(call), ~number}))
      return false;
  }
  return true;
}

bool receive_all(CtrlSocketManager::CtrlId peer, int count) {
  for (int call = 0; call < count; ++call) {
    const auto number = static_cast<std::uint64_t>(peer) << 40 | static_cast<std::uint64_t>(call);
    int small = 0;
    std::uint64_t large = 0;
    Record record{};
    if (!control().recvInt(peer, small) || small != static_cast<int>(peer) * 1000 + call) return false;
    if (!control().recvU64(peer, large) || large != number) return false;
    if (!control().recvStruct(peer, record) || record.call != static_cast<std::uint32_t>(call) ||
        record.value != ~number)
      return false;
  }
  return true;
}

TEST_F(CompatControl, messages_arrive_in_order_over_tcp) {
  Child client(
      [&] { return control().connectTcp(4, "127.0.0.1", port, 5) && send_all(4, 5, 300) && receive_all(4, 300); });
  ASSERT_TRUE(control().start("127.0.0.1", port));
  EXPECT_TRUE(receive_all(5, 300));  // waits for the client
  EXPECT_TRUE(send_all(5, 4, 300));
  EXPECT_TRUE(client.join());
}

TEST_F(CompatControl, messages_arrive_in_order_over_a_socket_file) {
  const std::string path = CtrlSocketManager::udsPathFor(folder, 0);
  Child client([&] { return control().connectUds(0, path, 1) && send_all(0, 1, 300) && receive_all(0, 300); });
  ASSERT_TRUE(control().start("127.0.0.1", 0, path));
  EXPECT_TRUE(receive_all(1, 300));
  EXPECT_TRUE(send_all(1, 0, 300));
  EXPECT_TRUE(client.join());
  control().stop();
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(CompatControl, large_messages_cross_without_blocking_each_other) {
  const auto exchange = [](CtrlSocketManager::CtrlId peer, std::uint8_t mine, std::uint8_t theirs) {
    const std::vector<std::uint8_t> sent(8 << 20, mine);
    CtrlMsgHeader header{};
    std::vector<std::uint8_t> got;
    return control().send(peer, CTRL_STRUCT, sent.data(), sent.size(), 77) && control().recv(peer, header, got) &&
           header.flags == 77 && header.length == got.size() && got == std::vector<std::uint8_t>(8 << 20, theirs);
  };
  Child client(
      [&] { return control().connectTcp(0, "127.0.0.1", port, 1) && control().sendInt(0, 1) && exchange(0, 1, 2); });
  ASSERT_TRUE(control().start("127.0.0.1", port));
  int ready = 0;
  ASSERT_TRUE(control().recvInt(1, ready));
  EXPECT_TRUE(exchange(1, 2, 1));
  EXPECT_TRUE(client.join());
}

TEST_F(CompatControl, a_message_beyond_the_limit_is_refused_by_the_sender) {
  ASSERT_TRUE(control().start("127.0.0.1", port) && control().connectTcp(0, "127.0.0.1", port, 1));
  const std::vector<std::uint8_t> large((64 << 20) + 1);
  EXPECT_FALSE(control().send(0, CTRL_STRUCT, large.data(), large.size()));
  EXPECT_FALSE(control().send(0, CTRL_STRUCT, nullptr, std::size_t{1} << 32));
  int value = 0;
  EXPECT_TRUE(control().sendInt(0, 9) && control().recvInt(1, value));
  EXPECT_EQ(value, 9);
}

TEST_F(CompatControl, a_number_in_use_is_refused_to_another_process) {
  const Pipe connected, done;
  Child first([&] {
    const bool good = control().connectTcp(0, "127.0.0.1", port, 1);
    connected.put(1);
    return done.get() == 1 && good && control().sendInt(0, 11);
  });
  Child second([&] {
    if (connected.get() != 1) return false;
    const bool taken = control().connectTcp(0, "127.0.0.1", port, 1);
    const bool other = control().connectTcp(0, "127.0.0.1", port, 2);
    done.put(1);
    return !taken && other && control().sendInt(0, 22);
  });
  ASSERT_TRUE(control().start("127.0.0.1", port));
  int value = 0;
  EXPECT_TRUE(control().recvInt(1, value));
  EXPECT_EQ(value, 11);
  EXPECT_TRUE(control().recvInt(2, value));
  EXPECT_EQ(value, 22);
  EXPECT_TRUE(first.join() && second.join());
}

TEST_F(CompatControl, two_processes_that_connect_to_each_other_have_one_stream_per_direction) {
  const std::uint16_t other_port = free_port();
  const auto run = [&](int self, std::uint16_t own, std::uint16_t theirs) {
    const auto peer = static_cast<CtrlSocketManager::CtrlId>(1 - self);
    return control().start("127.0.0.1", own) &&
           control().connectTcp(peer, "127.0.0.1", theirs, static_cast<CtrlSocketManager::CtrlId>(self)) &&
           send_all(peer, self, 200) && receive_all(peer, 200);
  };
  const Pipe finished;
  Child other([&] {
    const bool good = run(1, other_port, port);
    finished.put(1);
    return good;
  });
  EXPECT_TRUE(run(0, port, other_port));
  EXPECT_EQ(finished.get(), 1);
  EXPECT_TRUE(other.join());
}

TEST_F(CompatControl, another_secret_is_refused) {
  Child stranger([&] {
    ::setenv("HMC_SECRET", std::string(64, 'b').c_str(), 1);
    return !control().connectTcp(0, "127.0.0.1", port, 1);
  });
  ASSERT_TRUE(control().start("127.0.0.1", port));
  EXPECT_TRUE(stranger.join());
  EXPECT_FALSE(control().sendInt(1, 1));
}

TEST_F(CompatControl, two_jobs_get_different_socket_files) {
  std::string theirs(200, '\0');
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  Child other([&] {
    ::setenv("HMC_SECRET", std::string(64, 'c').c_str(), 1);
    const std::string path = CtrlSocketManager::udsPathFor("/tmp/", 3);
    return ::write(ends[1], path.data(), path.size()) == static_cast<ssize_t>(path.size());
  });
  ASSERT_TRUE(other.join());
  theirs.resize(static_cast<std::size_t>(::read(ends[0], theirs.data(), theirs.size())));
  EXPECT_NE(CtrlSocketManager::udsPathFor("/tmp", 3), theirs);
  EXPECT_EQ(theirs.find("/tmp/hmc_ctrl_"), 0U);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_F(CompatControl, a_socket_file_in_use_is_not_replaced_and_one_left_behind_is) {
  const std::string path = folder + "/control.sock";
  const Pipe started, tried;
  Child owner([&] {
    const bool good = control().start("127.0.0.1", 0, path);
    started.put(1);
    int value = 0;
    const bool reached = good && control().recvInt(1, value) && value == 5;
    tried.put(reached ? 1 : 0);
    ::pause();  // until it is killed
    return false;
  });
  ASSERT_EQ(started.get(), 1);
  EXPECT_FALSE(control().start("127.0.0.1", 0, path));
  EXPECT_TRUE(control().connectUds(0, path, 1) && control().sendInt(0, 5));  // still its first owner
  ASSERT_EQ(tried.get(), 1);
  owner.kill();
  ASSERT_TRUE(std::filesystem::exists(path));
  EXPECT_TRUE(control().start("127.0.0.1", 0, path));
}

TEST_F(CompatControl, a_regular_file_is_never_removed) {
  const std::string path = folder + "/data";
  ::close(::open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  EXPECT_FALSE(control().start("127.0.0.1", 0, path));
  EXPECT_TRUE(std::filesystem::is_regular_file(path));
}

TEST_F(CompatControl, a_dead_peer_ends_calls_after_its_last_message) {
  const Pipe ready;
  Child client([&] {
    const bool good = control().connectTcp(0, "127.0.0.1", port, 1) && send_all(0, 1, 3);
    ready.put(good ? 1 : 0);
    ::pause();  // until it is killed
    return false;
  });
  ASSERT_TRUE(control().start("127.0.0.1", port));
  int value = 0;
  ASSERT_TRUE(control().recvInt(1, value));
  ASSERT_EQ(ready.get(), 1);
  client.kill();
  std::uint64_t large = 0;
  Record record{};
  EXPECT_TRUE(control().recvU64(1, large) && control().recvStruct(1, record));
  for (int call = 1; call < 3; ++call)
    EXPECT_TRUE(control().recvInt(1, value) && control().recvU64(1, large) && control().recvStruct(1, record));
  EXPECT_FALSE(control().recvInt(1, value));
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(control().sendInt(1, i));  // and no SIGPIPE
}

TEST_F(CompatControl, a_peer_that_died_can_connect_again_under_its_number) {
  const auto life = [&](int value) {
    return control().connectTcp(0, "127.0.0.1", port, 1) && control().sendInt(0, value);
  };
  const Pipe second_may_start;
  Child first([&] { return life(1); });
  Child second([&] { return second_may_start.get() == 1 && life(2); });
  ASSERT_TRUE(control().start("127.0.0.1", port));
  int value = 0;
  EXPECT_TRUE(control().recvInt(1, value));
  EXPECT_EQ(value, 1);
  EXPECT_TRUE(first.join());
  EXPECT_FALSE(control().recvInt(1, value));
  second_may_start.put(1);
  EXPECT_TRUE(second.join());
  EXPECT_TRUE(control().recvInt(1, value));
  EXPECT_EQ(value, 2);
}

TEST_F(CompatControl, a_reconnect_keeps_the_unread_messages_of_the_process) {
  for (const bool by_tcp : {true, false}) {
    ::setenv("CTRL_TRANSPORT", by_tcp ? "tcp" : "uds", 1);
    const std::uint16_t chosen = free_port();
    const Pipe listens, sent;
    Child server([&] {
      const bool good = control().start("127.0.0.1", chosen);
      listens.put(good ? 1 : 0);
      return good && sent.get() == 1 && receive_all(5, 60) && receive_all(5, 40) && receive_all(5, 20) &&
             control().sendInt(5, 9);
    });
    ASSERT_EQ(listens.get(), 1);
    Child client([&] {
      bool good = true;
      for (const int count : {60, 40, 20}) {
        control().close(4);
        good = good && control().connectTcp(4, "127.0.0.1", chosen, 5) && send_all(4, 5, count);
      }
      sent.put(good ? 1 : 0);
      int value = 0;
      return good && control().recvInt(4, value) && value == 9;  // by the last connection
    });
    EXPECT_TRUE(server.join() && client.join()) << (by_tcp ? "tcp" : "uds");
  }
  ::unsetenv("CTRL_TRANSPORT");
}

TEST_F(CompatControl, two_threads_may_connect_to_one_peer_at_the_same_time) {
  ::setenv("CTRL_TRANSPORT", "tcp", 1);
  constexpr int peers = 20;
  const Pipe client_may_start;
  std::vector<std::unique_ptr<Child>> clients;
  for (int i = 0; i < peers; ++i)
    clients.push_back(std::make_unique<Child>([&] {
      const int number = client_may_start.get();  // one child each
      const auto connect = [&] { return control().connectTcp(4, "127.0.0.1", port, static_cast<unsigned>(number)); };
      auto other = std::async(std::launch::async, connect);
      const bool connected = connect();
      return other.get() && connected && send_all(4, number, 10) && receive_all(4, 10);
    }));
  ASSERT_TRUE(control().start("127.0.0.1", port));
  for (int number = 5; number < 5 + peers; ++number) {
    client_may_start.put(number);
    const auto peer = static_cast<unsigned>(number);
    EXPECT_TRUE(receive_all(peer, 10) && send_all(peer, 4, 10));
  }
  for (const auto& client : clients) EXPECT_TRUE(client->join());
  ::unsetenv("CTRL_TRANSPORT");
}

TEST_F(CompatControl, a_peer_that_has_connected_again_keeps_its_number) {
  const Pipe listens, again, refused;
  Child peer([&] {
    bool good = listens.get() == 1 && control().connectTcp(0, "127.0.0.1", port, 5) && control().sendInt(0, 1);
    control().close(0);
    good = good && control().connectTcp(0, "127.0.0.1", port, 5);
    again.put(good ? 1 : 0);
    return refused.get() == 1 && control().sendInt(0, 2);
  });
  Child other([&] { return again.get() == 1 && !control().connectTcp(0, "127.0.0.1", port, 5); });
  ASSERT_TRUE(control().start("127.0.0.1", port));
  listens.put(1);
  EXPECT_TRUE(other.join());
  refused.put(1);
  int value = 0;
  EXPECT_TRUE(control().recvInt(5, value));
  EXPECT_EQ(value, 1);
  EXPECT_TRUE(control().recvInt(5, value));
  EXPECT_EQ(value, 2);
  EXPECT_TRUE(peer.join());
}

TEST_F(CompatControl, a_failed_call_of_communicator_returns_its_reason) {
  ::setenv("HMC_TIMEOUT_S", "1", 1);
  ::unsetenv("HMC_SECRET");
  Communicator communicator(std::make_shared<ConnBuffer>(0, 64, MemoryType::CPU));
  std::uint64_t tag = 0;
  EXPECT_EQ(communicator.ctrlSend(3, 1), status_t::NOT_FOUND);
  EXPECT_EQ(communicator.ctrlRecv(3, &tag), status_t::NOT_FOUND);  // doesn't listen
  EXPECT_EQ(communicator.ctrlRecv(3, nullptr), status_t::NOT_FOUND);
  Communicator::CtrlLink link;
  link.ip = "192.0.2.1";  // of another machine (RFC 5737)
  link.port = port;
  EXPECT_EQ(communicator.connectCtrl(3, 1, link), status_t::INVALID_CONFIG);
  link.ip = "no address";
  EXPECT_EQ(communicator.connectCtrl(3, 1, link), status_t::INVALID_CONFIG);
  link.ip = "127.0.0.1";
  EXPECT_EQ(communicator.connectCtrl(3, 1, link), status_t::TIMEOUT);
  link.transport = Communicator::CtrlTransport::UDS;
  link.uds_path = folder + "/nobody";
  EXPECT_EQ(communicator.connectCtrl(3, 1, link), status_t::TIMEOUT);
  link.uds_path = std::string(200, 'a');
  EXPECT_EQ(communicator.connectCtrl(3, 1, link), status_t::INVALID_CONFIG);

  {
    ::setenv("HMC_SECRET", std::string(64, 'b').c_str(), 1);
    const Pipe listens, done;
    Child other([&] {
      listens.put(control().start("127.0.0.1", port) ? 1 : 0);
      return done.get() == 1;
    });
    ASSERT_EQ(listens.get(), 1);
    EXPECT_EQ(communicator.initCtrlServer("127.0.0.1", port), status_t::INVALID_CONFIG);  // in use
    done.put(1);
    EXPECT_TRUE(other.join());
    ::unsetenv("HMC_SECRET");
  }
  ASSERT_EQ(communicator.initCtrlServer("127.0.0.1", port), status_t::SUCCESS);
  EXPECT_EQ(communicator.ctrlRecv(3, &tag), status_t::TIMEOUT);  // it hasn't connected
  link = {};
  link.ip = "127.0.0.1";
  link.port = port;
  ASSERT_EQ(communicator.connectCtrl(0, 1, link), status_t::SUCCESS);  // to itself
  EXPECT_EQ(communicator.ctrlRecv(1, &tag), status_t::TIMEOUT);
  EXPECT_EQ(communicator.ctrlSend(0, 5), status_t::SUCCESS);
  EXPECT_EQ(communicator.ctrlRecv(1, &tag), status_t::SUCCESS);
  EXPECT_EQ(tag, 5U);
  EXPECT_EQ(communicator.ctrlSend(0, 6), status_t::SUCCESS);
  EXPECT_EQ(communicator.ctrlRecv(1, nullptr), status_t::SUCCESS);
  EXPECT_TRUE(control().sendInt(0, 5));  // not a tag
  EXPECT_EQ(communicator.ctrlRecv(1, &tag), status_t::ERROR);
  EXPECT_EQ(communicator.closeCtrlPeer(0), status_t::SUCCESS);
  EXPECT_EQ(communicator.ctrlRecv(1, &tag), status_t::ERROR);
  EXPECT_EQ(communicator.ctrlSend(1, 1), status_t::ERROR);
}

TEST_F(CompatControl, a_setting_that_excludes_an_address_is_unsupported) {
  ::setenv("CTRL_TRANSPORT", "tcp", 1);
  Communicator communicator(std::make_shared<ConnBuffer>(0, 64, MemoryType::CPU));
  Communicator::CtrlLink link;
  link.transport = Communicator::CtrlTransport::UDS;
  link.uds_path = folder + "/control.sock";
  EXPECT_EQ(communicator.connectCtrl(3, 1, link), status_t::UNSUPPORT);
  ::unsetenv("CTRL_TRANSPORT");
}

TEST_F(CompatControl, a_header_of_four_gigabytes_ends_only_its_connection) {
  ASSERT_TRUE(control().start("127.0.0.1", port) && control().connectTcp(0, "127.0.0.1", port, 1));
  const int stranger = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::connect(stranger, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  const unsigned char header[16] = {'H',  'M',  'C',  '1', hmc::control::protocol_version, 0, 66, 0, 0, 0, 0, 0,
                                    0xff, 0xff, 0xff, 0xff};
  ASSERT_EQ(::send(stranger, header, sizeof header, MSG_NOSIGNAL), 16);
  char byte = 0;
  EXPECT_LE(::recv(stranger, &byte, 1, 0), 0);  // the server closes it
  ::close(stranger);
  int value = 0;
  EXPECT_TRUE(control().sendInt(0, 3) && control().recvInt(1, value));
}

TEST_F(CompatControl, the_older_form_names_peers_by_ip) {
  ::setenv("CTRL_TRANSPORT", "tcp", 1);
  Child client([&] {
    const int fd = control().getCtrlSockFd("127.0.0.1", port);
    int one = 0, value = 0;
    socklen_t length = sizeof one;
    return fd >= 0 && control().getCtrlSockFd("127.0.0.1", port) == fd &&
           ::getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, &length) == 0 && one != 0 &&
           control().sendCtrlInt("127.0.0.1", 42) && control().sendCtrlStruct("127.0.0.1", Record{1, 2}) &&
           control().recvCtrlInt("127.0.0.1", value) && value == 43;
  });
  ASSERT_TRUE(control().startServer("127.0.0.1", port));
  int value = 0;
  Record record{};
  EXPECT_TRUE(control().recvCtrlInt("127.0.0.1", value) && control().recvCtrlStruct("127.0.0.1", record));
  EXPECT_EQ(value, 42);
  EXPECT_EQ(record.value, 2U);
  EXPECT_TRUE(control().sendCtrlInt("127.0.0.1", 43));
  EXPECT_TRUE(client.join());
  control().closeConnection("127.0.0.1");
  control().stopServer();
}

TEST_F(CompatControl, the_older_calls_connect_by_themselves_to_the_standard_port) {
  ::setenv("HMC_CTRL_PORT", std::to_string(port).c_str(), 1);
  const Pipe listens;
  Child sends([&] {
    int value = 0;
    return listens.get() == 1 && control().sendCtrlInt("127.0.0.1", 42) && control().recvCtrlInt("127.0.0.1", value) &&
           value == 43;
  });
  EXPECT_EQ(CtrlSocketManager::port(), port);
  ASSERT_TRUE(control().startServer("127.0.0.1"));
  listens.put(1);
  int value = 0;
  EXPECT_TRUE(control().recvCtrlInt("127.0.0.1", value));
  EXPECT_EQ(value, 42);
  EXPECT_TRUE(control().sendCtrlInt("127.0.0.1", 43));
  EXPECT_TRUE(sends.join());
  ::unsetenv("HMC_CTRL_PORT");
}

TEST_F(CompatControl, a_receive_by_ip_connects_by_itself_and_a_listener_not_to_itself) {
  ::setenv("HMC_CTRL_PORT", std::to_string(port).c_str(), 1);
  const Pipe listens;
  Child receives([&] {
    int value = 0;
    return listens.get() == 1 && control().recvCtrlInt("127.0.0.1", value) && value == 5;
  });
  ASSERT_TRUE(control().startServer("127.0.0.1"));
  EXPECT_FALSE(control().sendCtrlInt("127.0.0.1", 4));  // the address is its own, and no peer has connected yet
  listens.put(1);
  while (!control().sendCtrlInt("127.0.0.1", 5)) std::this_thread::yield();
  EXPECT_TRUE(receives.join());
  ::unsetenv("HMC_CTRL_PORT");
}

TEST_F(CompatControl, a_communicators_server_also_answers_control_calls_by_ip) {
  ::setenv("HMC_CTRL_PORT", std::to_string(port).c_str(), 1);
  const std::uint16_t data_port = free_port();
  const auto buffer = [] { return std::make_shared<ConnBuffer>(0, 4096, MemoryType::CPU); };
  const Pipe listens;
  Child client([&] {
    Communicator communicator(buffer());
    int value = 0;
    return listens.get() == 1 && communicator.connectTo("127.0.0.1", data_port, ConnType::UCX) == status_t::SUCCESS &&
           communicator.writeTo("127.0.0.1", 8, 100, ConnType::UCX) == status_t::SUCCESS &&
           control().sendCtrlInt("127.0.0.1", 1) && control().recvCtrlInt("127.0.0.1", value) && value == 2;
  });
  Communicator communicator(buffer());
  ASSERT_EQ(communicator.initServer("127.0.0.1", data_port, ConnType::UCX), status_t::SUCCESS);
  EXPECT_FALSE(control().isServer());  // until the first call by IP
  listens.put(1);
  int value = 0;
  EXPECT_TRUE(control().recvCtrlInt("127.0.0.1", value));
  EXPECT_EQ(value, 1);
  EXPECT_TRUE(control().sendCtrlInt("127.0.0.1", 2));
  EXPECT_TRUE(client.join());
  EXPECT_EQ(communicator.closeServer(), status_t::SUCCESS);
  EXPECT_FALSE(control().isServer());
  ::unsetenv("HMC_CTRL_PORT");
}

/// The address family of the client's socket; -1 if there is no connection.
int family_of(const std::string& ip, std::uint16_t port) {
  int domain = -1;
  socklen_t length = sizeof domain;
  const int fd = control().getCtrlSockFd(ip, port);
  return fd >= 0 && ::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 ? domain : -1;
}

TEST_F(CompatControl, one_machine_uses_unix_sockets_and_the_setting_forces_a_kind) {
  const struct {
    const char* server;
    const char* client;
    const char* bound;
    int family;
  } cases[] = {{"", "", "127.0.0.1", AF_UNIX},    {"", "", "0.0.0.0", AF_UNIX}, {"tcp", "", "127.0.0.1", AF_INET},
               {"", "tcp", "127.0.0.1", AF_INET}, {"uds", "uds", "", AF_UNIX},  {"uds", "", "::", AF_UNIX}};
  for (const auto& each : cases) {
    const std::uint16_t chosen = free_port();
    const Pipe listens;
    Child server([&] {
      if (*each.server != 0) ::setenv("CTRL_TRANSPORT", each.server, 1);
      int value = 0;
      listens.put(control().startServer(each.bound, chosen) ? 1 : 0);
      return control().recvCtrlInt("127.0.0.1", value) && value == chosen && control().sendCtrlInt("127.0.0.1", -value);
    });
    ASSERT_EQ(listens.get(), 1) << each.bound;
    Child client([&] {
      if (*each.client != 0) ::setenv("CTRL_TRANSPORT", each.client, 1);
      int value = 0;
      return family_of("127.0.0.1", chosen) == each.family && control().sendCtrlInt("127.0.0.1", chosen) &&
             control().recvCtrlInt("127.0.0.1", value) && value == -chosen;
    });
    EXPECT_TRUE(client.join()) << each.bound << " " << each.server << " " << each.client;
    EXPECT_TRUE(server.join()) << each.bound << " " << each.server << " " << each.client;
  }
}

TEST_F(CompatControl, unix_sockets_alone_reach_no_other_machine) {
  ::setenv("CTRL_TRANSPORT", "uds", 1);
  EXPECT_FALSE(control().connectTcp(1, "192.0.2.1", port, 0));  // an address for documentation
}

TEST_F(CompatControl, tcp_alone_uses_no_socket_file) {
  ::setenv("CTRL_TRANSPORT", "tcp", 1);
  const std::string path = CtrlSocketManager::udsPathFor(folder, 0);
  EXPECT_TRUE(control().start("127.0.0.1", port, path));
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_FALSE(control().connectUds(0, path, 1));
}

TEST_F(CompatControl, a_waiting_receiver_does_not_block_senders_to_its_peer) {
  Child client([&] {
    int value = 0;
    return control().connectTcp(0, "127.0.0.1", port, 1) && control().sendInt(0, 1) && control().recvInt(0, value) &&
           value == 2 && control().sendInt(0, 3);
  });
  ASSERT_TRUE(control().start("127.0.0.1", port));
  int value = 0;
  ASSERT_TRUE(control().recvInt(1, value));
  std::thread receiver([] {
    int answer = 0;
    EXPECT_TRUE(control().recvInt(1, answer));  // arrives only after the send below
    EXPECT_EQ(answer, 3);
  });
  EXPECT_TRUE(control().sendInt(1, 2));
  receiver.join();
  EXPECT_TRUE(client.join());
}

TEST_F(CompatControl, close_wakes_a_thread_that_waits) {
  ASSERT_TRUE(control().start("127.0.0.1", port) && control().connectTcp(0, "127.0.0.1", port, 1));
  control().stop();  // so that a recv that starts after close() fails too, and doesn't wait for a new connection
  std::thread waits([] {
    int value = 0;
    EXPECT_FALSE(control().recvInt(0, value));
  });
  control().close(0);
  waits.join();
}

TEST_F(CompatControl, without_a_secret_this_machine_may_connect) {
  ::unsetenv("HMC_SECRET");
  Child client([&] { return control().connectTcp(0, "127.0.0.1", port, 1) && control().sendInt(0, 8); });
  ASSERT_TRUE(control().start("127.0.0.1", port));
  int value = 0;
  EXPECT_TRUE(control().recvInt(1, value));
  EXPECT_EQ(value, 8);
  EXPECT_TRUE(client.join());
}

}  // namespace

}  // namespace hmc::compat
