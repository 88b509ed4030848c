// Runtime::close, while streams of a team that nobody has closed still hold calls.
#include <hmc/hmc.hpp>

#include <thread>

#include "bootstrap/inproc.hpp"
#include "runtime/base/env.hpp"
#include "runtime/job/core.hpp"
#include "runtime/memory/device_stream.hpp"
#include "tests/unit/memory/fake.hpp"

namespace hmc {
namespace {

/// Each rank's part of the job, as a thread. `leaves_out`: the last rank doesn't make the call that the others make.
void use_and_close(int rank, int size, std::unique_ptr<bootstrap::Bootstrap> bootstrap, bool leaves_out,
                   const memory::Fake& fake) {
  Runtime runtime(job::make_core(std::move(bootstrap), base::Env::from_process()));
  ConnBuffer buffer(0, 8192, MemoryType::NVIDIA_GPU);
  Team team = runtime.world().duplicate();
  const auto stream = buffer.allocation()->provider->make_stream(0);
  const std::vector<float> mine(1000, static_cast<float>(rank + 1));
  EXPECT_EQ(buffer.writeFromCpu(mine.data(), 4000), status_t::SUCCESS);
  team.barrier_on(stream->native(), buffer.ptr);
  runtime.world().barrier();
  fake.set_delay_us(10'000);
  const bool calls = !leaves_out || rank != size - 1;
  if (calls) team.allreduce_on(stream->native(), buffer.ptr, buffer.ptr, 1000, DType::f32, sum);
  bool named = false;
  try {
    runtime.close();
  } catch (const Error& error) {
    named = error.code() == Code::mismatch;
  }
  EXPECT_EQ(named, leaves_out);
  EXPECT_NE(stream->query().code, Code::in_progress);
  fake.set_delay_us(0);
  if (leaves_out) return;
  std::vector<float> got(1000);
  EXPECT_EQ(buffer.readToCpu(got.data(), 4000), status_t::SUCCESS);
  EXPECT_EQ(got, std::vector<float>(1000, static_cast<float>(size * (size + 1) / 2)));
}

class StreamsAtClose : public testing::TestWithParam<bool> {};

TEST_P(StreamsAtClose, have_run_dry) {
  memory::use_fakes();
  ::setenv("HMC_NVRTC_LIBRARY", memory::fake_path("nvrtc").c_str(), 1);
  const memory::Fake fake("cuda");
  auto ranks = bootstrap::make_inproc(3, 1);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back(
        [&, rank] { use_and_close(rank, 3, std::move(ranks[static_cast<std::size_t>(rank)]), GetParam(), fake); });
  for (std::thread& each : threads) each.join();
}
INSTANTIATE_TEST_SUITE_P(Calls, StreamsAtClose, testing::Bool(),
                         [](const auto& info) { return info.param ? "one_left_out" : "made_by_all"; });

}  // namespace
}  // namespace hmc
