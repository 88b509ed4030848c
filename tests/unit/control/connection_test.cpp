#include "runtime/control/connection.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstdlib>

#include "runtime/base/segment.hpp"
#include "runtime/control/socket.hpp"

namespace hmc::control {
namespace {

using Side = Connection::Side;

// A protocol of two messages.
enum class Type : std::uint16_t { number = 2, large };
struct Number {
  std::int32_t value = 0;
  static constexpr auto type = Type::number;
  static constexpr auto fields = std::tuple(&Number::value);
};
struct Large {
  base::Bytes bytes;
  static constexpr auto type = Type::large;
  static constexpr auto fields = std::tuple(&Large::bytes);
};
std::optional<std::size_t> limit_of(MessageType type) noexcept {
  return static_cast<Type>(type) == Type::number ? std::size_t{64} : std::size_t{16} << 20;
}
std::int32_t number_in(const Frame& frame) {
  const auto number = base::decode<Number>(frame.payload);
  return number ? number->value : -1;
}

base::Deadline soon() { return base::Deadline::after(std::chrono::seconds(20)); }

std::pair<base::UniqueFd, base::UniqueFd> socket_pair() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0) std::abort();
  return {base::UniqueFd(fds[0]), base::UniqueFd(fds[1])};
}

/// The next message, or nullopt after the connection has ended.
std::optional<Frame> next_of(Connection& one, Connection& other, std::vector<base::UniqueFd>& fds) {
  const auto deadline = soon();
  while (!deadline.expired()) {
    if (auto frame = one.next(fds)) return frame;
    if (one.ended()) return std::nullopt;
    move_or_sleep(other, 0);
    std::vector<base::UniqueFd> none;
    (void)other.next(none);  // its part of the hello
    move_or_sleep(one, 1);
  }
  ADD_FAILURE() << "no message arrived";
  return std::nullopt;
}

/// Reads all bytes that are available in a socket.
base::Bytes drain(int socket) {
  base::Bytes all(65536);
  std::vector<base::UniqueFd> none;
  all.resize(receive_some(socket, all, none).bytes);
  return all;
}

TEST(Connection, authenticated_ends_exchange_messages) {
  auto [a, b] = socket_pair();
  const Secret secret = Secret::random();
  Connection client(std::move(a), secret, Side::client, &limit_of);
  Connection server(std::move(b), secret, Side::server, &limit_of);
  std::vector<base::UniqueFd> fds;
  client.send(Number{1});
  EXPECT_EQ(number_in(*next_of(server, client, fds)), 1);
  EXPECT_TRUE(server.authenticated());
  server.send(Number{2});
  EXPECT_EQ(number_in(*next_of(client, server, fds)), 2);
  EXPECT_TRUE(client.authenticated());
}

/// Sets HMC_TLS for the life of the object.
struct WithTls {
  WithTls() { ::setenv("HMC_TLS", "1", 1); }
  ~WithTls() { ::unsetenv("HMC_TLS"); }
};

/// A connected pair of TCP sockets.
std::pair<base::UniqueFd, base::UniqueFd> tcp_pair() {
  const base::UniqueFd listener = listen_tcp("127.0.0.1:0");
  base::UniqueFd a = connect_tcp(address_of(listener.get()), soon());
  base::UniqueFd b;
  bool exhausted = false;
  while (!b) b = accept_one(listener.get(), exhausted);
  return {std::move(a), std::move(b)};
}

TEST(Connection, tls_encrypts_tcp_connections) {
  const WithTls tls;
  auto [a, b] = tcp_pair();
  const Secret secret = Secret::random();
  Connection client(std::move(a), secret, Side::client, &limit_of);
  std::array<std::byte, 1> first{};
  while (::recv(b.get(), first.data(), 1, MSG_PEEK) < 0 && errno == EAGAIN) {
  }
  EXPECT_EQ(first[0], std::byte{0x16});  // a TLS handshake record, and not a frame of HMC
  Connection server(std::move(b), secret, Side::server, &limit_of);
  client.send(Number{7});
  std::vector<base::UniqueFd> fds;
  EXPECT_EQ(number_in(*next_of(server, client, fds)), 7);
  server.send(Number{8});
  EXPECT_EQ(number_in(*next_of(client, server, fds)), 8);
}

TEST(Connection, peer_without_tls_is_rejected) {
  auto [a, b] = tcp_pair();
  const Secret secret = Secret::random();
  Connection client(std::move(a), secret, Side::client, &limit_of);
  const WithTls tls;
  Connection server(std::move(b), secret, Side::server, &limit_of);
  while (!server.ended()) server.read();
  EXPECT_THAT(server.fault(), testing::HasSubstr("TLS"));
}

TEST(Connection, different_secret_is_rejected) {
  auto [a, b] = socket_pair();
  Connection client(std::move(a), Secret::random(), Side::client, &limit_of);
  Connection server(std::move(b), Secret::random(), Side::server, &limit_of);
  client.send(Number{1});
  std::vector<base::UniqueFd> fds;
  EXPECT_FALSE(next_of(server, client, fds));
  EXPECT_FALSE(server.authenticated());
  EXPECT_FALSE(server.fault().empty());
}

TEST(Connection, replayed_handshake_is_rejected) {
  const Secret secret = Secret::random();
  base::Bytes recording;
  {
    auto [a, b] = socket_pair();
    Connection client(std::move(a), secret, Side::client, &limit_of);
    recording = drain(b.get());  // its hello
    ASSERT_EQ(send_some(b.get(), recording, {}).bytes, recording.size());
  }
  auto [stranger, b] = socket_pair();
  Connection server(std::move(b), secret, Side::server, &limit_of);
  ASSERT_EQ(send_some(stranger.get(), recording, {}).bytes, recording.size());
  std::vector<base::UniqueFd> fds;
  server.read();
  EXPECT_FALSE(server.next(fds));
  EXPECT_FALSE(server.authenticated()) << "a hello alone may be a replay";
  // Frames signed for the recorded connection aren't valid in this one.
  FrameSealer guess;
  guess.rekey(secret, Direction::to_server);
  (void)send_some(stranger.get(), guess.seal(static_cast<MessageType>(Number::type), base::encode(Number{1})), {});
  server.read();
  EXPECT_FALSE(server.next(fds));
  EXPECT_TRUE(server.ended());
  EXPECT_FALSE(server.authenticated());
}

TEST(Connection, reflected_hello_is_rejected) {
  auto [a, b] = socket_pair();
  Connection client(std::move(a), Secret::random(), Side::client, &limit_of);
  const base::Bytes hello = drain(b.get());
  (void)send_some(b.get(), hello, {});
  std::vector<base::UniqueFd> fds;
  client.read();
  EXPECT_FALSE(client.next(fds));
  EXPECT_TRUE(client.ended());
  EXPECT_FALSE(client.authenticated());
}

TEST(Connection, different_version_is_named_on_both_ends) {
  const Secret secret = Secret::random();
  auto [a, b] = socket_pair();
  Connection client(std::move(a), secret, Side::client, &limit_of);
  base::Bytes hello = drain(b.get());
  hello[4] = std::byte{9};  // the version's low byte
  auto [c, d] = socket_pair();
  Connection server(std::move(d), secret, Side::server, &limit_of);
  (void)send_some(c.get(), hello, {});
  std::vector<base::UniqueFd> fds;
  server.read();
  EXPECT_FALSE(server.next(fds));
  EXPECT_THAT(server.fault(), testing::AllOf(testing::HasSubstr("version 9"),
                                             testing::HasSubstr(fmt::format("uses {}", protocol_version))));

  base::Bytes answer = drain(c.get());  // reports this server's version to the client
  ASSERT_GE(answer.size(), frame_header_bytes);
  answer[4] = std::byte{9};  // as from a server of version 9
  (void)send_some(b.get(), answer, {});
  client.read();
  EXPECT_FALSE(client.next(fds));
  EXPECT_EQ(client.fault_code(), Code::invalid_config);
  EXPECT_THAT(client.fault(), testing::AllOf(testing::HasSubstr("version 9"),
                                             testing::HasSubstr(fmt::format("uses {}", protocol_version))));
}

TEST(Connection, passed_descriptors_are_closed_on_exec) {
  auto [a, b] = socket_pair();
  const Secret secret = Secret::random();
  Connection client(std::move(a), secret, Side::client, &limit_of);
  Connection server(std::move(b), secret, Side::server, &limit_of);
  client.send(Number{1});
  std::vector<base::UniqueFd> fds;
  (void)next_of(server, client, fds);

  const auto segment = base::Segment::create(4096);
  for (std::size_t count : {std::size_t{1}, std::size_t{3}, most_fds_per_frame}) {
    std::vector<SharedFd> out;
    for (std::size_t i = 0; i < count; ++i) {
      out.push_back(std::make_shared<base::UniqueFd>(::fcntl(segment->fd(), F_DUPFD_CLOEXEC, 0)));
    }
    client.send(Number{7});  // before and after: without descriptors
    client.send(Number{8}, std::move(out));
    client.send(Number{9});
    for (const int expected : {7, 8, 9}) {
      fds.clear();
      const auto frame = next_of(server, client, fds);
      ASSERT_TRUE(frame);
      EXPECT_EQ(number_in(*frame), expected);
      ASSERT_EQ(fds.size(), expected == 8 ? count : 0U);
      for (const base::UniqueFd& each : fds) EXPECT_NE(::fcntl(each.get(), F_GETFD) & FD_CLOEXEC, 0);
    }
  }
}

TEST(Connection, large_message_is_sent_through_a_small_buffer) {
  auto [a, b] = socket_pair();
  const Secret secret = Secret::random();
  Connection client(std::move(a), secret, Side::client, &limit_of);
  Connection server(std::move(b), secret, Side::server, &limit_of);
  Large large{base::Bytes(8U << 20)};
  for (std::size_t i = 0; i < large.bytes.size(); ++i) large.bytes[i] = static_cast<std::byte>(i % 251);
  client.send(large);
  std::vector<base::UniqueFd> fds;
  const auto frame = next_of(server, client, fds);
  ASSERT_TRUE(frame);
  EXPECT_EQ(base::decode<Large>(frame->payload)->bytes, large.bytes);
}

TEST(Connection, messages_sent_before_the_end_are_received) {
  auto [a, b] = socket_pair();
  const Secret secret = Secret::random();
  Connection server(std::move(b), secret, Side::server, &limit_of);
  std::vector<base::UniqueFd> fds;
  {
    Connection client(std::move(a), secret, Side::client, &limit_of);
    client.send(Number{1});
    (void)next_of(server, client, fds);
    client.send(Number{2});
  }
  server.read();
  const auto last = server.next(fds);
  ASSERT_TRUE(last);
  EXPECT_EQ(number_in(*last), 2);
  server.read();
  EXPECT_FALSE(server.next(fds));
  EXPECT_TRUE(server.ended());
  EXPECT_EQ(server.fault(), "");
}

}  // namespace
}  // namespace hmc::control
