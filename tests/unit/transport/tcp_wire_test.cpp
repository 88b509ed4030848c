// The whole tcp wire: from the bytes on its sockets to the registered memory.
#include "runtime/transport/am/tcp/tcp_wire.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "runtime/base/node_page.hpp"
#include "runtime/base/wait.hpp"
#include "runtime/transport/am/am_wire.hpp"
#include "tests/unit/transport/tcp_station.hpp"

namespace hmc::transport::tcp {
namespace {

constexpr std::size_t chunk = 512 * 1024;
constexpr std::size_t memory_bytes = 2 * chunk + 4096;

/// One of two ranks, both in this thread.
struct Side {
  /// `waiter`: the rank is one of a job with a node page.
  explicit Side(int rank, const base::Waiter* waiter = nullptr) : rank(rank) {
    am::Options options;
    options.waiter = waiter;
    options.fails_job = waiter != nullptr;
    options.rank = rank;
    options.size = 2;
    options.log = base::Log(static_cast<base::LogLevel>(-1));
    wire = make_tcp_wire(options);
  }
  void connect_to(base::Bytes address, const base::Bytes& key) {
    const int peer = 1 - rank;
    std::vector<base::Bytes> addresses(2), keys(2);
    addresses[static_cast<std::size_t>(rank)] = wire->address();
    addresses[static_cast<std::size_t>(peer)] = std::move(address);
    keys[static_cast<std::size_t>(peer)] = key;
    wire->set_peer_addresses(addresses);
    channel = std::move(wire->connect(region(), keys, {&peer, 1}, base::Deadline::after(std::chrono::seconds(5)))[0]);
  }
  Region region() {
    Region mine;
    mine.base = memory.data();
    mine.bytes = memory.size();
    return mine;
  }
  base::Bytes register_region() { return wire->register_region(region()); }
  base::Status wait(Ticket ticket) const {
    const auto limit = base::Deadline::after(std::chrono::seconds(10));
    base::Status status = wire->test(ticket);
    for (; status.code == Code::in_progress && !limit.expired(); status = wire->test(ticket)) wire->progress();
    return status;
  }
  base::Status flush() const {
    Ticket ticket = done;
    const base::Status status = wire->flush(-1, ticket);
    return status.ok() ? wait(ticket) : status;
  }
  base::Status get(std::size_t offset, std::span<std::byte> to) const {
    Ticket ticket = done;
    const base::Status status = channel->get(offset, to.data(), to.size(), ticket);
    return status.ok() ? wait(ticket) : status;
  }

  int rank;
  std::vector<std::byte> memory = std::vector<std::byte>(memory_bytes, std::byte{0x5a});
  std::unique_ptr<am::AmWire> wire;
  std::unique_ptr<Channel> channel;
};

class TcpWire : public ::testing::Test {
 protected:
  void connect() {
    const base::Bytes key0 = zero_->register_region(), key1 = one_->register_region();
    const base::Bytes address0 = zero_->wire->address(), address1 = one_->wire->address();
    zero_->connect_to(address1, key1);
    one_->connect_to(address0, key0);
  }
  std::unique_ptr<Side> zero_ = std::make_unique<Side>(0);
  std::unique_ptr<Side> one_ = std::make_unique<Side>(1);
};

TEST_F(TcpWire, puts_and_gets_around_thresholds_are_correct) {
  connect();
  std::size_t seed = 0;
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{1024}, std::size_t{1025}, most_gathered - 1,
                                  most_gathered, most_gathered + 1, chunk - 1, chunk, chunk + 1, 2 * chunk + 1}) {
    const auto data = pattern(bytes, ++seed);
    const std::size_t offset = 1 + seed;
    const std::vector<std::byte> before = one_->memory;
    Ticket put = done;
    ASSERT_TRUE(zero_->channel->put(offset, data.data(), bytes, put).ok());
    ASSERT_TRUE(zero_->wait(put).ok());
    ASSERT_TRUE(zero_->flush().ok());
    std::vector<std::byte> expected = before;
    std::ranges::copy(data, expected.begin() + static_cast<std::ptrdiff_t>(offset));
    EXPECT_TRUE(one_->memory == expected) << bytes;
    std::vector<std::byte> back(bytes + 2, std::byte{0x33});
    ASSERT_TRUE(zero_->get(offset, std::span(back).subspan(1, bytes)).ok());
    EXPECT_TRUE(std::equal(data.begin(), data.end(), back.begin() + 1)) << bytes;
    EXPECT_EQ(back.front(), std::byte{0x33});
    EXPECT_EQ(back.back(), std::byte{0x33});
  }
}

/// An observer of the addresses knows all that tags are made of, except the job's key.
TEST_F(TcpWire, ranks_with_different_keys_refuse_each_other) {
  am::Options options;
  options.size = 2;
  options.key[5] = std::byte{1};
  options.log = base::Log(static_cast<base::LogLevel>(-1));
  zero_->wire = make_tcp_wire(options);
  connect();
  std::vector<std::byte> got(64);
  EXPECT_FALSE(zero_->get(0, got).ok());
  EXPECT_EQ(one_->wire->refusals().strangers, 1U);
}

TEST_F(TcpWire, address_of_another_version_is_named) {
  base::Bytes address = one_->wire->address();
  address[0] = static_cast<std::byte>(am::protocol_version + 1);
  try {
    zero_->connect_to(address, one_->register_region());
    ADD_FAILURE() << "it was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_config);
    EXPECT_EQ(error.detail().message, fmt::format("rank 1 uses protocol version {} of this wire, this rank uses {}",
                                                  am::protocol_version + 1, am::protocol_version));
  }
}

/// Rank 0 is one of a job with a node page.
class TcpWireOfAJob : public TcpWire {
 protected:
  void SetUp() override {
    zero_ = std::make_unique<Side>(0, &waiter_);
    connect();
    std::vector<std::byte> got(64);
    ASSERT_TRUE(zero_->get(0, got).ok());
  }
  void TearDown() override { zero_.reset(); }  // before the waiter
  void lose_connection() {
    one_->channel.reset();
    one_->wire.reset();
  }
  const base::NodePage page_ = base::NodePage::create(2);
  const base::Waiter waiter_{page_, 0, base::WaitMode::spin};
};

TEST_F(TcpWireOfAJob, lost_connection_ends_the_wait_of_a_rank_without_a_transfer) {
  lose_connection();
  const auto limit = base::Deadline::after(std::chrono::seconds(60));
  while (page_.aborted().ok() && !limit.expired()) zero_->wire->progress();
  EXPECT_EQ(page_.aborted().code, Code::peer_failed);
  EXPECT_EQ(page_.aborted().peer, 1);
  EXPECT_EQ(page_.abort_text(), "rank 0 has no connection to rank 1: the connection ended");
}

TEST_F(TcpWireOfAJob, lost_connection_after_the_end_of_the_job_fails_nothing) {
  zero_->wire->all_left();
  lose_connection();
  const auto limit = base::Deadline::after(std::chrono::seconds(60));
  while (zero_->wire->lost_rank() < 0 && !limit.expired()) zero_->wire->progress();
  EXPECT_EQ(zero_->wire->lost_rank(), 1);
  // Longer than the second after which it would fail the job.
  const auto later = base::Deadline::after(std::chrono::milliseconds(1500));
  while (!later.expired()) zero_->wire->progress();
  EXPECT_TRUE(page_.aborted().ok());
}

TEST_F(TcpWire, closed_peer_fails_its_transfers) {
  connect();
  std::vector<std::byte> got(64);
  ASSERT_TRUE(zero_->get(0, got).ok());
  one_->channel.reset();
  one_->wire.reset();
  const base::Status status = zero_->get(0, got);
  EXPECT_EQ(status.code, Code::peer_failed);
  EXPECT_EQ(status.peer, 1);
  EXPECT_EQ(zero_->get(0, got).code, Code::peer_failed) << "it sticks";
}

TEST_F(TcpWire, refused_connection_reports_the_cause_within_seconds) {
  const base::Bytes key = one_->register_region(), address = one_->wire->address();
  one_->wire.reset();
  zero_->connect_to(address, key);
  const auto start = base::Clock::now();
  std::vector<std::byte> got(64);
  const base::Status status = zero_->get(0, got);
  EXPECT_LT(base::Clock::now() - start, std::chrono::seconds(5));
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.sys_errno, ECONNREFUSED);
  EXPECT_STREQ(status.what, "none of its addresses accepts a connection: the rank has ended, or a firewall refuses it");
}

/// Rank 1 is the test itself: it sends to rank 0 by a socket, with valid secrets and keys.
class TcpWireTarget : public TcpWire {
 protected:
  TcpWireTarget() {
    const base::Bytes key = zero_->register_region();
    base::ByteReader in_key(key);
    region_.index = in_key.number<std::uint64_t>();
    region_.nonce = in_key.number<std::uint64_t>();
    const base::Bytes address = zero_->wire->address();
    base::ByteReader in(address);
    (void)in.number<std::uint8_t>();
    const auto secret = in.number<std::uint64_t>();
    (void)in.number<std::uint32_t>();  // the origin: own_rank
    constexpr transport::Keystream::Key key_of_job{};
    constexpr std::uint32_t origin = 1;
    tags_ =
        transport::Keystream({key_of_job, std::as_bytes(std::span(&secret, 1)), std::as_bytes(std::span(&origin, 1))});
    address_head_bytes_ = address.size() - in.left();
    raw_.connect(decode(in.raw(in.left()))->port);
    zero_->connect_to(one_->wire->address(), one_->register_region());
  }
  Message message(MessageKind kind, std::uint64_t bytes) {
    Message message;
    message.origin = 1;
    message.kind = kind;
    message.sequence = sequence_++;
    message.tag = tags_.at(message.sequence);
    message.region = region_.index;
    message.nonce = region_.nonce;
    message.bytes = bytes;
    return message;
  }
  /// True if the memory of rank 0 begins with this word. A put of a word is one atomic store.
  bool starts_with(const std::vector<std::byte>& word) const {
    std::uint64_t expected = 0;
    std::memcpy(&expected, word.data(), sizeof expected);
    auto* const at = reinterpret_cast<std::uint64_t*>(zero_->memory.data());
    return std::atomic_ref(*at).load(std::memory_order_acquire) == expected;
  }
  template <typename Over> bool until(const Over& over) const {
    const auto limit = base::Deadline::after(std::chrono::seconds(10));
    for (; !over() && !limit.expired();) zero_->wire->progress();
    return over();
  }

  RawSocket raw_;
  am::Regions::Key region_;
  std::size_t address_head_bytes_ = 0;  // before the link's address
  transport::Keystream tags_;
  std::uint64_t sequence_ = 0;
};

TEST_F(TcpWireTarget, large_put_into_a_deregistered_region_is_rejected_and_others_continue) {
  const auto data = pattern(100000, 1);
  const auto all = frame(message(MessageKind::put, data.size()), data);
  ASSERT_TRUE(raw_.say(std::span(all).first(50000)));
  for (int i = 0; i < 1000; ++i) zero_->wire->progress();
  zero_->wire->deregister_region(zero_->region());
  const std::vector<std::byte> then = zero_->memory;
  ASSERT_TRUE(raw_.say(std::span(all).subspan(50000)));
  ASSERT_TRUE(until([&] { return zero_->wire->refusals().requests == 1; }));
  EXPECT_TRUE(zero_->memory == then) << "memory was written after its deregistration";
  EXPECT_EQ(then[99999], std::byte{0x5a});

  std::vector<std::byte> heir(16, std::byte{0x5a});
  Region heir_region;
  heir_region.base = heir.data();
  heir_region.bytes = heir.size();
  const base::Bytes key = zero_->wire->register_region(heir_region);
  base::ByteReader in(key);
  Message next = message(MessageKind::put_signal, 4);
  next.region = in.number<std::uint64_t>();
  next.nonce = in.number<std::uint64_t>();
  next.first = 8;
  next.second = 77;
  const auto small = pattern(4, 2);
  ASSERT_TRUE(raw_.say(frame(next, small)));
  ASSERT_TRUE(until([&] {
    return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(heir.data() + 8)).load(std::memory_order_acquire) == 77;
  }));
  EXPECT_TRUE(std::equal(small.begin(), small.end(), heir.begin()));
  EXPECT_FALSE(raw_.ended());
  zero_->wire->deregister_region(heir_region);
}

TEST_F(TcpWireTarget, large_message_of_a_type_without_bytes_fails_the_peer) {
  ASSERT_TRUE(raw_.say(frame(message(MessageKind::flush, 20000), pattern(20000, 1))));
  ASSERT_TRUE(until([&] { return raw_.ended(); }));
  Ticket ticket = done;
  EXPECT_EQ(zero_->channel->put(0, zero_->memory.data(), 8, ticket).code, Code::error);
  EXPECT_EQ(zero_->wire->refusals().strangers, 0U);
}

/// An observer repeats what he has seen, on a connection of his own and on the rank's.
TEST_F(TcpWireTarget, repeated_messages_change_nothing) {
  const auto data = pattern(8, 1), later = pattern(8, 2);
  const auto seen = frame(message(MessageKind::put, 8), data);
  ASSERT_TRUE(raw_.say(seen));
  ASSERT_TRUE(until([&] { return starts_with(data); }));
  ASSERT_TRUE(raw_.say(frame(message(MessageKind::put, 8), later)));
  ASSERT_TRUE(until([&] { return starts_with(later); }));
  RawSocket observer;
  const base::Bytes address = zero_->wire->address();
  observer.connect(decode(base::ByteView(address).subspan(address_head_bytes_))->port);
  ASSERT_TRUE(observer.say(seen));
  ASSERT_TRUE(until([&] { return observer.ended(); }));
  EXPECT_EQ(zero_->wire->refusals().strangers, 1U);
  EXPECT_TRUE(starts_with(later));
  const auto third = pattern(8, 3);
  ASSERT_TRUE(raw_.say(frame(message(MessageKind::put, 8), third)));
  EXPECT_TRUE(until([&] { return starts_with(third); })) << "the rank is cut off";
  ASSERT_TRUE(raw_.say(seen));  // in the rank's own stream
  ASSERT_TRUE(until([&] { return raw_.ended(); }));
  EXPECT_TRUE(starts_with(third));
}

/// The rank's message hasn't been read yet.
TEST_F(TcpWireTarget, copy_of_an_unread_message_on_another_connection_is_refused) {
  ASSERT_TRUE(raw_.say(frame(message(MessageKind::put, 8), pattern(8, 1))));
  ASSERT_TRUE(until([&] { return starts_with(pattern(8, 1)); }));
  const Message next = message(MessageKind::put, 8), later = message(MessageKind::put, 8);
  for (const Message& seen : {next, later}) {
    RawSocket observer;
    const base::Bytes address = zero_->wire->address();
    observer.connect(decode(base::ByteView(address).subspan(address_head_bytes_))->port);
    ASSERT_TRUE(observer.say(frame(seen, pattern(8, 9))));
    ASSERT_TRUE(until([&] { return observer.ended(); }));
  }
  EXPECT_EQ(zero_->wire->refusals().strangers, 2U);
  ASSERT_TRUE(raw_.say(frame(next, pattern(8, 2))));
  ASSERT_TRUE(raw_.say(frame(later, pattern(8, 3))));
  const auto last = pattern(8, 3);
  EXPECT_TRUE(until([&] { return starts_with(last); }));
  EXPECT_FALSE(raw_.ended());
}

TEST_F(TcpWireTarget, unknown_peer_changes_nothing) {
  Message put = message(MessageKind::put, 20000);
  put.tag ^= 1;
  ASSERT_TRUE(raw_.say(frame(put, pattern(20000, 1))));
  ASSERT_TRUE(until([&] { return raw_.ended(); }));
  EXPECT_EQ(zero_->wire->refusals().strangers, 1U);
  EXPECT_EQ(std::ranges::count(zero_->memory, std::byte{0x5a}), static_cast<std::ptrdiff_t>(memory_bytes));
  Ticket ticket = done;
  EXPECT_TRUE(zero_->channel->put(0, zero_->memory.data(), 8, ticket).ok());
}

}  // namespace
}  // namespace hmc::transport::tcp
