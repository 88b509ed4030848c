// Endpoint: puts and gets between buffers of processes without a job. Both sides are in this process; no side makes
// progress for the other.
#include "runtime/rma/endpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include <hmc/error.hpp>

#include "runtime/memory/provider.hpp"
#include "runtime/transport/am/tcp/tcp_wire.hpp"

namespace hmc::rma {
namespace {

constexpr std::size_t buffer_bytes = 3 << 20;

std::unique_ptr<Endpoint> make_endpoint() {
  transport::am::Options options;
  options.size = Endpoint::most_peers;
  Endpoint::Wires wires;
  wires.push_back(transport::make_tcp_wire(options));
  return std::make_unique<Endpoint>(
      memory::provider_for(MemoryType::CPU).allocate(0, buffer_bytes, memory::Backing::best), nullptr, std::move(wires),
      base::Log{});
}

/// Byte `at` of the data that transfer `call` of side `side` moves.
std::byte pattern(int side, int call, std::size_t at) {
  return static_cast<std::byte>(at * 7 + at / 251 + static_cast<std::size_t>(side) * 31 +
                                static_cast<std::size_t>(call) * 101);
}
std::vector<std::byte> pattern_of(int side, int call, std::size_t offset, std::size_t bytes) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = pattern(side, call, offset + i);
  return data;
}

const auto soon = [] { return base::Deadline::after(std::chrono::seconds(60)); };

base::Status put(Endpoint& from, int peer, std::uint64_t offset, const std::vector<std::byte>& data) {
  Endpoint::Transfer transfer;
  const base::Status status = from.put(peer, offset, data.data(), data.size(), transfer);
  return status.ok() ? from.wait(transfer, soon()) : status;
}
base::Status get(Endpoint& from, int peer, std::uint64_t offset, std::vector<std::byte>& data) {
  Endpoint::Transfer transfer;
  const base::Status status = from.get(peer, offset, data.data(), data.size(), transfer);
  return status.ok() ? from.wait(transfer, soon()) : status;
}

class EndpointPair : public ::testing::TestWithParam<bool> {
 protected:
  /// Connects two endpoints. Returns the numbers by which a and b know each other.
  static std::pair<int, int> connect(Endpoint& a, Endpoint& b) {
    const std::pair<int, int> numbers{a.reserve(), b.reserve()};
    const base::Bytes from_a = a.offer(numbers.first), from_b = b.offer(numbers.second);
    const auto map = [](const base::Segment& segment) {
      return base::Segment::map(base::UniqueFd(::dup(segment.fd())), segment.bytes(), segment.file_offset());
    };
    const auto mapping = [&](Endpoint& of) {
      return GetParam() ? Endpoint::Mapped{map(*of.buffer().segment), of.buffer().segment_offset, map(*of.control())}
                        : Endpoint::Mapped{};
    };
    a.connect(numbers.first, from_b, "tcp", mapping(b));
    b.connect(numbers.second, from_a, "tcp", mapping(a));
    return numbers;
  }
};

TEST_P(EndpointPair, put_is_visible_at_return_and_get_returns_the_bytes) {
  const auto a = make_endpoint(), b = make_endpoint();
  const auto [to_b, to_a] = connect(*a, *b);
  int call = 0;
  for (const std::size_t size : {0UL, 1UL, 7UL, 8UL, 4095UL, 4096UL, 70001UL, buffer_bytes}) {
    for (const std::size_t offset : {0UL, 1UL, 8UL, 4093UL}) {
      if (offset + size > buffer_bytes) continue;
      ++call;
      const auto data = pattern_of(0, call, offset, size);
      ASSERT_TRUE(put(*a, to_b, offset, data).ok());
      EXPECT_TRUE(std::equal(data.begin(), data.end(), b->buffer().address + offset)) << size << " at " << offset;
      const auto theirs = pattern_of(1, call, offset, size);
      std::copy(theirs.begin(), theirs.end(), b->buffer().address + offset);
      std::vector<std::byte> got(size);
      ASSERT_TRUE(get(*a, to_b, offset, got).ok());
      EXPECT_EQ(got, theirs);
      ASSERT_TRUE(put(*b, to_a, offset, theirs).ok());
      EXPECT_TRUE(std::equal(theirs.begin(), theirs.end(), a->buffer().address + offset));
    }
  }
}

TEST_P(EndpointPair, each_side_numbers_its_peers_on_its_own) {
  const auto hub = make_endpoint();
  std::vector<std::unique_ptr<Endpoint>> others;
  std::vector<std::pair<int, int>> numbers;
  for (int i = 0; i < 4; ++i) {
    others.push_back(make_endpoint());
    for (int skip = 0; skip < i; ++skip) (void)others.back()->reserve();  // so that the numbers differ
    numbers.push_back(connect(*hub, *others.back()));
  }
  for (int i = 0; i < 4; ++i) {
    const auto& [from_hub, to_hub] = numbers[static_cast<std::size_t>(i)];
    EXPECT_EQ(from_hub, i);
    EXPECT_EQ(to_hub, i);
    const std::size_t offset = 1000 * static_cast<std::size_t>(i);
    ASSERT_TRUE(put(*hub, from_hub, offset, pattern_of(9, i, offset, 900)).ok());
    ASSERT_TRUE(put(*others[static_cast<std::size_t>(i)], to_hub, offset, pattern_of(i, i, offset, 900)).ok());
  }
  for (int i = 0; i < 4; ++i) {
    const std::size_t offset = 1000 * static_cast<std::size_t>(i);
    const auto theirs = pattern_of(9, i, offset, 900), mine = pattern_of(i, i, offset, 900);
    EXPECT_TRUE(
        std::equal(theirs.begin(), theirs.end(), others[static_cast<std::size_t>(i)]->buffer().address + offset));
    EXPECT_TRUE(std::equal(mine.begin(), mine.end(), hub->buffer().address + offset));
  }
}

TEST(Endpoint, number_of_a_removed_peer_names_no_later_peer) {
  const auto endpoint = make_endpoint();
  const int first = endpoint->reserve();
  endpoint->remove(first);
  for (int i = 0; i < 2 * Endpoint::most_peers; ++i) {
    const int later = endpoint->reserve();
    EXPECT_NE(later, first);
    EXPECT_EQ(endpoint->status(first).code, Code::not_found);
    endpoint->remove(later);
  }
}

TEST_P(EndpointPair, removed_number_fails_its_transfers_and_isnt_used_at_once) {
  const auto hub = make_endpoint();
  for (int round = 0; round < 5; ++round) {
    const auto other = make_endpoint();
    const auto [from_hub, to_hub] = connect(*hub, *other);
    EXPECT_EQ(from_hub, round);
    ASSERT_TRUE(put(*hub, from_hub, 0, pattern_of(0, round, 0, 5000)).ok());
    ASSERT_TRUE(put(*other, to_hub, 0, pattern_of(1, round, 0, 5000)).ok());
    const auto mine = pattern_of(1, round, 0, 5000), theirs = pattern_of(0, round, 0, 5000);
    EXPECT_TRUE(std::equal(mine.begin(), mine.end(), hub->buffer().address));
    EXPECT_TRUE(std::equal(theirs.begin(), theirs.end(), other->buffer().address));
    Endpoint::Transfer late;
    ASSERT_TRUE(hub->put(from_hub, 0, mine.data(), mine.size(), late).ok());
    hub->remove(from_hub);
    const base::Status end = hub->wait(late, soon());
    EXPECT_TRUE(GetParam() ? end.ok() : end.code == Code::peer_failed) << end.what;
    EXPECT_EQ(put(*hub, from_hub, 0, mine).code, Code::not_found);
  }
}

TEST_P(EndpointPair, range_beyond_the_peers_buffer_is_refused_even_if_the_sum_wraps_around) {
  const auto a = make_endpoint(), b = make_endpoint();
  const auto [to_b, to_a] = connect(*a, *b);
  std::byte some[16]{};
  Endpoint::Transfer transfer;
  for (const auto& [offset, size] : std::vector<std::pair<std::uint64_t, std::size_t>>{{buffer_bytes, 1},
                                                                                       {buffer_bytes - 1, 2},
                                                                                       {UINT64_MAX, 1},
                                                                                       {UINT64_MAX - 7, 16},
                                                                                       {8, SIZE_MAX},
                                                                                       {8, SIZE_MAX - 4}}) {
    EXPECT_EQ(a->put(to_b, offset, some, size, transfer).code, Code::out_of_range) << offset << " " << size;
    EXPECT_EQ(b->get(to_a, offset, some, size, transfer).code, Code::out_of_range) << offset << " " << size;
  }
  EXPECT_EQ(a->put(to_b, 0, nullptr, 1, transfer).code, Code::invalid_argument);
  EXPECT_TRUE(a->put(to_b, buffer_bytes, some, 0, transfer).ok());
}

TEST_P(EndpointPair, control_words_arrive_after_the_bytes_and_per_peer) {
  const auto hub = make_endpoint(), first = make_endpoint(), second = make_endpoint();
  const auto [hub_first, first_hub] = connect(*hub, *first);
  const auto [hub_second, second_hub] = connect(*hub, *second);
  for (std::uint64_t round = 1; round <= 200; ++round) {
    const auto data = pattern_of(0, static_cast<int>(round), 0, 1000 + 40 * round);
    const std::uint64_t values[] = {data.size(), round};
    Endpoint::Transfer transfer;
    ASSERT_TRUE(first->put_signal(first_hub, round, data.data(), data.size(), 3, values, transfer).ok());
    const auto limit = soon();
    while (hub->word(hub_first, 4) != round && !limit.expired()) (void)first->test(transfer);
    ASSERT_EQ(hub->word(hub_first, 4), round);
    EXPECT_EQ(hub->word(hub_first, 3), data.size());
    EXPECT_TRUE(std::equal(data.begin(), data.end(), hub->buffer().address + round));
    ASSERT_TRUE(first->wait(transfer, soon()).ok());
    EXPECT_EQ(hub->word(hub_second, 4), 0U);
  }
  const std::uint64_t other = 77;
  Endpoint::Transfer transfer;
  ASSERT_TRUE(hub->put_signal(hub_second, 0, nullptr, 0, 15, std::span(&other, 1), transfer).ok());
  ASSERT_TRUE(hub->wait(transfer, soon()).ok());
  EXPECT_EQ(second->word(second_hub, 15), 77U);
}

INSTANTIATE_TEST_SUITE_P(, EndpointPair, ::testing::Values(true, false),
                         [](const auto& info) { return info.param ? "mapped" : "tcp"; });

TEST(Endpoint, all_peers_are_offered_one_registration_of_the_buffer) {
  const auto endpoint = make_endpoint();
  base::Bytes first_key, first_control_key;
  for (int i = 0; i < 5; ++i) {
    const base::Bytes offer = endpoint->offer(endpoint->reserve());
    base::ByteReader in(offer);
    EXPECT_EQ(in.number<std::uint64_t>(), buffer_bytes);
    EXPECT_EQ(in.number<std::uint64_t>(), 0U);  // no relay
    EXPECT_EQ(in.number<std::uint32_t>(), static_cast<std::uint32_t>(i));
    ASSERT_EQ(in.number<std::uint32_t>(), 1U);
    EXPECT_EQ(in.text(), "tcp");
    (void)in.blob();  // the address, with a secret for each peer
    const base::ByteView key = in.blob(), control_key = in.blob();
    ASSERT_TRUE(in.complete());
    if (i == 0) {
      first_key.assign(key.begin(), key.end());
      first_control_key.assign(control_key.begin(), control_key.end());
    }
    EXPECT_TRUE(std::ranges::equal(key, first_key));
    EXPECT_TRUE(std::ranges::equal(control_key, first_control_key));
  }
  EXPECT_NE(first_key, first_control_key);
}

TEST(Endpoint, offer_that_is_cut_is_refused) {
  const auto a = make_endpoint(), b = make_endpoint();
  const base::Bytes whole = b->offer(b->reserve());
  for (std::size_t left = 0; left < whole.size(); ++left)
    EXPECT_THROW(a->connect(a->reserve(), base::ByteView(whole).first(left), "tcp", {}), Error) << left;
}

TEST(Endpoint, peer_that_dies_fails_its_transfers_only) {
  auto hub = make_endpoint();
  auto dies = make_endpoint();
  const auto lives = make_endpoint();
  std::vector<int> numbers;
  for (Endpoint* other : {dies.get(), lives.get()}) {
    const int mine = hub->reserve(), theirs = other->reserve();
    const base::Bytes offer = hub->offer(mine);
    hub->connect(mine, other->offer(theirs), "tcp", {});
    other->connect(theirs, offer, "tcp", {});
    numbers.push_back(mine);
    ASSERT_TRUE(put(*hub, mine, 0, pattern_of(0, mine, 0, 100)).ok());
  }
  dies.reset();
  base::Status status;
  const auto limit = soon();
  while (status.ok() && !limit.expired()) status = put(*hub, numbers[0], 0, pattern_of(0, 1, 0, 100));
  EXPECT_EQ(status.code, Code::peer_failed) << status.what;
  EXPECT_FALSE(hub->status(numbers[0]).ok());
  const auto data = pattern_of(0, 7, 0, 100000);
  ASSERT_TRUE(put(*hub, numbers[1], 5, data).ok());
  EXPECT_TRUE(std::equal(data.begin(), data.end(), lives->buffer().address + 5));
}

}  // namespace
}  // namespace hmc::rma
