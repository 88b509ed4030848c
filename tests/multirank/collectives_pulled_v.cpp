// The v-forms by load and store: blocks of any length, anywhere in the callers' buffers.
#include <algorithm>

#include "collectives/schedule/algorithms/algorithms.hpp"
#include "tests/multirank/collectives_every.hpp"

namespace {

using namespace hmc::spmd;
using Counts = std::vector<std::size_t>;
using Words = std::vector<std::uint64_t>;

constexpr CollectiveKind v_forms[] = {CollectiveKind::gather, CollectiveKind::scatter, CollectiveKind::allgather,
                                      CollectiveKind::alltoall, CollectiveKind::reduce_scatter};
constexpr std::uint64_t untouched = 0x7e57'7e57'7e57'7e57U;
/// Initially larger than the staging.
constexpr std::size_t many = 100'003;

/// Counts that are zero except for one rank.
Counts only(int size, int rank, std::size_t count) {
  Counts counts(static_cast<std::size_t>(size));
  counts[static_cast<std::size_t>(rank)] = count;
  return counts;
}

Words filled(int rank, std::uint64_t call, std::size_t count) {
  Words words(count);
  for (std::size_t i = 0; i < count; ++i) words[i] = Pattern{rank, call}.word(i);
  return words;
}

void require_words(const Words& words, std::size_t first, int from, std::uint64_t call, std::size_t at,
                   std::size_t count, const char* what) {
  for (std::size_t i = 0; i < count; ++i)
    HMC_CHECK_MSG((words[first + i] == Pattern{from, call}.word(at + i)), "{}: word {} of {} from rank {} is wrong",
                  what, i, count, from);
}

}  // namespace

HMC_SPMD_TEST(PulledV, blocks_may_be_at_any_address) {
  // Words: around a line, a slot, a chunk of the ring, several chunks.
  constexpr std::size_t counts[] = {0, 1, 3, 7, 60, 250, 513, 4097, 17'001};
  hmc::Team& world = me.runtime->world();
  const std::size_t most = (counts[std::size(counts) - 1] + 10) * static_cast<std::size_t>(me.size);
  hmc::Window window = hmc::Window::create(world, most * 8);
  std::uint64_t number = 0;
  for (const CollectiveKind collective : v_forms) {
    for (const std::size_t count : counts) {
      for (int form = 0; form < (count > 1000 ? 4 : 8); ++form) {
        Every what;
        what.collective = collective;
        what.irregular = true;
        what.count = count;
        what.call = ++number;
        check_form(me, what, form, {window.local<std::uint64_t>(), most});
      }
    }
  }
  window.close();
}

// The other ranks have nothing to send or to receive. They must neither delay the call nor miss a step.
HMC_SPMD_TEST(PulledV, one_rank_may_own_all_blocks) {
  hmc::Team& world = me.runtime->world();
  std::uint64_t call = 500;
  for (int owner = 0; owner < me.size; ++owner) {
    const Counts counts = only(me.size, owner, many), none(counts.size());
    const bool is_owner = me.rank == owner;
    const int root = (owner + 1) % me.size;
    const Words mine = filled(me.rank, ++call, many);
    Words out(many, untouched);
    world.allgatherv(mine.data(), out.data(), counts, {}, 8);
    require_words(out, 0, owner, call, 0, many, "allgatherv");

    out.assign(many, untouched);
    world.gatherv(mine.data(), out.data(), counts, {}, root, 8);
    if (me.rank == root) require_words(out, 0, owner, call, 0, many, "gatherv");

    out.assign(many, untouched);
    world.scatterv(mine.data(), out.data(), counts, {}, root, 8);
    if (is_owner) require_words(out, 0, root, call, 0, many, "scatterv");
    if (!is_owner) HMC_CHECK_EQ(std::ranges::count(out, untouched), static_cast<std::ptrdiff_t>(many));

    out.assign(many, untouched);
    world.reduce_scatterv(mine.data(), out.data(), counts, hmc::DType::u64, hmc::max);
    for (std::size_t i = 0; i < many && is_owner; ++i) {
      std::uint64_t largest = 0;
      for (int rank = 0; rank < me.size; ++rank) largest = std::max(largest, Pattern{rank, call}.word(i));
      HMC_CHECK_EQ(out[i], largest);
    }
    if (!is_owner) HMC_CHECK_EQ(out[0], untouched);

    // From one rank to one rank.
    out.assign(many, untouched);
    world.alltoallv(mine.data(), is_owner ? only(me.size, root, many) : none, {}, out.data(),
                    me.rank == root ? counts : none, {}, 8);
    if (me.rank == root) require_words(out, 0, owner, call, 0, many, "alltoallv");
    if (me.rank != root) HMC_CHECK_EQ(out[0], untouched);
  }
}

// Ranks whose input fits into a slot, ranks whose input doesn't, and empty blocks.
HMC_SPMD_TEST(PulledV, alltoallv_of_small_and_large_blocks_is_correct) {
  hmc::Team& world = me.runtime->world();
  const auto n = static_cast<std::size_t>(me.size);
  hmc::Window window = hmc::Window::create(world, 70'000 * n * 8);
  for (std::uint64_t call = 0; call < 12; ++call) {
    const auto sends = [&](int from, int to) -> std::size_t {
      const std::size_t little = static_cast<std::size_t>(from + 2 * to) % 4 * 5;
      return (static_cast<std::uint64_t>(from) + call) % 3 == 0 ? little * 3000 + call : little;
    };
    Counts counts(n), at(n), received(n), to(n);
    std::size_t next = call % 5, next_received = 3;
    for (int peer = me.size - 1; peer >= 0; --peer) {
      const auto p = static_cast<std::size_t>(peer);
      counts[p] = sends(me.rank, peer);
      received[p] = sends(peer, me.rank);
      at[p] = next;
      to[p] = next_received;
      next += counts[p] + 1;
      next_received += received[p] + 2;
    }
    Words mine = filled(me.rank, call, next), out(next_received, untouched);
    const bool in_window = (static_cast<std::uint64_t>(me.rank) + call / 3) % 2 == 0;
    if (in_window) std::copy(mine.begin(), mine.end(), window.local<std::uint64_t>());
    world.alltoallv(in_window ? window.local<std::uint64_t>() : mine.data(), counts, at, out.data(), received, to, 8);
    for (int peer = 0; peer < me.size; ++peer) {
      // The offset of this rank's block in the peer's buffer.
      std::size_t begin = call % 5;
      for (int other = me.size - 1; other > me.rank; --other) begin += sends(peer, other) + 1;
      const auto p = static_cast<std::size_t>(peer);
      require_words(out, to[p], peer, call, begin, received[p], "alltoallv");
      HMC_CHECK_EQ(out[to[p] + received[p]], untouched);
    }
  }
  window.close();
}

// In place, with equal and with different displacements for sending and receiving.
HMC_SPMD_TEST(PulledV, alltoallv_in_place_is_correct) {
  hmc::Team& world = me.runtime->world();
  const auto n = static_cast<std::size_t>(me.size);
  const std::size_t most = (20'000 + 4 * n) * n;
  hmc::Window window = hmc::Window::create(world, most * 8);
  std::uint64_t call = 900;
  for (const std::size_t count : {std::size_t{2}, std::size_t{100}, std::size_t{20'000}}) {
    for (int form = 0; form < 4; ++form) {
      ++call;
      const bool turned = form % 2 == 1, in_window = form >= 2 && (me.rank + form) % 2 == 0;
      // Symmetric, since in place the send and receive blocks share their space.
      const auto length = [&](int a, int b) {
        return a == b ? count / 2 : count - static_cast<std::size_t>(a + b) % 2;
      };
      const auto begin_of = [&](int rank) { return static_cast<std::size_t>(rank) * (count + 3); };
      Counts counts(n), at(n), to(n);
      for (int peer = 0; peer < me.size; ++peer) {
        const auto p = static_cast<std::size_t>(peer);
        counts[p] = length(me.rank, peer);
        at[p] = begin_of(peer);
        to[p] = begin_of(turned ? me.size - 1 - peer : peer);
      }
      Words words = filled(me.rank, call, most);
      std::uint64_t* const data = in_window ? window.local<std::uint64_t>() : words.data();
      if (in_window) std::copy(words.begin(), words.end(), data);
      world.alltoallv(data, counts, at, data, counts, to, 8);
      if (in_window) std::copy(data, data + most, words.begin());
      for (int peer = 0; peer < me.size; ++peer) {
        const auto p = static_cast<std::size_t>(peer);
        require_words(words, to[p], peer, call, begin_of(me.rank), counts[p], "alltoallv in place");
        require_words(words, to[p] + count, me.rank, call, to[p] + count, 3, "a gap");
      }
    }
  }
  window.close();
}

// A rank's result overwrites its own input, which the other ranks have yet to read.
HMC_SPMD_TEST(PulledV, reduce_scatterv_in_place_is_correct) {
  hmc::Team& world = me.runtime->world();
  std::uint64_t call = 1200;
  for (const std::size_t count : {std::size_t{3}, std::size_t{200}, std::size_t{30'000}}) {
    Counts counts(static_cast<std::size_t>(me.size), 1);
    for (std::size_t i = 1; i < counts.size(); ++i) counts[i] = count + i;
    std::size_t whole = 0, begin = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (i == static_cast<std::size_t>(me.rank)) begin = whole;
      whole += counts[i];
    }
    Words words = filled(me.rank, ++call, whole);
    world.reduce_scatterv(words.data(), words.data(), counts, hmc::DType::u64, hmc::sum);
    for (std::size_t i = 0; i < counts[static_cast<std::size_t>(me.rank)]; ++i) {
      std::uint64_t sum = 0;
      for (int rank = 0; rank < me.size; ++rank) sum += Pattern{rank, call}.word(begin + i);
      HMC_CHECK_EQ(words[i], sum);
    }
  }
}

HMC_SPMD_TEST(PulledV, counters_have_calls_and_bytes) {
  if (me.size < 2 || !all_direct(me)) skip("not every pair by load and store");
  hmc::Team& world = me.runtime->world();
  constexpr std::size_t count = 20'000;
  const std::size_t most = (count + 10) * static_cast<std::size_t>(me.size);
  hmc::Window window = hmc::Window::create(world, most * 8);
  for (const CollectiveKind collective : v_forms) {
    for (const bool in_window : {false, true}) {
      Every what;
      what.collective = collective;
      what.irregular = true;
      what.count = count;
      if (in_window) what.window = {window.local<std::uint64_t>(), most};
      const bool gives =
          collective == CollectiveKind::gather ? me.rank > 0 : collective != CollectiveKind::scatter || me.rank == 0;
      EveryCall call(me.rank, me.size, what);
      const hmc::Counters before = me.runtime->counters();
      const std::uint64_t done = world.calls_by_algorithm(name_of(collective), "direct");
      call.blocking(world);
      const hmc::Counters after = me.runtime->counters();
      HMC_CHECK_EQ(call.check(), std::string());
      HMC_CHECK_EQ(world.calls_by_algorithm(name_of(collective), "direct"), done + 1);
      const std::uint64_t placed = after.buffers_in_place - before.buffers_in_place;
      const std::uint64_t elsewhere =
          after.buffers_staged + after.buffers_read - before.buffers_staged - before.buffers_read;
      // Every third rank may have nothing to send, so its buffer isn't counted.
      if (me.rank % 3 == 1) continue;
      HMC_CHECK_EQ(placed, std::uint64_t{gives && in_window ? 1U : 0U});
      HMC_CHECK_EQ(elsewhere, std::uint64_t{gives && !in_window ? 1U : 0U});
    }
  }
  window.close();
}

HMC_SPMD_TEST(PulledV, forced_algorithm_replaces_load_and_store) {
  hmc::Team& world = me.runtime->world();
  for (const Algorithm& algorithm : hmc::collectives::schedule::algorithms()) {
    if (!std::ranges::count(v_forms, algorithm.collective) || algorithm.name != "pairwise") continue;
    const Forced forced(world, algorithm.collective, &algorithm);
    Every what;
    what.collective = algorithm.collective;
    what.irregular = true;
    what.count = 700;
    EveryCall call(me.rank, me.size, what);
    const std::uint64_t done = world.calls_by_algorithm(name_of(algorithm.collective), "pairwise");
    call.blocking(world);
    HMC_CHECK_EQ(call.check(), std::string());
    HMC_CHECK_EQ(world.calls_by_algorithm(name_of(algorithm.collective), "pairwise"), done + 1);
  }
}

// A rank that only sends doesn't wait for the readers. Its next call may stage before all ranks have arrived.
HMC_SPMD_TEST(PulledV, next_call_does_not_overwrite_inputs_in_use) {
  hmc::Team& world = me.runtime->world();
  for (std::uint64_t round = 0; round < 12; ++round) {
    std::vector<EveryCall> calls;
    for (std::uint64_t i = 0; i < 10; ++i) {
      Every what;
      what.collective = i % 3 == 1 ? CollectiveKind::allreduce : v_forms[(round + i) % std::size(v_forms)];
      what.irregular = what.collective != CollectiveKind::allreduce;
      what.count = i % 4 == 0 ? 100 : 3000;
      what.call = round * 100 + i;
      calls.emplace_back(me.rank, me.size, what);
    }
    for (EveryCall& call : calls) call.blocking(world);
    for (EveryCall& call : calls) HMC_CHECK_EQ(call.check(), std::string());
  }
}
