// reduce, reduce_scatter, scan and exscan in device windows, performed by the devices. The result must equal the host
// kernels' bit for bit.
#include <cstring>
#include <functional>
#include <numeric>

#include "collectives/node/direct_team.hpp"
#include "collectives/reduce/reduce.hpp"
#include "tests/multirank/device_kernels.hpp"
#include "tests/multirank/device_names.hpp"

namespace {

using hmc::DType;
using hmc::size_of;
using hmc::Team;
using hmc::spmd::cuda;
using hmc::spmd::has_kernels;

using Bytes = std::vector<std::byte>;
using Counts = std::vector<std::size_t>;

/// Inputs of up to one slot are reduced through the slot, in host memory.
constexpr std::size_t slot_bytes = hmc::collectives::slot_bytes;

/// A reduction: all ranks' inputs and the expected result.
struct Work {
  DType type;
  Op op;
  std::uint64_t call;

  std::size_t element() const { return size_of(type); }
  Bytes input(int rank, std::size_t count) const { return made({rank, call}, count * element()); }
  /// The result over the first `ranks` ranks, whose inputs have `whole` elements: `count` elements starting at `from`.
  Bytes result(int ranks, std::size_t whole, std::size_t from, std::size_t count) const {
    std::vector<Bytes> inputs;
    std::vector<const void*> ins;
    for (int rank = 0; rank < ranks; ++rank) inputs.push_back(input(rank, whole));
    for (const Bytes& each : inputs) ins.push_back(each.data() + from * element());
    Bytes out(count * element());
    void* const to = out.data();
    hmc::collectives::reduce_kernel(type, op)(&to, 1, ins.data(), ranks, count);
    return out;
  }
};

/// A window's part: the input at its start, the output after it.
struct Part {
  static constexpr std::size_t half = 1 << 18;
  Part(TestRank& me, MemoryKind of) : rank(me), kind(of), mixed(me, of, 2 * half), counters(me) {}
  std::byte* in() const { return static_cast<std::byte*>(mixed.buffer.ptr); }
  std::byte* out() const { return in() + half; }
  void give(const Work& work, std::size_t count) { mixed.write(0, work.input(rank.rank, count)); }
  void check(const Bytes& expected, const char* what, bool in_place = false) const {
    const Bytes got = mixed.bytes(in_place ? 0 : half, expected.size());
    const auto wrong = std::mismatch(got.begin(), got.end(), expected.begin()).first - got.begin();
    HMC_CHECK_MSG(got == expected, "{}: byte {} of {} is wrong", what, wrong, expected.size());
  }
  /// Checks that devices performed `calls` reductions since the last check.
  void check_on_device(std::uint64_t calls) {
    const std::uint64_t now = rank.runtime->counters().reduced_on_device;
    HMC_CHECK_EQ(now - counters.before, has_kernels(rank, mixed.buffer) ? calls : 0);
    counters.before = now;
  }
  void close() {
    rank.runtime->world().barrier();
    mixed.window.close();
  }

  TestRank& rank;
  MemoryKind kind;
  Mixed mixed;
  struct Counters {
    explicit Counters(TestRank& me) : before(me.runtime->counters().reduced_on_device) {}
    std::uint64_t before;
  } counters;
};

void reduce_and_check(TestRank& me, Part& part, const Work& work, std::size_t count, int root) {
  me.runtime->world().reduce(part.in(), part.out(), count, work.type, work.op, root);
  if (me.rank == root) part.check(work.result(me.size, count, 0, count), "reduce");
}
void scatter_and_check(TestRank& me, Part& part, const Work& work, std::size_t block) {
  const auto size = static_cast<std::size_t>(me.size), rank = static_cast<std::size_t>(me.rank);
  me.runtime->world().reduce_scatter(part.in(), part.out(), block, work.type, work.op);
  part.check(work.result(me.size, block * size, rank * block, block), "reduce_scatter");
}
/// Only for integers: between nodes the first rank's scan copies its input, with any NaNs unchanged.
void scan_and_check(TestRank& me, Part& part, const Work& work, std::size_t count) {
  me.runtime->world().scan(part.in(), part.out(), count, work.type, work.op);
  part.check(work.result(me.rank + 1, count, 0, count), "scan");
  const Bytes before(count * work.element(), std::byte{0x5A});
  part.mixed.write(Part::half, before);
  me.runtime->world().exscan(part.in(), part.out(), count, work.type, work.op);
  part.check(me.rank == 0 ? before : work.result(me.rank, count, 0, count), "exscan");
}

void for_each_vendor(TestRank& me, const std::function<void(Part&)>& body) {
  for (const MemoryKind& kind : hmc::spmd::kinds_of(me)) {
    if (kind.name != "cuda" && kind.name != "hip") continue;
    Part part(me, kind);
    body(part);
    part.close();
  }
}

}  // namespace

HMC_SPMD_TEST(DeviceReductions, devices_reduce_every_type_and_operation_with_host_results) {
  for_each_vendor(me, [&](Part& part) {
    for (int type = 0; type < hmc::dtype_count; ++type) {
      const Work work{static_cast<DType>(type), Op::sum, static_cast<std::uint64_t>(type)};
      const std::size_t block = slot_bytes / work.element() / static_cast<std::size_t>(me.size) + 3;
      const std::size_t count = block * static_cast<std::size_t>(me.size);
      part.give(work, count);
      std::uint64_t calls = 0;
      for (int op = 0; op < hmc::op_count; ++op) {
        const Work now{work.type, static_cast<Op>(op), work.call};
        if (hmc::collectives::reduce_kernel(now.type, now.op) == nullptr) continue;
        reduce_and_check(me, part, now, count, (type + op) % me.size);
        scatter_and_check(me, part, now, block);
        calls += 2;
      }
      if (work.type == DType::i32 || work.type == DType::u8) {
        scan_and_check(me, part, work, count);
        calls += 2;
      }
      part.check_on_device(calls);
    }
  });
}

// Sizes around the slot's size and around the borders of slices.
HMC_SPMD_TEST(DeviceReductions, sizes_around_every_threshold_are_correct) {
  const auto size = static_cast<std::size_t>(me.size);
  for_each_vendor(me, [&](Part& part) {
    for (const DType type : {DType::i32, DType::u8, DType::f64}) {
      Work work{type, Op::sum, 40};
      const std::size_t slot = slot_bytes / work.element();  // also the border of slices
      std::vector<std::size_t> counts{1, 3, slot - 1, slot, slot + 1, slot * size - 1, slot * size, slot * size + 1};
      if (work.element() == 4) counts.push_back(20'001);
      for (const std::size_t count : counts) {
        ++work.call;
        part.give(work, count);
        for (int root = 0; root < std::min(me.size, 2); ++root) {
          reduce_and_check(me, part, work, count, me.size - 1 - root);
          part.check_on_device(count * work.element() > slot_bytes ? 1 : 0);
        }
        if (!hmc::is_float(type)) {
          scan_and_check(me, part, work, count);
          part.check_on_device(count * work.element() > slot_bytes ? 2 : 0);
        }
        const std::size_t block = (count + size - 1) / size;
        part.give(work, block * size);
        scatter_and_check(me, part, work, block);
        part.check_on_device(block * work.element() > slot_bytes / size ? 1 : 0);
      }
    }
  });
}

HMC_SPMD_TEST(DeviceReductions, uneven_counts_and_empty_blocks_are_correct) {
  const auto size = static_cast<std::size_t>(me.size), rank = static_cast<std::size_t>(me.rank);
  for_each_vendor(me, [&](Part& part) {
    Work work{DType::i16, Op::max, 70};
    std::vector<Counts> all(3, Counts(size));
    for (std::size_t i = 0; i < size; ++i) {
      all[0][i] = i % 3 == 1 ? 0 : 2051 + 37 * i;
      all[1][i] = i + 1 == size ? 5000 : 0;
      all[2][i] = i == 0 ? 4099 : 1;
    }
    for (const Counts& counts : all) {
      ++work.call;
      const std::size_t whole = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
      const std::size_t from = std::accumulate(counts.begin(), counts.begin() + me.rank, std::size_t{0});
      part.give(work, whole);
      part.mixed.write(Part::half, Bytes(64, std::byte{0x77}));
      // A rank that receives nothing needs no buffer.
      me.runtime->world().reduce_scatterv(part.in(), counts[rank] > 0 ? part.out() : nullptr, counts, work.type,
                                          work.op);
      part.check(counts[rank] > 0 ? work.result(me.size, whole, from, counts[rank]) : Bytes(64, std::byte{0x77}),
                 "reduce_scatterv");
      part.check_on_device(1);
    }
  });
}

// In place at the root. If the root's output is in another window, its device performs the whole reduction.
HMC_SPMD_TEST(DeviceReductions, roots_reduce_in_place_and_into_their_own_windows) {
  constexpr std::size_t count = 9001;
  for_each_vendor(me, [&](Part& part) {
    Mixed other(me, part.kind, count * 4);
    Work work{DType::f32, Op::prod, 90};
    for (int root = 0; root < me.size; ++root) {
      ++work.call;
      part.give(work, count);
      const bool is_root = me.rank == root;
      Team& world = me.runtime->world();
      world.reduce(part.in(), other.buffer.ptr, count, work.type, work.op, root);
      const Bytes expected = work.result(me.size, count, 0, count);
      if (is_root) HMC_CHECK(other.bytes(0, count * 4) == expected);
      part.check_on_device(1);
      world.reduce(part.in(), is_root ? part.in() : nullptr, count, work.type, work.op, root);
      part.check(is_root ? expected : work.input(me.rank, count), "reduce in place", true);
      part.check_on_device(1);
    }
    me.runtime->world().barrier();
    other.window.close();
  });
}

// One rank's buffers are in host memory or outside windows: its peers' devices stay idle in this call.
HMC_SPMD_TEST(DeviceReductions, hosts_reduce_if_one_device_cannot) {
  const auto size = static_cast<std::size_t>(me.size), rank = static_cast<std::size_t>(me.rank);
  const std::size_t block = 3001, count = block * size;
  Part part(me, cuda(me));
  ConnBuffer alone(0, 2 * count * 4, cuda(me).type);
  Bytes host(2 * count * 4);
  Team& world = me.runtime->world();
  for (int round = 0; round < 2 * me.size; ++round) {
    const Work work{DType::i32, Op::sum, 120 + static_cast<std::uint64_t>(round)};
    const bool is_odd_one = me.rank == round % me.size, on_host = is_odd_one && round >= me.size;
    part.give(work, count);
    std::byte *in = part.in(), *out = part.out();
    if (is_odd_one) {
      in = on_host ? host.data() : static_cast<std::byte*>(alone.ptr);
      out = in + count * 4;
      const Bytes mine = work.input(me.rank, count);
      if (on_host) std::memcpy(in, mine.data(), mine.size());
      if (!on_host) HMC_CHECK_EQ(alone.writeFromCpu(mine.data(), mine.size()), hmc::status_t::SUCCESS);
    }
    const auto check = [&](const Bytes& expected, const char* what) {
      Bytes got(expected.size());
      if (on_host) std::memcpy(got.data(), out, got.size());
      if (is_odd_one && !on_host)
        HMC_CHECK_EQ(alone.readToCpu(got.data(), got.size(), count * 4), hmc::status_t::SUCCESS);
      if (is_odd_one) HMC_CHECK_MSG(got == expected, "{} in round {}", what, round);
      if (!is_odd_one) part.check(expected, what);
    };
    const int root = (round / 2) % me.size;
    world.reduce(in, out, count, work.type, work.op, root);
    if (me.rank == root) check(work.result(me.size, count, 0, count), "reduce");
    world.reduce_scatter(in, out, block, work.type, work.op);
    check(work.result(me.size, count, rank * block, block), "reduce_scatter");
    world.scan(in, out, count, work.type, work.op);
    check(work.result(me.rank + 1, count, 0, count), "scan");
    part.check_on_device(0);
  }
  part.close();
}

// The result overwrites data that other ranks read: the hosts stage it.
HMC_SPMD_TEST(DeviceReductions, in_place_calls_except_reduce_use_the_host) {
  const auto size = static_cast<std::size_t>(me.size), rank = static_cast<std::size_t>(me.rank);
  const std::size_t block = 2001, count = block * size;
  for_each_vendor(me, [&](Part& part) {
    const Work work{DType::u32, Op::bxor, 150};
    part.give(work, count);
    me.runtime->world().reduce_scatter(part.in(), part.in(), block, work.type, work.op);
    part.check(work.result(me.size, count, rank * block, block), "reduce_scatter in place", true);
    part.give(work, count);
    me.runtime->world().scan(part.in(), part.in(), count, work.type, work.op);
    part.check(work.result(me.rank + 1, count, 0, count), "scan in place", true);
    part.check_on_device(0);
  });
}

HMC_SPMD_TEST(DeviceReductions, no_byte_is_copied_through_the_host) {
  if (!hmc::spmd::drivers_are_fake() || !me.options.processes) hmc::spmd::skip("for a fake driver of each rank's own");
  const auto size = static_cast<std::size_t>(me.size);
  Part part(me, cuda(me));
  if (!has_kernels(me, part.mixed.buffer)) return part.close();
  const Fake fake("cuda");
  const Work work{DType::f32, Op::sum, 200};
  const std::size_t block = 5000, count = block * size;
  part.give(work, count);
  Team& world = me.runtime->world();
  const std::function<void()> calls[] = {
      [&] { world.reduce(part.in(), part.out(), count, work.type, work.op, 0); },
      [&] { world.reduce_scatter(part.in(), part.out(), block, work.type, work.op); },
      [&] { world.reduce_scatterv(part.in(), part.out(), Counts(size, block), work.type, work.op); },
      [&] { world.scan(part.in(), part.out(), count, work.type, work.op); }};
  for (const auto& call : calls) {
    world.barrier();
    fake.arm("");
    call();
    HMC_CHECK_EQ(fake.times("cuLaunchKernel"), 1);
    for (const std::string& name : fake.seen())
      HMC_CHECK_MSG(name.find("cuMemcpy") == std::string::npos, "{} was called", name);
    world.barrier();
  }
  part.close();
}

HMC_SPMD_TEST(DeviceReductions, mismatch_is_detected_before_a_kernel_runs) {
  if (me.size < 2) hmc::spmd::skip("for two ranks");
  for_each_vendor(me, [&](Part& part) {
    if (!has_kernels(me, part.mixed.buffer)) return;  // on the host path a rank that only sends may have left
    Team team = me.runtime->world().duplicate();
    const Work work{DType::f32, Op::sum, 250};
    part.give(work, 20'000);
    me.runtime->world().barrier();  // all ranks have created the team
    const std::size_t count = me.rank == 0 ? 6000 : 6001;
    HMC_CHECK_THROWS(Code::mismatch, team.reduce(part.in(), part.out(), count, work.type, work.op, 0));
    part.check_on_device(0);
  });
}

// A rank's driver rejects the kernel while the others wait for it: all ranks get an error, and no resource is leaked.
HMC_SPMD_TEST(DeviceReductions, driver_failure_ends_the_call_on_all_ranks) {
  if (!hmc::spmd::drivers_are_fake() || !me.options.processes) hmc::spmd::skip("for a fake driver of each rank's own");
  const auto size = static_cast<std::size_t>(me.size);
  const Fake fake("cuda");
  const std::size_t block = 5000, count = block * size;
  for (int which = 0; which < 3; ++which) {
    // Two rounds: the first creates resources that are kept.
    long live = 0;
    for (int round = 0; round < 2; ++round) {
      live = fake.live();
      {
        Part part(me, cuda(me));
        if (!has_kernels(me, part.mixed.buffer)) return part.close();
        Team team = me.runtime->world().duplicate();
        me.runtime->world().barrier();  // all ranks have created it
        const bool fails = me.rank == which % me.size;
        if (fails) fake.arm("cuLaunchKernel:1:719");
        const auto call = [&]() -> std::string {
          try {
            if (which == 0) team.reduce(part.in(), part.out(), count, DType::f32, Op::sum, 0);
            if (which == 1) team.reduce_scatter(part.in(), part.out(), block, DType::f32, Op::sum);
            if (which == 2) team.scan(part.in(), part.out(), count, DType::f32, Op::sum);
            return "";
          } catch (const Error& error) {
            return error.what();
          }
        };
        const std::string text = call();
        fake.arm("");
        HMC_CHECK_MSG(!text.empty(), "rank {} got no error", me.rank);
        if (fails) HMC_CHECK_MSG(text.find("cuLaunchKernel") != std::string::npos, "{}", text);
        if (!fails) HMC_CHECK_MSG(text.find(fmt::format("peer {}", which % me.size)) != std::string::npos, "{}", text);
        HMC_CHECK(!call().empty());  // the team has failed
        part.close();
      }
      me.runtime->world().barrier();
    }
    HMC_CHECK_EQ(fake.live(), live);
  }
}
