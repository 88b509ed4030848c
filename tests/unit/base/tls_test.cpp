#include "runtime/base/tls.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>
#include <vector>

#include "runtime/base/fd.hpp"

namespace hmc::base {
namespace {

TlsKey key_of(int number) {
  TlsKey key{};
  for (std::size_t i = 0; i < key.size(); ++i)
    key[i] = static_cast<std::byte>(i * 7 + static_cast<std::size_t>(number));
  return key;
}

/// Two sockets with a process between them, which records the bytes of both directions.
struct Wire {
  Wire() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    client.reset(ends[0]);
    client_side.reset(ends[1]);
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    server.reset(ends[0]);
    server_side.reset(ends[1]);
  }
  void pass() {
    move(client_side.get(), server_side.get());
    move(server_side.get(), client_side.get());
  }
  void move(int from, int to) {
    char buffer[4096];
    const ssize_t count = ::recv(from, buffer, sizeof buffer, MSG_DONTWAIT);
    if (count <= 0) return;
    seen.append(buffer, static_cast<std::size_t>(count));
    EXPECT_EQ(::send(to, buffer, static_cast<std::size_t>(count), MSG_NOSIGNAL), count);
  }
  UniqueFd client, client_side, server, server_side;
  std::string seen;
};

/// Sends `data` through the session; returns the received bytes, or an empty string with errno.
std::string send_through(Wire& wire, Tls& from, Tls& to, const std::string& data) {
  std::string got;
  std::vector<char> buffer(5000);
  for (std::size_t sent = 0; got.size() < data.size();) {
    const ssize_t count = sent < data.size() ? from.write(data.data() + sent, data.size() - sent) : -1;
    if (count > 0) sent += static_cast<std::size_t>(count);
    if (count < 0 && sent < data.size() && errno != EAGAIN) return {};
    wire.pass();
    const ssize_t read = to.read(buffer.data(), buffer.size());
    if (read > 0) got.append(buffer.data(), static_cast<std::size_t>(read));
    if (read == 0 || (read < 0 && errno != EAGAIN)) return {};
    char none = 0;
    if (from.read(&none, 0) < 0 && errno != EAGAIN && errno != 0) return {};
  }
  return got;
}

TEST(Tls, bytes_arrive_unchanged_and_encrypted) {
  Wire wire;
  Tls client(wire.client.get(), Tls::Side::client, key_of(1));
  Tls server(wire.server.get(), Tls::Side::server, key_of(1));
  std::string text;
  for (int i = 0; text.size() < 300'000; ++i) text += "a secret line " + std::to_string(i) + "\n";
  EXPECT_EQ(send_through(wire, client, server, text), text);
  EXPECT_EQ(send_through(wire, server, client, text + "back"), text + "back");
  EXPECT_GT(wire.seen.size(), 2 * text.size());
  EXPECT_EQ(wire.seen.find("secret line"), std::string::npos);
}

TEST(Tls, different_key_is_refused_by_both_ends) {
  Wire wire;
  Tls client(wire.client.get(), Tls::Side::client, key_of(1));
  Tls server(wire.server.get(), Tls::Side::server, key_of(2));
  char byte = 'x';
  bool client_refuses = false, server_refuses = false;
  for (int i = 0; i < 100 && !(client_refuses && server_refuses); ++i) {
    client_refuses = client_refuses || (client.write(&byte, 1) < 0 && errno == EPROTO);
    wire.pass();
    server_refuses = server_refuses || (server.read(&byte, 1) < 0 && errno == EPROTO);
    wire.pass();
  }
  EXPECT_TRUE(client_refuses);
  EXPECT_TRUE(server_refuses);
}

TEST(Tls, unencrypted_peer_is_refused) {
  Wire wire;
  Tls server(wire.server.get(), Tls::Side::server, key_of(1));
  const std::string text = "HMC1 a message of a process without TLS, longer than a record's header";
  ASSERT_EQ(::send(wire.client.get(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  wire.pass();
  char byte = 0;
  EXPECT_EQ(server.read(&byte, 1), -1);
  EXPECT_EQ(errno, EPROTO);
}

TEST(Tls, changed_byte_is_detected) {
  Wire wire;
  Tls client(wire.client.get(), Tls::Side::client, key_of(1));
  Tls server(wire.server.get(), Tls::Side::server, key_of(1));
  ASSERT_EQ(send_through(wire, client, server, "first"), "first");
  ASSERT_EQ(client.write("second", 6), 6);
  char record[256];
  const ssize_t count = ::recv(wire.client_side.get(), record, sizeof record, MSG_DONTWAIT);
  ASSERT_GT(count, 10);
  record[count - 1] = static_cast<char>(record[count - 1] ^ 1);
  ASSERT_EQ(::send(wire.server_side.get(), record, static_cast<std::size_t>(count), MSG_NOSIGNAL), count);
  char byte = 0;
  EXPECT_EQ(server.read(&byte, 1), -1);
  EXPECT_EQ(errno, EPROTO);
}

TEST(Tls, end_of_the_stream_is_reported) {
  Wire wire;
  Tls client(wire.client.get(), Tls::Side::client, key_of(1));
  Tls server(wire.server.get(), Tls::Side::server, key_of(1));
  ASSERT_EQ(send_through(wire, client, server, "first"), "first");
  wire.server_side.reset();
  char byte = 0;
  EXPECT_EQ(server.read(&byte, 1), 0);
  EXPECT_LT(server.write(&byte, 1), 0);  // without SIGPIPE
  EXPECT_EQ(errno, EPIPE);
}

}  // namespace
}  // namespace hmc::base
