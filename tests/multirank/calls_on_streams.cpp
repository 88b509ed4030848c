// Collectives in the order of devices' streams: by the streams' words within a node (CUDA), by the background thread
// for all others and between nodes.
#include <chrono>
#include <functional>
#include <utility>

#include "runtime/window/team_core.hpp"
#include "tests/multirank/device_kernels.hpp"
#include "tests/multirank/device_sums.hpp"

namespace {

using hmc::Code;
using hmc::ConnBuffer;
using hmc::DType;
using hmc::spmd::check_sums;
using hmc::spmd::contribution;
using hmc::spmd::Fake;
using hmc::spmd::Me;
using hmc::spmd::MemoryKind;

bool by_words(Me& me, const MemoryKind& kind, const ConnBuffer& buffer) {
  return kind.name == "cuda" && hmc::spmd::has_kernels(me, buffer);
}

/// A stream of the test's own, on the buffer's device.
struct OnStream {
  explicit OnStream(const ConnBuffer& buffer)
      : provider(*buffer.allocation()->provider), stream(provider.make_stream(buffer.device_id())) {}
  void copy(void* to, const void* from, std::size_t bytes, hmc::memory::Direction direction) {
    HMC_CHECK(provider.copy_async({to, from, bytes, direction}, *stream).ok());
  }
  void synchronize() { HMC_CHECK(stream->synchronize().ok()); }
  void* native() const { return stream->native(); }
  const hmc::memory::Provider& provider;
  std::unique_ptr<hmc::memory::Stream> stream;
};

void sum_on(hmc::Team& team, OnStream& on, void* in, void* out, std::size_t count) {
  team.allreduce_on(on.native(), in, out, count, DType::f32, hmc::sum);
}

void on_every_kind(Me& me, const std::function<void(const MemoryKind&)>& body) {
  for (const MemoryKind& kind : hmc::spmd::kinds_of(me))
    if (kind.type != hmc::MemoryType::CPU) body(kind);
}
void on_every_fake(Me& me, const std::function<void(const MemoryKind&)>& body) {
  if (!hmc::spmd::drivers_are_fake()) hmc::spmd::skip("for drivers that can be steered");
  on_every_kind(me, [&](const MemoryKind& kind) {
    if (kind.type != hmc::MemoryType::OPENCL) body(kind);
  });
}

bool is_steered(const MemoryKind& kind) {
  return hmc::spmd::drivers_are_fake() && kind.type != hmc::MemoryType::OPENCL;
}
void make_late(const MemoryKind& kind, int us) {
  if (is_steered(kind)) Fake(kind.name).set_delay_us(us);
}

}  // namespace

// Input, calls and output are all put in before anything has run: every copy on the streams is late.
HMC_SPMD_TEST(calls_on_streams, take_what_the_stream_made_and_give_it_what_comes_next) {
  on_every_kind(me, [&](const MemoryKind& kind) {
    constexpr std::size_t count = 2500, bytes = count * 4, calls = 4;
    ConnBuffer buffer(0, 2 * calls * bytes, kind.type);
    hmc::Team team = me.runtime->world().duplicate();
    auto* const at = static_cast<std::byte*>(buffer.ptr);
    OnStream first(buffer), second(buffer);
    team.barrier_on(first.native(), at);  // makes what calls on streams need
    std::vector<std::vector<std::byte>> inputs, outputs(calls, std::vector<std::byte>(bytes));
    for (std::size_t call = 0; call < calls; ++call)
      inputs.push_back(contribution<float>(me.rank, count, static_cast<int>(call)));
    me.runtime->world().barrier();
    make_late(kind, 3000 + 2000 * me.rank);
    for (std::size_t call = 0; call < calls; ++call) {
      OnStream& on = call % 2 == 0 ? first : second;
      std::byte* const in = at + 2 * call * bytes;
      std::byte* const out = call == 1 ? in : in + bytes;  // once in place
      on.copy(in, inputs[call].data(), bytes, hmc::memory::Direction::host_to_device);
      sum_on(team, on, in, out, count);
      on.copy(outputs[call].data(), out, bytes, hmc::memory::Direction::device_to_host);
    }
    if (is_steered(kind)) HMC_CHECK(first.stream->query().code == Code::in_progress);
    first.synchronize();
    second.synchronize();
    me.runtime->world().barrier();
    make_late(kind, 0);
    for (std::size_t call = 0; call < calls; ++call) check_sums<float>(outputs[call], me.size, static_cast<int>(call));
    team.close();
  });
}

HMC_SPMD_TEST(calls_on_streams, may_be_larger_than_what_they_go_through) {
  on_every_kind(me, [&](const MemoryKind& kind) {
    constexpr std::size_t count = (9 << 20) / 4 + 3;
    ConnBuffer buffer(0, count * 4, kind.type);
    hmc::Team team = me.runtime->world().duplicate();
    OnStream on(buffer);
    for (int round = 0; round < 2; ++round) {
      const auto mine = contribution<float>(me.rank, count, round);
      HMC_CHECK_EQ(buffer.writeFromCpu(mine.data(), mine.size()), hmc::status_t::SUCCESS);
      sum_on(team, on, buffer.ptr, buffer.ptr, count);
      on.synchronize();
      std::vector<std::byte> got(count * 4);
      HMC_CHECK_EQ(buffer.readToCpu(got.data(), got.size()), hmc::status_t::SUCCESS);
      check_sums<float>(got, me.size, round);
    }
    team.close();
  });
}

// Whatever the algorithm sends out of the slot that it also writes.
HMC_SPMD_TEST(calls_on_streams, may_give_another_buffer_than_they_take) {
  on_every_kind(me, [&](const MemoryKind& kind) {
    constexpr std::size_t count = 1 << 18;
    ConnBuffer in(0, count * 4, kind.type), out(0, count * 4, kind.type);
    hmc::Team team = me.runtime->world().duplicate();
    OnStream on(in);
    for (int round = 0; round < 6; ++round) {
      const auto mine = contribution<float>(me.rank, count, round);
      HMC_CHECK_EQ(in.writeFromCpu(mine.data(), mine.size()), hmc::status_t::SUCCESS);
      sum_on(team, on, in.ptr, out.ptr, count);
      on.synchronize();
      std::vector<std::byte> got(count * 4);
      HMC_CHECK_EQ(out.readToCpu(got.data(), got.size()), hmc::status_t::SUCCESS);
      check_sums<float>(got, me.size, round);
      HMC_CHECK_EQ(in.readToCpu(got.data(), got.size()), hmc::status_t::SUCCESS);
      HMC_CHECK(got == mine);
    }
    team.close();
  });
}

// Neighbours have devices of different vendors; and one side of a call may be the host's.
HMC_SPMD_TEST(calls_on_streams, join_devices_of_all_vendors) {
  std::vector<MemoryKind> kinds;
  on_every_kind(me, [&](const MemoryKind& kind) { kinds.push_back(kind); });
  for (std::size_t shift = 0; shift < kinds.size(); ++shift) {
    const MemoryKind& kind = kinds[(static_cast<std::size_t>(me.rank) + shift) % kinds.size()];
    constexpr std::size_t count = 3000, bytes = count * 4;
    ConnBuffer buffer(0, bytes, kind.type);
    hmc::Team team = me.runtime->world().duplicate();
    OnStream on(buffer);
    // Pinned where the vendor has such, so that its streams may copy from there.
    const auto pinned = is_steered(kind) || kind.type == hmc::MemoryType::NVIDIA_GPU
                            ? on.provider.allocate(0, bytes, hmc::memory::Backing::pinned)
                            : nullptr;
    std::vector<std::byte> plain(bytes);
    std::byte* const host = pinned != nullptr ? pinned->address : plain.data();
    for (int round = 0; round < 4; ++round) {
      const auto mine = contribution<float>(me.rank, count, round);
      const bool from_host = round % 2 == 1, to_host = round >= 2;
      if (from_host && to_host) continue;  // one side lies on the device
      std::memcpy(host, mine.data(), bytes);
      HMC_CHECK_EQ(buffer.writeFromCpu(mine.data(), bytes), hmc::status_t::SUCCESS);
      sum_on(team, on, from_host ? host : buffer.ptr, to_host ? host : buffer.ptr, count);
      on.synchronize();
      std::vector<std::byte> got(host, host + bytes);
      if (!to_host) HMC_CHECK_EQ(buffer.readToCpu(got.data(), bytes), hmc::status_t::SUCCESS);
      check_sums<float>(got, me.size, round);
      me.runtime->world().barrier();
    }
    team.close();
  }
}

// Ranks put calls of two teams into two streams in different orders: who waits for one mustn't hold up the other.
HMC_SPMD_TEST(calls_on_streams, of_two_teams_need_no_common_order) {
  on_every_kind(me, [&](const MemoryKind& kind) {
    constexpr std::size_t count = 1000, bytes = count * 4;
    ConnBuffer buffer(0, 2 * bytes, kind.type);
    hmc::Team teams[] = {me.runtime->world().duplicate(), me.runtime->world().duplicate()};
    OnStream streams[] = {OnStream(buffer), OnStream(buffer)};
    auto* const at = static_cast<std::byte*>(buffer.ptr);
    for (hmc::Team& team : teams) team.barrier_on(streams[0].native(), at);
    streams[0].synchronize();
    const auto mine = contribution<float>(me.rank, 2 * count, 5);
    HMC_CHECK_EQ(buffer.writeFromCpu(mine.data(), mine.size()), hmc::status_t::SUCCESS);
    me.runtime->world().barrier();
    for (std::size_t i = 0; i < 2; ++i) {
      const std::size_t which = (i + static_cast<std::size_t>(me.rank)) % 2;
      sum_on(teams[which], streams[which], at + which * bytes, at + which * bytes, count);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));  // so that the first has come to its gate
    }
    for (OnStream& on : streams) on.synchronize();
    std::vector<std::byte> got(2 * bytes);
    HMC_CHECK_EQ(buffer.readToCpu(got.data(), got.size()), hmc::status_t::SUCCESS);
    check_sums<float>(got, me.size, 5);
    for (hmc::Team& team : teams) team.close();
  });
}

// They are in nobody's way: a rank that calls the team's other collectives meanwhile is served.
HMC_SPMD_TEST(calls_on_streams, have_an_order_of_their_own) {
  on_every_kind(me, [&](const MemoryKind& kind) {
    constexpr std::size_t count = 700, bytes = count * 4;
    ConnBuffer buffer(0, bytes, kind.type);
    hmc::Team team = me.runtime->world().duplicate();
    OnStream on(buffer);
    team.barrier_on(on.native(), buffer.ptr);
    const auto mine = contribution<float>(me.rank, count, 2);
    HMC_CHECK_EQ(buffer.writeFromCpu(mine.data(), bytes), hmc::status_t::SUCCESS);
    const bool is_late = me.rank % 2 == 1;
    if (!is_late) sum_on(team, on, buffer.ptr, buffer.ptr, count);
    for (int round = 0; round < 20; ++round) {
      int sum = me.rank + round;
      team.allreduce(&sum, &sum, 1, DType::i32, hmc::sum);
      HMC_CHECK_EQ(sum, me.size * (me.size - 1) / 2 + round * me.size);
    }
    if (is_late) sum_on(team, on, buffer.ptr, buffer.ptr, count);
    on.synchronize();
    std::vector<std::byte> got(bytes);
    HMC_CHECK_EQ(buffer.readToCpu(got.data(), bytes), hmc::status_t::SUCCESS);
    check_sums<float>(got, me.size, 2);
    team.close();
  });
}

HMC_SPMD_TEST(calls_on_streams, that_dont_match_are_found_by_who_calls_next) {
  if (me.size < 2) hmc::spmd::skip("for two ranks");
  on_every_kind(me, [&](const MemoryKind& kind) {
    ConnBuffer buffer(0, 4096, kind.type);
    hmc::Team team = me.runtime->world().duplicate();
    OnStream on(buffer);
    auto* const at = static_cast<std::byte*>(buffer.ptr);
    team.barrier_on(on.native(), at);
    on.synchronize();
    me.runtime->world().barrier();  // who comes late would hear of it in that call
    std::size_t failed = 0;
    for (int call = 0; call < 2; ++call) {
      try {
        if (failed == 0) sum_on(team, on, at, at, me.rank == 0 ? 16 : 17);
      } catch (const hmc::Error& error) {
        HMC_CHECK_MSG(error.code() == Code::mismatch || error.code() == Code::closed, "{}", error.what());
        ++failed;
      }
      on.synchronize();  // nobody's stream hangs
      me.runtime->world().barrier();
    }
    HMC_CHECK_EQ(failed, 1U);
    me.runtime->world().barrier();
    team.close();
  });
}

namespace {

/// A rank's driver refuses `call` amid a collective on streams, for which the others' streams wait already.
void fail_within(Me& me, const MemoryKind& kind, const std::string& call) {
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
    HMC_CHECK_MSG(text.find(call) != std::string::npos, "'{}' says nothing of {}", text, call);
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

/// What a call by the host asks the driver for, in the thread of who calls.
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

HMC_SPMD_TEST(calls_on_streams, amid_which_a_driver_fails_fail_all_that_come_later) {
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

// The driver refuses to tell the background thread how far the stream has come.
HMC_SPMD_TEST(calls_on_streams, whose_stream_cant_be_asked_fail_by_name) {
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
    // At once, since the call itself may look; or by the thread, and then the next call tells.
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
      HMC_CHECK_MSG(text.find(call) != std::string::npos, "'{}' says nothing of {}", text, call);
    }
    HMC_CHECK(!text.empty());
    me.runtime->world().barrier();
    team.close();
  });
}

// Then the background thread does it, for all of them.
HMC_SPMD_TEST(calls_on_streams, go_by_the_host_where_streams_turn_out_not_to_wait) {
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

HMC_SPMD_TEST(calls_on_streams, of_what_has_no_streams_are_refused_on_all_ranks) {
  ConnBuffer buffer(0, 4096, me.rank == 0 ? hmc::MemoryType::CPU : hmc::spmd::kinds_of(me).back().type);
  hmc::Team team = me.runtime->world().duplicate();
  for (int again = 0; again < 2; ++again)  // and the next is no mess
    HMC_CHECK_THROWS(Code::unsupported, team.barrier_on(nullptr, buffer.ptr));
  team.close();
}

HMC_SPMD_TEST(calls_on_streams, refuse_a_buffer_of_another_device_before_anybody_hears_of_the_call) {
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

// The last rank closes the team without the call that the others' streams wait for.
HMC_SPMD_TEST(calls_on_streams, that_wait_for_a_rank_that_has_left_go_on_and_the_close_says_so) {
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

// As Team::close does it once the ranks have met: a rank that hangs after that never comes.
HMC_SPMD_TEST(calls_on_streams, are_waited_for_until_the_deadline_when_a_rank_never_comes_to_close) {
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
      HMC_CHECK_THROWS(Code::timeout, team.core()->collectives->close());
      HMC_CHECK(std::chrono::steady_clock::now() - started < std::chrono::seconds(30));
      timeout = usual;
      on.synchronize();
    }
    me.runtime->world().barrier();
    if (me.rank != 0) HMC_CHECK_THROWS(Code::closed, team.barrier_on(on.native(), buffer.ptr));
    me.runtime->world().barrier();
  });
}

// Nobody comes to close: the object that goes lets its streams go on, and its memory is not unmapped under them.
HMC_SPMD_TEST(calls_on_streams, of_a_team_that_goes_unclosed_go_on) {
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
