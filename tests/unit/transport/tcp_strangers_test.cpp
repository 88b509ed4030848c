// TcpLink alone, without threads: strangers, and ranks whose messages are rejected.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "runtime/transport/am/tcp/tcp_link.hpp"
#include "tests/unit/transport/tcp_station.hpp"

namespace hmc::transport::tcp {
namespace {

TEST(TcpLink, garbage_of_an_unknown_peer_is_dropped_and_counted) {
  Station server(0), client(1);
  for (int kind = 0; kind < 3; ++kind) {
    RawSocket raw(server.port());
    std::vector<std::byte> garbage = pattern(5000, 77);
    if (kind == 1) std::ranges::fill(garbage, std::byte{0});
    if (kind == 2) std::ranges::fill(garbage, std::byte{0xff});
    ASSERT_TRUE(raw.say(garbage));
    ASSERT_TRUE(drive_until({&server}, [&] { return raw.ended(); }));
    EXPECT_EQ(server.strangers, kind + 1);
  }
  EXPECT_TRUE(server.came.empty());
  EXPECT_TRUE(server.lost_ranks.empty());
  expect_served(server, client);
}

TEST(TcpLink, header_with_a_wrong_tag_is_unknown) {
  Station server(0), client(1);
  expect_served(server, client);
  RawSocket raw(server.port());
  Message message = client.message_to(server, 8);
  message.tag ^= 1;
  ASSERT_TRUE(raw.say(frame(message, pattern(8, 1))));
  ASSERT_TRUE(drive_until({&server}, [&] { return raw.ended(); }));
  EXPECT_EQ(server.strangers, 1);
  EXPECT_EQ(server.came.size(), 1U);
  EXPECT_TRUE(server.lost_ranks.empty()) << "the rank whose number the stranger used is affected";
}

TEST(TcpLink, silent_connections_are_limited_and_a_rank_can_connect) {
  Station server(0), client(1);
  std::vector<std::unique_ptr<RawSocket>> silent;
  constexpr std::ptrdiff_t most = 64 + 2;
  for (int i = 0; i < 150; ++i) {
    silent.push_back(std::make_unique<RawSocket>(server.port()));
    settle(server);
  }
  const auto open = std::ranges::count_if(silent, [](const auto& one) { return !one->ended(); });
  EXPECT_EQ(open, most);
  EXPECT_FALSE(silent.back()->ended()) << "the oldest isn't closed first";
  EXPECT_EQ(server.strangers, 150 - most);
  expect_served(server, client);
}

// The rank's first message may have arrived but not been read.
TEST(TcpLink, rank_among_many_unknown_peers_is_accepted) {
  Station server(0), client(1);
  RawSocket rank(server.port()), other(server.port()), third(server.port());
  settle(server);
  std::vector<std::unique_ptr<RawSocket>> silent;
  for (int i = 0; i < 120; ++i) silent.push_back(std::make_unique<RawSocket>(server.port()));
  ASSERT_TRUE(rank.say(frame(client.message_to(server, 4), pattern(4, 1))));
  settle(server);
  EXPECT_FALSE(rank.ended());
  EXPECT_EQ(server.came.size(), 1U);
  EXPECT_TRUE(server.lost_ranks.empty());
}

TEST(TcpLink, connection_that_names_a_second_rank_is_closed) {
  Station server(0, 3), one(1, 3), two(2, 3);
  RawSocket raw(server.port());
  ASSERT_TRUE(raw.say(frame(one.message_to(server, 4), pattern(4, 1))));
  ASSERT_TRUE(drive_until({&server}, [&] { return server.came.size() == 1; }));
  ASSERT_TRUE(raw.say(frame(two.message_to(server, 4), pattern(4, 2))));
  ASSERT_TRUE(drive_until({&server}, [&] { return raw.ended(); }));
  EXPECT_EQ(server.came.size(), 1U);
  ASSERT_EQ(server.lost_ranks.size(), 1U);
  EXPECT_EQ(server.lost_ranks[0].first, 1);
}

TEST(TcpLink, inconsistent_length_closes_the_connection) {
  Station server(0), client(1);
  RawSocket raw(server.port());
  auto all = frame(client.message_to(server, 8), pattern(8, 1));
  const std::uint64_t huge = 1 << 30;
  std::memcpy(all.data(), &huge, sizeof huge);
  ASSERT_TRUE(raw.say(all));
  EXPECT_TRUE(drive_until({&server}, [&] { return raw.ended(); }));
  EXPECT_TRUE(server.came.empty());
}

TEST(TcpLink, invalid_large_message_closes_the_connection) {
  Station server(0), client(1);
  expect_served(server, client);
  server.believes = false;
  client.say(server, pattern(most_gathered + 1, 4));
  ASSERT_TRUE(
      drive_until({&server, &client}, [&] { return !server.lost_ranks.empty() && !client.lost_ranks.empty(); }));
  EXPECT_EQ(server.came.size(), 1U);
}

}  // namespace
}  // namespace hmc::transport::tcp
