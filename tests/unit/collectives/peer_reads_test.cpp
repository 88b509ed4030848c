// Reading a peer's private memory, and which of two ways is taken.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "collectives/direct/peer_reads.hpp"
#include "collectives/direct/private_way.hpp"
#include "collectives/direct/tried_ways.hpp"

namespace hmc::collectives {
namespace {

constexpr std::size_t page = 4096;

std::uint64_t address_of(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

/// Two pages, of which the second can't be read.
class TwoPages {
 public:
  TwoPages()
      : start_(
            static_cast<char*>(::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    ::mprotect(start_ + page, page, PROT_NONE);
  }
  ~TwoPages() { ::munmap(start_, 2 * page); }
  char* start() const { return start_; }

 private:
  char* start_;
};

class PeerReadsOfMine : public testing::Test {
 protected:
  void SetUp() override {
    if (!reads_.is_readable(&reads_, sizeof reads_)) GTEST_SKIP() << "the system allows no process_vm_readv";
  }
  PeerReads reads_{""};
};

TEST_F(PeerReadsOfMine, bytes_come_from_where_they_lie) {
  std::vector<std::uint32_t> from(50'001), to(50'001);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::uint32_t>(i * 2'654'435'761U);
  ASSERT_TRUE(PeerReads::read(::getpid(), address_of(from.data() + 1), to.data(), 50'000 * 4, 3).ok());
  EXPECT_EQ(std::memcmp(from.data() + 1, to.data(), 50'000 * 4), 0);
  EXPECT_EQ(to[50'000], 0U);
}

TEST_F(PeerReadsOfMine, a_process_is_known_by_what_it_shows) {
  ProbeLine line;
  reads_.show(line);
  EXPECT_TRUE(reads_.try_on(line));
  ++line.nonce;
  EXPECT_FALSE(reads_.try_on(line));
  --line.nonce;
  line.address = 0;
  EXPECT_FALSE(reads_.try_on(line));
}

TEST_F(PeerReadsOfMine, memory_that_peers_may_not_read_is_found_before_they_try) {
  const TwoPages pages;
  EXPECT_TRUE(reads_.is_readable(pages.start(), page));
  EXPECT_FALSE(reads_.is_readable(pages.start(), page + 1));
  EXPECT_FALSE(reads_.is_readable(pages.start() + page, 1));
}

TEST_F(PeerReadsOfMine, half_of_a_buffer_is_a_failure) {
  const TwoPages pages;
  std::vector<char> to(2 * page);
  const base::Status status = PeerReads::read(::getpid(), address_of(pages.start()), to.data(), 2 * page, 5);
  EXPECT_EQ(status.code, Code::error);
  EXPECT_EQ(status.peer, 5);
}

TEST_F(PeerReadsOfMine, a_process_that_is_gone_is_a_peer_that_failed) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  std::uint64_t word = 0;
  const base::Status status = PeerReads::read(child, address_of(&word), &word, sizeof word, 7);
  EXPECT_EQ(status.code, Code::peer_failed);
  EXPECT_EQ(status.peer, 7);
}

/// What calls of a size would take.
struct Costs {
  std::int64_t usual;
  std::int64_t other;
};
int taken_new(TriedWays& ways, std::size_t bytes, Costs costs, int calls) {
  int taken = 0;
  for (int i = 0; i < calls; ++i) {
    const TriedWays::Way way = ways.next(bytes);
    taken += way.is_new ? 1 : 0;
    if (way.is_timed) ways.took(bytes, way.is_new, way.is_new ? costs.other : costs.usual);
  }
  return taken;
}

TEST(TriedWays, the_quicker_one_is_taken_but_for_a_few_trials) {
  TriedWays ways;
  EXPECT_EQ(taken_new(ways, 1 << 16, {7'000, 12'000}, 600), 3 * 6);  // trials from calls 2, 78 and 346
  EXPECT_GE(taken_new(ways, 1 << 20, {400'000, 200'000}, 600), 600 - 8 - 3 * 6);
}

TEST(TriedWays, trials_grow_rare) {
  TriedWays ways;
  EXPECT_LE(taken_new(ways, 1 << 16, {7'000, 12'000}, 20'000), 9 * 6);
}

TEST(TriedWays, what_changes_is_noticed) {
  TriedWays ways;
  taken_new(ways, 1 << 16, {7'000, 12'000}, 10'000);
  taken_new(ways, 1 << 16, {24'000, 15'000}, 5'000);
  EXPECT_GE(taken_new(ways, 1 << 16, {24'000, 15'000}, 640), 620);
  taken_new(ways, 1 << 16, {7'000, 12'000}, 10'000);
  EXPECT_LE(taken_new(ways, 1 << 16, {7'000, 12'000}, 640), 20);
}

TEST(TriedWays, what_is_hardly_quicker_changes_nothing) {
  TriedWays ways;
  EXPECT_LE(taken_new(ways, 1 << 16, {10'000, 9'500}, 1000), 3 * 6);
}

TEST(TriedWays, slow_calls_of_a_trial_change_nothing) {
  TriedWays ways;
  int calls = 0;
  for (int i = 0; i < 1000; ++i) {
    const TriedWays::Way way = ways.next(1 << 18);
    if (!way.is_timed) continue;
    // Two of six were disturbed.
    const bool disturbed = calls++ % 6 < 2;
    ways.took(1 << 18, way.is_new, disturbed && !way.is_new ? 4'000'000 : way.is_new ? 45'000 : 30'000);
    EXPECT_EQ(way.is_new, (calls - 1) % 12 >= 6);  // what is usual is taken on
  }
}

TEST(TriedWays, who_follows_tries_when_the_other_does_and_takes_what_that_decided) {
  TriedWays leader, follower;
  for (int i = 0; i < 500; ++i) {
    follower.follow(leader.decided());
    const TriedWays::Way theirs = follower.next(1 << 20);
    const TriedWays::Way way = leader.next(1 << 20);
    if (way.is_timed) leader.took(1 << 20, way.is_new, way.is_new ? 100'000 : 200'000);
    if (theirs.is_timed) follower.took(1 << 20, theirs.is_new, theirs.is_new ? 300'000 : 200'000);
    EXPECT_EQ(way.is_timed, theirs.is_timed);
    EXPECT_TRUE(way.is_new == theirs.is_new || i == 14) << i;  // it hears of it a call later
  }
  EXPECT_TRUE(follower.next(1 << 20).is_new);
}

TEST(TriedWays, sizes_are_tried_apart) {
  TriedWays ways;
  taken_new(ways, 1 << 16, {9'000, 1}, 200);
  EXPECT_FALSE(ways.next(1 << 17).is_new);
  EXPECT_TRUE(ways.next(1 << 16).is_new);
  EXPECT_GE(taken_new(ways, std::size_t{1} << 40, {9'000, 1}, 200), 200 - 8 - 6);
}

TEST(PrivateWay, only_large_blocks_are_read_and_only_where_it_takes_work_off_a_rank) {
  using schedule::Collective;
  for (int size : {2, 3, 8}) {
    EXPECT_EQ(private_way(Collective::scatter, size, 16 << 10), PrivateWay::stage);
    EXPECT_EQ(private_way(Collective::scatter, size, 1 << 20), PrivateWay::read);
    EXPECT_EQ(private_way(Collective::gather, size, 1 << 20), PrivateWay::stage);
    EXPECT_EQ(private_way(Collective::broadcast, size, 1 << 20), PrivateWay::stage);
    EXPECT_EQ(private_way(Collective::alltoall, size, 1 << 20), size == 2 ? PrivateWay::try_both : PrivateWay::read);
    EXPECT_EQ(private_way(Collective::alltoall, size, 1 << 20, false), PrivateWay::read);
    EXPECT_EQ(private_way(Collective::allgather, size, 1 << 20), size == 2 ? PrivateWay::try_both : PrivateWay::stage);
  }
}

}  // namespace
}  // namespace hmc::collectives
