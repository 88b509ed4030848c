// Runtime::close while device streams still hold calls of an open team.
#include <hmc/hmc.hpp>

#include <array>
#include <string>
#include <thread>
#include <tuple>

#include "bootstrap/inproc.hpp"
#include "job/job_core.hpp"
#include "runtime/base/env.hpp"
#include "runtime/memory/device_stream.hpp"
#include "tests/support/code_of.hpp"
#include "tests/unit/memory/fake.hpp"

namespace hmc {
namespace {

enum class Last { calls, leaves_it_out, calls_otherwise };
/// The team of the calls in the streams: one that is closed, one that is open at Runtime::close, or the world.
enum class Whose { closed_team, open_team, world };
/// CUDA's streams wait for each other; HIP's streams wait for the background thread.
enum class By { streams, thread };
using Case = std::tuple<By, Last, Whose>;

/// The thread of each rank. `last`: what the last rank does about the call that the others make before it.
void use_and_close(int rank, int size, std::unique_ptr<bootstrap::Bootstrap> bootstrap, const Case& which,
                   const memory::Fake& fake) {
  const auto [by, last, whose] = which;
  Runtime runtime(std::make_unique<job::JobCore>(std::move(bootstrap), base::Env::from_process()));
  ConnBuffer buffer(0, 8192, by == By::streams ? MemoryType::NVIDIA_GPU : MemoryType::AMD_GPU);
  Team team = whose == Whose::world ? runtime.world() : runtime.world().duplicate();
  const auto stream = buffer.allocation()->provider->make_stream(0);
  const std::vector<float> mine(1000, static_cast<float>(rank + 1));
  const bool is_last = rank == size - 1;
  const auto call = [&](std::size_t count) {
    team.allreduce_on(stream->native(), buffer.ptr, buffer.ptr, count, DType::f32, sum);
  };
  EXPECT_EQ(buffer.writeFromCpu(mine.data(), 4000), status_t::SUCCESS);
  team.barrier_on(stream->native(), buffer.ptr);
  runtime.world().barrier();
  fake.set_delay_us(10'000);
  if (!is_last) call(1000);
  runtime.world().barrier();
  if (is_last && last == Last::calls) call(1000);
  // By streams: the last rank gets the mismatch here, the ranks that called first only at close. By thread: no rank
  // gets it here, because the thread compares calls when the streams reach them.
  const bool told_before = is_last && last == Last::calls_otherwise && by == By::streams;
  if (is_last && last == Last::calls_otherwise) {
    EXPECT_EQ(code_of([&] { call(500); }), told_before ? Code::mismatch : Code::success);
  }
  const bool matches = last == Last::calls;
  // A collective close involves all ranks, so all of them get the error or none does.
  const Code for_all = matches ? Code::success : Code::mismatch;
  if (whose == Whose::closed_team) {
    EXPECT_EQ(code_of([&] { team.close(); }), for_all);
    if (!matches) team.close();
    runtime.close();
  } else {
    const bool tells = whose == Whose::world || !told_before;
    EXPECT_EQ(code_of([&] { runtime.close(); }), tells ? for_all : Code::success);
  }
  // It is closed, not partly closed.
  EXPECT_EQ(text_of([&] { runtime.close(); }).find("Runtime::close: the runtime is closed"), 0U);
  EXPECT_NE(stream->query().code, Code::in_progress);
  fake.set_delay_us(0);
  if (!matches) return;
  std::vector<float> got(1000);
  EXPECT_EQ(buffer.readToCpu(got.data(), 4000), status_t::SUCCESS);
  EXPECT_EQ(got, std::vector<float>(1000, static_cast<float>(size * (size + 1) / 2)));
}

class StreamsAtClose : public testing::TestWithParam<Case> {};

TEST_P(StreamsAtClose, streams_are_idle_after_close) {
  memory::use_fakes();
  ::setenv("HMC_NVRTC_LIBRARY", memory::fake_path("nvrtc").c_str(), 1);
  const memory::Fake fake(std::get<By>(GetParam()) == By::streams ? "cuda" : "hip");
  auto ranks = bootstrap::make_inproc(3, 1);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back(
        [&, rank] { use_and_close(rank, 3, std::move(ranks[static_cast<std::size_t>(rank)]), GetParam(), fake); });
  for (std::thread& each : threads) each.join();
}
constexpr std::array ways = {"by_streams_", "by_thread_"};
constexpr std::array names = {"made_by_all", "one_left_out", "one_differs"};
constexpr std::array whose = {"_closed_team", "_open_team", "_world"};
std::string name_of(const testing::TestParamInfo<Case>& info) {
  const auto& [by, last, of] = info.param;
  return std::string(ways[static_cast<std::size_t>(by)]) + names[static_cast<std::size_t>(last)] +
         whose[static_cast<std::size_t>(of)];
}
INSTANTIATE_TEST_SUITE_P(Calls, StreamsAtClose,
                         testing::Combine(testing::Values(By::streams, By::thread),
                                          testing::Values(Last::calls, Last::leaves_it_out, Last::calls_otherwise),
                                          testing::Values(Whose::closed_team, Whose::open_team, Whose::world)),
                         name_of);

}  // namespace
}  // namespace hmc
