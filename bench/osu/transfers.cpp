// The programs in which pairs of ranks transfer: a loop each, and a row of the table.
#include "bench/osu/transfer.hpp"

#include <string>
#include <vector>

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
};

constexpr auto get = Direction::get;
constexpr auto halves = Pairing::halves;
constexpr const char* put_mr_title = "Put Multiple Bandwidth / Message Rate Test";
constexpr const char* get_mr_title = "Get Multiple Bandwidth / Message Rate Test";
constexpr const char* mbw_mr_title = "Multiple Bandwidth / Message Rate Test";

const Transfer table[] = {
    {"put_latency", "Put Latency Test", puts, {}},
    {"get_latency", "Get Latency Test", gets, {.direction = get}},
    {"put_signal_latency", "Put Signal Latency Test", ping_pong, {.both = true}},
    {"put_multi_lat", "Put Multi Latency Test", puts, {.pairing = halves}},
    {"get_multi_lat", "Get Multi Latency Test", gets, {.pairing = halves, .direction = get}},
    {"put_bw", "Put Bandwidth Test", put_windows, {.windowed = true}},
    {"get_bw", "Get Bandwidth Test", get_windows, {.direction = get, .windowed = true}},
    {"put_bibw", "Put Bi-Directional Bandwidth Test", put_both_ways, {.both = true, .windowed = true}},
    {"get_bibw", "Get Bi-Directional Bandwidth Test", get_windows, {.direction = get, .both = true, .windowed = true}},
    {"put_mr", put_mr_title, put_windows, {.pairing = halves, .windowed = true}},
    {"get_mr", get_mr_title, get_windows, {.pairing = halves, .direction = get, .windowed = true}},
    {"latency", "Latency Test", message_ping_pong, {.both = true, .two_sided = true}},
    {"bw", "Bandwidth Test", message_windows, {.two_sided = true, .windowed = true}},
    {"bibw", "Bi-Directional Bandwidth Test", messages_both_ways, {.both = true, .two_sided = true, .windowed = true}},
    {"mbw_mr", mbw_mr_title, message_windows, {.pairing = halves, .two_sided = true, .windowed = true}},
    // The library has no accumulate of vectors, so the programs call one atomic per 64-bit word.
    {"acc_latency", "Accumulate Latency Test", accumulate, {.accumulates = Accumulates::yes}},
    {"get_acc_latency", "Get Accumulate Latency Test", get_accumulate, {.accumulates = Accumulates::and_fetches}},
};

}  // namespace

std::vector<Program> transfers() {
  std::vector<Program> programs;
  for (const Transfer& what : table) {
    const Accumulates accumulates = what.spec.accumulates;
    const unsigned windowed = what.spec.windowed ? window_size_flag : 0U;
    programs.push_back({{.name = std::string("hmc_") + what.name,
                         .title = what.title,
                         .flags = timing_flags | size_flag | data_flags | windowed,
                         .iterations = what.spec.windowed               ? bandwidth_iterations
                                       : accumulates == Accumulates::no ? latency_iterations
                                                                        : collective_iterations,
                         .max_bytes = accumulates == Accumulates::no    ? 4U << 20
                                      : accumulates == Accumulates::yes ? 64U << 10
                                                                        : 8U << 10,
                         .min_ranks = 2},
                        [&what](Session& session) { measure_transfers(session, what.spec, what.loop); }});
  }
  return programs;
}

}  // namespace bench
