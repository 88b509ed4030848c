// Peer processes that die or are stopped.
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "runtime/transport/am/am_wire.hpp"
#include "runtime/transport/am/tcp/tcp_wire.hpp"
#ifdef HMC_HAVE_UCX
#include "runtime/transport/ucx/ucx_wire.hpp"
#endif

namespace hmc::transport {
namespace {

constexpr std::size_t bytes = 8 << 20;
/// Abandoning takes about a second. The limit is larger, so that the test passes on a busy machine.
constexpr std::chrono::seconds in_time{8};

void send_blob(int socket, const base::Bytes& blob) {
  const std::uint64_t size = blob.size();
  if (::write(socket, &size, sizeof size) != sizeof size ||
      ::write(socket, blob.data(), size) != static_cast<ssize_t>(size))
    std::abort();
}
base::Bytes receive_blob(int socket) {
  std::uint64_t size = 0;
  if (::read(socket, &size, sizeof size) != sizeof size) return {};
  base::Bytes blob(size);
  if (::read(socket, blob.data(), size) != static_cast<ssize_t>(size)) return {};
  return blob;
}

std::unique_ptr<am::AmWire> make_wire(const std::string& name, const am::Options& options) {
#ifdef HMC_HAVE_UCX
  if (name == "ucx") return make_ucx_wire(options, "tcp");
#endif
  if (name != "tcp") std::abort();
  return make_tcp_wire(options);
}

/// One of two ranks, with a channel to the other.
struct Side {
  std::vector<std::byte> memory = std::vector<std::byte>(bytes);
  std::unique_ptr<am::AmWire> wire;
  std::unique_ptr<Channel> channel;

  Side(const std::string& name, int rank, int socket) {
    const int peer = 1 - rank;
    am::Options options;
    options.rank = rank;
    options.size = 2;
    wire = make_wire(name, options);
    Region region;
    region.base = memory.data();
    region.bytes = bytes;
    std::vector<base::Bytes> addresses(2), keys(2);
    addresses[static_cast<std::size_t>(rank)] = wire->address();
    send_blob(socket, addresses[static_cast<std::size_t>(rank)]);
    addresses[static_cast<std::size_t>(peer)] = receive_blob(socket);
    wire->set_peer_addresses(addresses);
    send_blob(socket, wire->register_region(region));
    keys[static_cast<std::size_t>(peer)] = receive_blob(socket);
    channel = std::move(wire->connect(region, keys, {&peer, 1}, base::Deadline::after(std::chrono::seconds(5)))[0]);
  }

  base::Status wait(Ticket ticket, std::chrono::seconds limit) const {
    const auto deadline = base::Deadline::after(limit);
    base::Status status = wire->test(ticket);
    while (status.code == Code::in_progress && !deadline.expired()) {
      wire->progress();
      status = wire->test(ticket);
    }
    return status;
  }
  base::Status flush(std::chrono::seconds limit) const {
    Ticket ticket = done;
    const base::Status status = wire->flush(-1, ticket);
    return status.ok() ? wait(ticket, limit) : status;
  }
};

constexpr int socket_of_child = 100;

/// The other rank is another process of this program: see main().
class PeerDeath : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    int pair[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, pair[1], socket_of_child);
    std::string program = "/proc/self/exe", role = "--peer", wire = GetParam();
    std::array<char*, 4> arguments{program.data(), role.data(), wire.data(), nullptr};
    ASSERT_EQ(::posix_spawn(&child_, "/proc/self/exe", &actions, nullptr, arguments.data(), environ), 0);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(pair[1]);
    side_ = std::make_unique<Side>(GetParam(), 0, pair[0]);
    socket_ = pair[0];
    Ticket ticket = done;
    ASSERT_TRUE(side_->channel->put(0, side_->memory.data(), 100, ticket).ok());
    ASSERT_TRUE(side_->flush(std::chrono::seconds(10)).ok());
  }
  void TearDown() override {
    end(SIGKILL);
    ::close(socket_);
  }
  void end(int signal) {
    if (child_ <= 0) return;
    ::kill(child_, signal);
    if (signal == SIGSTOP) return;
    ::waitpid(child_, nullptr, 0);
    child_ = -1;
  }
  /// Returns when the process is stopped.
  void stop() {
    ::kill(child_, SIGSTOP);
    ::waitpid(child_, nullptr, WUNTRACED);
  }
  std::uint32_t most_in_flight() const { return side_->wire->link().traits().most_in_flight; }

  std::unique_ptr<Side> side_;
  pid_t child_ = -1;
  int socket_ = -1;
};

TEST_P(PeerDeath, death_ends_waits_and_all_later_transfers) {
  Ticket get = done;
  stop();
  ASSERT_TRUE(side_->channel->get(0, side_->memory.data(), bytes, get).ok());
  EXPECT_EQ(side_->wait(get, std::chrono::seconds(0)).code, Code::in_progress);
  end(SIGKILL);
  const base::Status status = side_->wait(get, std::chrono::seconds(10));
  EXPECT_EQ(status.code, Code::peer_failed);
  EXPECT_EQ(status.peer, 1);
  Ticket ticket = done;
  EXPECT_EQ(side_->channel->put(0, side_->memory.data(), 8, ticket).code, Code::peer_failed);
  std::uint64_t result = 0;
  EXPECT_EQ(side_->channel->atomic({AtomicOp::fetch, 8, 0, 0}, 0, &result, ticket).code, Code::peer_failed);
}

TEST_P(PeerDeath, death_fails_a_flush_in_flight) {
  stop();
  Ticket ticket = done;
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(side_->channel->put(0, side_->memory.data(), bytes, ticket).ok());
  Ticket flush = done;
  ASSERT_TRUE(side_->wire->flush(1, flush).ok());
  EXPECT_EQ(side_->wait(flush, std::chrono::seconds(0)).code, Code::in_progress);
  end(SIGKILL);
  EXPECT_EQ(side_->wait(flush, std::chrono::seconds(10)).code, Code::peer_failed);
}

TEST_P(PeerDeath, death_does_not_block_close) {
  end(SIGKILL);
  const auto start = base::Clock::now();
  side_.reset();
  EXPECT_LT(base::Clock::now() - start, in_time);
}

TEST_P(PeerDeath, put_to_a_stopped_peer_is_abandoned_in_time) {
  stop();
  auto source = std::make_unique<std::vector<std::byte>>(bytes);
  std::vector<Ticket> tickets;
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(side_->channel->put(0, source->data(), bytes, tickets.emplace_back()).ok());
  const std::uint32_t held = side_->wire->in_flight(1);
  EXPECT_GT(held, 0U);
  EXPECT_LE(held, most_in_flight()) << "the link accepted all of it at once";
  EXPECT_LT(side_->wire->records(), 100U);
  const auto start = base::Clock::now();
  for (const Ticket ticket : tickets) side_->wire->abandon(ticket);
  EXPECT_LT(base::Clock::now() - start, in_time);
  EXPECT_EQ(side_->wire->in_flight(1), 0U) << "the link still reads the source";
  source.reset();
  for (const Ticket ticket : tickets) EXPECT_TRUE(side_->wire->test(ticket).ok()) << "a slot is kept";
  // The connection to that peer was closed, and later verbs report it.
  ::kill(child_, SIGCONT);
  Ticket ticket = done;
  EXPECT_EQ(side_->channel->put(0, side_->memory.data(), 8, ticket).code, Code::peer_failed);
}

TEST_P(PeerDeath, get_from_a_stopped_peer_costs_nothing) {
  stop();
  std::vector<std::byte> got(bytes);
  Ticket get = done;
  ASSERT_TRUE(side_->channel->get(0, got.data(), bytes, get).ok());
  std::uint64_t result = 7;
  Ticket fetch = done;
  ASSERT_TRUE(side_->channel->atomic({AtomicOp::fetch_add, 8, 1, 0}, 0, &result, fetch).ok());
  const auto start = base::Clock::now();
  side_->wire->abandon(get);
  side_->wire->abandon(fetch);
  EXPECT_LT(base::Clock::now() - start, std::chrono::milliseconds(900));  // less than a closed connection takes
  std::ranges::fill(got, std::byte{0x5a});
  result = 7;
  ::kill(child_, SIGCONT);
  // The connection still works; the answers arrive and are dropped.
  ASSERT_TRUE(side_->flush(std::chrono::seconds(10)).ok());
  EXPECT_EQ(std::ranges::count(got, std::byte{0x5a}), static_cast<std::ptrdiff_t>(bytes));
  EXPECT_EQ(result, 7U);
}

TEST_P(PeerDeath, abandoned_put_beside_an_active_peer_costs_nothing) {
  stop();
  Ticket first = done, second = done;
  std::vector<std::byte> source(bytes, std::byte{1});
  ASSERT_TRUE(side_->channel->put(0, source.data(), bytes, first).ok());
  ASSERT_TRUE(side_->channel->put(0, side_->memory.data(), 64, second).ok());
  ::kill(child_, SIGCONT);
  side_->wire->abandon(first);
  EXPECT_TRUE(side_->flush(std::chrono::seconds(10)).ok());
}

TEST_P(PeerDeath, answer_to_a_stopped_peer_releases_its_region_in_time) {
  // The child requests all of this side's memory. It is stopped while it receives the answer.
  const char ask = 'g';
  ASSERT_EQ(::write(socket_, &ask, 1), 1);
  const auto deadline = base::Deadline::after(std::chrono::seconds(10));
  const std::uint64_t before = side_->wire->messages_to(1);
  while (side_->wire->messages_to(1) < before + 8 && !deadline.expired()) side_->wire->progress();
  stop();
  while (side_->wire->in_flight(1) == 0 && !deadline.expired()) side_->wire->progress();  // the sockets are full
  Region region;
  region.base = side_->memory.data();
  region.bytes = bytes;
  EXPECT_LE(side_->wire->in_flight(1), most_in_flight());
  EXPECT_LT(side_->wire->records(), 100U) << "the answer was queued whole";
  const auto start = base::Clock::now();
  side_->wire->deregister_region(region);
  EXPECT_LT(base::Clock::now() - start, in_time);
  EXPECT_EQ(side_->wire->in_flight(1), 0U) << "the link still reads the region";
}

TEST_P(PeerDeath, stopped_peer_with_unread_data_does_not_block_close) {
  stop();
  Ticket ticket = done;
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(side_->channel->put(0, side_->memory.data(), bytes, ticket).ok());
  const auto start = base::Clock::now();
  side_->channel.reset();
  side_->wire.reset();
  EXPECT_LT(base::Clock::now() - start, in_time);
}

// Small puts have no ticket that could be abandoned: they stay in the wire's memory until it closes.
TEST_P(PeerDeath, unread_small_puts_do_not_block_close) {
  stop();
  Ticket ticket = done;
  // More than the sockets hold.
  for (int i = 0; i < 100000 && side_->wire->records() < 2000; ++i)
    ASSERT_TRUE(side_->channel->put(0, side_->memory.data(), 1024, ticket).ok());
  EXPECT_GE(side_->wire->records(), 2000U);
  EXPECT_LE(side_->wire->in_flight(1), most_in_flight());
  const auto closing = base::Clock::now();
  side_->channel.reset();
  side_->wire.reset();
  EXPECT_LT(base::Clock::now() - closing, in_time);
}

#ifdef HMC_HAVE_UCX
INSTANTIATE_TEST_SUITE_P(Wires, PeerDeath, ::testing::Values("tcp", "ucx"),
                         [](const auto& info) { return info.param; });
#else
INSTANTIATE_TEST_SUITE_P(Wires, PeerDeath, ::testing::Values("tcp"), [](const auto& info) { return info.param; });
#endif

}  // namespace
}  // namespace hmc::transport

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--peer") {
    const hmc::transport::Side side(argv[2], 1, hmc::transport::socket_of_child);
    // Its progress thread serves until the process is killed; for each byte from the parent it gets the whole region.
    char ask = 0;
    std::vector<std::byte> got(hmc::transport::bytes);
    for (std::vector<hmc::transport::Ticket> tickets; ::read(hmc::transport::socket_of_child, &ask, 1) == 1;)
      for (int i = 0; i < 50; ++i) (void)side.channel->get(0, got.data(), got.size(), tickets.emplace_back());
    for (;;) ::pause();
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
