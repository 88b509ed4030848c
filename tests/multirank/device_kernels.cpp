// What devices do themselves: reductions in each other's windows, and collectives in the order of streams.
#include <chrono>
#include <cstring>
#include <utility>

#include "runtime/window/team_core.hpp"
#include "tests/multirank/device_kernels.hpp"

namespace {

using hmc::ConnBuffer;
using hmc::DType;
using hmc::spmd::cuda;
using hmc::spmd::has_kernels;
using hmc::spmd::MemoryKind;
using hmc::spmd::Mixed;

/// Sums of these are exact in every type they are given as.
template <typename T> T element(int rank, std::size_t index, int round) {
  return static_cast<T>((static_cast<std::size_t>(rank) * 7 + index * 3 + static_cast<std::size_t>(round)) % 13);
}
template <typename T> std::vector<std::byte> contribution(int rank, std::size_t count, int round) {
  std::vector<std::byte> bytes(count * sizeof(T));
  for (std::size_t i = 0; i < count; ++i) {
    const T value = element<T>(rank, i, round);
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof value);
  }
  return bytes;
}
template <typename T> void check_sums(const std::vector<std::byte>& got, int size, int round) {
  for (std::size_t i = 0; i < got.size() / sizeof(T); ++i) {
    T value, sum{};
    std::memcpy(&value, got.data() + i * sizeof(T), sizeof value);
    for (int rank = 0; rank < size; ++rank) sum = static_cast<T>(sum + element<T>(rank, i, round));
    HMC_CHECK_MSG(value == sum, "element {} is {}, not {}", i, value, sum);
  }
}

template <typename T> void reduce_in_windows(hmc::spmd::Me& me, Mixed& mixed, std::size_t count, int round) {
  hmc::Team& world = me.runtime->world();
  auto* const at = static_cast<std::byte*>(mixed.buffer.ptr);
  const std::size_t out = 1 << 18;
  mixed.write(0, contribution<T>(me.rank, count, round));
  world.allreduce(at, at + out, count, hmc::dtype_of<T>(), hmc::sum);
  check_sums<T>(mixed.bytes(out, count * sizeof(T)), me.size, round);
  mixed.write(0, contribution<T>(me.rank, count, round + 1));
  world.allreduce(at, at, count, hmc::dtype_of<T>(), hmc::sum);  // in place
  check_sums<T>(mixed.bytes(0, count * sizeof(T)), me.size, round + 1);
}

}  // namespace

HMC_SPMD_TEST(device_kernels, an_allreduce_in_devices_windows_is_the_devices_work) {
  for (const MemoryKind& kind : hmc::spmd::kinds_of(me)) {
    if (kind.name != "cuda" && kind.name != "hip") continue;
    Mixed mixed(me, kind, 1 << 19);
    const auto before = me.runtime->counters().reduced_on_device;
    reduce_in_windows<float>(me, mixed, 5000, 1);
    reduce_in_windows<std::uint8_t>(me, mixed, 40'001, 3);
    reduce_in_windows<double>(me, mixed, 20'000, 5);
    reduce_in_windows<std::int64_t>(me, mixed, 700, 7);
    const std::uint64_t done = me.runtime->counters().reduced_on_device - before;
    constexpr std::uint64_t calls = 4 * 2;  // of each size, and again in place
    HMC_CHECK_EQ(done, has_kernels(me, mixed.buffer) ? calls : 0);
    mixed.window.close();
  }
}

// One rank's buffers are host memory, or lie in no window: all of them find that out, and the host does it.
HMC_SPMD_TEST(device_kernels, where_one_rank_has_no_devices_window_the_hosts_reduce) {
  constexpr std::size_t count = 3000;
  Mixed mixed(me, cuda(me), 1 << 19);
  ConnBuffer alone(0, count * 4, cuda(me).type);
  std::vector<float> host(count);
  for (int round = 0; round < 6; ++round) {
    const auto mine = contribution<float>(me.rank, count, round);
    void* at = mixed.buffer.ptr;
    mixed.write(0, mine);
    const bool is_odd_one = me.rank == round % me.size;
    if (is_odd_one && round % 2 == 0) {
      std::memcpy(host.data(), mine.data(), mine.size());
      at = host.data();
    } else if (is_odd_one) {
      HMC_CHECK_EQ(alone.writeFromCpu(mine.data(), mine.size()), hmc::status_t::SUCCESS);
      at = alone.ptr;
    }
    const auto before = me.runtime->counters().reduced_on_device;
    me.runtime->world().allreduce(at, at, count, DType::f32, hmc::sum);
    HMC_CHECK_EQ(me.runtime->counters().reduced_on_device, before);
    std::vector<std::byte> got(mine.size());
    if (at == host.data()) std::memcpy(got.data(), host.data(), got.size());
    if (at == alone.ptr) HMC_CHECK_EQ(alone.readToCpu(got.data(), got.size()), hmc::status_t::SUCCESS);
    check_sums<float>(is_odd_one ? got : mixed.bytes(0, mine.size()), me.size, round);
  }
  mixed.window.close();
}

// A window is reached by the device that its own part lies on: no kernel of one device gets another's inputs.
HMC_SPMD_TEST(device_kernels, where_the_input_lies_on_another_device_than_the_output_the_hosts_reduce) {
  if (!hmc::spmd::drivers_are_fake()) hmc::spmd::skip("for two devices");
  constexpr std::size_t count = 5000;
  ConnBuffer in(0, count * 4, cuda(me).type), out(1, count * 4, cuda(me).type);
  hmc::Team& world = me.runtime->world();
  hmc::Window ins = hmc::Window::create(world, in), outs = hmc::Window::create(world, out);
  HMC_CHECK_EQ(in.writeFromCpu(contribution<float>(me.rank, count, 2).data(), count * 4), hmc::status_t::SUCCESS);
  const auto before = me.runtime->counters().reduced_on_device;
  world.allreduce(in.ptr, out.ptr, count, DType::f32, hmc::sum);
  HMC_CHECK_EQ(me.runtime->counters().reduced_on_device, before);
  std::vector<std::byte> got(count * 4);
  HMC_CHECK_EQ(out.readToCpu(got.data(), got.size()), hmc::status_t::SUCCESS);
  check_sums<float>(got, me.size, 2);
  outs.close();
  ins.close();
}

namespace {

/// A stream of the test's own, and its device.
struct OnStream {
  explicit OnStream(const ConnBuffer& buffer)
      : provider(*buffer.allocation()->provider), stream(provider.make_stream(buffer.device_id())) {}
  void copy(void* to, const void* from, std::size_t bytes, hmc::memory::Direction direction) {
    HMC_CHECK(provider.copy_async({to, from, bytes, direction}, *stream).ok());
  }
  void synchronize() { HMC_CHECK(stream->synchronize().ok()); }
  const hmc::memory::Provider& provider;
  std::unique_ptr<hmc::memory::Stream> stream;
};

void sum_on(hmc::Team& team, OnStream& on, std::byte* in, std::byte* out, std::size_t count) {
  team.allreduce_on(on.stream->native(), in, out, count, DType::f32, hmc::sum);
}

}  // namespace

// Input, calls and output are all put in before anything has run: every copy on the streams is late.
HMC_SPMD_TEST(device_kernels, allreduces_on_streams_take_what_the_stream_made_and_give_it_what_comes_next) {
  constexpr std::size_t count = 2500, bytes = count * 4, calls = 4;
  ConnBuffer buffer(0, 2 * calls * bytes, cuda(me).type);
  hmc::Team& world = me.runtime->world();
  auto* const at = static_cast<std::byte*>(buffer.ptr);
  OnStream first(buffer), second(buffer);
  if (!has_kernels(me, buffer)) {
    HMC_CHECK_THROWS(hmc::Code::unsupported, sum_on(world, first, at, at, count));
    HMC_CHECK_THROWS(hmc::Code::unsupported, sum_on(world, first, at, at, count));  // and the next is no mess
    return;
  }
  world.barrier_on(first.stream->native(), at);  // makes what calls on streams need
  std::vector<std::vector<std::byte>> inputs, outputs(calls, std::vector<std::byte>(bytes));
  for (std::size_t call = 0; call < calls; ++call)
    inputs.push_back(contribution<float>(me.rank, count, static_cast<int>(call)));
  if (hmc::spmd::drivers_are_fake()) hmc::spmd::Fake("cuda").set_delay_us(3000 + 2000 * me.rank);
  for (std::size_t call = 0; call < calls; ++call) {
    OnStream& on = call % 2 == 0 ? first : second;
    std::byte* const in = at + 2 * call * bytes;
    std::byte* const out = call == 1 ? in : in + bytes;  // once in place
    on.copy(in, inputs[call].data(), bytes, hmc::memory::Direction::host_to_device);
    sum_on(world, on, in, out, count);
    on.copy(outputs[call].data(), out, bytes, hmc::memory::Direction::device_to_host);
  }
  if (hmc::spmd::drivers_are_fake()) HMC_CHECK(first.stream->query().code == hmc::Code::in_progress);
  first.synchronize();
  second.synchronize();
  if (hmc::spmd::drivers_are_fake()) hmc::spmd::Fake("cuda").set_delay_us(0);
  for (std::size_t call = 0; call < calls; ++call) check_sums<float>(outputs[call], me.size, static_cast<int>(call));
  world.barrier();
}

HMC_SPMD_TEST(device_kernels, an_allreduce_on_a_stream_may_be_larger_than_what_it_goes_through) {
  constexpr std::size_t count = (9 << 20) / 4 + 3;
  ConnBuffer buffer(0, count * 4, cuda(me).type);
  if (!has_kernels(me, buffer)) return;
  OnStream on(buffer);
  HMC_CHECK_EQ(buffer.writeFromCpu(contribution<float>(me.rank, count, 1).data(), count * 4), hmc::status_t::SUCCESS);
  sum_on(me.runtime->world(), on, static_cast<std::byte*>(buffer.ptr), static_cast<std::byte*>(buffer.ptr), count);
  on.synchronize();
  std::vector<std::byte> got(count * 4);
  HMC_CHECK_EQ(buffer.readToCpu(got.data(), got.size()), hmc::status_t::SUCCESS);
  check_sums<float>(got, me.size, 1);
  me.runtime->world().barrier();
}

HMC_SPMD_TEST(device_kernels, what_doesnt_match_on_streams_is_found_by_who_calls_next) {
  if (me.size < 2) hmc::spmd::skip("for two ranks");
  ConnBuffer buffer(0, 4096, cuda(me).type);
  if (!has_kernels(me, buffer)) return;
  hmc::Team team = me.runtime->world().duplicate();
  OnStream on(buffer);
  auto* const at = static_cast<std::byte*>(buffer.ptr);
  team.barrier_on(on.stream->native(), at);
  me.runtime->world().barrier();  // who comes late would hear of it in that call
  std::size_t failed = 0;
  for (int call = 0; call < 2; ++call) {
    try {
      if (failed == 0) sum_on(team, on, at, at, me.rank == 0 ? 16 : 17);
    } catch (const hmc::Error& error) {
      HMC_CHECK(error.code() == hmc::Code::mismatch || error.code() == hmc::Code::closed);
      ++failed;
    }
    me.runtime->world().barrier();
  }
  HMC_CHECK_EQ(failed, 1U);
  on.synchronize();  // nobody's stream hangs
  me.runtime->world().barrier();
  team.close();
}

namespace {

/// A rank's driver refuses `call` amid a collective on streams, for which the others' streams wait already.
void fail_within(hmc::spmd::Me& me, const std::string& call) {
  ConnBuffer buffer(0, 1 << 16, cuda(me).type);
  hmc::Team team = me.runtime->world().duplicate();
  auto* const at = static_cast<std::byte*>(buffer.ptr);
  OnStream on(buffer);
  sum_on(team, on, at, at, 1000);
  on.synchronize();
  me.runtime->world().barrier();
  if (me.rank != 0) sum_on(team, on, at, at, 5000);
  me.runtime->world().barrier();
  if (me.rank == 0) {
    const hmc::spmd::Fake fake("cuda");
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
    HMC_CHECK_THROWS(hmc::Code::closed, sum_on(team, on, at, at, 5000));
    HMC_CHECK_THROWS(hmc::Code::closed, team.barrier_on(on.stream->native(), at));
  }
  on.synchronize();
  me.runtime->world().barrier();
  team.close();
}

}  // namespace

HMC_SPMD_TEST(device_kernels, a_driver_that_fails_within_a_call_on_streams_fails_all_that_come_later) {
  if (me.size < 2 || !hmc::spmd::drivers_are_fake()) hmc::spmd::skip("for two ranks on fake drivers");
  ConnBuffer buffer(0, 4096, cuda(me).type);
  if (!has_kernels(me, buffer)) return;
  for (const char* call :
       {"cuStreamWriteValue32_v2", "cuStreamWaitValue32_v2", "cuLaunchKernel", "cuStreamWaitEvent", "cuEventRecord"})
    fail_within(me, call);
}

HMC_SPMD_TEST(device_kernels, where_streams_turn_out_not_to_wait_all_ranks_hear_of_it) {
  if (me.size < 2 || !hmc::spmd::drivers_are_fake()) hmc::spmd::skip("for two ranks on fake drivers");
  ConnBuffer buffer(0, 4096, cuda(me).type);
  if (!has_kernels(me, buffer)) return;
  hmc::Team team = me.runtime->world().duplicate();
  OnStream on(buffer);
  for (const char* call : {"cuStreamWriteValue32_v2", "cuStreamWaitValue32_v2", "cuLaunchKernel"}) {
    if (me.rank == 0) hmc::spmd::Fake("cuda").arm(std::string(call) + ":1");
    me.runtime->world().barrier();
    HMC_CHECK_THROWS(hmc::Code::unsupported, team.barrier_on(on.stream->native(), buffer.ptr));
    me.runtime->world().barrier();
    if (me.rank == 0) hmc::spmd::Fake("cuda").arm("");
  }
  me.runtime->world().barrier();
  team.barrier_on(on.stream->native(), buffer.ptr);
  on.synchronize();
  team.close();
}

HMC_SPMD_TEST(device_kernels, a_buffer_of_another_device_is_refused_before_anybody_hears_of_the_call) {
  if (!hmc::spmd::drivers_are_fake()) hmc::spmd::skip("for two devices");
  ConnBuffer buffer(0, 4096, cuda(me).type), other(1, 4096, cuda(me).type);
  if (!has_kernels(me, buffer)) return;
  hmc::Team team = me.runtime->world().duplicate();
  OnStream on(buffer);
  auto *const here = static_cast<std::byte*>(buffer.ptr), *const there = static_cast<std::byte*>(other.ptr);
  sum_on(team, on, here, here, 100);
  HMC_CHECK_THROWS(hmc::Code::invalid_argument, sum_on(team, on, here, there, 100));
  HMC_CHECK_THROWS(hmc::Code::invalid_argument, sum_on(team, on, there, here, 100));
  HMC_CHECK_THROWS(hmc::Code::invalid_argument, team.barrier_on(on.stream->native(), there));
  sum_on(team, on, here, here, 100);
  on.synchronize();
  team.close();
}

// The last rank closes the team without the call that the others' streams wait for.
HMC_SPMD_TEST(device_kernels, a_stream_that_waits_for_a_rank_that_has_left_goes_on_and_the_close_says_so) {
  if (me.size < 2) hmc::spmd::skip("for two ranks");
  ConnBuffer buffer(0, 4096, cuda(me).type);
  if (!has_kernels(me, buffer)) return;
  hmc::Team team = me.runtime->world().duplicate();
  OnStream on(buffer);
  team.barrier_on(on.stream->native(), buffer.ptr);
  if (me.rank != me.size - 1) team.barrier_on(on.stream->native(), buffer.ptr);
  HMC_CHECK_THROWS(hmc::Code::mismatch, team.close());
  on.synchronize();
  team.close();
}

// As Team::close does it once the ranks have met: a rank that hangs after that never comes.
HMC_SPMD_TEST(device_kernels, closing_waits_for_a_rank_that_never_comes_until_the_deadline) {
  if (me.size < 2) hmc::spmd::skip("for two ranks");
  ConnBuffer buffer(0, 4096, cuda(me).type);
  if (!has_kernels(me, buffer)) return;
  hmc::Team team = me.runtime->world().duplicate();
  OnStream on(buffer);
  team.barrier_on(on.stream->native(), buffer.ptr);
  on.synchronize();
  me.runtime->world().barrier();
  if (me.rank == 0) {
    team.barrier_on(on.stream->native(), buffer.ptr);
    auto& timeout = team.core()->fabric().timeout;
    const auto usual = std::exchange(timeout, std::chrono::milliseconds(200));
    const auto started = std::chrono::steady_clock::now();
    HMC_CHECK_THROWS(hmc::Code::timeout, team.core()->collectives->close());
    HMC_CHECK(std::chrono::steady_clock::now() - started < std::chrono::seconds(30));
    timeout = usual;
    on.synchronize();
  }
  me.runtime->world().barrier();
  if (me.rank != 0) HMC_CHECK_THROWS(hmc::Code::closed, team.barrier_on(on.stream->native(), buffer.ptr));
  me.runtime->world().barrier();
}

// Nobody comes to close: the object that goes lets its streams go on, and its memory is not unmapped under them.
HMC_SPMD_TEST(device_kernels, a_team_that_goes_unclosed_lets_its_streams_go_on) {
  if (me.size < 2) hmc::spmd::skip("for two ranks");
  ConnBuffer buffer(0, 4096, cuda(me).type);
  if (!has_kernels(me, buffer)) return;
  OnStream on(buffer);
  {
    hmc::Team team = me.runtime->world().duplicate();
    team.barrier_on(on.stream->native(), buffer.ptr);
    on.synchronize();
    me.runtime->world().barrier();
    if (me.rank == 0) team.barrier_on(on.stream->native(), buffer.ptr);
    me.runtime->world().barrier();
  }
  on.synchronize();
  me.runtime->world().barrier();
}

HMC_SPMD_TEST(user_context, what_a_rank_sets_is_read_by_all) {
  hmc::Team& world = me.runtime->world();
  hmc::Window window = hmc::Window::create(world, 100);
  std::vector<std::byte> out(hmc::Window::context_bytes);
  HMC_CHECK_THROWS(hmc::Code::invalid_argument, window.get_context(0, 0, out.data(), 1));
  window.open_context(world);
  HMC_CHECK_THROWS(hmc::Code::invalid_argument, window.open_context(world));
  for (int round = 0; round < 3; ++round) {
    const auto pattern = [&](int rank) {
      return hmc::spmd::made({rank, static_cast<std::uint64_t>(round)}, hmc::Window::context_bytes);
    };
    window.set_context(0, pattern(me.rank).data(), hmc::Window::context_bytes);
    world.barrier();
    for (int rank = 0; rank < me.size; ++rank) {
      window.get_context(rank, 0, out.data(), out.size());
      HMC_CHECK(out == pattern(rank));
    }
    window.get_context(me.next(), 65'000, out.data(), 536);
    HMC_CHECK(std::memcmp(out.data(), pattern(me.next()).data() + 65'000, 536) == 0);
    world.barrier();
  }
  HMC_CHECK_THROWS(hmc::Code::out_of_range, window.set_context(65'536, out.data(), 1));
  window.close();
}
