// Each driver function fails once while a window is created and used.
// - At least one rank gets an error with the function's name and code.
// - All ranks agree whether the window exists.
// - No resource is leaked.
#include <cstring>

#include "tests/multirank/device_names.hpp"

namespace {

constexpr const char* code = "719";

/// Broadcasts `text` of `root` to every rank.
std::string told_by(TestRank& me, const std::string& text, int root) {
  char line[128] = {};
  std::strncpy(line, text.c_str(), sizeof line - 1);
  me.runtime->world().broadcast(line, sizeof line, root);
  return line;
}

std::uint64_t sum_of(TestRank& me, std::uint64_t mine) {
  std::uint64_t sum = 0;
  me.runtime->world().allreduce(std::span(&mine, 1), std::span(&sum, 1), hmc::sum);
  return sum;
}

/// Functions whose failure isn't reported: a release, and a query, whose result is then "unknown".
bool may_stay_unheard(const std::string& call) {
  for (const char* part :
       {"Unmap", "Free", "free", "Release", "Close", "Pop", "Destroy", "PointerGetAttribute", "SetDevice", "setDevice",
        "GetDevice", "Query", "CtxPushCurrent", "CtxSetCurrent", "ErrorString", "ErrorName", "Peer"})
    if (call.find(part) != std::string::npos) return true;
  return false;
}

struct Round {
  std::string call;
  std::uint64_t heard = 0;  ///< number of errors on this rank that name call and code

  template <typename Verb> bool attempt(Verb&& verb) {
    try {
      verb();
      return true;
    } catch (const Error& error) {
      const std::string text = error.what();
      HMC_CHECK_MSG(text.find(call) != std::string::npos && text.find(code) != std::string::npos, "{}: {}", call, text);
      ++heard;
      return false;
    }
  }
};

void use(TestRank& me, hmc::Window& window, Round& round) {
  const auto sent = made({me.rank, 7}, 3000);
  std::vector<std::byte> got(3000);
  round.attempt([&] { window.put(me.next(), 16, sent.data(), sent.size()); });
  round.attempt([&] { window.put_signal(me.next(), 16, sent.data(), 100, 8, 1); });
  round.attempt([&] { window.get(me.next(), 16, got.data(), got.size()); });
  round.attempt([&] { (void)window.fetch_add<std::uint64_t>(me.next(), 0, 1); });
  round.attempt([&] { (void)window.test_until(8, hmc::Cmp::eq, 1); });
}

/// Fails one call on one rank, during creation or use of the window. Returns whether the call was made.
bool fail_once(TestRank& me, MemoryKind kind, const Fake& fake, int victim, const std::string& call, bool in_use) {
  const long before = fake.live();
  Round round{call};
  // The calls differ from run to run, since threads run concurrently: a stream is created only if none is idle.
  std::uint64_t came = 0;
  const auto disarm = [&] {
    const auto seen = fake.seen();
    if (std::find(seen.begin(), seen.end(), call) != seen.end()) ++came;
    fake.arm("");
  };
  {
    hmc::ConnBuffer buffer(0, 4000, kind.type);
    me.runtime->world().barrier();
    if (me.rank == victim && !in_use) fake.arm(call + ":1:" + code);
    hmc::Window window;
    const bool open = round.attempt([&] { window = hmc::Window::create(me.runtime->world(), buffer); });
    const std::uint64_t opened = sum_of(me, open ? 1 : 0);
    HMC_CHECK(opened == 0 || opened == static_cast<std::uint64_t>(me.size));  // all or none
    if (opened != 0) {
      for (int peer = 0; peer < me.size; ++peer)
        if (window.path(peer).why.find(call) != std::string::npos) ++round.heard;
      me.runtime->world().barrier();  // measuring a path may need the victim
      if (me.rank == victim && !in_use) disarm();
      if (me.rank == victim && in_use) fake.arm(call + ":1:" + code);
      me.runtime->world().barrier();
      if (in_use) use(me, window, round);
      me.runtime->world().barrier();
      if (me.rank == victim && in_use) disarm();
      me.runtime->world().barrier();
      // Only one call failed: afterwards everything works.
      const auto sent = made({me.rank, 9}, 3000);
      window.put(me.next(), 16, sent.data(), sent.size());
      window.flush();
      me.runtime->world().barrier();
      std::vector<std::byte> got(3000);
      HMC_CHECK_EQ(buffer.readToCpu(got.data(), got.size(), 16), hmc::status_t::SUCCESS);
      HMC_CHECK_CLEAN((Pattern{me.previous(), 9}.verify(got)));
      me.runtime->world().barrier();
      window.close();
    }
    if (me.rank == victim && opened == 0) disarm();
    me.runtime->world().barrier();
  }
  me.runtime->world().barrier();
  HMC_CHECK_MSG(fake.live() == before, "{} handles after {} failed, {} before", fake.live(), call, before);
  const std::uint64_t heard = sum_of(me, round.heard);
  came = sum_of(me, came);
  HMC_CHECK_MSG(heard > 0 || came == 0 || may_stay_unheard(call), "{} failed and no rank got an error", call);
  me.runtime->world().barrier();
  return came > 0;
}

/// The driver calls that creating or using a window makes on this rank.
std::vector<std::string> calls_of(TestRank& me, MemoryKind kind, const Fake& fake, bool in_use) {
  std::vector<std::string> calls;
  Round quiet;
  for (int again = 0; again < 2; ++again) {  // the first round makes the calls that happen only once
    hmc::ConnBuffer buffer(0, 4000, kind.type);
    me.runtime->world().barrier();
    if (!in_use) fake.arm("");
    hmc::Window window = hmc::Window::create(me.runtime->world(), buffer);
    if (!in_use) calls = fake.seen();
    me.runtime->world().barrier();
    if (in_use) {
      fake.arm("");
      me.runtime->world().barrier();
      use(me, window, quiet);
      me.runtime->world().barrier();
      calls = fake.seen();
    }
    me.runtime->world().barrier();
    window.close();
  }
  return calls;
}

}  // namespace

HMC_SPMD_TEST(DeviceFailures, each_failing_driver_call_is_reported_without_leaks) {
  if (!me.options.processes || me.runtime->node_count() == me.size || !me.runtime->path(me.rank).direct)
    hmc::spmd::skip("for ranks that each have a driver of their own");
  if (!hmc::spmd::drivers_are_fake()) hmc::spmd::skip("for fake drivers, which fail on demand");
  std::uint64_t failures = 0;
  for (const MemoryKind& kind : hmc::spmd::kinds_of(me)) {
    if (kind.type == hmc::MemoryType::CPU || kind.type == hmc::MemoryType::OPENCL) continue;
    const Fake fake(kind.name);
    for (const bool in_use : {false, true}) {
      const auto calls = calls_of(me, kind, fake, in_use);
      for (int victim = 0; victim < std::min(me.size, 2); ++victim) {
        std::uint64_t count = calls.size();
        me.runtime->world().broadcast(&count, sizeof count, victim);
        for (std::uint64_t i = 0; i < count; ++i) {
          const std::string call = told_by(me, i < calls.size() ? calls[i] : "", victim);
          if (fail_once(me, kind, fake, victim, call, in_use)) ++failures;
        }
      }
    }
  }
  HMC_CHECK_GE(failures, 10U);
}
