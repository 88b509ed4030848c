// Buffers outside windows: staged, or read by the peers. The tests run with the default and with each HMC_COLL_PRIVATE.
#include <signal.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/multirank/collectives_every.hpp"

namespace {

using namespace hmc::spmd;

std::string wish() {
  const char* const given = std::getenv("HMC_COLL_PRIVATE");
  return given == nullptr ? "auto" : given;
}

/// Tests, without the library, whether every rank may read every other rank's memory.
bool system_reads(hmc::Team& world) {
  struct Spot {
    std::uint64_t process;
    std::uint64_t address;
  };
  const std::uint64_t here = 0x1234'5678 + static_cast<std::uint64_t>(world.rank());
  const Spot mine{static_cast<std::uint64_t>(::getpid()), reinterpret_cast<std::uintptr_t>(&here)};
  std::vector<Spot> spots(static_cast<std::size_t>(world.size()));
  world.allgather(&mine, spots.data(), sizeof mine);
  std::uint64_t reads = 1;
  for (std::size_t rank = 0; rank < spots.size(); ++rank) {
    std::uint64_t found = 0;
    iovec to{&found, sizeof found};
    iovec from{reinterpret_cast<void*>(static_cast<std::uintptr_t>(spots[rank].address)), sizeof found};
    if (::process_vm_readv(static_cast<pid_t>(spots[rank].process), &to, 1, &from, 1, 0) !=
            static_cast<ssize_t>(sizeof found) ||
        found != 0x1234'5678 + rank)
      reads = 0;
  }
  std::vector<std::uint64_t> all(spots.size());
  world.allgather(&reads, all.data(), sizeof reads);  // `here` stays valid until all ranks have read it
  return std::find(all.begin(), all.end(), std::uint64_t{0}) == all.end();
}

struct Done {
  std::uint64_t staged = 0;
  std::uint64_t read = 0;
};

Done counted(TestRank& me, const Every& what) {
  EveryCall call(me.rank, me.size, what);
  const hmc::Counters before = me.runtime->counters();
  call.blocking(me.runtime->world());
  const hmc::Counters after = me.runtime->counters();
  HMC_CHECK_EQ(call.check(), std::string());
  HMC_CHECK_EQ(after.buffers_in_place, before.buffers_in_place);
  return {after.buffers_staged - before.buffers_staged, after.buffers_read - before.buffers_read};
}

}  // namespace

HMC_SPMD_TEST(PrivateBuffers, setting_selects_staging_or_reads) {
  if (me.size < 2) skip("no peer reads");
  hmc::Team& world = me.runtime->world();
  if (!all_direct(me)) skip("schedules don't stage in this way");
  for (int i = 0; i < 2; ++i) world.barrier();  // afterwards all ranks have agreed which memory they can read
  const bool may_read = system_reads(world);
  std::uint64_t read = 0;
  std::uint64_t number = 0;
  for (const CollectiveKind collective : {CollectiveKind::allgather, CollectiveKind::alltoall, CollectiveKind::scatter,
                                          CollectiveKind::gather, CollectiveKind::broadcast}) {
    for (int i = 0; i < 20; ++i) {
      Every what;
      what.collective = collective;
      what.count = 10'000;
      what.root = i % me.size;
      what.call = ++number;
      const Done done = counted(me, what);
      const bool is_root = me.rank == what.root;
      const bool one_gives = collective == CollectiveKind::scatter || collective == CollectiveKind::broadcast;
      const bool gives = one_gives ? is_root : collective != CollectiveKind::gather || !is_root;
      HMC_CHECK_EQ(done.staged + done.read, std::uint64_t{gives ? 1U : 0U});
      HMC_CHECK(wish() != "staged" || done.read == 0);
      if (wish() == "auto" && me.size > 2 && may_read)  // private_buffer_method selects staging for the rest
        HMC_CHECK_EQ(done.read, std::uint64_t{collective == CollectiveKind::scatter && gives ? 1U : 0U});
      read += done.read;
    }
  }
  // Either all ranks may read each other's memory, or no rank reads.
  std::vector<std::uint64_t> all(static_cast<std::size_t>(me.size));
  world.allgather(&read, all.data(), sizeof read);
  bool someone = false;
  for (const std::uint64_t one : all) someone = someone || one > 0;
  if (!someone) {
    HMC_CHECK(wish() == "staged" || !may_read);
    return;
  }
  HMC_CHECK(may_read);
  HMC_CHECK(read > 0);
  // At least the calls of allgather and alltoall.
  HMC_CHECK(wish() != "read" || read >= 40);
}

// The caller owns its buffer when the call returns, and the call doesn't return before the peers have read it.
HMC_SPMD_TEST(PrivateBuffers, buffers_may_be_reused_at_once) {
  hmc::Team& world = me.runtime->world();
  constexpr std::size_t count = 9000;
  const auto size = static_cast<std::size_t>(me.size);
  std::vector<std::uint64_t> mine(count * size), all(count * size), root(count);
  for (std::uint64_t round = 0; round < 60; ++round) {
    const auto value = [&](std::size_t rank, std::size_t i) { return (rank + 1) * 1'000'003 + 7 * i + round; };
    const auto me_at = static_cast<std::size_t>(me.rank);
    for (std::size_t i = 0; i < count; ++i) mine[i] = value(me_at, i);
    world.allgather(mine.data(), all.data(), count * 8);
    std::fill(mine.begin(), mine.end(), ~std::uint64_t{0});
    for (std::size_t rank = 0; rank < size; ++rank)
      for (std::size_t i = 0; i < count; ++i) HMC_CHECK_EQ(all[rank * count + i], value(rank, i));
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = value(me_at, i);
    world.alltoall(mine.data(), all.data(), count * 8);
    std::fill(mine.begin(), mine.end(), ~std::uint64_t{0});
    for (std::size_t rank = 0; rank < size; ++rank)
      for (std::size_t i = 0; i < count; ++i) HMC_CHECK_EQ(all[rank * count + i], value(rank, me_at * count + i));
    const auto from = round % size;
    for (std::size_t i = 0; i < count; ++i) root[i] = me_at == from ? value(from, i) : 0;
    world.broadcast(root.data(), count * 8, static_cast<int>(from));
    for (std::size_t i = 0; i < count; ++i) HMC_CHECK_EQ(root[i], value(from, i));
  }
}

// A rank leaves gather when its block is in the staging, which grows for it. Data that it stages next, for a gather or
// for another collective, must not overwrite a block that the root has yet to copy.
HMC_SPMD_TEST(PrivateBuffers, growing_blocks_do_not_overlap_in_staging) {
  hmc::Team& world = me.runtime->world();
  const auto size = static_cast<std::size_t>(me.size);
  const auto me_at = static_cast<std::size_t>(me.rank);
  std::vector<std::uint32_t> mine, all, others(5000), sum(5000);
  std::uint32_t round = 0;
  for (const std::size_t count : {9'001U, 150'000U, 9'001U, 400'003U, 150'000U}) {
    for (int root = 0; root < me.size; ++root, ++round) {
      const auto value = [&](std::size_t rank, std::size_t i) {
        return static_cast<std::uint32_t>((rank + 1) * 2'654'435'761U + 7 * i + 1'000'003 * round);
      };
      mine.resize(count);
      all.assign(me.rank == root ? count * size : 0, 0);
      for (std::size_t i = 0; i < count; ++i) mine[i] = value(me_at, i);
      world.gather(mine.data(), all.data(), count * sizeof(std::uint32_t), root);
      all.assign(all.size(), 0);
      for (std::size_t i = 0; i < others.size(); ++i) others[i] = value(me_at, i) % 1000;
      world.allreduce(others, sum, hmc::sum);
      for (std::size_t i = 0; i < sum.size(); ++i) {
        std::uint32_t expected = 0;
        for (std::size_t rank = 0; rank < size; ++rank) expected += value(rank, i) % 1000;
        HMC_CHECK_EQ(sum[i], expected);
      }
      // Staged before all ranks have arrived, while the last gather's root may still be copying.
      world.gather(mine.data(), all.data(), count * sizeof(std::uint32_t), root);
      std::fill(mine.begin(), mine.end(), ~std::uint32_t{0});
      std::vector<std::uint32_t> blocks(3000 * size), root_has(4000);
      world.allgather(others.data(), blocks.data(), 3000 * sizeof(std::uint32_t));
      if (me.rank == root) root_has.assign(others.begin(), others.begin() + 4000);
      world.broadcast(root_has.data(), 4000 * sizeof(std::uint32_t), root);
      for (std::size_t at = 0; at < blocks.size(); ++at) HMC_CHECK_EQ(blocks[at], value(at / 3000, at % 3000) % 1000);
      for (std::size_t i = 0; i < root_has.size(); ++i)
        HMC_CHECK_EQ(root_has[i], value(static_cast<std::size_t>(root), i) % 1000);
      for (std::size_t at = 0; at < all.size(); ++at) HMC_CHECK_EQ(all[at], value(at / count, at % count));
    }
  }
}

HMC_SPMD_TEST(PrivateBuffers, more_pieces_are_used_when_staging_gets_no_memory) {
  if (!me.options.processes || !all_direct(me)) skip("limits a process that stages");
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  HMC_CHECK_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  hmc::Team team = me.runtime->world().duplicate();
  const rlimit little{std::min<rlim_t>(before.rlim_max, std::size_t{600} << 10), before.rlim_max};
  HMC_CHECK_EQ(::setrlimit(RLIMIT_FSIZE, &little), 0);
  const auto size = static_cast<std::size_t>(me.size);
  const auto value = [](std::size_t rank, std::size_t i) { return static_cast<std::uint32_t>(7 * i + 101 * rank); };
  constexpr std::size_t count = 700'001;
  std::vector<std::uint32_t> mine(count), sum(count), all(me.rank == 0 ? count * size : 0);
  for (std::size_t i = 0; i < count; ++i) mine[i] = value(static_cast<std::size_t>(me.rank), i);
  for (int round = 0; round < 2; ++round) {
    team.gather(mine.data(), all.data(), count * sizeof(std::uint32_t), 0);
    team.allreduce(mine, sum, hmc::sum);
    for (std::size_t at = 0; at < all.size(); ++at) HMC_CHECK_EQ(all[at], value(at / count, at % count));
    for (std::size_t i = 0; i < count; ++i) {
      std::uint32_t expected = 0;
      for (std::size_t rank = 0; rank < size; ++rank) expected += value(rank, i);
      HMC_CHECK_EQ(sum[i], expected);
    }
  }
  HMC_CHECK_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  team.close();
}

// Only rank 1 has large blocks, later all ranks have. Every rank counts the calls of the trials.
HMC_SPMD_TEST(PrivateBuffers, ranks_with_different_blocks_try_the_methods_in_the_same_calls) {
  if (me.size < 2 || wish() != "auto") skip("no trials");
  hmc::Team& world = me.runtime->world();
  if (!all_direct(me)) skip("schedules have no trials");
  for (int i = 0; i < 2; ++i) world.barrier();
  if (!system_reads(world)) skip("the system forbids reads");
  constexpr std::size_t most = 256 << 10;
  const auto size = static_cast<std::size_t>(me.size);
  std::vector<unsigned char> in(size * most), out(size * most);
  std::vector<std::size_t> begins(size);
  for (std::size_t i = 0; i < size; ++i) begins[i] = i * most;
  // Returns whether this rank's input was read by the peers.
  const auto reads = [&](bool only_rank_1, int call) {
    std::vector<std::size_t> sent(size), received(size);
    for (std::size_t i = 0; i < size; ++i) {
      sent[i] = !only_rank_1 || me.rank == 1 ? most : 100;
      received[i] = !only_rank_1 || i == 1 ? most : 100;
      std::fill_n(in.begin() + static_cast<std::ptrdiff_t>(i * most), most,
                  static_cast<unsigned char>(31 * call + 7 * me.rank + static_cast<int>(i)));
    }
    const std::uint64_t before = me.runtime->counters().buffers_read;
    world.alltoallv(in.data(), hmc::Counts(sent), hmc::Counts(begins), out.data(), hmc::Counts(received),
                    hmc::Counts(begins), 1);
    for (std::size_t i = 0; i < size; ++i) {
      const auto first = out.begin() + static_cast<std::ptrdiff_t>(i * most);
      const auto wanted = static_cast<unsigned char>(31 * call + 7 * static_cast<int>(i) + me.rank);
      HMC_CHECK_EQ(std::count(first, first + static_cast<std::ptrdiff_t>(received[i]), wanted),
                   static_cast<std::ptrdiff_t>(received[i]));
    }
    return me.runtime->counters().buffers_read > before;
  };
  // The size of call 0 is known in call 1. A trial begins two calls later: six calls with staging, six with reading.
  for (int call = 0; call < 15; ++call) HMC_CHECK_EQ(reads(true, call), me.rank == 1 && call >= 1 + 2 + 6);
  std::vector<std::uint64_t> mine(80), all(80 * size);
  for (std::size_t call = 0; call < mine.size(); ++call) mine[call] = reads(false, static_cast<int>(call)) ? 1 : 0;
  world.allgather(mine.data(), all.data(), mine.size() * sizeof(std::uint64_t));
  int different = 0;
  for (std::size_t i = 0; i < all.size(); ++i) different += all[i] != mine[i % mine.size()] ? 1 : 0;
  HMC_CHECK(different <= 4 * me.size);  // a decision of rank 0 may reach the others a call later
}
