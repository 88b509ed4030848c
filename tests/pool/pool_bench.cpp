// Measures pools; not a test:
//   pool_bench --fork 2 [--nodes 2] copies       beside memcpy
//   pool_bench --fork 2 --nodes 2 beside_ucx     beside ucp_put_nbx over TCP
//   pool_bench --fork 2 --nodes 2 device_parts   beside messages over the store
//   pool_bench --fork 9 join
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include "members.hpp"
#ifdef HMC_HAVE_UCX
#include "ucx_put.hpp"
#endif

namespace hmc::test {
namespace {

using Clock = std::chrono::steady_clock;

/// The fastest of several rounds, in microseconds.
double fastest_us(int rounds, const std::function<void()>& work) {
  double best = 1e30;
  for (int i = 0; i < rounds; ++i) {
    const auto start = Clock::now();
    work();
    best = std::min(best, std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  return best;
}

constexpr std::size_t part_bytes = std::size_t{64} << 20;

Pool joined(Process& me) {
  PoolOptions options;
  options.name = me.new_name();
  options.most_members = me.size();
  options.rank = me.rank();
  options.host_bytes = part_bytes;
  Pool pool = Pool::create(me.store(), options);
  (void)pool.join();
  me.barrier();
  return pool;
}

void copies(Process& me) {
  Pool pool = joined(me);
  if (me.rank() == 0) {
    auto* const there = static_cast<std::byte*>(pool.address(me.size() - 1, PoolPart::host));
    std::vector<std::byte> from(part_bytes, std::byte{1}), to(part_bytes, std::byte{2});
    std::printf("path: %s\n%10s %12s %12s %12s %8s\n", pool.path(me.size() - 1, PoolPart::host).why.c_str(), "bytes",
                "memcpy us", "put us", "get us", "ratio");
    for (std::size_t bytes = 8; bytes <= part_bytes; bytes *= 8) {
      const int rounds = bytes <= 4096 ? 2000 : 15;
      const double local = fastest_us(rounds, [&] { std::memcpy(to.data(), from.data(), bytes); });
      const double put = fastest_us(rounds, [&] { pool.copy(there, from.data(), bytes); });
      const double get = fastest_us(rounds, [&] { pool.copy(to.data(), there, bytes); });
      std::printf("%10zu %12.2f %12.2f %12.2f %8.2f\n", bytes, local, put, get, local / std::max(put, get));
    }
    std::vector<PoolCopy> pieces;
    std::size_t at = 0;
    for (const std::size_t bytes : {std::size_t{128} << 10, std::size_t{16} << 10})
      for (int i = 0; i < 61; ++i, at += bytes) pieces.push_back({there + at, from.data() + at, bytes});
    const double one = fastest_us(50, [&] { pool.copy(there, from.data(), at); });
    const double batch = fastest_us(50, [&] { pool.copy_batch(pieces); });
    std::printf("%zu bytes: one copy %.1f us, a batch of %zu pieces %.1f us: %.3f\n", at, one, pieces.size(), batch,
                batch / one);
  }
  me.barrier();
}

#ifdef HMC_HAVE_UCX
/// The last process progresses UCX only while the first one measures it.
void serve_ucx(UcxPut& ucx, std::byte* word) {
  // Relaxed: it orders no data.
  const std::atomic_ref<std::uint64_t> shared(*reinterpret_cast<std::uint64_t*>(word));
  for (std::uint64_t phase = 0; phase != 2; phase = shared.load(std::memory_order_relaxed)) {
    if (phase == 1)
      ucx.progress();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

void beside_ucx(Process& me) {
  Pool pool = joined(me);
  UcxPut ucx(me, part_bytes);
  auto* const there = static_cast<std::byte*>(pool.address(me.size() - 1, PoolPart::host));
  std::byte* const phase_at = there + part_bytes - sizeof(std::uint64_t);
  std::vector<std::byte> from(part_bytes / 2);
  spmd::Pattern{0, 1}.fill(from);
  if (me.rank() == me.size() - 1) serve_ucx(ucx, phase_at);
  if (me.rank() == 0) {
    const auto enter = [&](std::uint64_t phase) { pool.copy(phase_at, &phase, sizeof phase); };
    const auto measure = [&](const char* name, const std::vector<std::size_t>& sizes) {
      std::vector<PoolCopy> pieces;
      std::vector<UcxPut::Piece> puts;
      std::size_t at = 0;
      for (const std::size_t bytes : sizes) {
        pieces.push_back({there + at, from.data() + at, bytes});
        puts.push_back({at, from.data() + at, bytes});
        at += bytes;
      }
      std::vector<double> ours, theirs, ratios;
      for (int round = 0; round < 31; ++round) {
        ours.push_back(fastest_us(5, [&] { pool.copy_batch(pieces); }));
        enter(1);
        theirs.push_back(fastest_us(5, [&] { ucx.put(puts); }));
        enter(0);
        ratios.push_back(ours.back() / theirs.back());
      }
      const auto median = [](std::vector<double>& of) {
        std::nth_element(of.begin(), of.begin() + 15, of.end());
        return of[15];
      };
      std::printf("%-20s %12.1f %12.1f %8.2f\n", name, median(ours), median(theirs), median(ratios));
    };
    std::printf("%s, medians of 31 rounds\n%-20s %12s %12s %8s\n", pool.path(me.size() - 1, PoolPart::host).why.c_str(),
                "bytes", "pool us", "ucp_put us", "ratio");
    measure("64 KiB", {64 << 10});
    measure("1 MiB", {1 << 20});
    measure("16 MiB", {16 << 20});
    std::vector<std::size_t> block(61, 128 << 10);
    block.resize(122, 16 << 10);
    measure("122 pieces", block);
    measure("their sum, one copy", {61 * (144 << 10)});
    enter(2);
  }
  me.barrier();
  if (me.rank() == me.size() - 1) {
    check_pattern({0, 1}, there, 16 << 20);
    check_pattern({0, 1}, ucx.memory().data(), 16 << 20);
  }
  me.barrier();
}
#endif

/// A device part (in host memory, if there is no accelerator) by the best way and by messages over the store.
void device_parts(Process& me) {
  std::vector<Pool> pools;
  for (const char* const rules : {"", "*:staged:*"}) {
    PoolOptions options;
    options.name = me.new_name();
    options.most_members = me.size();
    options.rank = me.rank();
    options.device_bytes = part_bytes;
    options.rules = rules;
    pools.push_back(Pool::create(me.store(), options));
    (void)pools.back().join();
  }
  me.barrier();
  if (me.rank() == 0) {
    std::vector<std::byte> data(part_bytes / 4);
    for (const Pool& each : pools)
      std::printf("%s: %s\n", name_of(each.path(me.size() - 1, PoolPart::device).way),
                  each.path(me.size() - 1, PoolPart::device).why.c_str());
    std::printf("%10s %12s %12s %12s %12s  us, fastest of 15\n", "bytes", "put", "get", "staged put", "staged get");
    for (const std::size_t bytes :
         {std::size_t{64}, std::size_t{64} << 10, std::size_t{1} << 20, std::size_t{16} << 20}) {
      std::printf("%10zu", bytes);
      for (Pool& each : pools) {
        void* const there = each.address(me.size() - 1, PoolPart::device);
        std::printf(" %12.1f", fastest_us(15, [&] { each.copy(there, data.data(), bytes); }));
        std::printf(" %12.1f", fastest_us(15, [&] { each.copy(data.data(), there, bytes); }));
      }
      std::printf("\n");
    }
  }
  me.barrier();
}

/// The last process joins and leaves a pool of the others.
void join(Process& me) {
  PoolOptions options;
  options.name = me.new_name();
  options.most_members = me.size();
  options.host_bytes = std::size_t{4} << 20;
  const bool is_last = me.rank() == me.size() - 1;
  Pool pool = Pool::create(me.store(), options);
  if (!is_last) (void)pool.join();
  me.barrier();
  if (is_last) {
    std::vector<double> us;
    for (int i = 0; i < 50; ++i) {
      const auto start = Clock::now();
      (void)pool.join();
      us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
      pool.leave();
    }
    std::sort(us.begin(), us.end());
    std::printf("a join into %d members: %.2f ms at best, %.2f ms median, %.2f ms at worst\n", me.size() - 1,
                us[0] / 1e3, us[us.size() / 2] / 1e3, us.back() / 1e3);
  }
  me.barrier();
}

}  // namespace
}  // namespace hmc::test

int main(int argc, char** argv) {
  using namespace hmc::test;
  return run_cases(argc, argv,
                   {
                       {"copies", &copies},
#ifdef HMC_HAVE_UCX
                       {"beside_ucx", &beside_ucx},
#endif
                       {"device_parts", &device_parts},
                       {"join", &join},
                   });
}
