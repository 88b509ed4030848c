// The control plane with many ranks, all threads of this process.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "bootstrap/tcp/tcp_bootstrap.hpp"
#include "test_job.hpp"

namespace hmc::bootstrap::test {
namespace {

/// Raises the limit of descriptors to `count`. Returns false if the system doesn't allow that.
bool allow_descriptors(rlim_t count) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_max < count) return false;
  limit.rlim_cur = std::max(limit.rlim_cur, count);
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

/// Resident memory of this process, in KiB.
long resident_kib() {
  std::ifstream in("/proc/self/statm");
  long pages = 0;
  in >> pages >> pages;
  return pages * 4;
}

/// Every rank joins, makes an allgather and a barrier, and leaves. Prints time and memory.
void expect_rendezvous(int size, int nodes) {
  // A rank has its socket, its agent's end of it, and the descriptor of the node page.
  if (!allow_descriptors(static_cast<rlim_t>(size) * 4 + 1024))
    GTEST_SKIP() << "the limit of descriptors (ulimit -Hn) is too low for " << size << " ranks";
  const Shape shape{Kind::tcp, size, nodes};
  const auto deadline = [] { return base::Deadline::after(std::chrono::minutes(4)); };
  const long before_kib = resident_kib();
  const auto start = base::Clock::now();
  long most_kib = 0;
  {
    TestServers servers(shape);
    const auto env = [&](int rank) {
      base::Env mine = servers.env(rank);
      mine.timeout = std::chrono::minutes(4);
      return mine;
    };
    run_ranks(shape, env, [&](Bootstrap& me) {
      base::ByteWriter mine;
      mine.number(me.rank() * 3);
      const auto all = me.allgather(mine.view(), deadline());
      ASSERT_EQ(static_cast<int>(all.size()), size);
      for (int rank = 0; rank < size; ++rank)
        ASSERT_EQ(base::ByteReader(all[static_cast<std::size_t>(rank)]).number<int>(), rank * 3);
      me.barrier(deadline());
      if (me.rank() == 0) most_kib = resident_kib();
    });
    EXPECT_EQ(servers.store().unknown_connections(), 0U);
  }
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(base::Clock::now() - start).count();
  std::printf("%d ranks on %d nodes: %ld ms, %ld KiB per rank\n", size, nodes, static_cast<long>(ms),
              (most_kib - before_kib) / size);
}

TEST(Scale, ranks_256_on_16_nodes_rendezvous) { expect_rendezvous(256, 16); }
TEST(Scale, ranks_1024_on_64_nodes_rendezvous) { expect_rendezvous(1024, 64); }
TEST(Scale, ranks_4096_on_64_nodes_rendezvous) { expect_rendezvous(4096, 64); }

}  // namespace
}  // namespace hmc::bootstrap::test
