#include "runtime/transport/am/tickets.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

namespace {
thread_local bool memory_is_out = false;
}
// Replaces operator new in this program, so that a test can let allocations fail. Never inlined: g++ would see a free()
// of what the other operator returned.
void* operator new(std::size_t bytes) {
  void* const memory = memory_is_out ? nullptr : std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return memory_is_out ? nullptr : std::malloc(bytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace hmc::transport::am {
namespace {

class MessageTickets : public ::testing::Test {
 protected:
  base::Status test(Ticket ticket) { return tickets_.test(ticket, &lock_); }
  Tickets tickets_;
  std::mutex lock_;
};

TEST_F(MessageTickets, number_zero_is_done) { EXPECT_TRUE(test(done).ok()); }

TEST_F(MessageTickets, allocation_failure_returns_no_ticket) {
  std::vector<Ticket> before;
  before.reserve(1000);
  before.push_back(tickets_.open({.peer = 1, .left = 1}));
  memory_is_out = true;
  Ticket last = done;
  do {
    last = tickets_.open({.peer = 1, .left = 1});
    if (last != done) before.push_back(last);
  } while (last != done && before.size() < 1000);
  memory_is_out = false;
  EXPECT_EQ(last, done);
  // Existing transfers continue, and with memory there is one more.
  const Ticket next = tickets_.open({.peer = 1, .left = 1});
  EXPECT_NE(next, done);
  before.push_back(next);
  for (const Ticket ticket : before) {
    EXPECT_EQ(test(ticket).code, Code::in_progress);
    tickets_.advance(ticket, 1);
    EXPECT_TRUE(test(ticket).ok());
  }
}

TEST_F(MessageTickets, ticket_ends_when_nothing_is_left) {
  const Ticket ticket = tickets_.open({.peer = 1, .left = 3});
  EXPECT_NE(ticket, done);
  tickets_.advance(ticket, 2);
  EXPECT_EQ(test(ticket).code, Code::in_progress);
  tickets_.advance(ticket, 1);
  EXPECT_TRUE(test(ticket).ok());
  EXPECT_TRUE(test(ticket).ok());
}

TEST_F(MessageTickets, slot_is_reused_without_a_query) {
  const Ticket first = tickets_.open({.peer = 1, .left = 1});
  tickets_.advance(first, 1);
  const Ticket second = tickets_.open({.peer = 1, .left = 1});
  EXPECT_NE(first, second);
  EXPECT_EQ(static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(second));
  EXPECT_TRUE(test(first).ok());
  EXPECT_EQ(test(second).code, Code::in_progress);
  tickets_.advance(first, 1);  // a duplicate answer has no effect
  EXPECT_EQ(test(second).code, Code::in_progress);
}

TEST_F(MessageTickets, failure_is_reported_once) {
  const Ticket ticket = tickets_.open({.peer = 4, .left = 2});
  tickets_.fail(ticket, base::Status::failure(Code::peer_failed, "gone", 4));
  tickets_.advance(ticket, 2);
  EXPECT_EQ(test(ticket).code, Code::peer_failed);
  EXPECT_EQ(tickets_.under_way(), 0U);
  EXPECT_TRUE(test(ticket).ok());
}

TEST_F(MessageTickets, failed_and_dropped_ticket_frees_its_slot) {
  const Ticket ticket = tickets_.open({.peer = 4, .left = 2});
  tickets_.fail(ticket, base::Status::failure(Code::peer_failed, "gone", 4));
  EXPECT_EQ(tickets_.find(ticket), nullptr);
  EXPECT_NE(tickets_.known(ticket), nullptr);
  tickets_.release(ticket);
  EXPECT_EQ(tickets_.under_way(), 0U);
  tickets_.release(ticket);
  EXPECT_EQ(tickets_.under_way(), 0U);
  const Ticket next = tickets_.open({.peer = 4, .left = 2});
  EXPECT_EQ(static_cast<std::uint32_t>(ticket), static_cast<std::uint32_t>(next));
  EXPECT_EQ(test(next).code, Code::in_progress);
}

TEST_F(MessageTickets, tickets_of_a_channel_are_found_with_failed_ones) {
  const int mine = 0, others = 0;
  (void)tickets_.open({.peer = 1, .left = 1, .channel = &others});
  const Ticket first = tickets_.open({.peer = 1, .left = 1, .channel = &mine});
  const Ticket over = tickets_.open({.peer = 1, .left = 1, .channel = &mine});
  const Ticket failed = tickets_.open({.peer = 1, .left = 1, .channel = &mine});
  tickets_.advance(over, 1);
  tickets_.fail(failed, base::Status::failure(Code::peer_failed, "gone", 1));
  std::size_t index = 0;
  EXPECT_EQ(tickets_.next_of(&mine, index), first);
  EXPECT_EQ(tickets_.next_of(&mine, index), failed);
  EXPECT_EQ(tickets_.next_of(&mine, index), done);
}

TEST_F(MessageTickets, peer_failure_ends_only_its_tickets) {
  const Ticket mine = tickets_.open({.peer = 1, .left = 1});
  const Ticket other = tickets_.open({.peer = 2, .left = 1});
  const Ticket everybody = tickets_.open({.peer = -1, .left = 2});
  tickets_.fail_peer(1, base::Status::failure(Code::peer_failed, "gone", 1));
  EXPECT_EQ(test(mine).peer, 1);
  EXPECT_EQ(test(other).code, Code::in_progress);
  EXPECT_EQ(test(everybody).code, Code::peer_failed);
}

TEST_F(MessageTickets, memory_grows_with_transfers_in_flight) {
  for (int round = 0; round < 100; ++round) {
    std::vector<Ticket> open;
    for (int i = 0; i < 50; ++i) open.push_back(tickets_.open({.peer = 0, .left = 1}));
    EXPECT_EQ(tickets_.under_way(), 50U);
    for (const Ticket ticket : open) EXPECT_LT(static_cast<std::uint32_t>(ticket), 50U);
    for (const Ticket ticket : open) tickets_.advance(ticket, 1);
  }
  EXPECT_EQ(tickets_.under_way(), 0U);
}

TEST_F(MessageTickets, ticket_with_memory_in_use_fails_later) {
  const Ticket read = tickets_.open({.peer = 1, .left = 2, .sending = 1});
  const Ticket idle = tickets_.open({.peer = 1, .left = 2});
  tickets_.fail_peer(1, base::Status::failure(Code::peer_failed, "gone"));
  EXPECT_EQ(test(read).code, Code::in_progress);
  EXPECT_EQ(test(idle).code, Code::peer_failed);
}

}  // namespace
}  // namespace hmc::transport::am
