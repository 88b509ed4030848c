#include "runtime/base/node_page.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include <hmc/error.hpp>

namespace hmc::base {
namespace {

/// Another mapping of the page's memory, as in another process.
std::shared_ptr<Segment> map_again(const NodePage& page) {
  return Segment::map(UniqueFd(::fcntl(page.segment()->fd(), F_DUPFD_CLOEXEC, 0)), page.segment()->bytes());
}

void expect_refused(std::shared_ptr<Segment> segment, std::uint64_t nonce) {
  try {
    NodePage::adopt(std::move(segment), nonce);
    ADD_FAILURE() << "it was adopted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::refused) << error.what();
  }
}

TEST(NodePage, correct_nonce_maps_the_same_lines) {
  const NodePage mine = NodePage::create(3);
  const NodePage theirs = NodePage::adopt(map_again(mine), mine.nonce());
  EXPECT_EQ(theirs.capacity(), 3);
  EXPECT_NE(theirs.segment()->base(), mine.segment()->base());
  for (int i = 0; i < 3; ++i) mine.activity(i).sequence.store(static_cast<std::uint64_t>(100 + i));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(theirs.activity(i).sequence.load(), static_cast<std::uint64_t>(100 + i));
  theirs.doorbell(2).state.store(77);
  EXPECT_EQ(mine.doorbell(2).state.load(), 77U);
  EXPECT_EQ(mine.doorbell(1).state.load(), 0U);
  theirs.cpus()[2].store(78);
  EXPECT_EQ(mine.cpus()[2].load(), 78U);
  EXPECT_EQ(mine.cpus()[1].load(), 0U);
  EXPECT_LE(reinterpret_cast<std::byte*>(mine.cpus() + 3), mine.segment()->base() + NodePage::bytes_for(3));
}

TEST(NodePage, wrong_nonce_is_rejected) {
  const NodePage page = NodePage::create(2);
  expect_refused(map_again(page), page.nonce() + 1);
  expect_refused(map_again(page), 0);
}

TEST(NodePage, other_memory_is_rejected) {
  expect_refused(Segment::create(1 << 16), 0);
  const NodePage page = NodePage::create(2);
  auto broken = Segment::create(page.segment()->bytes());
  std::memcpy(broken->base(), page.segment()->base(), page.segment()->bytes());
  broken->base()[0] ^= std::byte{1};
  expect_refused(broken, page.nonce());
}

TEST(NodePage, page_too_short_for_its_ranks_is_rejected) {
  const NodePage page = NodePage::create(1000);
  auto cut = Segment::create(page_size());
  std::memcpy(cut->base(), page.segment()->base(), page_size());
  expect_refused(cut, page.nonce());
  UniqueFd tiny(::memfd_create("tiny", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(tiny.get(), 16), 0);
  expect_refused(Segment::map(std::move(tiny)), page.nonce());
}

TEST(NodePage, nonces_are_different) {
  std::set<std::uint64_t> nonces;
  for (int i = 0; i < 20; ++i) nonces.insert(NodePage::create(1).nonce());
  EXPECT_EQ(nonces.size(), 20U);
}

TEST(NodePage, every_line_is_its_own_cache_line) {
  const NodePage page = NodePage::create(4);
  std::set<std::uintptr_t> lines;
  for (int i = 0; i < 4; ++i) {
    for (const void* line :
         {static_cast<const void*>(&page.activity(i)), static_cast<const void*>(&page.doorbell(i))}) {
      const auto address = reinterpret_cast<std::uintptr_t>(line);
      EXPECT_EQ(address % 64, 0U);
      EXPECT_TRUE(lines.insert(address / 64).second);
    }
  }
}

TEST(NodePage, abort_is_visible_to_all_ranks_with_its_cause) {
  const NodePage mine = NodePage::create(2);
  const NodePage theirs = NodePage::adopt(map_again(mine), mine.nonce());
  EXPECT_TRUE(theirs.aborted().ok());
  EXPECT_EQ(theirs.abort_text(), "");
  mine.raise_abort(Code::peer_failed, 5, "rank 5 was killed by signal 9");
  const Status status = theirs.aborted();
  EXPECT_EQ(status.code, Code::peer_failed);
  EXPECT_EQ(status.peer, 5);
  EXPECT_EQ(theirs.abort_text(), "rank 5 was killed by signal 9");
}

TEST(NodePage, first_cause_is_kept) {
  const NodePage page = NodePage::create(2);
  page.raise_abort(Code::aborted, 0, "first");
  page.raise_abort(Code::peer_failed, 1, "second");
  EXPECT_EQ(page.aborted().code, Code::aborted);
  EXPECT_EQ(page.aborted().peer, 0);
  EXPECT_EQ(page.abort_text(), "first");
}

TEST(NodePage, one_of_many_simultaneous_causes_is_kept_whole) {
  for (int round = 0; round < 50; ++round) {
    const NodePage page = NodePage::create(4);
    std::vector<std::thread> threads;
    for (int who = 0; who < 4; ++who) {
      threads.emplace_back([&page, who] {
        page.raise_abort(who % 2 == 0 ? Code::aborted : Code::peer_failed, who, "cause " + std::to_string(who));
      });
    }
    for (std::thread& thread : threads) thread.join();
    const Status status = page.aborted();
    EXPECT_EQ(status.code, status.peer % 2 == 0 ? Code::aborted : Code::peer_failed);
    EXPECT_EQ(page.abort_text(), "cause " + std::to_string(status.peer));
  }
}

TEST(NodePage, long_text_is_truncated_and_a_missing_peer_is_stated) {
  const NodePage page = NodePage::create(1);
  page.raise_abort(Code::aborted, -1, std::string(100'000, 'x'));
  EXPECT_EQ(page.aborted().peer, -1);
  const std::string text = page.abort_text();
  EXPECT_GT(text.size(), 100U);
  EXPECT_EQ(text.find_first_not_of('x'), std::string::npos);
}

}  // namespace
}  // namespace hmc::base
