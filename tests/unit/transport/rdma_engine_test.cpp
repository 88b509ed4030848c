// The verbs engine on the fake device, which delays and reorders requests as the InfiniBand specification allows.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <hmc/error.hpp>

#include "runtime/transport/rdma/rdma_wire.hpp"
#include "tests/fake_verbs/control.hpp"

namespace hmc::transport::rdma {

namespace {

constexpr std::size_t region_bytes = std::size_t{6} << 20;

std::byte value_at(int rank, std::size_t offset, unsigned call) {
  return static_cast<std::byte>((static_cast<unsigned>(rank) * 37 + offset * 131 + (offset >> 8) * 7 + call * 29) &
                                0xff);
}
std::vector<std::byte> data_of(int rank, std::size_t bytes, unsigned call) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = value_at(rank, i, call);
  return data;
}

/// Ranks of one thread. Each has a region, and channels to all.
class Ranks {
 public:
  explicit Ranks(int count, int queue_pairs = 1, const std::function<void(int, base::Bytes&)>& change = {},
                 std::int64_t timeout_ns = 60'000'000'000, int lost_host_s = 10) {
    std::vector<base::Bytes> addresses;
    std::vector<int> all;
    for (int rank = 0; rank < count; ++rank) {
      Options options;
      options.rank = rank;
      options.size = count;
      options.queue_pairs = queue_pairs;
      options.timeout_ns = timeout_ns;
      options.lost_host_s = lost_host_s;
      options.log = base::Log(base::LogLevel::error);
      wires.push_back(std::make_unique<RdmaWire>(options));
      addresses.push_back(wires.back()->address());
      if (change) change(rank, addresses.back());
      regions.emplace_back(region_bytes / 8);
      all.push_back(rank);
    }
    for (int rank = 0; rank < count; ++rank) {
      at(rank).set_peer_addresses(addresses);
      keys.push_back(at(rank).register_region(region(rank)));
    }
    for (int rank = 0; rank < count; ++rank)
      channels.push_back(at(rank).connect(region(rank), keys, all, base::Deadline::after(std::chrono::seconds(60))));
  }
  ~Ranks() {
    channels.clear();
    for (std::size_t rank = 0; rank < wires.size(); ++rank)
      wires[rank]->deregister_region(region(static_cast<int>(rank)));
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  RdmaWire& at(int rank) { return *wires[static_cast<std::size_t>(rank)]; }
  transport::Channel& channel(int from, int to) {
    return *channels[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
  }
  std::byte* memory(int rank) { return reinterpret_cast<std::byte*>(regions[static_cast<std::size_t>(rank)].data()); }
  Region region(int rank) { return {memory(rank), region_bytes, MemoryType::CPU, nullptr, 0}; }
  base::Status wait(int rank, Ticket ticket) {
    for (;;) {
      const base::Status status = at(rank).test(ticket);
      if (status.code != Code::in_progress) return status;
      at(rank).progress();
    }
  }
  base::Status flush(int rank, int peer = -1) {
    Ticket ticket = done;
    const base::Status status = at(rank).flush(peer, ticket);
    return status.ok() ? wait(rank, ticket) : status;
  }
  base::Status put(int from, int to, std::uint64_t offset, const void* data, std::size_t bytes) {
    Ticket ticket = done;
    const base::Status status = channel(from, to).put(offset, data, bytes, ticket);
    return status.ok() ? wait(from, ticket) : status;
  }

  std::vector<std::unique_ptr<RdmaWire>> wires;
  std::vector<std::vector<std::uint64_t>> regions;
  std::vector<base::Bytes> keys;
  std::vector<std::vector<std::unique_ptr<transport::Channel>>> channels;
};

class RdmaEngine : public ::testing::Test {
 protected:
  RdmaEngine() { fake_verbs_reset(); }
  /// Every wire of a test is destroyed before this.
  void TearDown() override {
    EXPECT_STREQ(fake_verbs_violations(), "");
    EXPECT_EQ(fake_verbs_live("all"), 0);
  }
  static std::string why_unavailable() {
    Options options;
    options.log = base::Log(base::LogLevel::error);
    try {
      const RdmaWire wire(options);
    } catch (const Error& error) {
      return error.detail().message;
    }
    return "available";
  }
};

constexpr std::size_t sizes[] = {
    0, 1, 7, 8, 219, 220, 221, 8191, 8192, 8193, 65535, 65536, 65543, (1U << 20) + 3, (3U << 20) + 5};

TEST_F(RdmaEngine, puts_and_gets_of_every_size_move_the_bytes) {
  for (const int count : {1, 2, 3, 4, 5, 8}) {
    for (const int queue_pairs : {1, 3}) {
      Ranks ranks(count, queue_pairs);
      unsigned call = 0;
      for (const std::size_t bytes : sizes) {
        if (count > 3 && bytes > 65536) continue;
        const std::uint64_t offset = 8 + 3 * call;
        for (int from = 0; from < count; ++from) {
          const int to = (from + 1) % count;
          const auto data = data_of(from, bytes, call);
          ASSERT_TRUE(ranks.put(from, to, offset, data.data(), bytes).ok());
          ASSERT_TRUE(ranks.flush(from).ok());
          ASSERT_TRUE(std::equal(data.begin(), data.end(), ranks.memory(to) + offset)) << bytes;
          std::vector<std::byte> back(bytes);
          Ticket ticket = done;
          ASSERT_TRUE(ranks.channel(from, to).get(offset, back.data(), bytes, ticket).ok());
          ASSERT_TRUE(ranks.wait(from, ticket).ok());
          ASSERT_EQ(back, data);
        }
        ++call;
      }
    }
  }
}

TEST_F(RdmaEngine, atomics_of_all_ranks_are_exact) {
  fake_verbs_set("read_delay", 2);
  Ranks ranks(4);
  constexpr int calls = 50;
  for (int call = 0; call < calls; ++call) {
    std::vector<Ticket> tickets(4);
    std::vector<std::uint64_t> results(4);
    for (int from = 0; from < 4; ++from) {
      const auto origin = static_cast<std::size_t>(from);
      Ticket none = done;
      ASSERT_TRUE(ranks.channel(from, 0).atomic({AtomicOp::add, 8, 3, 0}, 0, nullptr, none).ok());
      ASSERT_TRUE(
          ranks.channel(from, 0).atomic({AtomicOp::fetch_add, 8, 1, 0}, 8, &results[origin], tickets[origin]).ok());
      // A loop of compare-swaps, on the upper half of a word.
      ASSERT_TRUE(ranks.channel(from, 0).atomic({AtomicOp::add, 4, 5, 0}, 20, nullptr, none).ok());
      ASSERT_TRUE(ranks.channel(from, 0)
                      .atomic({AtomicOp::bor, 8, std::uint64_t{1} << (call % 16 * 4 + from), 0}, 24, nullptr, none)
                      .ok());
    }
    std::uint64_t sum = 0;
    for (int from = 0; from < 4; ++from) {
      ASSERT_TRUE(ranks.flush(from).ok());
      ASSERT_TRUE(ranks.wait(from, tickets[static_cast<std::size_t>(from)]).ok());
      sum += results[static_cast<std::size_t>(from)];
    }
    EXPECT_EQ(sum, static_cast<std::uint64_t>(16 * call + 6));  // each old value once
  }
  EXPECT_EQ(ranks.regions[0][0], 3U * 4 * calls);
  EXPECT_EQ(ranks.regions[0][1], 4U * calls);
  EXPECT_EQ(ranks.regions[0][2], std::uint64_t{5 * 4 * calls} << 32);
  EXPECT_EQ(ranks.regions[0][3], ~std::uint64_t{0});
}

struct AtSignal {
  std::uint64_t address = 0;
  const std::byte* target = nullptr;
  const std::vector<std::byte>* data = nullptr;
  int seen = 0;
  bool is_complete = false;
};

TEST_F(RdmaEngine, signal_follows_the_stripes_of_all_queue_pairs) {
  Ranks ranks(2, 3);
  constexpr std::uint64_t at = 64;
  const auto data = data_of(0, (5U << 20) + 1, 4);
  AtSignal state{reinterpret_cast<std::uint64_t>(ranks.memory(1)), ranks.memory(1) + at, &data};
  ASSERT_TRUE(ranks.put(0, 1, 8, &at, sizeof at).ok());  // connects
  // Only the first queue pair executes at once; the stripes need polls, so a signal that doesn't wait passes them.
  for (const int pair : {2, 3, 5, 6}) fake_verbs_delay(pair, 20);
  fake_verbs_observe(
      [](void* context, int, ibv_wr_opcode opcode, std::uint64_t remote, std::uint32_t bytes) {
        AtSignal& signal = *static_cast<AtSignal*>(context);
        if (opcode != IBV_WR_RDMA_WRITE || remote != signal.address || bytes != 8) return;
        ++signal.seen;
        signal.is_complete = std::equal(signal.data->begin(), signal.data->end(), signal.target);
      },
      &state);
  Ticket ticket = done;
  ASSERT_TRUE(ranks.channel(0, 1).put_signal(at, data.data(), data.size(), 0, 77, ticket).ok());
  ASSERT_TRUE(ranks.wait(0, ticket).ok());
  ASSERT_TRUE(ranks.flush(0).ok());
  fake_verbs_observe(nullptr, nullptr);
  EXPECT_EQ(state.seen, 1);
  EXPECT_TRUE(state.is_complete);
  EXPECT_EQ(ranks.regions[1][0], 77U);
}

TEST_F(RdmaEngine, signalled_puts_of_every_size_move_bytes_and_signal) {
  for (const int queue_pairs : {1, 3}) {
    Ranks ranks(2, queue_pairs);
    std::uint64_t call = 1;
    for (const std::size_t bytes : sizes) {
      const auto data = data_of(0, bytes, static_cast<unsigned>(call));
      Ticket ticket = done;
      ASSERT_TRUE(ranks.channel(0, 1).put_signal(64 + call, data.data(), bytes, 8, call * 1001, ticket).ok());
      ASSERT_TRUE(ranks.wait(0, ticket).ok());
      ASSERT_TRUE(ranks.flush(0).ok());
      ASSERT_EQ(ranks.regions[1][1], call * 1001) << bytes;
      ASSERT_TRUE(std::equal(data.begin(), data.end(), ranks.memory(1) + 64 + call)) << bytes;
      ++call;
    }
  }
}

TEST_F(RdmaEngine, atomic_after_a_fence_follows_the_stripes_of_a_put) {
  Ranks ranks(2, 3);
  const auto data = data_of(0, (4U << 20) + 9, 5);
  std::uint64_t old = 1;
  ASSERT_TRUE(ranks.put(0, 1, 8, &old, sizeof old).ok());
  for (const int pair : {2, 3, 5, 6}) fake_verbs_delay(pair, 20);
  AtSignal state{reinterpret_cast<std::uint64_t>(ranks.memory(1)), ranks.memory(1) + 64, &data};
  fake_verbs_observe(
      [](void* context, int, ibv_wr_opcode opcode, std::uint64_t, std::uint32_t) {
        AtSignal& signal = *static_cast<AtSignal*>(context);
        if (opcode != IBV_WR_ATOMIC_FETCH_AND_ADD) return;
        ++signal.seen;
        signal.is_complete = std::equal(signal.data->begin(), signal.data->end(), signal.target);
      },
      &state);
  Ticket put = done;
  Ticket atomic = done;
  ASSERT_TRUE(ranks.channel(0, 1).put(64, data.data(), data.size(), put).ok());
  ASSERT_TRUE(ranks.at(0).fence().ok());
  ASSERT_TRUE(ranks.channel(0, 1).atomic({AtomicOp::fetch_add, 8, 1, 0}, 0, &old, atomic).ok());
  ASSERT_TRUE(ranks.wait(0, atomic).ok());
  ASSERT_TRUE(ranks.wait(0, put).ok());
  fake_verbs_observe(nullptr, nullptr);
  EXPECT_EQ(state.seen, 1);
  EXPECT_TRUE(state.is_complete);
}

TEST_F(RdmaEngine, put_after_a_fence_follows_atomics_that_later_requests_may_pass) {
  Ranks ranks(2);
  std::uint64_t old = 99;
  const std::uint64_t overwritten = 1000;
  ASSERT_TRUE(ranks.put(0, 1, 8, &old, sizeof old).ok());
  fake_verbs_set("read_delay", 50);
  Ticket atomic = done;
  ASSERT_TRUE(ranks.channel(0, 1).atomic({AtomicOp::fetch_add, 8, 1, 0}, 0, &old, atomic).ok());
  ASSERT_TRUE(ranks.at(0).fence().ok());
  ASSERT_TRUE(ranks.put(0, 1, 0, &overwritten, sizeof overwritten).ok());
  ASSERT_TRUE(ranks.flush(0).ok());
  ASSERT_TRUE(ranks.wait(0, atomic).ok());
  EXPECT_EQ(old, 0U);
  EXPECT_EQ(ranks.regions[1][0], overwritten);
}

TEST_F(RdmaEngine, full_queue_is_no_failure) {
  fake_verbs_set("queue_depth", 32);
  Ranks ranks(2);
  fake_verbs_delay(0, 3);
  for (std::uint64_t call = 0; call < 1000; ++call) {
    const std::uint64_t value = call * 7919 + 1;
    Ticket ticket = done;
    ASSERT_TRUE(ranks.channel(0, 1).put(call * 8, &value, 8, ticket).ok());
    if (call % 3 == 0) {
      const auto data = data_of(0, 3000, static_cast<unsigned>(call));
      ASSERT_TRUE(ranks.channel(0, 1).put(8192 + call * 3000, data.data(), data.size(), ticket).ok());
    }
  }
  ASSERT_TRUE(ranks.flush(0).ok());
  for (std::uint64_t call = 0; call < 1000; ++call) {
    ASSERT_EQ(ranks.regions[1][call], call * 7919 + 1);
    if (call % 3 != 0) continue;
    const auto data = data_of(0, 3000, static_cast<unsigned>(call));
    ASSERT_TRUE(std::equal(data.begin(), data.end(), ranks.memory(1) + 8192 + call * 3000)) << call;
  }
}

TEST_F(RdmaEngine, small_puts_are_completed_in_batches) {
  Ranks ranks(2);
  std::uint64_t value = 5;
  ASSERT_TRUE(ranks.put(0, 1, 0, &value, 8).ok());
  ASSERT_TRUE(ranks.flush(0).ok());
  // No completion arrives between the puts, so the queue pair isn't idle in between.
  fake_verbs_delay(0, 1);
  const long before = fake_verbs_count("completions");
  for (std::uint64_t call = 0; call < 200; ++call) {
    value = call + 11;
    Ticket ticket = done;
    ASSERT_TRUE(ranks.channel(0, 1).put(call * 8, &value, 8, ticket).ok());
    EXPECT_EQ(ticket, done);
  }
  ASSERT_TRUE(ranks.flush(0).ok());
  // The first, one per quarter of the queue (64 requests), and that of the flush.
  EXPECT_EQ(fake_verbs_count("completions") - before, 1 + 200 / 64 + 1);
  for (std::uint64_t call = 0; call < 200; ++call) ASSERT_EQ(ranks.regions[1][call], call + 11);
}

TEST_F(RdmaEngine, refused_post_fails_only_its_peer) {
  Ranks ranks(3);
  const std::uint64_t value = 17;
  ASSERT_TRUE(ranks.put(0, 1, 0, &value, 8).ok());
  ASSERT_TRUE(ranks.put(0, 2, 0, &value, 8).ok());
  ASSERT_TRUE(ranks.flush(0).ok());
  fake_verbs_refuse("post_send", 0, 1, ENOMEM);
  const base::Status refused = ranks.put(0, 1, 8, &value, 8);
  EXPECT_EQ(refused.code, Code::peer_failed);
  EXPECT_EQ(ranks.put(0, 1, 8, &value, 8).code, Code::peer_failed);
  ASSERT_TRUE(ranks.put(0, 2, 16, &value, 8).ok());
  ASSERT_TRUE(ranks.flush(0, 2).ok());
  EXPECT_EQ(ranks.regions[2][2], value);
}

TEST_F(RdmaEngine, failed_completion_fails_only_its_peer) {
  for (const ibv_wc_status status : {IBV_WC_RETRY_EXC_ERR, IBV_WC_WR_FLUSH_ERR, IBV_WC_REM_ACCESS_ERR}) {
    fake_verbs_reset();
    Ranks ranks(3);
    const std::uint64_t value = 23;
    ASSERT_TRUE(ranks.put(0, 1, 0, &value, 8).ok());
    ASSERT_TRUE(ranks.flush(0).ok());
    fake_verbs_fail(1, 2, status);
    std::uint64_t result = 0;
    Ticket get = done;
    Ticket none = done;
    ASSERT_TRUE(ranks.put(0, 1, 8, &value, 8).ok());
    ASSERT_TRUE(ranks.put(0, 1, 16, &value, 8).ok());
    if (ranks.channel(0, 1).get(0, &result, 8, get).ok()) {
      const base::Status failed = ranks.wait(0, get);
      EXPECT_EQ(failed.code, Code::peer_failed);
      EXPECT_EQ(failed.peer, 1);
    }
    EXPECT_EQ(ranks.channel(0, 1).put(0, &value, 8, none).code, Code::peer_failed);
    EXPECT_EQ(ranks.at(0).peer_status(1).code, Code::peer_failed);
    ASSERT_TRUE(ranks.put(0, 2, 0, &value, 8).ok());
    ASSERT_TRUE(ranks.flush(0, 2).ok());
    EXPECT_EQ(ranks.regions[2][0], value);
    EXPECT_EQ(ranks.regions[1][1], value);
  }
}

TEST_F(RdmaEngine, device_fails_within_the_time_of_a_lost_host) {
  const auto patience_ns = [](int exponent) { return (1 + retries) * (4096LL << exponent); };
  EXPECT_EQ(acknowledge_timeout(1), 16);  // 1.9 s, the least
  EXPECT_EQ(acknowledge_timeout(10), 18);
  for (int seconds = 2; seconds <= 900; ++seconds) {
    const std::uint8_t exponent = acknowledge_timeout(seconds);
    ASSERT_LE(patience_ns(exponent), seconds * 1'000'000'000LL);
    ASSERT_GT(patience_ns(exponent + 1), seconds * 1'000'000'000LL);
    ASSERT_LT(exponent, 32) << "5 bits";
  }
  for (const auto& [seconds, expected_ms] : {std::pair(10, 7516), std::pair(60, 30'064)}) {
    Ranks ranks(2, 1, {}, 60'000'000'000, seconds);
    const std::uint64_t value = 5;
    ASSERT_TRUE(ranks.put(0, 1, 0, &value, 8).ok());
    EXPECT_EQ(fake_verbs_count("patience_ms"), expected_ms);
  }
}

TEST_F(RdmaEngine, access_beyond_the_region_fails_the_peer) {
  Ranks ranks(2);
  const std::uint64_t value = 31;
  ASSERT_TRUE(ranks.put(0, 1, region_bytes, &value, 8).ok());  // locally complete
  const base::Status failed = ranks.flush(0);
  EXPECT_EQ(failed.code, Code::peer_failed);
  EXPECT_EQ(failed.peer, 1);
}

TEST_F(RdmaEngine, wrong_secret_is_refused) {
  Ranks ranks(
      2, 1,
      [](int rank, base::Bytes& address) {
        if (rank == 1) address[4] ^= std::byte{1};  // after the version
      },
      300'000'000);
  const std::uint64_t value = 1;
  EXPECT_EQ(ranks.put(0, 1, 0, &value, 8).code, Code::timeout);
  while (ranks.at(1).refusals() == 0) ::sched_yield();
  EXPECT_EQ(ranks.regions[1][0], 0U);
}

TEST_F(RdmaEngine, lost_datagrams_are_repeated) {
  Ranks ranks(2);
  fake_verbs_set("drop", 5);
  const std::uint64_t value = 0x1234;
  ASSERT_TRUE(ranks.put(0, 1, 0, &value, 8).ok());
  ASSERT_TRUE(ranks.flush(0).ok());
  EXPECT_EQ(ranks.regions[1][0], value);
  EXPECT_GE(fake_verbs_count("datagrams"), 7);  // five lost, a request and its reply
}

TEST_F(RdmaEngine, registered_memory_is_registered_once) {
  Ranks ranks(2);
  std::vector<std::byte> data = data_of(0, 1U << 20, 6);
  ASSERT_TRUE(ranks.put(0, 1, 0, data.data(), 8).ok());
  ASSERT_TRUE(ranks.flush(0).ok());
  const long before = fake_verbs_count("ibv_reg_mr");
  const long live = fake_verbs_live("mr");
  ASSERT_TRUE(ranks.put(0, 1, 0, ranks.memory(0), 1U << 20).ok());
  EXPECT_EQ(fake_verbs_count("ibv_reg_mr"), before);  // in the own region
  ASSERT_TRUE(ranks.put(0, 1, 0, data.data(), 65535).ok());
  EXPECT_EQ(fake_verbs_count("ibv_reg_mr"), before);  // copied
  for (int call = 1; call <= 3; ++call) {
    ASSERT_TRUE(ranks.put(0, 1, 0, data.data(), data.size()).ok());
    EXPECT_EQ(fake_verbs_count("ibv_reg_mr"), before + call);  // for each call
    EXPECT_EQ(fake_verbs_live("mr"), live);
  }
  ASSERT_TRUE(ranks.at(0).register_local(data.data(), data.size()));
  for (int call = 0; call < 3; ++call) ASSERT_TRUE(ranks.put(0, 1, 0, data.data(), data.size()).ok());
  EXPECT_EQ(fake_verbs_count("ibv_reg_mr"), before + 4);
  ranks.at(0).deregister_local(data.data(), data.size());
  EXPECT_EQ(fake_verbs_live("mr"), live);
  EXPECT_TRUE(std::equal(data.begin(), data.end(), ranks.memory(1)));
}

TEST_F(RdmaEngine, memory_that_cannot_be_registered_is_copied) {
  Ranks ranks(2);
  const auto data = data_of(0, 300'001, 7);
  ASSERT_TRUE(ranks.put(0, 1, 0, data.data(), 8).ok());
  fake_verbs_refuse("ibv_reg_mr", 0, 2, ENOMEM);
  ASSERT_TRUE(ranks.put(0, 1, 1, data.data(), data.size()).ok());
  ASSERT_TRUE(ranks.flush(0).ok());
  std::vector<std::byte> back(data.size());
  Ticket ticket = done;
  ASSERT_TRUE(ranks.channel(0, 1).get(1, back.data(), back.size(), ticket).ok());
  ASSERT_TRUE(ranks.wait(0, ticket).ok());
  EXPECT_EQ(back, data);
}

TEST_F(RdmaEngine, unusable_device_is_reported) {
  fake_verbs_set("devices", 0);
  EXPECT_EQ(why_unavailable(), "this machine has no RDMA device");
  fake_verbs_reset();
  fake_verbs_set("active", 0);
  EXPECT_EQ(why_unavailable(), "no RDMA device has an active port (fake0)");
  fake_verbs_reset();
  fake_verbs_set("gids", 0);
  EXPECT_EQ(why_unavailable(), "fake0 port 1 has no GID");
  fake_verbs_reset();
  fake_verbs_set("atomics", 0);
  EXPECT_NE(why_unavailable().find("has no atomics"), std::string::npos);
  fake_verbs_reset();
  EXPECT_EQ(why_unavailable(), "available");
}

}  // namespace

}  // namespace hmc::transport::rdma
