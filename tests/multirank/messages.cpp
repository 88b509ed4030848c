// Two-sided messages: matching, order, sizes, flow control, requests. Data depends on rank, offset and call.
#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <hmc/hmc.hpp>

#include "tests/support/pattern.hpp"
#include "tests/support/spmd.hpp"

namespace {

using hmc::any_source;
using hmc::any_tag;
using hmc::MessageStatus;
using hmc::Request;
using hmc::Team;
using hmc::spmd::Pattern;
using hmc::spmd::TestRank;

std::vector<std::byte> message(int rank, std::uint64_t call, std::size_t bytes) {
  std::vector<std::byte> data(bytes);
  Pattern{rank, call}.fill(data);
  return data;
}

void check_status(const MessageStatus& status, int source, int tag, std::size_t bytes) {
  HMC_CHECK_EQ(status.source, source);
  HMC_CHECK_EQ(status.tag, tag);
  HMC_CHECK_EQ(status.bytes, bytes);
}

/// 0, 1, odd, around the first line, the largest eager message, pieces, a page, the ring, the bytes that are sent
/// before a receive matches, and a slot.
const std::vector<std::size_t> sizes = {
    0,     1,      7,      8,      31,     32,     33,     63,     64,     65,      1000,    2047,   2048,  4096,
    8191,  8192,   8193,   16255,  16256,  16257,  16384,  24575,  24577,  32511,   32512,   32513,  65535, 65536,
    65537, 100000, 130048, 262079, 262080, 262081, 262144, 262145, 524289, 1048576, 3000001, 5 << 20};

}  // namespace

HMC_SPMD_TEST(Messages, ring_of_every_size) {
  Team& world = me.runtime->world();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto out = message(me.rank, i, sizes[i]);
    std::vector<std::byte> in(sizes[i] + 1, std::byte{0x5a});
    const int tag = static_cast<int>(i);
    const MessageStatus status =
        world.sendrecv_bytes(out.data(), out.size(), me.next(), tag, in.data(), sizes[i], me.previous(), tag);
    check_status(status, me.previous(), tag, sizes[i]);
    HMC_CHECK_CLEAN((Pattern{me.previous(), i}.verify(std::span(in).first(sizes[i]))));
    HMC_CHECK(in.back() == std::byte{0x5a});
  }
}

HMC_SPMD_TEST(Messages, blocking_pairs_of_every_size) {
  Team& world = me.runtime->world();
  const int peer = me.rank ^ 1;
  if (peer < me.size) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      std::vector<std::byte> in(sizes[i]);
      const auto out = message(me.rank, 100 + i, sizes[i]);
      for (int turn = 0; turn < 2; ++turn) {
        if (turn == (me.rank & 1)) {
          world.send(out, peer, 3);
        } else {
          check_status(world.recv(in, peer, 3), peer, 3, sizes[i]);
          HMC_CHECK_CLEAN((Pattern{peer, 100 + i}.verify(in)));
        }
      }
    }
  }
  world.barrier();
}

// All messages arrive before their receives, and each receive takes the last of the remaining ones.
HMC_SPMD_TEST(Messages, unexpected_messages_of_every_size) {
  Team& world = me.runtime->world();
  std::vector<std::vector<std::byte>> out;
  std::vector<Request> requests;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    out.push_back(message(me.rank, 200 + i, sizes[i]));
    requests.push_back(world.isend(out.back(), me.next(), static_cast<int>(i)));
  }
  const auto last = message(me.rank, 300, 40);
  requests.push_back(world.isend(last, me.next(), 1000));
  std::vector<std::byte> in(40);
  check_status(world.recv(in, me.previous(), 1000), me.previous(), 1000, 40);  // overtakes all others
  HMC_CHECK_CLEAN((Pattern{me.previous(), 300}.verify(in)));
  for (std::size_t i = sizes.size(); i-- > 0;) {
    in.assign(sizes[i], std::byte{});
    check_status(world.probe(me.previous(), static_cast<int>(i)), me.previous(), static_cast<int>(i), sizes[i]);
    check_status(world.recv(in, me.previous(), static_cast<int>(i)), me.previous(), static_cast<int>(i), sizes[i]);
    HMC_CHECK_CLEAN((Pattern{me.previous(), 200 + i}.verify(in)));
  }
  Request::wait_all(requests);
  world.barrier();
}

// Both neighbours of each rank exchange with it at once: large and small messages alternate, in flight together.
HMC_SPMD_TEST(Messages, large_and_small_messages_in_both_directions) {
  Team& world = me.runtime->world();
  constexpr std::size_t count = 40;
  const auto bytes_of = [](std::size_t i) { return i % 2 == 0 ? 24 + i : 5000 * (1 + i * 7 % count); };
  for (std::uint64_t round = 0; round < 4; ++round) {
    std::vector<Request> requests;
    std::vector<std::vector<std::byte>> out, in;
    std::vector<std::pair<int, std::uint64_t>> from;
    const auto post = [&] {
      for (std::size_t i = 0; i < count; ++i)
        for (const int peer : {me.next(), me.previous()}) {
          in.emplace_back(bytes_of(i));
          from.emplace_back(peer, round * count + i);
          const int direction = me.size > 2 && peer == me.next() ? 1 : 0;  // with 2 ranks both neighbours are one rank
          requests.push_back(world.irecv(in.back(), peer, direction));
        }
    };
    if (round % 2 == 0) post();
    for (std::size_t i = 0; i < count; ++i)
      for (const int peer : {me.next(), me.previous()}) {
        out.push_back(message(me.rank, round * count + i, bytes_of(i)));
        const int direction = me.size > 2 && peer == me.previous() ? 1 : 0;
        requests.push_back(world.isend(out.back(), peer, direction));
      }
    if (round % 2 == 1) post();
    Request::wait_all(requests);
    for (std::size_t i = 0; i < in.size(); ++i) HMC_CHECK_CLEAN((Pattern{from[i].first, from[i].second}.verify(in[i])));
    world.barrier();
  }
}

HMC_SPMD_TEST(Messages, many_small_messages_keep_their_order) {
  Team& world = me.runtime->world();
  constexpr std::uint64_t count = 3000;
  std::vector<Request> requests;
  std::vector<std::uint64_t> values(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    values[i] = Pattern{me.rank, 7}.word(i);
    requests.push_back(world.isend_bytes(&values[i], 8, me.next(), 1));
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint64_t got = 0;
    check_status(world.recv_bytes(&got, 8, me.previous(), any_tag), me.previous(), 1, 8);
    HMC_CHECK_EQ(got, (Pattern{me.previous(), 7}.word(i)));
  }
  Request::wait_all(requests);
  world.barrier();
}

HMC_SPMD_TEST(Messages, a_receive_matches_its_tag_and_leaves_the_others) {
  Team& world = me.runtime->world();
  constexpr int tags = 200;
  std::vector<Request> requests;
  std::vector<std::vector<std::byte>> out;
  for (int tag = 0; tag < tags; ++tag)
    out.push_back(message(me.rank, static_cast<std::uint64_t>(tag), static_cast<std::size_t>(tag * 137 % 12000)));
  for (int tag = 0; tag < tags; ++tag)
    requests.push_back(world.isend(out[static_cast<std::size_t>(tag)], me.next(), tag));
  for (int tag = tags - 1; tag >= 0; --tag) {  // the reverse order
    std::vector<std::byte> in(12000);
    const MessageStatus status = world.recv(in, me.previous(), tag);
    check_status(status, me.previous(), tag, static_cast<std::size_t>(tag * 137 % 12000));
    HMC_CHECK_CLEAN(
        (Pattern{me.previous(), static_cast<std::uint64_t>(tag)}.verify(std::span(in).first(status.bytes))));
  }
  Request::wait_all(requests);
  world.barrier();
}

// A message matches the receive that was posted first, with or without wildcards.
HMC_SPMD_TEST(Messages, receives_match_in_the_order_of_their_calls) {
  Team& world = me.runtime->world();
  for (const bool any_first : {false, true}) {
    std::uint64_t exact = 0, any = 0;
    Request requests[2];
    if (any_first) requests[0] = world.irecv_bytes(&any, 8);
    requests[1] = world.irecv_bytes(&exact, 8, me.previous(), 1);
    if (!any_first) requests[0] = world.irecv_bytes(&any, 8);
    world.barrier();
    for (std::uint64_t i = 0; i < 2; ++i) {
      const std::uint64_t value = Pattern{me.rank, 50 + i}.word(0);
      world.send_bytes(&value, 8, me.next(), 1);
    }
    Request::wait_all(requests);
    HMC_CHECK_EQ(any_first ? any : exact, (Pattern{me.previous(), 50}.word(0)));
    HMC_CHECK_EQ(any_first ? exact : any, (Pattern{me.previous(), 51}.word(0)));
    world.barrier();
  }
}

HMC_SPMD_TEST(Messages, any_source_receives_from_all) {
  Team& world = me.runtime->world();
  for (const std::size_t bytes : {0U, 24U, 5000U, 100000U, 1000000U}) {
    std::vector<Request> requests;
    const auto out = message(me.rank, bytes, bytes);
    for (int to = 0; to < me.size; ++to) requests.push_back(world.isend(out, to, me.rank + 10));
    std::vector<int> seen(static_cast<std::size_t>(me.size));
    for (int i = 0; i < me.size; ++i) {
      std::vector<std::byte> in(bytes);
      const MessageStatus status = world.recv(in);
      HMC_CHECK_EQ(++seen[static_cast<std::size_t>(status.source)], 1);
      check_status(status, status.source, status.source + 10, bytes);
      HMC_CHECK_CLEAN((Pattern{status.source, bytes}.verify(in)));
    }
    Request::wait_all(requests);
    world.barrier();
  }
}

HMC_SPMD_TEST(Messages, a_busy_sender_does_not_starve_others) {
  Team& world = me.runtime->world();
  constexpr int many = 200;  // they fit into a ring
  for (int busy = 1; busy < me.size; ++busy) {
    for (int i = 0; i < (me.rank == 0 ? 0 : me.rank == busy ? many : 1); ++i)
      world.send(message(me.rank, static_cast<std::uint64_t>(i), 8), 0, busy);
    world.barrier();  // messages by shared memory have arrived
    std::vector<int> next(static_cast<std::size_t>(me.size));
    for (int i = 0; me.rank == 0 && i < many + me.size - 2; ++i) {
      std::vector<std::byte> in(8);
      const MessageStatus status = world.recv(in, any_source, busy);
      int& call = next[static_cast<std::size_t>(status.source)];
      HMC_CHECK_CLEAN((Pattern{status.source, static_cast<std::uint64_t>(call++)}.verify(in)));
      if (status.source != busy && me.runtime->path(status.source).direct) HMC_CHECK(i < many / 2);
    }
    world.barrier();
  }
}

HMC_SPMD_TEST(Messages, a_rank_sends_to_itself) {
  Team& world = me.runtime->world();
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{8}, std::size_t{8192}, std::size_t{500000}}) {
    const auto out = message(me.rank, bytes + 1, bytes);
    std::vector<std::byte> in(bytes);
    Request sent = world.isend(out, me.rank, 2);
    check_status(world.probe(me.rank, 2), me.rank, 2, bytes);
    check_status(world.recv(in, me.rank, 2), me.rank, 2, bytes);
    HMC_CHECK_CLEAN((Pattern{me.rank, bytes + 1}.verify(in)));
    sent.wait();
    MessageStatus status;
    in.assign(bytes, std::byte{});
    Request received = world.irecv(in, any_source, 5, &status);
    world.send(out, me.rank, 5);
    received.wait();
    check_status(status, me.rank, 5, bytes);
    HMC_CHECK_CLEAN((Pattern{me.rank, bytes + 1}.verify(in)));
  }
}

HMC_SPMD_TEST(Messages, probe_reports_and_keeps_the_message) {
  Team& world = me.runtime->world();
  MessageStatus status;
  HMC_CHECK(!world.iprobe(any_source, 77));
  world.barrier();
  for (const std::size_t bytes : {std::size_t{5}, std::size_t{90000}}) {
    const auto out = message(me.rank, 9, bytes);
    Request sent = world.isend(out, me.next(), 77);
    while (!world.iprobe(me.previous(), any_tag, &status)) {
    }
    check_status(status, me.previous(), 77, bytes);
    check_status(world.probe(), me.previous(), 77, bytes);
    HMC_CHECK(!world.iprobe(any_source, 78));
    std::vector<std::byte> in(status.bytes);
    check_status(world.recv(in, status.source, status.tag), me.previous(), 77, bytes);
    HMC_CHECK_CLEAN((Pattern{me.previous(), 9}.verify(in)));
    HMC_CHECK(!world.iprobe());
    sent.wait();
    world.barrier();
  }
}

// The receiver computes until all sends are posted: small ones complete, up to the budget; the others stay in flight.
void check_unexpected_messages(const TestRank& me, std::size_t count, std::size_t bytes) {
  Team& world = me.runtime->world();
  std::vector<std::vector<std::byte>> out;
  std::vector<Request> requests;
  for (std::size_t i = 0; i < count; ++i) {
    out.push_back(message(me.rank, i, bytes));
    requests.push_back(world.isend(out.back(), me.next(), 4));
  }
  HMC_CHECK(!requests.back().test());  // more than a ring and the budget for unexpected messages
  world.barrier();
  Request late;
  const auto last = message(me.rank, 1000, 16);
  late = world.isend(last, me.next(), 5);
  std::vector<std::byte> in(std::max<std::size_t>(bytes, 16));
  check_status(world.recv(in, me.previous(), 5), me.previous(), 5, 16);  // behind all others
  HMC_CHECK_CLEAN((Pattern{me.previous(), 1000}.verify(std::span(in).first(16))));
  for (std::size_t i = 0; i < count; ++i) {
    check_status(world.recv(in, me.previous(), 4), me.previous(), 4, bytes);
    HMC_CHECK_CLEAN((Pattern{me.previous(), i}.verify(std::span(in).first(bytes))));
  }
  Request::wait_all(requests);
  late.wait();
  world.barrier();
}

HMC_SPMD_TEST(Messages, unexpected_messages_are_bounded) {
  check_unexpected_messages(me, 400, 3000);
  check_unexpected_messages(me, 5000, 0);
}

HMC_SPMD_TEST(Messages, truncation_names_both_sides_and_drops_the_message) {
  Team& world = me.runtime->world();
  for (const std::size_t bytes : {100U, 20000U, 100000U, 1000000U}) {
    for (const bool starts : {false, true}) {
      const auto out = message(me.rank, 21, bytes);
      Request sent = world.isend(out, me.next(), 6);
      std::vector<std::byte> in(bytes - 1, std::byte{0x11});
      bool is_thrown = false;
      try {
        if (starts)
          world.irecv(in, me.previous(), 6).wait();
        else
          world.recv(in, me.previous(), 6);
      } catch (const hmc::Error& error) {
        is_thrown = true;
        HMC_CHECK_MSG(error.code() == hmc::Code::mismatch, "{}", error.what());
        HMC_CHECK_EQ(error.peer(), me.previous());
        const std::string text = error.what();
        for (const std::string& part : {std::to_string(bytes), std::to_string(bytes - 1), std::string("tag 6"),
                                        "rank " + std::to_string(me.previous())})
          HMC_CHECK_MSG(text.find(part) != std::string::npos, "{}", text);
      }
      HMC_CHECK(is_thrown);
      HMC_CHECK(std::ranges::all_of(in, [](std::byte each) { return each == std::byte{0x11}; }));
      sent.wait();
      // The team stays usable.
      std::uint64_t mine = Pattern{me.rank, 22}.word(bytes), got = 0;
      world.sendrecv_bytes(&mine, 8, me.next(), 6, &got, 8, me.previous(), 6);
      HMC_CHECK_EQ(got, (Pattern{me.previous(), 22}.word(bytes)));
    }
  }
  world.barrier();
}

HMC_SPMD_TEST(Messages, wrong_arguments_are_errors) {
  Team& world = me.runtime->world();
  std::uint64_t word = 0;
  HMC_CHECK_THROWS(hmc::Code::bad_rank, world.send_bytes(&word, 8, me.size, 0));
  HMC_CHECK_THROWS(hmc::Code::bad_rank, world.send_bytes(&word, 8, -1, 0));
  HMC_CHECK_THROWS(hmc::Code::bad_rank, world.recv_bytes(&word, 8, me.size, 0));
  HMC_CHECK_THROWS(hmc::Code::bad_rank, world.recv_bytes(&word, 8, -2, 0));
  HMC_CHECK_THROWS(hmc::Code::invalid_argument, world.send_bytes(&word, 8, 0, -1));
  HMC_CHECK_THROWS(hmc::Code::invalid_argument, world.recv_bytes(&word, 8, 0, -2));
  HMC_CHECK_THROWS(hmc::Code::invalid_argument, world.send_bytes(nullptr, 8, 0, 0));
  HMC_CHECK_THROWS(hmc::Code::invalid_argument, static_cast<void>(world.irecv_bytes(nullptr, 8, 0, 0)));
  HMC_CHECK_THROWS(hmc::Code::closed, Team().send_bytes(&word, 8, 0));
}

HMC_SPMD_TEST(Messages, an_abandoned_receive_matches_no_message) {
  Team& world = me.runtime->world();
  std::uint64_t never = 17, got = 0;
  Request lost = world.irecv_bytes(&never, 8, me.previous(), 8);
  Request any = world.irecv_bytes(&never, 8, any_source, 8);
  HMC_CHECK(!lost.test());
  lost.abandon();
  any.abandon();
  world.barrier();
  const std::uint64_t mine = Pattern{me.rank, 30}.word(0);
  world.sendrecv_bytes(&mine, 8, me.next(), 8, &got, 8, me.previous(), 8);
  HMC_CHECK_EQ(got, (Pattern{me.previous(), 30}.word(0)));
  HMC_CHECK_EQ(never, 17U);
  world.barrier();
}

HMC_SPMD_TEST(Messages, teams_with_equal_tags_dont_mix) {
  Team& world = me.runtime->world();
  Team twin = world.duplicate();
  Team half = world.split(me.rank % 2, -me.rank);  // in the reverse order
  std::uint64_t out[3], in[3] = {};
  const int next = (half.rank() + 1) % half.size(), previous = (half.rank() + half.size() - 1) % half.size();
  for (std::uint64_t i = 0; i < 3; ++i) out[i] = Pattern{me.rank, 40 + i}.word(0);
  Request requests[6] = {
      world.isend_bytes(&out[0], 8, me.next(), 1),
      twin.isend_bytes(&out[1], 8, me.next(), 1),
      half.isend_bytes(&out[2], 8, next, 1),
      half.irecv_bytes(&in[2], 8, any_source, any_tag),
      twin.irecv_bytes(&in[1], 8, any_source, any_tag),
      world.irecv_bytes(&in[0], 8, any_source, any_tag),
  };
  Request::wait_all(requests);
  HMC_CHECK_EQ(in[0], (Pattern{me.previous(), 40}.word(0)));
  HMC_CHECK_EQ(in[1], (Pattern{me.previous(), 41}.word(0)));
  HMC_CHECK_EQ(in[2], (Pattern{half.world_rank(previous), 42}.word(0)));
  MessageStatus status;
  Request sent = half.isend_bytes(&out[0], 8, next, 9);
  status = half.recv_bytes(&in[0], 8);
  check_status(status, previous, 9, 8);
  sent.wait();
  half.close();
  HMC_CHECK_THROWS(hmc::Code::closed, half.send_bytes(&out[0], 8, 0));
  twin.close();
}

// wait_any returns messages, a put and collectives in any order.
HMC_SPMD_TEST(Messages, wait_any_mixes_messages_puts_and_collectives) {
  Team& world = me.runtime->world();
  constexpr std::size_t bytes = 50000;
  hmc::Window win = hmc::Window::create(world, bytes);
  for (std::uint64_t round = 0; round < 20; ++round) {
    const auto out = message(me.rank, 60 + round, bytes);
    const auto small = message(me.rank, 90 + round, 40);
    std::vector<std::byte> in(bytes), in_small(40);
    std::uint64_t mine = static_cast<std::uint64_t>(me.rank) + round, sum = 0;
    std::vector<Request> requests;
    requests.push_back(world.irecv(in, me.previous(), 1));
    requests.push_back(world.iallreduce(&mine, &sum, 1, hmc::DType::u64, hmc::sum));
    requests.push_back(world.isend(out, me.next(), 1));
    requests.push_back(win.put_nb(me.next(), 0, out.data(), bytes));
    requests.push_back(world.irecv(in_small, me.previous(), 2));
    requests.push_back(world.ibarrier());
    requests.push_back(world.isend(small, me.next(), 2));
    std::vector<int> times(requests.size());
    for (std::size_t i = 0; i < requests.size(); ++i) ++times[Request::wait_any(requests)];
    HMC_CHECK(std::ranges::all_of(times, [](int each) { return each == 1; }));
    HMC_CHECK_EQ(Request::wait_any(requests), Request::none);
    HMC_CHECK_CLEAN((Pattern{me.previous(), 60 + round}.verify(in)));
    HMC_CHECK_CLEAN((Pattern{me.previous(), 90 + round}.verify(in_small)));
    const auto ranks = static_cast<std::uint64_t>(me.size);
    HMC_CHECK_EQ(sum, ranks * (ranks - 1) / 2 + ranks * round);
    world.barrier();
    HMC_CHECK_CLEAN((Pattern{me.previous(), 60 + round}.verify({win.data(), bytes})));
    world.barrier();
  }
  win.close();
}

// A source in a window: the receiver copies from it.
HMC_SPMD_TEST(Messages, buffers_in_windows) {
  Team& world = me.runtime->world();
  constexpr std::size_t bytes = 300000;
  hmc::Window win = hmc::Window::create(world, 2 * bytes + 64);
  for (std::uint64_t round = 0; round < 3; ++round) {
    const std::span out(win.data() + 24, bytes), in(win.data() + bytes + 40, bytes);
    Pattern{me.rank, 70 + round}.fill(out);
    world.sendrecv_bytes(out.data(), bytes, me.next(), 1, in.data(), bytes, me.previous(), 1);
    HMC_CHECK_CLEAN((Pattern{me.previous(), 70 + round}.verify(in)));
  }
  win.close();
}

// Random traffic against a serial model. All ranks draw the same list of messages. Per message, its receive is exact,
// with any tag, or from any source; wildcards have tags of their own phase, so that the model stays serial.
HMC_SPMD_TEST(Messages, random_traffic_matches_a_serial_model) {
  Team& world = me.runtime->world();
  std::mt19937_64 draw(me.options.seed * 77 + 5);
  const auto below = [&](std::uint64_t limit) { return draw() % limit; };
  for (int phase = 0; phase < 12; ++phase) {
    struct Sent {
      int from, to, tag;
      std::size_t bytes;
      std::uint64_t call;
    };
    std::vector<Sent> list;
    const std::uint64_t kind = below(3);  // 0: exact; 1: any tag; 2: any source and tag
    for (std::uint64_t i = 0; i < 60 + below(60); ++i) {
      const std::size_t size = below(4) == 0 ? below(200000) : below(2) == 0 ? below(9000) : below(80);
      list.push_back({static_cast<int>(below(static_cast<std::uint64_t>(me.size))),
                      static_cast<int>(below(static_cast<std::uint64_t>(me.size))), static_cast<int>(below(4)), size,
                      static_cast<std::uint64_t>(phase) * 1000 + i});
    }
    std::vector<std::vector<std::byte>> outs, ins;
    std::vector<Request> requests;
    std::vector<Sent> mine;
    for (const Sent& each : list)
      if (each.to == me.rank) mine.push_back(each);
    // The model: the receives in an order of their own; each takes the first unused message that matches.
    std::vector<Sent> expected;
    std::vector<Sent> left = mine;
    std::vector<std::pair<int, int>> wanted;  // source and tag of the receives
    std::vector<Sent> shuffled = mine;
    std::mt19937_64 own(me.options.seed + static_cast<std::uint64_t>(me.rank * 100 + phase));
    std::ranges::shuffle(shuffled, own);
    for (const Sent& each : shuffled) {
      const int source = kind == 2 ? any_source : each.from, tag = kind == 0 ? each.tag : any_tag;
      const auto found = std::ranges::find_if(left, [&](const Sent& of) {
        return (source == any_source || of.from == source) && (tag == any_tag || of.tag == tag);
      });
      wanted.emplace_back(source, tag);
      expected.push_back(*found);
      left.erase(found);
    }
    const bool posts_first = own() % 2 == 0;
    ins.resize(mine.size());
    std::vector<MessageStatus> statuses(mine.size());
    const auto post = [&] {
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        ins[i].resize(200000);
        if (posts_first || own() % 2 == 0) {
          requests.push_back(world.irecv(ins[i], wanted[i].first, wanted[i].second, &statuses[i]));
        } else {
          statuses[i] = world.recv(ins[i], wanted[i].first, wanted[i].second);
        }
      }
    };
    if (posts_first) post();
    for (const Sent& each : list) {
      if (each.from != me.rank) continue;
      outs.push_back(message(me.rank, each.call, each.bytes));
      requests.push_back(world.isend(outs.back(), each.to, each.tag));
    }
    if (!posts_first) post();
    Request::wait_all(requests);
    std::vector<std::size_t> next_of(static_cast<std::size_t>(me.size));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      Sent want = expected[i];
      if (kind == 2) {  // any order of the sources; per source in the order of the sends
        std::size_t& next = next_of[static_cast<std::size_t>(statuses[i].source)];
        while (mine[next].from != statuses[i].source) ++next;
        want = mine[next++];
      }
      check_status(statuses[i], want.from, want.tag, want.bytes);
      HMC_CHECK_CLEAN((Pattern{want.from, want.call}.verify(std::span(ins[i]).first(want.bytes))));
    }
    world.barrier();
  }
}
