// Reading a peer's private memory, and which of two ways is taken.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "collectives/direct/peer_reads.hpp"
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
  ProbeLine other = line;
  ++other.nonce;
  EXPECT_FALSE(reads_.try_on(other));
  other = line;
  other.address = 0;
  EXPECT_FALSE(reads_.try_on(other));
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
    const bool is_new = ways.takes_new(bytes);
    taken += is_new ? 1 : 0;
    ways.took(bytes, is_new, is_new ? costs.other : costs.usual);
  }
  return taken;
}

TEST(TriedWays, the_quicker_one_is_taken_but_for_a_few_trials) {
  TriedWays ways;
  EXPECT_LE(taken_new(ways, 1 << 16, {7'000, 12'000}, 640), 4 + 10);
  EXPECT_GE(taken_new(ways, 1 << 20, {400'000, 200'000}, 640), 640 - 4 - 10);
}

TEST(TriedWays, what_changes_is_noticed) {
  TriedWays ways;
  taken_new(ways, 1 << 16, {7'000, 12'000}, 640);
  taken_new(ways, 1 << 16, {24'000, 15'000}, 640);
  EXPECT_GE(taken_new(ways, 1 << 16, {24'000, 15'000}, 640), 620);
  taken_new(ways, 1 << 16, {7'000, 12'000}, 640);
  EXPECT_LE(taken_new(ways, 1 << 16, {7'000, 12'000}, 640), 20);
}

TEST(TriedWays, one_slow_call_changes_nothing) {
  TriedWays ways;
  taken_new(ways, 1 << 18, {30'000, 45'000}, 100);
  ways.took(1 << 18, false, 4'000'000);
  EXPECT_FALSE(ways.takes_new(1 << 18));
}

TEST(TriedWays, small_blocks_go_the_usual_way) {
  TriedWays ways;
  EXPECT_EQ(taken_new(ways, TriedWays::least - 1, {9'000, 1}, 200), 0);
  EXPECT_GE(taken_new(ways, TriedWays::least, {9'000, 1}, 200), 190);
  EXPECT_GE(taken_new(ways, std::size_t{1} << 40, {9'000, 1}, 200), 190);
}

}  // namespace
}  // namespace hmc::collectives
