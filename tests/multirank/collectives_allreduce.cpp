// allreduce: every type and operation, every buffer placement, small and large.
#include <chrono>
#include <cmath>

#include "tests/multirank/collectives_support.hpp"

namespace {

using hmc::DType;
using hmc::Op;
using namespace hmc::spmd;

using hmc::collectives::with_type;

constexpr std::size_t small_counts[] = {0, 1, 7, 8, 12, 13, 1000, 4095, 4097};

Placing uniform(bool in_window, bool out_window, bool in_place, std::size_t shift) {
  return {in_window, out_window, in_place, shift, shift};
}

}  // namespace

HMC_SPMD_TEST(Allreduce, every_type_is_combined_with_every_operation) {
  Grounds grounds(me, 4097 * 8);
  std::uint64_t call = 0;
  for (const DType type : hmc::collectives::all_types) {
    for (const Op op : hmc::collectives::all_ops) {
      if (!is_defined(type, op)) continue;
      with_type(type, [&](auto zero) {
        using T = decltype(zero);
        for (const std::size_t count : small_counts) {
          ++call;
          check_allreduce<T>(me, grounds, Placing::any(me.rank, call, sizeof(T)), count, op, call);
        }
      });
    }
  }
  grounds.close();
}

HMC_SPMD_TEST(Allreduce, buffers_may_be_at_any_address) {
  Grounds grounds(me, 100'000 * 4);
  std::uint64_t call = 1000;
  for (const std::size_t count : {std::size_t{13}, std::size_t{1000}, std::size_t{4097}, std::size_t{100'000}}) {
    for (const std::size_t shift : {std::size_t{0}, std::size_t{4}, std::size_t{1}}) {
      for (const bool in_window : {false, true}) {
        for (const bool out_window : {false, true})
          check_allreduce<float>(me, grounds, uniform(in_window, out_window, false, shift), count, hmc::sum, ++call);
        check_allreduce<float>(me, grounds, uniform(in_window, false, true, shift), count, hmc::sum, ++call);
      }
      for (int mixed = 0; mixed < 4; ++mixed) {
        ++call;
        check_allreduce<float>(me, grounds, Placing::any(me.rank, call, 4), count, hmc::max, call);
      }
    }
  }
  grounds.close();
}

HMC_SPMD_TEST(Allreduce, odd_counts_of_large_buffers_are_correct) {
  constexpr std::size_t longest = (std::size_t{4} << 20) + 7;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr std::size_t sizes[] = {longest};  // a sanitizer takes a second per buffer
#else
  constexpr std::size_t sizes[] = {(std::size_t{1} << 20) - 4096, (std::size_t{1} << 20) + 12, longest};
#endif
  Grounds grounds(me, longest);
  std::uint64_t call = 2000;
  for (const std::size_t bytes : sizes) {
    check_allreduce<float>(me, grounds, uniform(true, true, false, 0), bytes / 4, hmc::sum, ++call);
    check_allreduce<float>(me, grounds, uniform(false, false, true, 0), bytes / 4, hmc::sum, ++call);
    check_allreduce<std::int8_t>(me, grounds, uniform(false, false, false, 1), bytes, hmc::bxor, ++call);
    for (int mixed = 0; mixed < 3; ++mixed) {
      ++call;
      check_allreduce<double>(me, grounds, Placing::any(me.rank, call, 8), bytes / 8, hmc::avg, call);
    }
  }
  grounds.close();
}

HMC_SPMD_TEST(Allreduce, all_ranks_have_the_same_bits) {
  // These sums depend on the order of addition: all ranks must use the same order.
  for (const std::size_t count : {std::size_t{3}, std::size_t{1001}, std::size_t{50'001}}) {
    std::vector<float> in(count), out(count), all(count * static_cast<std::size_t>(me.size));
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t bits = Pattern{me.rank, count}.word(i);
      in[i] = std::ldexp(static_cast<float>(static_cast<std::int64_t>(bits)), static_cast<int>(bits % 12) - 63);
    }
    me.runtime->world().allreduce(in, out, hmc::sum);
    me.runtime->world().allgather(out, all);
    for (int rank = 0; rank < me.size; ++rank)
      HMC_CHECK_EQ(std::memcmp(all.data() + static_cast<std::size_t>(rank) * count, out.data(), count * 4), 0);
    // They must also be close to the true sum: n - 1 additions, each with an error of at most half a unit of a partial
    // sum.
    std::vector<float> inputs(all.size());
    me.runtime->world().allgather(in, inputs);
    for (std::size_t i = 0; i < count; ++i) {
      double sum = 0, magnitude = 0;
      for (std::size_t rank = 0; rank < static_cast<std::size_t>(me.size); ++rank) {
        sum += static_cast<double>(inputs[rank * count + i]);
        magnitude += std::abs(static_cast<double>(inputs[rank * count + i]));
      }
      HMC_CHECK_LE(std::abs(static_cast<double>(out[i]) - sum), magnitude * me.size * 0x1p-24);
    }
  }
}

HMC_SPMD_TEST(Allreduce, half_floats_are_summed_in_float) {
  // 16-bit accumulation would lose every 1: 2048 + 1 is 2048 in f16, and 256 + 1 is 256 in bf16.
  for (const std::size_t count : {std::size_t{5}, std::size_t{20'000}}) {
    std::vector<hmc::float16> half(count, hmc::float16(me.rank == 0 ? 2048.0F : 1.0F));
    me.runtime->world().allreduce(half, half, hmc::sum);
    std::vector<hmc::bfloat16> brain(count, hmc::bfloat16(me.rank == 0 ? 256.0F : 1.0F));
    me.runtime->world().allreduce(brain, brain, hmc::sum);
    const auto others = static_cast<float>(me.size - 1);
    for (std::size_t i = 0; i < count; ++i) {
      HMC_CHECK_EQ(half[i].bits, hmc::float16(2048.0F + others).bits);
      HMC_CHECK_EQ(brain[i].bits, hmc::bfloat16(256.0F + others).bits);
    }
  }
}

HMC_SPMD_TEST(Allreduce, nan_and_infinity_are_propagated) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const std::size_t count : {std::size_t{9}, std::size_t{10'000}}) {
    for (const Op op : {hmc::sum, hmc::min, hmc::max, hmc::avg}) {
      std::vector<float> in(count, static_cast<float>(me.rank)), out(count);
      const std::size_t nan_at = static_cast<std::size_t>(me.rank), infinity_at = count - 1;
      in[nan_at] = -std::numeric_limits<float>::quiet_NaN();
      if (me.rank == me.size - 1) in[infinity_at] = infinity;
      me.runtime->world().allreduce(in, out, op);
      for (std::size_t i = 0; i < count; ++i) {
        if (i < static_cast<std::size_t>(me.size)) {
          HMC_CHECK_EQ(std::bit_cast<std::uint32_t>(out[i]), 0x7fc00000U);
        } else if (i == infinity_at) {
          HMC_CHECK_EQ(out[i], op == hmc::min && me.size > 1 ? 0.0F : infinity);
        } else {
          HMC_CHECK(std::isfinite(out[i]));
        }
      }
    }
  }
}

HMC_SPMD_TEST(Allreduce, counters_have_staged_bytes) {
  if (!all_direct(me)) skip("some pair of ranks shares no memory");
  constexpr std::size_t count = 100'000;
  Grounds grounds(me, count * 4);
  const auto counted = [&](const Placing& place) {
    const hmc::Counters before = me.runtime->counters();
    check_allreduce<float>(me, grounds, place, count, hmc::sum, 5);
    const hmc::Counters after = me.runtime->counters();
    return std::pair(after.buffers_in_place - before.buffers_in_place, after.buffers_staged - before.buffers_staged);
  };
  using Two = std::pair<std::uint64_t, std::uint64_t>;
  HMC_CHECK(counted(uniform(true, true, false, 0)) == Two(2, 0));
  HMC_CHECK(counted(uniform(false, false, false, 0)) == Two(0, 2));
  HMC_CHECK(counted(uniform(true, false, false, 4)) == Two(1, 1));
  HMC_CHECK(counted(uniform(false, true, false, 4)) == Two(1, 1));
  HMC_CHECK(counted(uniform(true, true, true, 0)) == Two(2, 0));
  grounds.close();
}

HMC_SPMD_TEST(Allreduce, memory_of_any_open_window_is_used_in_place) {
  // Several windows of different sizes are open, input and output are in different windows, and one window is closed.
  hmc::Team& world = me.runtime->world();
  constexpr std::size_t count = 5000;
  hmc::Window a = hmc::Window::create(world, count * 8);
  hmc::ConnBuffer buffer(0, count * 8 + 4096 * static_cast<std::size_t>(me.rank), hmc::MemoryType::CPU);
  hmc::Window b = hmc::Window::create(world, buffer);
  for (int round = 0; round < 2; ++round) {
    auto* const in = a.local<std::uint64_t>();
    auto* const out = reinterpret_cast<std::uint64_t*>(buffer.ptr);
    for (std::size_t i = 0; i < count; ++i) in[i] = i * static_cast<std::size_t>(me.rank + 1 + round);
    world.allreduce(in, out, count, DType::u64, hmc::sum);
    const auto n = static_cast<std::uint64_t>(me.size);
    for (std::size_t i = 0; i < count; ++i)
      HMC_CHECK_EQ(out[i], i * (n * (n + 1) / 2 + n * static_cast<std::uint64_t>(round)));
    if (round == 0) b.close();  // its memory is now private memory
  }
  a.close();
}

HMC_SPMD_TEST(Allreduce, invalid_arguments_are_rejected_and_the_team_continues) {
  hmc::Team& world = me.runtime->world();
  float x = 1, y = 0;
  HMC_CHECK_THROWS(hmc::Code::invalid_argument, world.allreduce(&x, &y, 1, DType::f32, hmc::band));
  HMC_CHECK_THROWS(hmc::Code::invalid_argument, world.allreduce(nullptr, &y, 1, DType::f32, hmc::sum));
  HMC_CHECK_THROWS(hmc::Code::invalid_argument, world.allreduce(&x, nullptr, 1, DType::f32, hmc::sum));
  HMC_CHECK_THROWS(hmc::Code::invalid_argument, world.allreduce(&x, &y, SIZE_MAX / 2, DType::f32, hmc::sum));
  HMC_CHECK_THROWS(hmc::Code::invalid_argument, world.allreduce(&x, &y, 1, DType::f32, {nullptr, nullptr}));
  HMC_CHECK_THROWS(hmc::Code::bad_rank, world.broadcast(&x, 4, me.size));
  HMC_CHECK_THROWS(hmc::Code::bad_rank, world.broadcast(&x, 4, -1));
  HMC_CHECK_THROWS(hmc::Code::invalid_argument, world.allgather(&x, nullptr, 4));
  world.allreduce(nullptr, nullptr, 0, DType::f32, hmc::sum);
  world.broadcast(nullptr, 0, 0);
  world.allgather(nullptr, nullptr, 0);
  world.allreduce(&x, &y, 1, DType::f32, hmc::sum);
  HMC_CHECK_EQ(y, static_cast<float>(me.size));
}
