// Failures of collectives on device streams: calls that don't match, drivers that fail, ranks that leave.
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "collectives/team/team_object.hpp"
#include "runtime/rma/team_core.hpp"
#include "tests/multirank/calls_on_streams.hpp"

namespace {

using hmc::Code;
using hmc::ConnBuffer;
using hmc::DType;
using namespace hmc::spmd;

}  // namespace

HMC_SPMD_TEST(CallsOnStreams, mismatch_is_reported_by_the_next_call) {
  if (me.size < 2) hmc::spmd::skip("for two ranks");
  on_every_kind(me, [&](const MemoryKind& kind) {
    ConnBuffer buffer(0, 4096, kind.type);
    hmc::Team team = me.runtime->world().duplicate();
    OnStream on(buffer);
    auto* const at = static_cast<std::byte*>(buffer.ptr);
    team.barrier_on(on.native(), at);
    on.synchronize();
    me.runtime->world().barrier();  // a later rank would get the error in barrier_on
    std::size_t failed = 0;
    for (int call = 0; call < 2; ++call) {
      try {
        if (failed == 0) sum_on(team, on, at, at, me.rank == 0 ? 16 : 17);
      } catch (const hmc::Error& error) {
        HMC_CHECK_MSG(error.code() == Code::mismatch || error.code() == Code::closed, "{}", error.what());
        ++failed;
      }
      on.synchronize();  // no stream hangs
      me.runtime->world().barrier();
    }
    HMC_CHECK_EQ(failed, 1U);
    me.runtime->world().barrier();
    team.close();
  });
}

namespace {

/// A rank's driver fails `call` during a collective on streams. The other ranks' streams already wait for it.
void fail_within(TestRank& me, const MemoryKind& kind, const std::string& call) {
  ConnBuffer buffer(0, 1 << 16, kind.type);
  hmc::Team team = me.runtime->world().duplicate();
  auto* const at = static_cast<std::byte*>(buffer.ptr);
  OnStream on(buffer);
  sum_on(team, on, at, at, 1000);
  on.synchronize();
  me.runtime->world().barrier();
  if (me.rank != 0) sum_on(team, on, at, at, 5000);
  me.runtime->world().barrier();
  if (me.rank == 0) {
    const Fake fake(kind.name);
    fake.arm(call + ":1");
    std::string text;
    try {
      sum_on(team, on, at, at, 5000);
    } catch (const hmc::Error& error) {
      text = error.what();
    }
    fake.arm("");
    HMC_CHECK_MSG(text.find(call) != std::string::npos, "'{}' doesn't contain {}", text, call);
  }
  on.synchronize();
  me.runtime->world().barrier();
  for (int again = 0; again < 2; ++again) {
    HMC_CHECK_THROWS(Code::closed, sum_on(team, on, at, at, 5000));
    HMC_CHECK_THROWS(Code::closed, team.barrier_on(on.native(), at));
  }
  on.synchronize();
  me.runtime->world().barrier();
  team.close();
}

/// The driver functions that a call through the host uses on the calling thread.
std::vector<std::string> calls_of(const MemoryKind& kind) {
  if (kind.name == "cuda")
    return {"cuStreamWaitValue32_v2", "cuEventRecord",        "cuStreamWaitEvent",
            "cuEventCreate",          "cuMemcpyDtoHAsync_v2", "cuMemcpyHtoDAsync_v2"};
  if (kind.name == "cnrt")
    return {"cnrtInvokeHostFunc", "cnrtPlaceNotifier", "cnrtQueueWaitNotifier", "cnrtNotifierCreate",
            "cnrtMemcpyAsync"};
  if (kind.name == "acl")
    return {"aclrtLaunchHostFunc", "aclrtRecordEvent", "aclrtStreamWaitEvent", "aclrtCreateEventWithFlag",
            "aclrtMemcpyAsync"};
  std::vector<std::string> names;
  for (const char* name : {kind.name == "hip" ? "StreamWaitValue64" : "LaunchHostFunc", "EventRecord",
                           "StreamWaitEvent", "EventCreateWithFlags", "MemcpyAsync"})
    names.push_back(std::string(kind.name) + name);
  return names;
}

}  // namespace

HMC_SPMD_TEST(CallsOnStreams, driver_failure_fails_all_later_calls) {
  if (me.size < 2) hmc::spmd::skip("for two ranks");
  on_every_fake(me, [&](const MemoryKind& kind) {
    const ConnBuffer buffer(0, 4096, kind.type);
    const std::vector<std::string> calls =
        by_words(me, kind, buffer) ? std::vector<std::string>{"cuStreamWriteValue32_v2", "cuStreamWaitValue32_v2",
                                                              "cuLaunchKernel", "cuStreamWaitEvent", "cuEventRecord"}
                                   : calls_of(kind);
    for (const std::string& call : calls) fail_within(me, kind, call);
  });
}

// The driver fails the background thread's query of the stream's progress.
HMC_SPMD_TEST(CallsOnStreams, failed_stream_query_names_the_call) {
  if (me.size < 2 || !me.options.processes) hmc::spmd::skip("for ranks with a driver each");
  on_every_fake(me, [&](const MemoryKind& kind) {
    ConnBuffer buffer(0, 4096, kind.type);
    if (by_words(me, kind, buffer)) return;
    hmc::Team team = me.runtime->world().duplicate();
    OnStream on(buffer);
    team.barrier_on(on.native(), buffer.ptr);
    on.synchronize();
    me.runtime->world().barrier();
    const std::string call = kind.name == "cuda"   ? "cuEventQuery"
                             : kind.name == "cnrt" ? "cnrtQueryNotifier"
                             : kind.name == "acl"  ? "aclrtQueryEventStatus"
                                                   : std::string(kind.name) + "EventQuery";
    if (me.rank == 0) Fake(kind.name).arm(call + ":1");
    std::string text;
    // The call itself may query and then fails at once. Otherwise the thread queries and the next call fails.
    for (int attempt = 0; attempt < 2; ++attempt) {
      try {
        if (text.empty()) team.barrier_on(on.native(), buffer.ptr);
      } catch (const hmc::Error& error) {
        text = error.what();
      }
      on.synchronize();
      me.runtime->world().barrier();
    }
    if (me.rank == 0) {
      Fake(kind.name).arm("");
      HMC_CHECK_MSG(text.find(call) != std::string::npos, "'{}' doesn't contain {}", text, call);
    }
    HMC_CHECK(!text.empty());
    me.runtime->world().barrier();
    team.close();
  });
}

// If a stream operation fails, the background thread handles the call on all ranks.
HMC_SPMD_TEST(CallsOnStreams, calls_use_the_host_where_streams_cannot_wait) {
  if (me.size < 2 || !hmc::spmd::drivers_are_fake()) hmc::spmd::skip("for two ranks on fake drivers");
  const MemoryKind kind = hmc::spmd::cuda(me);
  ConnBuffer buffer(0, 4096, kind.type);
  if (!by_words(me, kind, buffer)) return;
  for (const char* call : {"cuStreamWriteValue32_v2", "cuStreamWaitValue32_v2", "cuLaunchKernel"}) {
    hmc::Team team = me.runtime->world().duplicate();
    OnStream on(buffer);
    const auto mine = contribution<float>(me.rank, 1000, 3);
    HMC_CHECK_EQ(buffer.writeFromCpu(mine.data(), mine.size()), hmc::status_t::SUCCESS);
    if (me.rank == 0) Fake("cuda").arm(std::string(call) + ":1");
    me.runtime->world().barrier();
    sum_on(team, on, buffer.ptr, buffer.ptr, 1000);
    me.runtime->world().barrier();
    if (me.rank == 0) Fake("cuda").arm("");
    on.synchronize();
    std::vector<std::byte> got(mine.size());
    HMC_CHECK_EQ(buffer.readToCpu(got.data(), got.size()), hmc::status_t::SUCCESS);
    check_sums<float>(got, me.size, 3);
    me.runtime->world().barrier();
    team.close();
  }
}

HMC_SPMD_TEST(CallsOnStreams, buffers_without_streams_are_rejected_on_all_ranks) {
  ConnBuffer buffer(0, 4096, me.rank == 0 ? hmc::MemoryType::CPU : hmc::spmd::kinds_of(me).back().type);
  hmc::Team team = me.runtime->world().duplicate();
  for (int again = 0; again < 2; ++again)  // the first failure leaves no state behind
    HMC_CHECK_THROWS(Code::unsupported, team.barrier_on(nullptr, buffer.ptr));
  team.close();
}

HMC_SPMD_TEST(CallsOnStreams, buffer_of_another_device_is_rejected_locally) {
  on_every_fake(me, [&](const MemoryKind& kind) {
    ConnBuffer buffer(0, 4096, kind.type), other(1, 4096, kind.type);
    hmc::Team team = me.runtime->world().duplicate();
    OnStream on(buffer);
    auto *const here = static_cast<std::byte*>(buffer.ptr), *const there = static_cast<std::byte*>(other.ptr);
    sum_on(team, on, here, here, 100);
    HMC_CHECK_THROWS(Code::invalid_argument, sum_on(team, on, here, there, 100));
    HMC_CHECK_THROWS(Code::invalid_argument, sum_on(team, on, there, here, 100));
    HMC_CHECK_THROWS(Code::invalid_argument, team.barrier_on(on.native(), there));
    sum_on(team, on, here, here, 100);
    on.synchronize();
    team.close();
  });
}

// The last rank closes the team without the call that the other ranks' streams wait for.
HMC_SPMD_TEST(CallsOnStreams, close_reports_a_rank_that_left) {
  if (me.size < 2) hmc::spmd::skip("for two ranks");
  on_every_kind(me, [&](const MemoryKind& kind) {
    ConnBuffer buffer(0, 4096, kind.type);
    hmc::Team team = me.runtime->world().duplicate();
    OnStream on(buffer);
    team.barrier_on(on.native(), buffer.ptr);
    if (me.rank != me.size - 1) team.barrier_on(on.native(), buffer.ptr);
    HMC_CHECK_THROWS(Code::mismatch, team.close());
    on.synchronize();
    team.close();
  });
}

// Calls the part of Team::close after the barrier of the ranks: it models a rank that hangs after that barrier.
HMC_SPMD_TEST(CallsOnStreams, close_waits_until_the_deadline_for_a_missing_rank) {
  if (me.size < 2) hmc::spmd::skip("for two ranks");
  on_every_kind(me, [&](const MemoryKind& kind) {
    ConnBuffer buffer(0, 4096, kind.type);
    hmc::Team team = me.runtime->world().duplicate();
    OnStream on(buffer);
    team.barrier_on(on.native(), buffer.ptr);
    on.synchronize();
    me.runtime->world().barrier();
    if (me.rank == 0) {
      team.barrier_on(on.native(), buffer.ptr);
      auto& timeout = team.core()->fabric().timeout;
      const auto usual = std::exchange(timeout, std::chrono::milliseconds(200));
      const auto started = std::chrono::steady_clock::now();
      HMC_CHECK_THROWS(Code::timeout, team.object()->close_engines());
      HMC_CHECK(std::chrono::steady_clock::now() - started < std::chrono::seconds(30));
      timeout = usual;
      on.synchronize();
    }
    me.runtime->world().barrier();
    if (me.rank != 0) HMC_CHECK_THROWS(Code::closed, team.barrier_on(on.native(), buffer.ptr));
    me.runtime->world().barrier();
  });
}

// No rank closes the team. Destroying the object releases its streams, and its memory stays mapped while they use it.
HMC_SPMD_TEST(CallsOnStreams, calls_of_an_unclosed_team_continue) {
  if (me.size < 2) hmc::spmd::skip("for two ranks");
  on_every_kind(me, [&](const MemoryKind& kind) {
    ConnBuffer buffer(0, 4096, kind.type);
    OnStream on(buffer);
    {
      hmc::Team team = me.runtime->world().duplicate();
      team.barrier_on(on.native(), buffer.ptr);
      on.synchronize();
      me.runtime->world().barrier();
      if (me.rank == 0) team.barrier_on(on.native(), buffer.ptr);
      me.runtime->world().barrier();
    }
    on.synchronize();
    me.runtime->world().barrier();
  });
}
