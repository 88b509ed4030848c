// All collectives in random sequences, blocking and non-blocking, so that areas are reused in all combinations.
#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

#include "tests/multirank/collectives_every.hpp"

namespace {

using namespace hmc::spmd;

/// Returns the same on every rank.
Every choose(std::mt19937_64& random, int ranks, std::uint64_t call) {
  Every what;
  what.collective = static_cast<CollectiveKind>(random() % collective_count);
  const unsigned scale = random() % 40 == 0 ? 16 : static_cast<unsigned>(random() % 10);
  what.count = random() % (std::uint64_t{2} << scale) / (scale > 12 ? static_cast<std::size_t>(ranks) : 1);
  what.root = static_cast<int>(random() % static_cast<unsigned>(ranks));
  what.irregular = random() % 3 == 0;
  what.in_place = random() % 3 == 0;
  what.user = random() % 3 == 0;
  what.call = call;
  return what;
}

void dawdle(const TestRank& me, std::uint64_t call) {
  const std::uint64_t bits = Pattern{me.rank, call}.word(7);
  if (bits % 30 == 0) std::this_thread::sleep_for(std::chrono::microseconds(bits / 30 % 300));
}

void require_right(const EveryCall& call, const Every& what) {
  const std::string wrong = call.check();
  HMC_CHECK_MSG(wrong.empty(), "call {}, {}: {} (count {}, root {}{}{}{})", what.call, name_of(what.collective), wrong,
                what.count, what.root, what.irregular ? ", v-form" : "", what.in_place ? ", in place" : "",
                what.user ? ", user's function" : "");
}

}  // namespace

HMC_SPMD_TEST(Mixed, blocking_calls_alternate) {
  std::mt19937_64 random(me.options.seed * 104'729);
  for (std::uint64_t call = 1; call <= setting(me, "calls", 600); ++call) {
    const Every what = choose(random, me.size, call);
    EveryCall each(me.rank, me.size, what);
    dawdle(me, call);
    each.blocking(me.runtime->world());
    require_right(each, what);
  }
}

HMC_SPMD_TEST(Mixed, non_blocking_calls_overlap_and_complete_in_any_order) {
  struct UnderWay {
    Every what;
    std::unique_ptr<EveryCall> call;
    hmc::Request request;
  };
  std::mt19937_64 random(me.options.seed * 15'485'863);
  std::mt19937_64 own(me.options.seed + static_cast<std::uint64_t>(me.rank));  // each rank waits in its own order
  std::vector<UnderWay> under_way;
  const auto end_one = [&] {
    const std::size_t index = own() % under_way.size();
    std::swap(under_way[index], under_way.back());
    UnderWay& last = under_way.back();
    if (own() % 3 == 0) {
      while (!last.request.test()) std::this_thread::yield();
    } else {
      last.request.wait();
    }
    require_right(*last.call, last.what);
    under_way.pop_back();
  };
  const std::uint64_t calls = setting(me, "calls", 600);
  for (std::uint64_t call = 1; call <= calls; ++call) {
    const Every what = choose(random, me.size, call);
    const bool blocking = random() % 4 == 0;
    const std::size_t depth = 1 + random() % 12;
    auto each = std::make_unique<EveryCall>(me.rank, me.size, what);
    dawdle(me, call);
    if (blocking) {
      each->blocking(me.runtime->world());
      require_right(*each, what);
      continue;
    }
    EveryCall& begun = *each;
    under_way.push_back({what, std::move(each), {}});
    under_way.back().request = begun.start(me.runtime->world());
    while (under_way.size() > depth) end_one();
  }
  while (!under_way.empty()) end_one();
}
