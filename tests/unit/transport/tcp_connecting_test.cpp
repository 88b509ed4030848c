// TcpLink alone, without threads: how connections are made, and what it reports if they fail.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/base/fd.hpp"
#include "runtime/transport/am/tcp/connection.hpp"
#include "runtime/transport/am/tcp/tcp_link.hpp"
#include "tests/unit/transport/tcp_station.hpp"

#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44
#endif

namespace hmc::transport::tcp {
namespace {

TEST(TcpLink, simultaneous_connects_keep_order_in_both_directions) {
  Station one(0), two(1);
  ASSERT_TRUE(one.connect(two).ok());
  ASSERT_TRUE(two.connect(one).ok());
  constexpr std::size_t count = 300;
  const auto size = [](std::size_t i) { return (i * 977) % (i % 10 == 0 ? 100000 : 9000); };
  for (std::size_t i = 0; i < count; ++i) {
    one.say(two, pattern(size(i), i));
    two.say(one, pattern(size(i), i + 1));
  }
  ASSERT_TRUE(drive_until({&one, &two}, [&] { return one.came.size() == count && two.came.size() == count; }));
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_EQ(one.came[i].message.sequence, i);
    EXPECT_EQ(two.came[i].message.sequence, i);
    EXPECT_TRUE(one.came[i].data == pattern(size(i), i + 1)) << i;
    EXPECT_TRUE(two.came[i].data == pattern(size(i), i)) << i;
  }
}

TEST(TcpLink, higher_rank_waits_for_the_connect_of_the_lower) {
  constexpr Patience patient{.call_ns = 60'000'000'000};
  Station lower(0, 2, patient), higher(1, 2, patient);
  ASSERT_TRUE(higher.connect(lower).ok());
  higher.say(lower, pattern(20000, 1));
  for (int i = 0; i < 20; ++i) (void)higher.drive();
  EXPECT_EQ(higher.sent_well, 0U);
  ASSERT_TRUE(lower.connect(higher).ok());
  lower.say(higher, pattern(30, 2));
  ASSERT_TRUE(drive_until({&lower, &higher}, [&] { return lower.came.size() == 1 && higher.came.size() == 1; }));
  EXPECT_TRUE(lower.came[0].data == pattern(20000, 1));
  EXPECT_EQ(higher.link.describe(0), "a connection that it made");
}

TEST(TcpLink, missing_connect_of_the_peer_is_replaced) {
  Station lower(0), higher(1, 2, {.call_ns = 5'000'000});
  ASSERT_TRUE(higher.connect(lower).ok());
  for (std::size_t i = 0; i < 3; ++i) higher.say(lower, pattern(10000 * i, i));
  // The progress thread may sleep by then, while the caller does something else.
  pollfd wakes{higher.link.event_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&wakes, 1, 10'000), 1);
  ASSERT_TRUE(drive_until({&lower, &higher}, [&] { return lower.came.size() == 3; }));
  EXPECT_TRUE(lower.came[2].data == pattern(20000, 2));
  EXPECT_NE(higher.link.describe(0), "a connection that it made");
}

TEST(TcpLink, disconnect_while_waiting_for_a_connect_returns_messages) {
  Station lower(0), higher(1, 2, {.call_ns = 60'000'000'000});
  ASSERT_TRUE(higher.connect(lower).ok());
  higher.say(lower, pattern(100, 1));
  higher.link.disconnect(0, false);
  ASSERT_EQ(higher.failed.size(), 1U);
  EXPECT_EQ(higher.failed[0].code, Code::peer_failed);
}

/// A port of this machine that nobody listens on.
Address closed_port() {
  const Station gone(1);
  return *decode(gone.link.address());
}

/// A message of rank `client` to `rank` fails with the cause, long before Patience::whole_ns.
void expect_refused_at_once(Station& client, int rank, const Address& address) {
  Station to(rank);
  const auto start = base::Clock::now();
  if (client.link.connect(rank, encode(address)).ok()) {
    client.say(to, pattern(10, 1));
    ASSERT_TRUE(drive_until({&client}, [&] { return !client.failed.empty(); }));
    EXPECT_EQ(client.failed[0].code, Code::peer_failed);
    EXPECT_EQ(client.failed[0].sys_errno, ECONNREFUSED);
    EXPECT_STREQ(client.failed[0].what,
                 "none of its addresses accepts a connection: the rank has ended, or a firewall refuses it");
  }
  EXPECT_LT(base::Clock::now() - start, std::chrono::seconds(5));
}

TEST(TcpLink, refused_connection_reports_the_cause) {
  Station client(0);
  expect_refused_at_once(client, 1, closed_port());
}

// It has waited for the lower rank's connection before, which isn't an attempt that failed.
TEST(TcpLink, refused_connection_of_the_higher_rank_reports_the_cause) {
  Station client(1, 2, {.call_ns = 1'000'000});
  expect_refused_at_once(client, 0, closed_port());
}

// The machine has answered, so its other addresses aren't tried again.
TEST(TcpLink, refusal_counts_although_another_address_has_no_route) {
  const base::Ip here{.bytes_used = 4, .prefix = 8, .bytes = {127, 0, 0, 1}};
  const base::Ip unreachable{.bytes_used = 4, .prefix = 4, .bytes = {224, 0, 0, 1}};  // TCP has no multicast
  Address address = closed_port();
  address.machine = ~address.machine;  // so the listed addresses are tried
  for (const auto& ips : {std::vector{here, unreachable}, std::vector{unreachable, here}}) {
    address.ips = ips;
    Station lower(0), higher(1, 2, {.call_ns = 1'000'000});
    expect_refused_at_once(lower, 1, address);
    expect_refused_at_once(higher, 0, address);
  }
}

TEST(TcpLink, unreadable_address_is_rejected) {
  Station client(0);
  EXPECT_EQ(client.link.connect(1, base::Bytes(5)).code, Code::refused);
}

/// A listener with a full queue: a connection attempt gets no answer.
class DeafPort {
 public:
  DeafPort() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in here{};
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof here;
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&here), length), 0);
    EXPECT_EQ(::listen(listener_.get(), 0), 0);
    EXPECT_EQ(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&here), &length), 0);
    address_ = *decode(Station(1).link.address());
    address_.port = ntohs(here.sin_port);
    for (auto& one : fill_) {
      one = base::UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
      (void)::connect(one.get(), reinterpret_cast<const sockaddr*>(&here), length);
    }
  }
  base::Bytes address() const { return encode(address_); }
  /// The queue has room again.
  void accept_all() const {
    for (int i = 0; i < 2; ++i) base::UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)).reset();
  }

 private:
  base::UniqueFd listener_;
  base::UniqueFd fill_[4];
  Address address_;
};

constexpr Patience soon{.each_ns = 200'000'000, .whole_ns = 400'000'000, .call_ns = 0};

// If a path works in one direction only, or a SYN is lost, the connection that the other side made is used.
TEST(TcpLink, accepted_connection_is_used_before_an_answer) {
  const DeafPort deaf;
  Station client(0, 2, soon), server(1);
  ASSERT_TRUE(client.link.connect(1, deaf.address()).ok());
  client.say(server, pattern(10, 1));
  ASSERT_TRUE(server.connect(client).ok());
  server.say(client, pattern(20, 2));
  ASSERT_TRUE(drive_until({&client, &server}, [&] { return !server.came.empty() && !client.came.empty(); }));
  EXPECT_EQ(server.came[0].data, pattern(10, 1));
  EXPECT_EQ(client.came[0].data, pattern(20, 2));
  EXPECT_TRUE(client.lost_ranks.empty());
  EXPECT_TRUE(client.failed.empty());
  EXPECT_EQ(client.sent_well, 1U);
  EXPECT_TRUE(client.link.arm());
  client.say(server, pattern(30, 3));
  ASSERT_TRUE(drive_until({&client, &server}, [&] { return server.came.size() == 2; }));
}

TEST(TcpLink, unanswered_connect_is_abandoned_with_the_cause) {
  const DeafPort deaf;
  Station client(0, 2, soon), to(1);
  ASSERT_TRUE(client.link.connect(1, deaf.address()).ok());
  EXPECT_FALSE(client.link.arm()) << "it has a deadline";
  client.say(to, pattern(10, 1));
  ASSERT_TRUE(drive_until({&client}, [&] { return !client.failed.empty(); }));
  EXPECT_EQ(client.failed[0].sys_errno, ETIMEDOUT);
  ASSERT_EQ(client.lost_ranks.size(), 1U);
  EXPECT_TRUE(client.link.arm()) << "a closed connection is still counted";
}

// As after an outage of the network.
TEST(TcpLink, address_that_answers_later_is_tried_again) {
  const DeafPort deaf;
  Station client(0, 2, {.each_ns = 50'000'000, .whole_ns = 20'000'000'000, .call_ns = 0}), to(1);
  ASSERT_TRUE(client.link.connect(1, deaf.address()).ok());
  client.say(to, pattern(10, 1));
  for (const auto rounds = base::Deadline::after(std::chrono::milliseconds(400)); !rounds.expired();) client.drive();
  EXPECT_TRUE(client.failed.empty());
  deaf.accept_all();
  EXPECT_TRUE(drive_until({&client}, [&] { return client.sent_well == 1; }));
}

TEST(TcpLink, disconnect_while_connecting_returns_messages) {
  const DeafPort deaf;
  for (const bool at_once : {true, false}) {
    Station client(0), to(1);
    ASSERT_TRUE(client.link.connect(1, deaf.address()).ok());
    client.say(to, pattern(10, 1));
    EXPECT_TRUE(client.failed.empty());
    client.link.disconnect(1, at_once);
    EXPECT_EQ(client.failed.size(), 1U);
    EXPECT_EQ(client.link.ending(), 0U);
    EXPECT_TRUE(client.link.arm()) << "a closed connection is still counted";
    settle(client);
  }
}

/// The congestion control after prepare() of a socket that had `before`; empty if it can't be set to `before`.
std::string prepared(const char* before, Distance distance, Bbr bbr) {
  const base::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::setsockopt(fd.get(), IPPROTO_TCP, TCP_CONGESTION, before, static_cast<socklen_t>(std::strlen(before))) != 0)
    return {};
  prepare(fd.get(), distance, bbr, 10);
  char name[16] = {};
  socklen_t length = sizeof name;
  EXPECT_EQ(::getsockopt(fd.get(), IPPROTO_TCP, TCP_CONGESTION, name, &length), 0);
  return name;
}

TEST(TcpConnection, reno_replaces_bbr_only_on_near_connections) {
  EXPECT_TRUE(prefers_reno("bbr", Distance::machine, Bbr::replace));
  EXPECT_TRUE(prefers_reno("bbr2", Distance::network, Bbr::replace));
  EXPECT_FALSE(prefers_reno("bbr", Distance::further, Bbr::replace));
  EXPECT_FALSE(prefers_reno("bbr", Distance::machine, Bbr::keep));
  EXPECT_FALSE(prefers_reno("cubic", Distance::machine, Bbr::replace));
}

// Every kernel has reno and allows every process to choose it.
TEST(TcpConnection, system_congestion_control_is_kept_unless_bbr) {
  for (const Distance distance : {Distance::machine, Distance::network, Distance::further})
    EXPECT_EQ(prepared("reno", distance, Bbr::replace), "reno");
}

TEST(TcpConnection, reno_is_set_in_place_of_bbr_on_near_connections) {
  if (prepared("bbr", Distance::further, Bbr::replace).empty())
    GTEST_SKIP() << "this kernel has no bbr, or doesn't allow it";
  EXPECT_EQ(prepared("bbr", Distance::machine, Bbr::replace), "reno");
  EXPECT_EQ(prepared("bbr", Distance::further, Bbr::replace), "bbr");
  EXPECT_EQ(prepared("bbr", Distance::machine, Bbr::keep), "bbr");
}

/// -1: the kernel doesn't know the option.
int option_of(const base::UniqueFd& socket, int level, int option) {
  int value = -1;
  socklen_t length = sizeof value;
  return ::getsockopt(socket.get(), level, option, &value, &length) == 0 ? value : -1;
}

TEST(TcpConnection, connections_to_other_machines_outlive_short_outages_and_stopped_readers) {
  for (const Distance distance : {Distance::network, Distance::further}) {
    const base::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const bool often = option_of(fd, IPPROTO_TCP, TCP_RTO_MAX_MS) >= 0;
    prepare(fd.get(), distance, Bbr::replace, 10);
    EXPECT_EQ(option_of(fd, IPPROTO_TCP, TCP_RTO_MAX_MS), often ? 1000 : -1);
    EXPECT_EQ(option_of(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), 0);
    EXPECT_EQ(option_of(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
  }
}

}  // namespace
}  // namespace hmc::transport::tcp
