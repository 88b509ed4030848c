// The addresses that a rank publishes, and the order in which a peer tries them.
#include "runtime/transport/am/tcp/addresses.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

namespace hmc::transport::tcp {
namespace {

Ip ip_of(const char* text, std::uint8_t prefix) {
  Ip ip;
  ip.bytes_used = std::strchr(text, ':') != nullptr ? 16 : 4;
  ip.prefix = prefix;
  if (::inet_pton(ip.bytes_used == 16 ? AF_INET6 : AF_INET, text, ip.bytes.data()) != 1) ADD_FAILURE() << text;
  return ip;
}

Address at(std::uint64_t machine, std::vector<Ip> ips) {
  return {.machine = machine, .port = 4711, .ips = std::move(ips)};
}

std::vector<std::string> texts(const Address& mine, const Address& theirs) {
  std::vector<std::string> all;
  for (const Candidate& one : candidates(mine, theirs)) all.push_back(base::text_of(one.address));
  return all;
}
using Texts = std::vector<std::string>;

// The layout of encode(): machine (8 bytes), port (2), count (1), then for each address its size, prefix and bytes.
constexpr std::size_t count_at = 10, first_size_at = 11, first_prefix_at = 12, second_size_at = 17;

const Address& some() {
  static const Address address = at(0x1122334455667788, {ip_of("10.1.2.3", 24), ip_of("2001:db8::7", 64)});
  return address;
}

TEST(TcpAddresses, addresses_are_decoded_unchanged) {
  const auto back = decode(encode(some()));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->machine, some().machine);
  EXPECT_EQ(back->port, some().port);
  ASSERT_EQ(back->ips.size(), some().ips.size());
  for (std::size_t i = 0; i < back->ips.size(); ++i) {
    EXPECT_EQ(back->ips[i].bytes_used, some().ips[i].bytes_used);
    EXPECT_EQ(back->ips[i].prefix, some().ips[i].prefix);
    EXPECT_EQ(back->ips[i].bytes, some().ips[i].bytes);
  }
}

TEST(TcpAddresses, loopback_only_rank_is_decoded_unchanged) {
  const auto back = decode(encode(at(7, {})));
  ASSERT_TRUE(back.has_value());
  EXPECT_TRUE(back->ips.empty());
}

TEST(TcpAddresses, truncated_addresses_are_rejected) {
  const base::Bytes whole = encode(some());
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes)
    EXPECT_FALSE(decode(base::ByteView(whole).first(bytes)).has_value()) << bytes;
}

TEST(TcpAddresses, trailing_bytes_are_rejected) {
  base::Bytes longer = encode(some());
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decode(longer).has_value());
}

TEST(TcpAddresses, invalid_count_size_or_prefix_is_rejected) {
  const base::Bytes whole = encode(some());
  const auto refused = [&](std::size_t position, unsigned value) {
    base::Bytes broken = whole;
    broken[position] = static_cast<std::byte>(value);
    return !decode(broken).has_value();
  };
  ASSERT_EQ(whole[count_at], std::byte{2});
  ASSERT_EQ(whole[first_size_at], std::byte{4});
  ASSERT_EQ(whole[second_size_at], std::byte{16});
  for (unsigned value = 0; value < 256; ++value) {
    EXPECT_EQ(refused(count_at, value), value != 2) << value;
    EXPECT_EQ(refused(first_size_at, value), value != 4) << value;
    EXPECT_EQ(refused(second_size_at, value), value != 16) << value;
    EXPECT_EQ(refused(first_prefix_at, value), value > 32) << value;
    EXPECT_EQ(refused(second_size_at + 1, value), value > 128) << value;
  }
}

TEST(TcpAddresses, addresses_without_a_port_are_rejected) {
  Address address = some();
  address.port = 0;
  EXPECT_FALSE(decode(encode(address)).has_value());
}

TEST(TcpAddresses, one_machine_uses_loopback_only) {
  const Address mine = at(7, {ip_of("10.1.2.3", 24)});
  const auto all = candidates(mine, mine);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].distance, Distance::machine);
  EXPECT_EQ(base::text_of(all[0].address), "127.0.0.1:4711");
}

TEST(TcpAddresses, unknown_machine_uses_loopback_last) {
  const auto all = candidates(at(0, {ip_of("10.1.2.3", 24)}), at(0, {ip_of("10.1.2.4", 24)}));
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].distance, Distance::network);
  EXPECT_EQ(all[1].distance, Distance::machine);
  EXPECT_EQ(texts(at(0, {}), at(0, {})), Texts{"127.0.0.1:4711"});
}

TEST(TcpAddresses, addresses_of_a_shared_network_are_first) {
  const Address mine = at(1, {ip_of("192.168.5.1", 23), ip_of("2001:db8::1", 64)});
  const Address theirs = at(2, {ip_of("10.0.0.9", 8), ip_of("2001:db8:0:1::9", 64), ip_of("192.168.4.200", 23),
                                ip_of("192.168.5.7", 24), ip_of("2001:db8::9", 64)});
  EXPECT_EQ(texts(mine, theirs), (Texts{"192.168.4.200:4711", "[2001:db8::9]:4711", "10.0.0.9:4711",
                                        "[2001:db8:0:1::9]:4711", "192.168.5.7:4711"}));
}

// A container bridge has the same address on every machine, so that address leads back to this machine.
TEST(TcpAddresses, own_addresses_are_not_tried_on_another_machine) {
  const Address mine = at(1, {ip_of("172.17.0.1", 16), ip_of("10.0.0.1", 24)});
  const Address theirs = at(2, {ip_of("172.17.0.1", 16), ip_of("10.0.0.2", 24)});
  EXPECT_EQ(texts(mine, theirs), Texts{"10.0.0.2:4711"});
}

TEST(TcpAddresses, own_addresses_are_last_on_an_unknown_machine) {
  const Address mine = at(0, {ip_of("172.17.0.1", 16), ip_of("10.0.0.1", 24)});
  const Address theirs = at(2, {ip_of("172.17.0.1", 16), ip_of("10.9.0.2", 24)});
  EXPECT_EQ(texts(mine, theirs), (Texts{"10.9.0.2:4711", "172.17.0.1:4711", "127.0.0.1:4711"}));
}

sockaddr_storage socket_address(const char* text) {
  sockaddr_storage out{};
  auto& four = reinterpret_cast<sockaddr_in&>(out);
  auto& six = reinterpret_cast<sockaddr_in6&>(out);
  if (::inet_pton(AF_INET, text, &four.sin_addr) == 1)
    out.ss_family = AF_INET;
  else if (::inet_pton(AF_INET6, text, &six.sin6_addr) == 1)
    out.ss_family = AF_INET6;
  return out;
}

TEST(TcpAddresses, peer_address_has_its_distance) {
  const Address mine = at(1, {ip_of("192.168.5.1", 23), ip_of("2001:db8::1", 64)});
  for (const char* machine : {"127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1"})
    EXPECT_EQ(distance_of(mine, socket_address(machine)), Distance::machine) << machine;
  for (const char* network : {"192.168.4.200", "::ffff:192.168.5.9", "2001:db8::77"})
    EXPECT_EQ(distance_of(mine, socket_address(network)), Distance::network) << network;
  for (const char* further : {"192.168.6.1", "::ffff:10.0.0.1", "2001:db8:0:1::1"})
    EXPECT_EQ(distance_of(mine, socket_address(further)), Distance::further) << further;
  EXPECT_EQ(distance_of(mine, {}), Distance::further);
  const auto all = candidates(mine, at(2, {ip_of("10.0.0.9", 8), ip_of("192.168.4.200", 23)}));
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].distance, Distance::network);
  EXPECT_EQ(all[1].distance, Distance::further);
}

TEST(TcpAddresses, addresses_of_this_process_can_be_encoded) {
  Address mine = own_address();
  mine.port = 1;
  const auto back = decode(encode(mine));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->machine, mine.machine);
  EXPECT_EQ(back->ips.size(), mine.ips.size());
  EXPECT_EQ(own_address().machine, mine.machine);
}

}  // namespace
}  // namespace hmc::transport::tcp
