// The programs in which pairs of ranks transfer: a loop each, and a row of the table.
#include "bench/osu/kit/transfer.hpp"

#include <vector>

#include "bench/osu/programs.hpp"

namespace bench {
namespace {

constexpr std::uint64_t signal = 0;  // its offset in the window
using Word = std::uint64_t;

void puts(Side& side, std::size_t bytes, int repeat) {
  const std::byte* const source = side.from(0, bytes);
  for (int i = 0; i < repeat; ++i) {
    side.window.put(side.peer, side.to(0, bytes), source, bytes);
    side.window.flush(side.peer);
  }
}

void gets(Side& side, std::size_t bytes, int repeat) {
  std::byte* const destination = side.from(0, bytes);
  for (int i = 0; i < repeat; ++i) side.window.get(side.peer, side.to(0, bytes), destination, bytes);
}

void ping_pong(Side& side, std::size_t bytes, int repeat) {
  const std::byte* const source = side.from(0, bytes);
  const std::uint64_t target = side.to(0, bytes);
  for (int i = 0; i < repeat; ++i) {
    ++side.round;
    if (!side.starts) side.window.wait_until(signal, hmc::Cmp::ge, side.round);
    side.window.put_signal(side.peer, target, source, bytes, signal, side.round);
    if (side.starts) side.window.wait_until(signal, hmc::Cmp::ge, side.round);
  }
}

void put_windows(Side& side, std::size_t bytes, int repeat) {
  for (int i = 0; i < repeat; ++i) {
    // Requests may be dropped: flush completes them all.
    for (int j = 0; j < side.window_size; ++j)
      (void)side.window.put_nb(side.peer, side.to(j, bytes), side.from(j, bytes), bytes);
    side.window.flush(side.peer);
  }
}

void get_windows(Side& side, std::size_t bytes, int repeat) {
  std::vector<hmc::Request> requests(static_cast<std::size_t>(side.window_size));
  for (int i = 0; i < repeat; ++i) {
    for (int j = 0; j < side.window_size; ++j)
      requests[static_cast<std::size_t>(j)] =
          side.window.get_nb(side.peer, side.to(j, bytes), side.from(j, bytes), bytes);
    hmc::Request::wait_all(requests);
  }
}

void put_both_ways(Side& side, std::size_t bytes, int repeat) {
  for (int i = 0; i < repeat; ++i) {
    ++side.round;
    for (int j = 1; j < side.window_size; ++j)
      (void)side.window.put_nb(side.peer, side.to(j, bytes), side.from(j, bytes), bytes);
    side.window.fence();
    // The last transfer of the window signals the other side that all have arrived.
    side.window.put_signal(side.peer, side.to(0, bytes), side.from(0, bytes), bytes, signal, side.round);
    side.window.wait_until(signal, hmc::Cmp::ge, side.round);
  }
}

// ---- two-sided messages
constexpr int data_tag = 1, done_tag = 2;

void message_ping_pong(Side& side, std::size_t bytes, int repeat) {
  const std::byte* const out = side.from(0, bytes);
  std::byte* const in = side.into(0, bytes);
  for (int i = 0; i < repeat; ++i) {
    if (side.starts) side.team.send_bytes(out, bytes, side.peer, data_tag);
    side.team.recv_bytes(in, bytes, side.peer, data_tag);
    if (!side.starts) side.team.send_bytes(out, bytes, side.peer, data_tag);
  }
}

void message_windows(Side& side, std::size_t bytes, int repeat) {
  std::vector<hmc::Request> requests(static_cast<std::size_t>(side.window_size));
  char done[4] = {};
  for (int i = 0; i < repeat; ++i) {
    for (int j = 0; j < side.window_size; ++j)
      requests[static_cast<std::size_t>(j)] =
          side.starts ? side.team.isend_bytes(side.from(j, bytes), bytes, side.peer, data_tag)
                      : side.team.irecv_bytes(side.into(j, bytes), bytes, side.peer, data_tag);
    hmc::Request::wait_all(requests);
    if (side.starts)
      side.team.recv_bytes(done, sizeof done, side.peer, done_tag);
    else
      side.team.send_bytes(done, sizeof done, side.peer, done_tag);
  }
}

void messages_both_ways(Side& side, std::size_t bytes, int repeat) {
  std::vector<hmc::Request> requests(static_cast<std::size_t>(2 * side.window_size));
  for (int i = 0; i < repeat; ++i) {
    auto next = requests.begin();
    for (int j = 0; j < side.window_size; ++j)
      *next++ = side.team.irecv_bytes(side.into(j, bytes), bytes, side.peer, data_tag);
    for (int j = 0; j < side.window_size; ++j)
      *next++ = side.team.isend_bytes(side.from(j, bytes), bytes, side.peer, data_tag);
    hmc::Request::wait_all(requests);
  }
}

void accumulate(Side& side, std::size_t bytes, int repeat) {
  const auto* const operand = reinterpret_cast<const Word*>(side.from(0, bytes));
  const std::uint64_t target = side.to(0, bytes);
  for (int i = 0; i < repeat; ++i) {
    for (std::size_t at = 0; at < bytes; at += sizeof(Word))
      side.window.add<Word>(side.peer, target + at, operand[at / sizeof(Word)]);
    side.window.flush(side.peer);
  }
}

void get_accumulate(Side& side, std::size_t bytes, int repeat) {
  const auto* const operand = reinterpret_cast<const Word*>(side.from(0, bytes));
  auto* const before = reinterpret_cast<Word*>(side.fetched);
  const std::uint64_t target = side.to(0, bytes);
  for (int i = 0; i < repeat; ++i) {
    for (std::size_t at = 0; at < bytes; at += sizeof(Word))
      before[at / sizeof(Word)] = side.window.fetch_add<Word>(side.peer, target + at, operand[at / sizeof(Word)]);
  }
}

struct Transfer {
  const char* name;
  const char* title;
  TransferLoop loop;
  TransferSpec spec;
  Iterations iterations = latency_iterations;
  std::size_t max_bytes = 4 << 20;
};

const Transfer table[] = {
    {"hmc_put_latency", "Put Latency Test", puts, {}},
    {"hmc_get_latency", "Get Latency Test", gets, {.direction = Direction::get}},
    {"hmc_put_signal_latency", "Put Signal Latency Test", ping_pong, {.both = true, .one_way = 0.5}},
    {"hmc_put_multi_lat", "Put Multi Latency Test", puts, {.pairing = Pairing::halves}},
    {"hmc_get_multi_lat", "Get Multi Latency Test", gets, {.pairing = Pairing::halves, .direction = Direction::get}},
    {"hmc_put_bw",
     "Put Bandwidth Test",
     put_windows,
     {.metric = Metric::bandwidth, .windowed = true},
     bandwidth_iterations},
    {"hmc_get_bw",
     "Get Bandwidth Test",
     get_windows,
     {.direction = Direction::get, .metric = Metric::bandwidth, .windowed = true},
     bandwidth_iterations},
    {"hmc_put_bibw",
     "Put Bi-Directional Bandwidth Test",
     put_both_ways,
     {.both = true, .metric = Metric::bandwidth, .windowed = true},
     bandwidth_iterations},
    {"hmc_get_bibw",
     "Get Bi-Directional Bandwidth Test",
     get_windows,
     {.direction = Direction::get, .both = true, .metric = Metric::bandwidth, .windowed = true},
     bandwidth_iterations},
    {"hmc_put_mr",
     "Put Multiple Bandwidth / Message Rate Test",
     put_windows,
     {.pairing = Pairing::halves, .metric = Metric::bandwidth, .windowed = true, .message_rate = true},
     bandwidth_iterations},
    {"hmc_get_mr",
     "Get Multiple Bandwidth / Message Rate Test",
     get_windows,
     {.pairing = Pairing::halves,
      .direction = Direction::get,
      .metric = Metric::bandwidth,
      .windowed = true,
      .message_rate = true},
     bandwidth_iterations},
    {"hmc_latency", "Latency Test", message_ping_pong, {.both = true, .two_sided = true, .one_way = 0.5}},
    {"hmc_bw",
     "Bandwidth Test",
     message_windows,
     {.two_sided = true, .metric = Metric::bandwidth, .windowed = true},
     bandwidth_iterations},
    {"hmc_bibw",
     "Bi-Directional Bandwidth Test",
     messages_both_ways,
     {.both = true, .two_sided = true, .metric = Metric::bandwidth, .windowed = true},
     bandwidth_iterations},
    {"hmc_mbw_mr",
     "Multiple Bandwidth / Message Rate Test",
     message_windows,
     {.pairing = Pairing::halves,
      .two_sided = true,
      .metric = Metric::bandwidth,
      .windowed = true,
      .message_rate = true},
     bandwidth_iterations},
    // The library has no accumulate of vectors, so the programs call one atomic per 64-bit word.
    {"hmc_acc_latency",
     "Accumulate Latency Test",
     accumulate,
     {.accumulates = Accumulates::yes},
     collective_iterations,
     64 << 10},
    {"hmc_get_acc_latency",
     "Get Accumulate Latency Test",
     get_accumulate,
     {.accumulates = Accumulates::and_fetches},
     collective_iterations,
     8 << 10},
};

}  // namespace

std::vector<Program> transfers() {
  std::vector<Program> programs;
  for (const Transfer& what : table) {
    const unsigned windowed = what.spec.windowed ? window_size_flag : 0U;
    programs.push_back({{.name = what.name,
                         .title = what.title,
                         .flags = timing_flags | size_flag | data_flags | windowed,
                         .iterations = what.iterations,
                         .max_bytes = what.max_bytes,
                         .min_ranks = 2},
                        [&what](Session& session) { measure_transfers(session, what.spec, what.loop); }});
  }
  return programs;
}

}  // namespace bench
