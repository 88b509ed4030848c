// TcpLink alone, without threads: frames that arrive in parts, and connections that end.
#include "runtime/transport/am/tcp/tcp_link.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "tests/unit/transport/tcp_station.hpp"

namespace hmc::transport::tcp {
namespace {

using Sizes = std::vector<std::size_t>;

TEST(TcpLink, every_size_around_thresholds_is_received_in_order) {
  Station server(0), client(1);
  const Sizes sizes{0,
                    1,
                    1023,
                    1024,
                    1025,
                    most_gathered - 1,
                    most_gathered,
                    most_gathered + 1,
                    8192,
                    3 * 8192,
                    64 * 1024,
                    512 * 1024,
                    512 * 1024 - 1,
                    512 * 1024 + 1,
                    0,
                    (3 << 20) + 7,
                    5};
  ASSERT_TRUE(client.connect(server).ok());
  for (std::size_t i = 0; i < sizes.size(); ++i) client.say(server, pattern(sizes[i], i));
  ASSERT_TRUE(drive_until({&server, &client}, [&] { return server.came.size() == sizes.size(); }));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(server.came[i].message.sequence, i);
    EXPECT_EQ(server.came[i].large, sizes[i] > most_gathered) << sizes[i];
    EXPECT_TRUE(server.came[i].data == pattern(sizes[i], i)) << sizes[i];
  }
  EXPECT_TRUE(drive_until({&client}, [&] { return client.sent_well == sizes.size(); }));
}

TEST(TcpLink, answer_uses_the_same_connection) {
  Station server(0), client(1);
  expect_served(server, client);
  ASSERT_TRUE(server.connect(client).ok());
  EXPECT_EQ(server.link.describe(1), "a connection that it made");
  server.say(client, pattern(20000, 3));
  ASSERT_TRUE(drive_until({&server, &client}, [&] { return client.came.size() == 1; }));
  EXPECT_TRUE(client.came[0].data == pattern(20000, 3));
}

TEST(TcpLink, rank_sends_to_itself) {
  Station self(0, 1);
  ASSERT_TRUE(self.connect(self).ok());
  for (const std::size_t bytes : Sizes{10, 100000, 0}) self.say(self, pattern(bytes, bytes));
  ASSERT_TRUE(drive_until({&self}, [&] { return self.came.size() == 3; }));
  EXPECT_TRUE(self.came[1].data == pattern(100000, 100000));
  self.link.disconnect(0, false);
  EXPECT_TRUE(drive_until({&self}, [&] { return self.link.ending() == 0; }));
}

TEST(TcpLink, frames_split_at_every_border_are_complete) {
  Station server(0), sender(1);
  RawSocket raw(server.port());
  std::size_t count = 0;
  for (const std::size_t bytes : Sizes{0, 20, most_gathered + 1}) {
    // For a large frame: each position in the header, and some in the bytes.
    for (std::size_t cut = 1; cut < header_bytes + bytes; cut += cut < 200 ? 1 : 997) {
      const auto data = pattern(bytes, cut);
      auto all = frame(sender.message_to(server, bytes), data);
      const auto next = frame(sender.message_to(server, 3), pattern(3, cut));  // arrives in the same packet
      all.insert(all.end(), next.begin(), next.end());
      ASSERT_TRUE(raw.say(std::span(all).first(cut)));
      settle(server);
      EXPECT_EQ(server.came.size(), count);
      ASSERT_TRUE(raw.say(std::span(all).subspan(cut)));
      count += 2;
      ASSERT_TRUE(drive_until({&server}, [&] { return server.came.size() == count; }));
      EXPECT_TRUE(server.came[count - 2].data == data) << bytes << " cut at " << cut;
      EXPECT_TRUE(server.came[count - 1].data == pattern(3, cut)) << bytes << " cut at " << cut;
    }
  }
}

// The receiver of the first may meanwhile set a direct receive for the next.
TEST(TcpLink, progress_returns_after_a_large_message) {
  Station server(0), sender(1);
  RawSocket raw(server.port());
  constexpr std::size_t bytes = 40'000, many = 4;
  std::vector<std::byte> all;
  for (std::size_t i = 0; i < many; ++i) {
    const auto one = frame(sender.message_to(server, bytes), pattern(bytes, i));
    all.insert(all.end(), one.begin(), one.end());
  }
  ASSERT_TRUE(raw.say(all));
  std::size_t begun_behind = 0;
  for (std::size_t arrived = 0; arrived < many;) {
    ASSERT_TRUE(drive_until({&server}, [&] { return server.came.size() > arrived; }));
    EXPECT_EQ(server.came.size(), ++arrived) << "one message per turn";
    if (!server.large_open) continue;
    ++begun_behind;
    EXPECT_LE(server.large_read, most_gathered) << "only the bytes that arrived with the end of the other message";
  }
  EXPECT_GT(begun_behind, 0U) << "else the test tests nothing";
  for (std::size_t i = 0; i < many; ++i) EXPECT_TRUE(server.came[i].data == pattern(bytes, i));
}

TEST(TcpLink, frames_received_byte_by_byte_are_complete) {
  Station server(0), sender(1);
  RawSocket raw(server.port());
  for (const std::size_t bytes : Sizes{9, 0, most_gathered, most_gathered + 40}) {
    const std::size_t before = server.came.size();
    const auto all = frame(sender.message_to(server, bytes), pattern(bytes, bytes));
    for (std::size_t i = 0; i < all.size(); ++i) {
      ASSERT_EQ(server.came.size(), before);
      ASSERT_TRUE(raw.say(std::span(all).subspan(i, 1)));
      server.drive();
    }
    ASSERT_TRUE(drive_until({&server}, [&] { return server.came.size() > before; }));
    EXPECT_TRUE(server.came.back().data == pattern(bytes, bytes)) << bytes;
  }
}

TEST(TcpLink, bytes_without_a_destination_are_discarded) {
  Station server(0, 3), client(1, 3), other(2, 3);
  expect_served(server, other);
  const auto data = pattern(300000, 5);
  RawSocket raw(server.port());
  const auto all = frame(client.message_to(server, data.size()), data);
  ASSERT_TRUE(raw.say(std::span(all).first(100000)));
  ASSERT_TRUE(drive_until({&server}, [&] { return server.large_open; }));
  settle(server);
  server.has_place = false;
  ASSERT_TRUE(raw.say(std::span(all).subspan(100000)));
  ASSERT_TRUE(raw.say(frame(client.message_to(server, 11), pattern(11, 6))));
  ASSERT_TRUE(drive_until({&server}, [&] { return server.came.size() == 3; }));
  EXPECT_TRUE(server.arrived_without_place);
  EXPECT_TRUE(std::equal(data.begin(), data.begin() + 100000 - header_bytes, server.came[1].data.begin()));
  EXPECT_TRUE(std::all_of(server.came[1].data.begin() + 100000, server.came[1].data.end(),
                          [](std::byte byte) { return byte == std::byte{0}; }));
  EXPECT_TRUE(server.came[2].data == pattern(11, 6));
}

TEST(TcpLink, closed_peer_is_lost) {
  Station server(0);
  auto client = std::make_unique<Station>(1);
  expect_served(server, *client);
  client.reset();
  ASSERT_TRUE(drive_until({&server}, [&] { return !server.lost_ranks.empty(); }));
  EXPECT_EQ(server.lost_ranks[0].first, 1);
  EXPECT_EQ(server.lost_ranks[0].second, "the connection ended");
}

TEST(TcpLink, peer_closed_during_a_message_fails_it) {
  Station server(0);
  auto client = std::make_unique<Station>(1);
  expect_served(server, *client);
  ASSERT_TRUE(server.connect(*client).ok());
  server.say(*client, pattern(64 << 20, 1));  // more than the sockets accept
  settle(server);
  ASSERT_EQ(server.sent_well, 0U);
  client.reset();
  ASSERT_TRUE(drive_until({&server}, [&] { return !server.failed.empty(); }));
  EXPECT_EQ(server.failed[0].code, Code::peer_failed);
  EXPECT_EQ(server.failed[0].peer, 1);
  EXPECT_FALSE(server.lost_ranks.empty());
}

// With two connections: the end of one must not be reported before the unread bytes of the other.
TEST(TcpLink, messages_of_a_closing_peer_are_received_before_its_end) {
  Station one(0);
  auto two = std::make_unique<Station>(1);
  ASSERT_TRUE(one.connect(*two).ok());
  ASSERT_TRUE(two->connect(one).ok());
  one.say(*two, pattern(10, 1));
  two->say(one, pattern(10, 2));
  ASSERT_TRUE(drive_until({&one, two.get()}, [&] { return one.came.size() == 1 && two->came.size() == 1; }));
  constexpr std::size_t said = 8;  // more than is read in one round, less than a kernel buffers
  for (std::size_t i = 0; i < said; ++i) two->say(one, pattern(7000, i));
  ASSERT_EQ(two->sent_well, said + 1);
  two->link.disconnect(0, false);
  ASSERT_TRUE(drive_until({two.get()}, [&] { return two->link.ending() == 0; }));
  two.reset();
  ASSERT_TRUE(drive_until({&one}, [&] { return !one.lost_ranks.empty(); }));
  EXPECT_EQ(one.came.size(), said + 1);
}

// Then the peer's kernel sends a reset instead of a FIN.
TEST(TcpLink, messages_of_a_closing_peer_are_received_despite_unread_data) {
  for (const std::size_t unread : Sizes{3000, 64 << 20}) {  // already written, and still being written
    Station server(0);
    auto client = std::make_unique<Station>(1);
    expect_served(server, *client);
    ASSERT_TRUE(server.connect(*client).ok());
    server.say(*client, pattern(unread, 1));
    settle(server);
    EXPECT_EQ(server.sent_well, unread < 10000 ? 1U : 0U);
    client->say(server, pattern(5000, 8));
    ASSERT_EQ(client->sent_well, 2U);
    client->link.disconnect(0, false);
    EXPECT_TRUE(drive_until({}, [&] { return client->link.ending() == 0; }));
    client.reset();
    ASSERT_TRUE(drive_until({&server}, [&] { return !server.lost_ranks.empty(); }));
    ASSERT_EQ(server.came.size(), 2U) << unread;
    EXPECT_TRUE(server.came[1].data == pattern(5000, 8));
  }
}

TEST(TcpLink, close_completes_when_the_peer_kernel_has_all_bytes) {
  Station server(0);
  auto client = std::make_unique<Station>(1);
  expect_served(server, *client);
  client->say(server, pattern(100000, 8));
  ASSERT_TRUE(drive_until({client.get()}, [&] { return client->sent_well == 2; }));
  client->link.disconnect(0, false);
  ASSERT_TRUE(drive_until({client.get()}, [&] { return client->link.ending() == 0; }));
  client.reset();
  ASSERT_TRUE(drive_until({&server}, [&] { return !server.lost_ranks.empty(); }));
  ASSERT_EQ(server.came.size(), 2U);
  EXPECT_TRUE(server.came[1].data == pattern(100000, 8));
}

TEST(TcpLink, disconnect_with_a_full_socket_returns_messages) {
  Station server(0), client(1);
  expect_served(server, client);
  client.say(server, pattern(64 << 20, 1));
  settle(client);
  ASSERT_EQ(client.sent_well, 1U);
  client.link.disconnect(0, true);
  EXPECT_EQ(client.failed.size(), 1U);
  ASSERT_TRUE(drive_until({&server}, [&] { return !server.lost_ranks.empty(); }));
  EXPECT_EQ(server.came.size(), 1U) << "half a message";
}

/// Lowers the limit to the number of open descriptors.
class FewDescriptors {
 public:
  FewDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const base::UniqueFd next(::dup(0));
    rlimit now = before_;
    now.rlim_cur = static_cast<rlim_t>(next.get());
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &now), 0);
  }
  ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST(TcpLink, connections_without_descriptors_are_rejected_and_accepted_later) {
  Station server(0), client(1);
  std::vector<RawSocket> knocking(3);
  {
    const FewDescriptors few;
    for (const RawSocket& one : knocking) one.connect(server.port());
    ASSERT_TRUE(drive_until({&server}, [&] { return std::ranges::all_of(knocking, &RawSocket::ended); }));
    EXPECT_EQ(client.connect(server).code, Code::unavailable);
  }
  expect_served(server, client);
}

TEST(TcpLink, missing_descriptors_fail_only_known_peers) {
  const base::Waiter waiter(base::NodePage::create(1), 0, base::WaitMode::spin);
  Station server(0, 2, {.call_ns = 0}, &waiter), client(1);
  RawSocket silent, talks;
  base::UniqueFd last(::dup(0));  // the client's
  // UBSan needs two descriptors for its first check of an object's type, and none for the later ones.
  am::LinkUser& user = server;
  EXPECT_FALSE(user.knows({}));
  const FewDescriptors few;
  silent.connect(server.port());
  ASSERT_TRUE(drive_until({&server}, [&] { return silent.ended(); }));
  talks.connect(server.port());
  const std::vector<std::byte> noise = pattern(200, 3);
  ASSERT_TRUE(talks.say(noise));
  ASSERT_TRUE(drive_until({&server}, [&] { return talks.ended(); }));
  EXPECT_EQ(server.strangers, 1);
  EXPECT_TRUE(waiter.page().aborted().ok()) << waiter.page().abort_text();
  last.reset();
  ASSERT_TRUE(client.connect(server).ok());
  client.say(server, pattern(40, 1));
  ASSERT_TRUE(drive_until({&server, &client}, [&] { return !waiter.page().aborted().ok(); }));
  EXPECT_EQ(waiter.page().aborted().peer, 0);
  EXPECT_NE(waiter.page().abort_text().find("rank 0: no descriptor is left for a connection: RLIMIT_NOFILE"),
            std::string::npos)
      << waiter.page().abort_text();
}

TEST(TcpLink, connecting_rank_without_descriptors_names_itself) {
  const base::Waiter waiter(base::NodePage::create(1), 0, base::WaitMode::spin);
  Station server(1), client(0, 2, {.call_ns = 0}, &waiter);
  const FewDescriptors few;
  EXPECT_STREQ(client.connect(server).what, "this rank has no descriptor left for a connection");
  EXPECT_EQ(waiter.page().aborted().peer, 0);
  EXPECT_NE(waiter.page().abort_text().find("rank 0: no descriptor is left for a connection: RLIMIT_NOFILE"),
            std::string::npos)
      << waiter.page().abort_text();
}

// A forked process of the user's program keeps the sockets open until it calls exec: the poll set must not report those
// that are closed here.
TEST(TcpLink, connection_kept_by_a_forked_process_is_forgotten) {
  Station server(0), client(1);
  RawSocket raw(server.port());
  settle(server);
  int end[2];
  ASSERT_EQ(::pipe2(end, O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char byte = 0;
    ::close(end[1]);
    (void)!::read(end[0], &byte, 1);
    ::_exit(0);
  }
  ASSERT_TRUE(raw.say(pattern(200, 1)));
  ASSERT_TRUE(drive_until({&server}, [&] { return server.strangers == 1; }));
  settle(server);
  EXPECT_TRUE(raw.say(pattern(200, 1))) << "the child doesn't have it open: the test tests nothing";
  for (int i = 0; i < 200; ++i) EXPECT_EQ(server.drive(), 0);
  pollfd ready{server.link.event_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&ready, 1, 0), 0) << "the poll set reports a closed connection";
  ::close(end[1]);
  ::waitpid(child, nullptr, 0);
  ::close(end[0]);
  expect_served(server, client);
}

}  // namespace
}  // namespace hmc::transport::tcp
