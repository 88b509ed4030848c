// Random verbs, checked against a model of the memory.
#include <algorithm>
#include <random>

#include "tests/conformance/fixture.hpp"

namespace hmc::conformance {

/// Each rank has a slot at every peer that only it writes, so its model of that slot is exact. Between two fences it
/// writes no byte twice, since the order of such writes is undefined.
HMC_SPMD_TEST(Random, random_verbs_match_the_model) {
  Fixture on(me);
  constexpr std::size_t slot = 150000;
  Window window(on, slot * static_cast<std::size_t>(me.size));
  const std::uint64_t mine = slot * static_cast<std::uint64_t>(me.rank);
  std::mt19937_64 random(me.options.seed * 977 + static_cast<std::uint64_t>(me.rank));
  std::vector<std::vector<std::byte>> models(on.peers().size(), std::vector<std::byte>(slot));
  std::vector<std::vector<std::byte>> sources;  // valid until the next flush
  std::vector<std::byte> got(slot);
  const std::uint64_t verbs = number(me, "verbs", 600);
  for (std::uint64_t verb = 0; verb < verbs; ++verb) {
    const std::size_t index = random() % on.peers().size();
    const int peer = on.peers()[index];
    const std::size_t most = random() % 10 == 0 ? slot : 2000;
    const std::size_t bytes = random() % (most + 1);
    const std::size_t at = random() % (slot - bytes + 1);
    auto& model = models[index];
    switch (random() % 5) {
      case 0:
      case 1: {
        on.fence();
        sources.push_back(bytes_of({me.rank, verb}, bytes, at));
        std::ranges::copy(sources.back(), model.begin() + static_cast<std::ptrdiff_t>(at));
        (void)window.put_nb(peer, mine + at, sources.back());
        break;
      }
      case 2: {
        on.flush(random() % 2 == 0 ? peer : -1);
        const auto part = std::span(got).first(bytes);
        window.get(peer, mine + at, part);
        HMC_CHECK_MSG(std::ranges::equal(part, std::span(model).subspan(at, bytes)),
                      "verb {} got {} bytes at {} of rank {} wrong (seed {})", verb, bytes, at, peer, me.options.seed);
        break;
      }
      case 3: {
        on.fence();
        const std::uint64_t word = (mine + at) & ~7ULL;
        if (word < mine || word + 8 > mine + slot) break;
        std::uint64_t held = 0;
        std::memcpy(&held, model.data() + (word - mine), 8);
        const std::uint64_t old = window.atomic(peer, word, AtomicOp::fetch_add, 8, verb);
        HMC_CHECK_EQ(old, held);
        held += verb;
        std::memcpy(model.data() + (word - mine), &held, 8);
        break;
      }
      default: on.flush(); sources.clear();
    }
  }
  on.settle();
  for (std::size_t i = 0; i < on.peers().size(); ++i) {
    window.get(on.peers()[i], mine, got);
    HMC_CHECK(std::ranges::equal(got, models[i]));
  }
  window.close();
}

}  // namespace hmc::conformance
