// Messages when a rank dies, aborts, closes, or is late. Ranks are threads; each case has its own job.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <hmc/hmc.hpp>

#include "bootstrap/inproc.hpp"
#include "runtime/p2p/messenger.hpp"
#include "tests/multirank/short_deadline.hpp"

namespace hmc {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::size_t large = 400'000;  // more than one slot

class MessagesFailure : public testing::TestWithParam<std::tuple<int, int>> {
 protected:
  int ranks() const { return std::get<0>(GetParam()); }
  int nodes() const { return std::get<1>(GetParam()); }
  int last() const { return ranks() - 1; }

  using Body = std::function<void(Runtime& runtime)>;
  /// Returns every rank's first Error. The buffers outlive the runtimes.
  std::vector<std::optional<Error>> run(const Body& body, std::chrono::nanoseconds deadline = 60s) {
    std::vector<std::optional<Error>> met(static_cast<std::size_t>(ranks()));
    std::barrier everybody(ranks());
    std::vector<std::thread> threads;
    auto places = bootstrap::make_inproc(ranks(), nodes());
    for (int rank = 0; rank < ranks(); ++rank) {
      threads.emplace_back([&, rank, place = std::move(places[static_cast<std::size_t>(rank)])]() mutable {
        Runtime runtime = start_without_hurry(std::move(place), base::Env::from_process());
        set_deadline(runtime, deadline);
        everybody.arrive_and_wait();
        try {
          body(runtime);
        } catch (const Error& error) {
          met[static_cast<std::size_t>(rank)].emplace(error);
        }
        everybody.arrive_and_wait();  // the other ranks report a rank that leaves earlier as failed
      });
    }
    for (std::thread& thread : threads) thread.join();
    return met;
  }
  static void wait_for(const std::function<bool()>& over) {
    const auto limit = Clock::now() + 60s;
    while (!over() && Clock::now() < limit) std::this_thread::sleep_for(50us);
    EXPECT_TRUE(over());
  }
  static rma::Fabric& fabric_of(Runtime& runtime) { return runtime.world().core()->fabric(); }
  static p2p::Messenger& messenger_of(Runtime& runtime) {
    return static_cast<p2p::Messenger&>(*fabric_of(runtime).messages);
  }
  std::byte* buffer(const Runtime& runtime) { return buffers[static_cast<std::size_t>(runtime.rank())].data(); }

  std::vector<std::vector<std::byte>> buffers =
      std::vector<std::vector<std::byte>>(static_cast<std::size_t>(ranks()), std::vector<std::byte>(large));

  /// The last rank dies while the others are in `call`.
  void check_death(const std::function<void(Team& world, std::byte* data)>& call) {
    const auto met = run([&](Runtime& runtime) {
      runtime.world().barrier();
      if (runtime.rank() == last()) {
        const Runtime gone = std::move(runtime);  // without a goodbye
        return;
      }
      call(runtime.world(), buffer(runtime));
    });
    for (int rank = 0; rank < last(); ++rank) {
      const auto& error = met[static_cast<std::size_t>(rank)];
      ASSERT_TRUE(error.has_value());
      EXPECT_EQ(error->code(), Code::peer_failed) << error->what();
      EXPECT_EQ(error->peer(), last()) << error->what();
    }
  }
};

TEST_P(MessagesFailure, death_ends_recv) {
  check_death([&](Team& world, std::byte* data) { world.recv_bytes(data, 8, last(), 1); });
}
TEST_P(MessagesFailure, death_of_any_rank_ends_recv_from_any_source) {
  check_death([&](Team& world, std::byte* data) { world.recv_bytes(data, 8); });
}
TEST_P(MessagesFailure, death_ends_a_large_send) {
  check_death([&](Team& world, std::byte* data) { world.send_bytes(data, large, last(), 1); });
}
TEST_P(MessagesFailure, death_ends_sends_into_a_full_ring) {
  check_death([&](Team& world, std::byte* data) {
    for (;;) world.send_bytes(data, 1000, last(), 1);
  });
}
TEST_P(MessagesFailure, death_ends_probe) {
  check_death([&](Team& world, std::byte*) { world.probe(last()); });
}
TEST_P(MessagesFailure, death_ends_requests) {
  check_death([&](Team& world, std::byte* data) {
    Request requests[] = {world.irecv_bytes(data, 8, last(), 1), world.isend_bytes(data + 8, large - 8, last(), 2)};
    Request::wait_all(requests);
  });
}
TEST_P(MessagesFailure, death_outside_of_calls_ends_requests) {
  check_death([&](Team& world, std::byte* data) {
    Request request = world.irecv_bytes(data, 8, last(), 1);
    const base::NodePage& page = world.core()->fabric().waiter.page();
    wait_for([&] { return !page.aborted().ok(); });
    while (!request.test()) {
    }
  });
}

// The notice of a death reaches nodes at different times. Here the receiver's node gets none.
TEST_P(MessagesFailure, send_that_a_death_has_ended_is_reported_as_the_death) {
  if (ranks() < 4) GTEST_SKIP() << "it needs two nodes of two ranks";
  std::atomic<const base::NodePage*> page{nullptr};
  std::atomic<bool> has_ended{false};
  const int dead = 1;
  const auto met = run([&](Runtime& runtime) {
    Team& world = runtime.world();
    if (runtime.rank() == 0) {
      page = &fabric_of(runtime).waiter.page();
      EXPECT_THROW(world.send_bytes(buffer(runtime), large, last(), 1), Error);
      has_ended = true;
    }
    if (runtime.rank() != last()) return;
    while (!world.iprobe(0, 1)) {
    }
    page.load()->raise_abort(Code::peer_failed, dead, "rank 1 died");
    wait_for([&] { return has_ended.load(); });
    world.recv_bytes(buffer(runtime), large, 0, 1);
  });
  const auto& error = met[static_cast<std::size_t>(last())];
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code(), Code::peer_failed) << error->what();
  EXPECT_EQ(error->peer(), dead) << error->what();
}

TEST_P(MessagesFailure, connection_that_a_death_prevents_is_reported_as_the_death) {
  const auto met = run([&](Runtime& runtime) {
    if (runtime.rank() != 0) return;
    const rma::Fabric& fabric = fabric_of(runtime);
    fabric.waiter.page().raise_abort(Code::peer_failed, 1, "rank 1 died");
    rma::throw_status(fabric, base::Status::failure(Code::unavailable, "no connection", 1), {"put", 1});
  });
  ASSERT_TRUE(met[0].has_value());
  EXPECT_EQ(met[0]->code(), Code::peer_failed) << met[0]->what();
  EXPECT_EQ(met[0]->peer(), 1);
}

TEST_P(MessagesFailure, abort_ends_recv) {
  const auto met = run([&](Runtime& runtime) {
    Team& world = runtime.world();
    // The error of a request has nothing of a request before it.
    Request earlier = world.irecv_bytes(buffer(runtime), 4096, runtime.rank(), 2);
    world.send_bytes(buffer(runtime), 1, runtime.rank(), 2);
    earlier.wait();
    world.barrier();
    if (runtime.rank() == last()) return runtime.abort(3, "enough");
    if (runtime.rank() != 0) world.recv_bytes(buffer(runtime), 8, last(), 1);
    world.irecv_bytes(buffer(runtime), 8, last(), 1).wait();
  });
  for (int rank = 0; rank < last(); ++rank) {
    const auto& error = met[static_cast<std::size_t>(rank)];
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->code(), Code::aborted) << error->what();
    EXPECT_LE(error->detail().size, 8U) << error->what();
  }
}

TEST_P(MessagesFailure, receive_that_times_out_names_its_source_and_matches_no_later_message) {
  std::barrier step(ranks());
  const auto met = run([&](Runtime& runtime) {
    Team& world = runtime.world();
    std::uint64_t never = 5, got = 0;
    if (runtime.rank() != last()) {
      set_deadline(runtime, 1s);
      try {
        world.recv_bytes(&never, 8, last(), 1);
        ADD_FAILURE();
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::timeout) << error.what();
        EXPECT_EQ(error.peer(), last()) << error.what();
      }
      set_deadline(runtime, 60s);
    }
    step.arrive_and_wait();
    const std::uint64_t value = 77;
    if (runtime.rank() == last()) {
      for (int to = 0; to < last(); ++to) world.send_bytes(&value, 8, to, 1);
    } else {
      world.recv_bytes(&got, 8, last(), 1);
      EXPECT_EQ(got, value);
      EXPECT_EQ(never, 5U);
    }
    step.arrive_and_wait();
  });
  for (const auto& error : met) EXPECT_FALSE(error.has_value()) << error->what();
}

// The buffer of a send that has timed out may change, so the receiver must not take its bytes.
TEST_P(MessagesFailure, large_send_that_times_out_fails_the_pair) {
  std::barrier step(ranks());
  run([&](Runtime& runtime) {
    Team& world = runtime.world();
    if (runtime.rank() == 0) {
      set_deadline(runtime, 1s);
      try {
        world.send_bytes(buffer(runtime), large, last(), 1);
        ADD_FAILURE();
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::timeout) << error.what();
        EXPECT_EQ(error.peer(), last());
      }
      EXPECT_THROW(world.send_bytes(buffer(runtime), 8, last(), 1), Error);
    }
    step.arrive_and_wait();
    if (runtime.rank() == last()) {
      try {
        world.recv_bytes(buffer(runtime), large, 0, 1);
        ADD_FAILURE();
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::error) << error.what();
        EXPECT_EQ(error.peer(), 0) << error.what();
      }
    }
    step.arrive_and_wait();
  });
}

// The receive was posted for any source, so its wait begins without a peer.
TEST_P(MessagesFailure, large_send_that_times_out_fails_a_receive_from_any_source) {
  if (nodes() > 1) GTEST_SKIP() << "between nodes no byte is sent before a receive matches";
  std::barrier step(ranks());
  std::vector<std::byte> huge(16 << 20), into(huge.size());
  run([&](Runtime& runtime) {
    Team& world = runtime.world();
    if (runtime.rank() == last()) {
      Request request = world.irecv_bytes(into.data(), into.size(), any_source, 1);
      {
        const std::lock_guard guard(fabric_of(runtime).background.lock());  // its progress thread does nothing
        step.arrive_and_wait();
        step.arrive_and_wait();  // the send has timed out
      }
      set_deadline(runtime, 60s);
      try {
        request.wait();
        ADD_FAILURE();
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::error) << error.what();
        EXPECT_EQ(error.peer(), 0) << error.what();
      }
    } else {
      step.arrive_and_wait();
      if (runtime.rank() == 0) {
        set_deadline(runtime, 1s);
        EXPECT_THROW(world.send_bytes(huge.data(), huge.size(), last(), 1), Error);
        set_deadline(runtime, 60s);
      }
      step.arrive_and_wait();
    }
    step.arrive_and_wait();
  });
}

// The receive takes the first pieces only. The others don't reach its buffer, and later messages arrive.
TEST_P(MessagesFailure, receive_that_times_out_drops_the_rest_of_its_message) {
  if (nodes() > 1) GTEST_SKIP() << "between nodes the send waits for slots";
  std::barrier step(ranks());
  std::vector<std::byte> huge(16 << 20, std::byte{1}), into(huge.size());
  run([&](Runtime& runtime) {
    Team& world = runtime.world();
    if (runtime.rank() == 0) {
      Request sent = world.isend_bytes(huge.data(), huge.size(), last(), 1);
      {
        const std::lock_guard guard(fabric_of(runtime).background.lock());  // its progress thread does nothing
        step.arrive_and_wait();
        step.arrive_and_wait();  // the receive has timed out
      }
      sent.wait();
      const std::uint64_t value = 5;
      world.send_bytes(&value, 8, last(), 1);
    } else if (runtime.rank() == last()) {
      step.arrive_and_wait();
      set_deadline(runtime, 1s);
      EXPECT_THROW(world.recv_bytes(into.data(), into.size(), 0, 1), Error);
      set_deadline(runtime, 60s);
      std::ranges::fill(into, std::byte{7});
      step.arrive_and_wait();
      std::uint64_t value = 0;
      world.recv_bytes(&value, 8, 0, 1);
      EXPECT_EQ(value, 5U);
      EXPECT_TRUE(std::ranges::all_of(into, [](std::byte each) { return each == std::byte{7}; }));
    } else {
      step.arrive_and_wait();
      step.arrive_and_wait();
    }
    step.arrive_and_wait();
  });
}

// Only the message's own progress extends the deadline of its send. The last rank stops after its first answer, while
// rank 1's messages arrive at rank 0.
TEST_P(MessagesFailure, large_send_times_out_while_other_messages_arrive) {
  if (ranks() < 3) GTEST_SKIP() << "a third rank sends the other messages";
  std::barrier step(ranks());
  std::atomic<bool> is_over{false};
  std::vector<std::byte> huge(16 << 20), into(huge.size());
  run([&](Runtime& runtime) {
    Team& world = runtime.world();
    rma::Fabric& fabric = fabric_of(runtime);
    p2p::Messenger& messenger = messenger_of(runtime);
    if (runtime.rank() == last()) {
      Request request = world.irecv_bytes(into.data(), into.size(), 0, 1);
      std::unique_lock guard(fabric.background.lock());  // its progress thread does nothing
      const std::uint64_t before = messenger.moves();
      step.arrive_and_wait();
      wait_for([&] {
        for (const auto& wire : fabric.wires) wire->progress();
        return messenger.step(progress::Started::By::owner) > 0 || messenger.moves() != before;
      });
      wait_for([&] {
        for (const auto& wire : fabric.wires) wire->progress();
        return is_over.load();
      });
      guard.unlock();
      request.abandon();
    } else {
      step.arrive_and_wait();
      if (runtime.rank() == 0) {
        set_deadline(runtime, 1s);
        try {
          world.send_bytes(huge.data(), huge.size(), last(), 1);
          ADD_FAILURE();
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), Code::timeout) << error.what();
        }
        is_over = true;
        set_deadline(runtime, 60s);
      } else if (runtime.rank() == 1) {
        const auto limit = Clock::now() + 30s;
        std::vector<Request> sent;
        for (; !is_over && Clock::now() < limit; std::this_thread::sleep_for(1ms))
          sent.push_back(world.isend_bytes(buffer(runtime), 8, 0, 2));
        EXPECT_TRUE(is_over);
        for (Request& request : sent) request.abandon();
      }
    }
    step.arrive_and_wait();
  });
}

// Each rank sends a large message to the next one and receives the previous rank's into a buffer that is too small. The
// sends end with the calls, and the team stays usable.
TEST_P(MessagesFailure, truncation_in_sendrecv_ends_its_send) {
  const auto met = run([&](Runtime& runtime) {
    Team& world = runtime.world();
    const int next = (runtime.rank() + 1) % ranks(), previous = (runtime.rank() + last()) % ranks();
    for (int round = 0; round < 20; ++round) {
      std::vector<std::byte> out(large, static_cast<std::byte>(runtime.rank() + round)), in(100, std::byte{0xee});
      try {
        world.sendrecv_bytes(out.data(), large, next, round, in.data(), in.size(), previous, round);
        ADD_FAILURE();
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::mismatch) << error.what();
        EXPECT_EQ(error.peer(), previous) << error.what();
      }
      EXPECT_EQ(in, std::vector<std::byte>(100, std::byte{0xee}));
    }
    std::uint64_t mine = static_cast<std::uint64_t>(runtime.rank()) + 100, theirs = 0;
    world.sendrecv_bytes(&mine, 8, next, 99, &theirs, 8, previous, 99);
    EXPECT_EQ(theirs, static_cast<std::uint64_t>(previous) + 100);
  });
  for (const auto& error : met) EXPECT_FALSE(error.has_value()) << error->what();
}

// A full ring isn't an error: the sends wait, and the wait ends at the deadline. The messages before it arrive.
TEST_P(MessagesFailure, sends_to_a_rank_that_does_not_receive_wait) {
  std::barrier step(ranks());
  std::atomic<int> sent{0};
  run([&](Runtime& runtime) {
    Team& world = runtime.world();
    if (runtime.rank() == 0) {
      set_deadline(runtime, 1s);
      try {
        for (;;) {
          const int value = sent;
          std::memcpy(buffer(runtime), &value, sizeof value);
          world.send_bytes(buffer(runtime), 500, last(), 1);
          ++sent;
        }
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::timeout) << error.what();
      }
      EXPECT_GT(sent, 0);
    }
    step.arrive_and_wait();
    if (runtime.rank() == last()) {
      for (int i = 0; i < sent; ++i) {
        int value = -1;
        world.recv_bytes(buffer(runtime), 500, 0, 1);
        std::memcpy(&value, buffer(runtime), sizeof value);
        EXPECT_EQ(value, i);
      }
    }
    step.arrive_and_wait();
  });
}

TEST_P(MessagesFailure, receive_from_a_rank_that_closes_is_a_mismatch) {
  if (nodes() > 1) GTEST_SKIP() << "the state of a rank on another node isn't visible";
  std::optional<Error> mismatch;
  const auto met = run([&](Runtime& runtime) {
    try {
      if (runtime.rank() == 0) runtime.world().recv_bytes(buffer(runtime), 8, last(), 1);
    } catch (const Error& error) {
      mismatch.emplace(error);
    }
    runtime.close();
  });
  ASSERT_TRUE(mismatch.has_value());
  EXPECT_EQ(mismatch->code(), Code::mismatch) << mismatch->what();
  EXPECT_EQ(mismatch->peer(), last());
  for (const auto& error : met) EXPECT_FALSE(error.has_value()) << error->what();
}

// The error names what has arrived instead. Without a receive it is a warning of the close.
TEST_P(MessagesFailure, receive_with_a_wrong_tag_names_the_messages_that_have_arrived) {
  std::vector<std::string> texts;
  testing::internal::CaptureStderr();
  const auto met = run([&](Runtime& runtime) {
    Team& world = runtime.world();
    const std::vector<std::byte> sent(12), more(large);
    const auto text_of = [&](const auto& call) {
      try {
        call();
      } catch (const Error& error) {
        texts.emplace_back(error.what());
      }
    };
    Request second;
    if (runtime.rank() == last()) {
      world.send(sent, 0, 7);
      second = world.isend(more, 0, 8);
    }
    world.barrier();
    if (runtime.rank() == 0) {
      set_deadline(runtime, 1s);
      text_of([&] { world.recv_bytes(buffer(runtime), 8, last(), 1); });
      set_deadline(runtime, 60s);
      Request never[] = {world.irecv_bytes(buffer(runtime), 8, last(), 1)};
      text_of([&] { never[0].wait(10ms); });
      text_of([&] { Request::wait_any(never, 10ms); });
      never[0].abandon();
      world.recv_bytes(buffer(runtime), large, last(), 8);
    }
    second.wait();
    runtime.close();
  });
  const std::string warnings = testing::internal::GetCapturedStderr();
  const std::string from = " from rank " + std::to_string(last());
  EXPECT_EQ(texts.size(), 3);
  for (const std::string& text : texts) {
    EXPECT_NE(text.find("12 bytes with tag 7" + from), std::string::npos) << text;
    EXPECT_NE(text.find("400000 bytes with tag 8" + from), std::string::npos) << text;
  }
  EXPECT_NE(warnings.find("rank 0 hasn't received 1 message: 12 bytes with tag 7" + from + "\n"), std::string::npos)
      << warnings;
  for (const auto& error : met) EXPECT_FALSE(error.has_value()) << error->what();
}

TEST_P(MessagesFailure, close_after_an_abort_reports_no_messages) {
  testing::internal::CaptureStderr();
  run([&](Runtime& runtime) {
    const std::vector<std::byte> sent(12);
    if (runtime.rank() == last()) runtime.world().send(sent, 0, 7);
    runtime.world().barrier();
    if (runtime.rank() == last()) runtime.abort(1, "enough");
    EXPECT_THROW(runtime.close(), Error);
  });
  const std::string warnings = testing::internal::GetCapturedStderr();
  EXPECT_EQ(warnings.find("hasn't received"), std::string::npos) << warnings;
}

// Only this thread may call the Runtime, so nobody can send what it waits for.
TEST_P(MessagesFailure, wait_for_oneself_that_can_not_end_is_an_error_at_once) {
  const auto met = run([&](Runtime& runtime) {
    Team& world = runtime.world();
    const int me = runtime.rank();
    const auto check = [&](const char* text, const auto& call) {
      try {
        call();
        ADD_FAILURE() << text;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::mismatch) << error.what();
        EXPECT_EQ(error.peer(), me) << error.what();
        EXPECT_NE(error.detail().message.find(text), std::string::npos) << error.what();
      }
    };
    check("has sent none", [&] { world.recv_bytes(buffer(runtime), 8, me, 1); });
    check("has sent none", [&] { world.probe(me, 1); });
    std::vector<std::byte> huge(16 << 20), into(huge.size());
    check("has posted no receive", [&] { world.send(huge, me, 2); });
    Team other = world.duplicate();
    Request sent = other.isend(huge, me, 3);
    check("16777216 bytes with tag 3 from rank", [&] { other.recv(into, me, 4); });
    other.recv(into, me, 3);
    sent.wait();
    EXPECT_EQ(other.sendrecv(huge, me, 5, into, me, 5).tag, 5);
  });
  for (const auto& error : met) EXPECT_FALSE(error.has_value()) << error->what();
}

// Its buffer ends with it, and the operation uses the buffer.
TEST_P(MessagesFailure, request_dropped_in_flight_ends_the_job) {
  using Drop = std::function<void(Team&, std::vector<std::byte>&)>;
  const std::string peer = std::to_string(last());
  const std::pair<std::string, Drop> drops[] = {
      {"isend to rank " + peer + " with tag 7 and 16777216 bytes",
       [&](Team& world, auto& data) { const Request dropped = world.isend(data, last(), 7); }},
      {"irecv from rank " + peer + " with any tag and up to 16777216 bytes",
       [&](Team& world, auto& data) { const Request dropped = world.irecv(data, last()); }},
      {"irecv from any rank with tag 9 and up to 16777216 bytes",
       [&](Team& world, auto& data) {
         Request dropped = world.irecv(data, any_source, 9);
         dropped = Request();
       }},
      {"iallreduce(16777216 x u8, sum) on the world of " + std::to_string(ranks()) + " ranks",
       [&](Team& world, auto& data) {
         const std::span values(reinterpret_cast<std::uint8_t*>(data.data()), data.size());
         const Request dropped = world.iallreduce(values, values, sum);
       }},
  };
  for (const auto& each : drops) {
    const std::string& text = each.first;
    std::atomic<bool> is_dropped{false};
    const auto met = run([&](Runtime& runtime) {
      Team& world = runtime.world();
      if (runtime.rank() == 0) {
        std::vector<std::byte> data(16 << 20);
        each.second(world, data);
        is_dropped = true;
      } else {
        wait_for([&] { return is_dropped.load(); });
      }
      world.recv_bytes(buffer(runtime), 8, (runtime.rank() + 1) % ranks(), 99);  // nobody sends
    });
    for (const auto& error : met) {
      ASSERT_TRUE(error.has_value()) << text;
      EXPECT_EQ(error->code(), Code::aborted) << error->what();
      EXPECT_NE(error->detail().message.find("rank 0 has destroyed the request of " + text + " in flight"),
                std::string::npos)
          << error->what();
    }
  }
}

TEST_P(MessagesFailure, request_of_a_complete_operation_may_be_dropped) {
  const auto met = run([&](Runtime& runtime) {
    Team& world = runtime.world();
    std::vector<std::byte> out(large, std::byte{5}), in(large);
    {
      const int next = (runtime.rank() + 1) % ranks(), previous = (runtime.rank() + last()) % ranks();
      const Request received = world.irecv(in, previous, 1), sent = world.isend(out, next, 1);
      wait_for([&] {
        const std::lock_guard guard(fabric_of(runtime).background.lock());
        return !messenger_of(runtime).goes_on();
      });
    }
    EXPECT_EQ(in, out);
    Request abandoned = world.irecv(in, last(), 2);
    abandoned.abandon();
    world.barrier();
    runtime.close();
  });
  for (const auto& error : met) EXPECT_FALSE(error.has_value()) << error->what();
}

// No rank makes a call until its messages are complete.
TEST_P(MessagesFailure, messages_progress_while_all_ranks_compute) {
  const auto met = run([&](Runtime& runtime) {
    Team& world = runtime.world();
    const int next = (runtime.rank() + 1) % ranks(), previous = (runtime.rank() + last()) % ranks();
    std::vector<std::byte> out(large, static_cast<std::byte>(runtime.rank() + 1)), small(100, std::byte{9}), in(100);
    Request requests[] = {world.irecv_bytes(buffer(runtime), large, previous, 1),
                          world.irecv_bytes(in.data(), 100, previous, 2), world.isend_bytes(out.data(), large, next, 1),
                          world.isend_bytes(small.data(), 100, next, 2)};
    wait_for([&] {
      const std::lock_guard guard(fabric_of(runtime).background.lock());
      return !messenger_of(runtime).goes_on();
    });
    for (Request& request : requests) wait_for([&] { return request.test(); });
    EXPECT_EQ(buffer(runtime)[0], static_cast<std::byte>(previous + 1));
    EXPECT_EQ(buffer(runtime)[large - 1], static_cast<std::byte>(previous + 1));
    EXPECT_EQ(in, small);
    world.barrier();
  });
  for (const auto& error : met) EXPECT_FALSE(error.has_value()) << error->what();
}

INSTANTIATE_TEST_SUITE_P(, MessagesFailure,
                         testing::Values(std::tuple(2, 1), std::tuple(3, 1), std::tuple(2, 2), std::tuple(4, 2)),
                         [](const auto& made) {
                           return "ranks" + std::to_string(std::get<0>(made.param)) + "_nodes" +
                                  std::to_string(std::get<1>(made.param));
                         });

}  // namespace
}  // namespace hmc
