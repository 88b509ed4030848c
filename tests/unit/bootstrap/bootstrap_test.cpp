// The contract of Bootstrap, for every implementation.
#include "bootstrap/bootstrap.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <sstream>
#include <thread>
#include <vector>

#include "test_job.hpp"

namespace hmc::bootstrap::test {
namespace {

using testing::HasSubstr;

class EveryBootstrap : public testing::TestWithParam<Shape> {};

std::string shape_name(const testing::TestParamInfo<Shape>& info) {
  std::ostringstream name;
  name << info.param;
  return name.str();
}
INSTANTIATE_TEST_SUITE_P(Shapes, EveryBootstrap, testing::ValuesIn(all_shapes(1)), shape_name);

class SeveralRanks : public EveryBootstrap {};
INSTANTIATE_TEST_SUITE_P(Shapes, SeveralRanks, testing::ValuesIn(all_shapes(2)), shape_name);

/// Each waits for a second.
class AtADeadline : public EveryBootstrap {};
INSTANTIATE_TEST_SUITE_P(Shapes, AtADeadline, testing::ValuesIn(some_shapes()), shape_name);

/// Content and length depend on rank and round.
base::Bytes pattern(int rank, int round) {
  base::Bytes bytes(static_cast<std::size_t>((rank * 7 + round * 13) % 50));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(static_cast<std::size_t>(rank * 31 + round * 17) + i);
  }
  return bytes;
}

/// Called before a test uses a short deadline: on a busy machine it may expire before the next rank has started.
void all_are_here(Bootstrap& me, const std::vector<int>& ranks) {
  me.publish(fmt::format("{} is here", me.rank()), {});
  for (const int rank : ranks) (void)me.lookup(fmt::format("{} is here", rank), soon());
}

TEST_P(EveryBootstrap, every_rank_has_its_place_and_all_others) {
  run_job(GetParam(), [&](Bootstrap& me) {
    ASSERT_EQ(me.size(), GetParam().size);
    ASSERT_EQ(me.facts().size(), static_cast<std::size_t>(me.size()));
    std::map<int, int> ranks_on;
    for (int rank = 0; rank < me.size(); ++rank) {
      const RankFacts& facts = me.facts()[static_cast<std::size_t>(rank)];
      EXPECT_EQ(facts.rank, rank);
      EXPECT_EQ(facts.node, GetParam().node_of(rank));
      EXPECT_EQ(facts.local_index, ranks_on[facts.node]++);
      EXPECT_EQ(facts.pid, ::getpid());
      EXPECT_EQ(facts.machine, me.facts()[0].machine);
      EXPECT_NE(facts.cpus[0] | facts.cpus[1] | facts.cpus[2] | facts.cpus[3], 0U);
    }
    const std::array<std::byte, 32> key = me.wire_key();
    EXPECT_EQ(key == decltype(key){}, GetParam().kind == Kind::inproc) << "tags of messages can be computed";
    for (const base::Bytes& each : me.allgather(key, soon())) EXPECT_TRUE(std::ranges::equal(each, key));
    const auto& members = me.node_link().members();
    EXPECT_EQ(members.size(), static_cast<std::size_t>(ranks_on[GetParam().node_of(me.rank())]));
    const auto mine = static_cast<std::size_t>(me.facts()[static_cast<std::size_t>(me.rank())].local_index);
    EXPECT_EQ(members[mine], me.rank());
    EXPECT_EQ(me.node_page().activity(static_cast<int>(mine)).world_rank.load(), me.rank());
  });
}

TEST_P(EveryBootstrap, allgather_returns_all_bytes_by_rank) {
  run_job(GetParam(), [&](Bootstrap& me) {
    for (int round = 0; round < 20; ++round) {
      const auto all = me.allgather(pattern(me.rank(), round), soon());
      ASSERT_EQ(all.size(), static_cast<std::size_t>(me.size()));
      for (int rank = 0; rank < me.size(); ++rank) {
        ASSERT_EQ(all[static_cast<std::size_t>(rank)], pattern(rank, round)) << "of rank " << rank;
      }
    }
  });
}

TEST_P(EveryBootstrap, allgather_supports_large_pieces) {
  run_job(GetParam(), [&](Bootstrap& me) {
    base::Bytes mine((4U << 20) / static_cast<unsigned>(me.size() * me.size()) + 13);
    for (std::size_t i = 0; i < mine.size(); ++i)
      mine[i] = static_cast<std::byte>(i * 7 + static_cast<std::size_t>(me.rank()));
    const auto all = me.allgather(mine, soon());
    for (int rank = 0; rank < me.size(); ++rank) {
      const base::Bytes& theirs = all[static_cast<std::size_t>(rank)];
      ASSERT_EQ(theirs.size(), mine.size());
      for (std::size_t i = 0; i < theirs.size(); i += 997) {
        ASSERT_EQ(theirs[i], static_cast<std::byte>(i * 7 + static_cast<std::size_t>(rank)));
      }
    }
  });
}

TEST_P(EveryBootstrap, no_rank_leaves_a_barrier_before_the_last_enters) {
  std::atomic<int> arrived{0};
  run_job(GetParam(), [&](Bootstrap& me) {
    for (int round = 1; round <= 10; ++round) {
      ++arrived;
      me.barrier(soon());
      EXPECT_GE(arrived.load(), round * me.size());
      me.barrier(soon());
    }
  });
}

TEST_P(EveryBootstrap, share_passes_memory_to_the_node) {
  run_job(GetParam(), [&](Bootstrap& me) {
    for (int round = 0; round < 3; ++round) {
      std::shared_ptr<base::Segment> mine;
      const bool gives = (me.rank() + round) % 3 != 1;
      if (gives) mine = base::Segment::create(5000);
      if (gives) std::memset(mine->base(), 1 + me.rank() + 10 * round, 5000);
      const auto& members = me.node_link().members();
      const auto all = me.node_link().share(mine, soon());
      ASSERT_EQ(all.size(), members.size());
      for (std::size_t i = 0; i < members.size(); ++i) {
        if ((members[i] + round) % 3 == 1) {
          EXPECT_EQ(all[i], nullptr);
        } else if (members[i] == me.rank()) {
          EXPECT_EQ(all[i], mine) << "a rank's own segment is returned unchanged";
        } else {
          ASSERT_NE(all[i], nullptr);
          ASSERT_GE(all[i]->bytes(), 5000U);
          EXPECT_EQ(all[i]->base()[4999], static_cast<std::byte>(1 + members[i] + 10 * round));
        }
      }
      me.barrier(soon());
      if (gives) mine->base()[17] = static_cast<std::byte>(200 + me.rank());
      me.barrier(soon());
      for (std::size_t i = 0; i < members.size(); ++i) {
        if (!all[i]) continue;
        EXPECT_EQ(all[i]->base()[17], static_cast<std::byte>(200 + members[i])) << "not the same memory";
      }
    }
  });
}

TEST_P(EveryBootstrap, groups_of_a_node_share_at_once) {
  run_job(GetParam(), [&](Bootstrap& me) {
    const auto& members = me.node_link().members();
    // Odd and even members of the node. Ranks start the second of two overlapping groups while others are in the first.
    for (const int parts : {2, 1, 2}) {
      base::ShareGroup group;
      const auto at = std::find(members.begin(), members.end(), me.rank()) - members.begin();
      for (std::size_t i = static_cast<std::size_t>(at % parts); i < members.size();
           i += static_cast<std::size_t>(parts))
        group.members.push_back(members[i]);
      const std::uint64_t drawn = me.node_link().next_share();
      const auto numbers = me.allgather(base::ByteWriter().number(drawn).view(), soon());
      group.number = base::ByteReader(numbers[static_cast<std::size_t>(group.members.front())]).number<std::uint64_t>();
      auto mine = base::Segment::create(100);
      mine->base()[99] = static_cast<std::byte>(10 + me.rank());
      const auto all = me.node_link().share_among(group, mine, soon());
      ASSERT_EQ(all.size(), group.members.size());
      for (std::size_t i = 0; i < all.size(); ++i)
        EXPECT_EQ(all[i]->base()[99], static_cast<std::byte>(10 + group.members[i]));
      me.barrier(soon());
    }
  });
}

TEST_P(EveryBootstrap, node_page_is_one_page) {
  run_job(GetParam(), [&](Bootstrap& me) {
    const RankFacts mine = me.facts()[static_cast<std::size_t>(me.rank())];
    me.node_page().activity(mine.local_index).sequence.store(100U + static_cast<unsigned>(me.rank()));
    me.barrier(soon());
    for (const int member : me.node_link().members()) {
      const int seat = me.facts()[static_cast<std::size_t>(member)].local_index;
      EXPECT_EQ(me.node_page().activity(seat).sequence.load(), 100U + static_cast<unsigned>(member));
    }
    me.barrier(soon());
  });
}

TEST_P(EveryBootstrap, lookup_waits_for_publish) {
  run_job(GetParam(), [&](Bootstrap& me) {
    if (me.rank() == me.size() - 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));  // so most of them have to wait
      me.publish("port", base::as_bytes("4711"));
    }
    EXPECT_EQ(base::as_text(me.lookup("port", soon())), "4711");
    EXPECT_EQ(base::as_text(me.lookup("port", soon())), "4711") << "it stays";
  });
}

TEST_P(EveryBootstrap, key_is_published_once) {
  run_job(GetParam(), [&](Bootstrap& me) {
    if (me.rank() == 0) me.publish("key", base::as_bytes("first"));
    me.barrier(soon());
    const Error error = error_of([&] { me.publish("key", base::as_bytes("second")); });
    EXPECT_EQ(error.code(), Code::invalid_argument);
    EXPECT_THAT(error.what(), HasSubstr("key"));
    EXPECT_EQ(base::as_text(me.lookup("key", soon())), "first");
  });
}

TEST_P(EveryBootstrap, lookup_of_a_missing_key_fails_at_the_deadline) {
  run_job(GetParam(), [&](Bootstrap& me) {
    const Error error = error_of([&] { (void)me.lookup("nothing", in_ms(30)); });
    EXPECT_EQ(error.code(), Code::not_found);
    EXPECT_THAT(error.what(), HasSubstr("nothing"));
    me.barrier(soon());
    // A late answer to the first lookup isn't taken for that of the second.
    if (me.rank() == 0) {
      me.publish("nothing", base::as_bytes("late"));
      me.publish("something", base::as_bytes("else"));
    }
    EXPECT_EQ(base::as_text(me.lookup("something", soon())), "else");
  });
}

TEST_P(AtADeadline, barrier_names_missing_ranks) {
  run_job(GetParam(), [&](Bootstrap& me) {
    const int late = me.size() - 1;
    if (me.rank() != late) {
      std::vector<int> others(static_cast<std::size_t>(late));
      std::iota(others.begin(), others.end(), 0);
      all_are_here(me, others);
      const Error error = error_of([&] { me.barrier(in_ms(1000)); });
      EXPECT_EQ(error.code(), Code::timeout);
      EXPECT_EQ(error.rank(), me.rank());
      EXPECT_EQ(error.peer(), late);
      EXPECT_THAT(error.what(), HasSubstr(fmt::format("rank {}", late)));
      me.publish(fmt::format("{} gave up", me.rank()), {});
    }
    for (int rank = 0; rank < late; ++rank) (void)me.lookup(fmt::format("{} gave up", rank), soon());
  });
}

TEST_P(AtADeadline, share_names_missing_ranks) {
  run_job(GetParam(), [&](Bootstrap& me) {
    const int late = me.node_link().members().back();
    if (me.rank() != late) {
      auto others = me.node_link().members();
      others.pop_back();
      all_are_here(me, others);
      const Error error = error_of([&] { (void)me.node_link().share(nullptr, in_ms(1000)); });
      EXPECT_EQ(error.code(), Code::timeout);
      EXPECT_EQ(error.peer(), late);
    }
    me.barrier(soon());
  });
}

TEST_P(SeveralRanks, different_calls_are_a_mismatch) {
  run_job(GetParam(), [&](Bootstrap& me) {
    const bool odd = me.rank() == me.size() - 1;
    const Error error = error_of([&] {
      if (odd) (void)me.allgather({}, soon());
      if (!odd) me.barrier(soon());
    });
    EXPECT_EQ(error.code(), Code::mismatch);
    EXPECT_THAT(error.what(), HasSubstr("allgather"));
    EXPECT_THAT(error.what(), HasSubstr("barrier"));
    me.publish(fmt::format("seen by {}", me.rank()), {});
    (void)me.lookup(fmt::format("seen by {}", (me.rank() + 1) % me.size()), soon());
  });
}

TEST_P(EveryBootstrap, abort_reaches_every_waiting_rank) {
  run_job(GetParam(), [&](Bootstrap& me) {
    me.barrier(soon());
    if (me.rank() == me.size() - 1) me.abort(3, "the disk is full");
    const Error error = error_of([&] { (void)me.lookup("never", soon()); });
    EXPECT_EQ(error.code(), Code::aborted);
    EXPECT_EQ(error.peer(), me.size() - 1);
    EXPECT_THAT(error.what(), HasSubstr("the disk is full"));
    EXPECT_EQ(error_of([&] { me.barrier(soon()); }).code(), Code::aborted) << "and every later call";
    EXPECT_EQ(me.node_page().aborted().code, Code::aborted);
  });
}

TEST_P(EveryBootstrap, abort_wakes_the_wait_of_its_own_rank) {
  run_job(GetParam(), [&](Bootstrap& me) {
    if (me.rank() != 0) {
      try {
        me.barrier(soon());
      } catch (const Error& error) {  // a slow rank may get the abort here
        EXPECT_EQ(error.code(), Code::aborted) << error.what();
      }
      return;
    }
    me.barrier(soon());
    std::thread helper([&] { me.abort(1, "by a helper thread"); });
    EXPECT_EQ(error_of([&] { (void)me.lookup("never", soon()); }).code(), Code::aborted);
    helper.join();
  });
}

TEST_P(EveryBootstrap, raised_node_page_wakes_a_wait) {
  run_job(GetParam(), [&](Bootstrap& me) {
    const Error error = error_of([&] {
      me.barrier(soon());  // a slow rank may get the abort here
      if (me.rank() == me.node_link().members().front())
        me.node_page().raise_abort(Code::peer_failed, 0, "a test says so");
      (void)me.lookup("never", soon());
    });
    EXPECT_EQ(error.code(), Code::peer_failed) << error.what();
  });
}

TEST_P(SeveralRanks, rank_that_leaves_without_goodbye_has_failed) {
  const int victim = GetParam().size / 2;
  run_job(GetParam(), [&](Bootstrap& me) {
    me.barrier(soon());
    if (me.rank() == victim) throw Gone{};
    const Error error = error_of([&] { (void)me.lookup("never", soon()); });
    EXPECT_EQ(error.code(), Code::peer_failed) << error.what();
    EXPECT_EQ(error.peer(), victim);
    EXPECT_EQ(me.node_page().aborted().peer, victim);
  });
}

TEST_P(SeveralRanks, rank_that_left_is_not_waited_for) {
  run_job(GetParam(), [&](Bootstrap& me) {
    me.barrier(soon());
    if (me.rank() == me.size() - 1) return;
    const Error error = error_of([&] { me.barrier(soon()); });
    EXPECT_EQ(error.code(), Code::closed) << error.what();
    EXPECT_EQ(error.peer(), me.size() - 1);
    EXPECT_TRUE(me.node_page().aborted().ok()) << "a goodbye isn't a failure";
  });
}

}  // namespace
}  // namespace hmc::bootstrap::test
