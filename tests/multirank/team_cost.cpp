// The cost of starting a job and of one more team, against limits: page faults, shared memory, descriptors.
#include <dirent.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <hmc/hmc.hpp>

#include "tests/support/spmd.hpp"

namespace {

using hmc::Team;
using namespace hmc::spmd;

// A sanitizer adds page faults and mappings of its own.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool counts_faults = false;
#else
constexpr bool counts_faults = true;
#endif

std::int64_t faults(bool of_process) {
  rusage usage{};
  ::getrusage(of_process ? RUSAGE_SELF : RUSAGE_THREAD, &usage);
  return usage.ru_minflt;
}

/// Descriptors of this process, and the memory of the shared files behind them.
struct Held {
  int descriptors = 0;
  std::int64_t shared_bytes = 0;

  static Held now() {
    Held held;
    std::map<ino_t, std::int64_t> files;
    DIR* const folder = ::opendir("/proc/self/fd");
    while (const dirent* const entry = ::readdir(folder)) {
      char name[64] = {};
      struct stat file {};
      const std::string link = "/proc/self/fd/" + std::string(entry->d_name);
      // Other ranks of this process may have the same folder open.
      if (::readlink(link.c_str(), name, sizeof name - 1) <= 0 || std::string(name).starts_with("/proc/")) continue;
      ++held.descriptors;
      if (std::string(name).find("memfd:hmc") != std::string::npos && ::fstat(std::atoi(entry->d_name), &file) == 0)
        files[file.st_ino] = std::int64_t{file.st_blocks} * 512;
    }
    ::closedir(folder);
    for (const auto& [inode, bytes] : files) held.shared_bytes += bytes;
    return held;
  }
};

std::int64_t sum_over(Team& world, std::int64_t mine) {
  std::int64_t sum = 0;
  world.allreduce(std::span(&mine, 1), std::span(&sum, 1), hmc::sum);
  return sum;
}

}  // namespace

HMC_SPMD_TEST(TeamCost, start_and_barrier_need_few_page_faults) {
  if (!me.options.processes || !counts_faults) skip("threads and sanitizers add page faults of their own");
  me.runtime->world().barrier();
  HMC_CHECK(faults(true) <= 1000 + 4 * me.size);  // since exec
}

HMC_SPMD_TEST(TeamCost, a_duplicate_needs_little_memory_and_no_descriptor) {
  Team& world = me.runtime->world();
  constexpr int count = 8;
  constexpr std::int64_t most_bytes = 64 << 10;
  sum_over(world, 1);
  {
    Team first = world.duplicate();
    first.barrier();
    first.close();
  }  // the parent's schedules, lazy binding
  world.barrier();
  const Held before = Held::now();
  const std::int64_t faults_before = faults(me.options.processes);
  world.barrier();
  std::vector<Team> teams;
  for (int i = 0; i < count; ++i) {
    teams.push_back(world.duplicate());
    HMC_CHECK_EQ(sum_over(teams.back(), me.rank + i), std::int64_t{me.size} * (me.size - 1) / 2 + me.size * i);
  }
  const std::int64_t faults_of_all = faults(me.options.processes) - faults_before;
  world.barrier();
  const Held after = Held::now();
  world.barrier();
  HMC_CHECK_EQ(after.descriptors, before.descriptors);
  // Of all ranks whose memory lies in this node's file.
  HMC_CHECK((after.shared_bytes - before.shared_bytes) <= count * me.size * most_bytes);
  if (counts_faults) HMC_CHECK(faults_of_all <= count * (1000 + 4 * me.size));
  if (me.rank == 0 && std::getenv("HMC_TEST_PRINT") != nullptr)
    std::printf("N %d: per duplicate %.1f faults, %.1f KiB of shared memory per rank, %+d descriptors\n", me.size,
                static_cast<double>(faults_of_all) / count,
                static_cast<double>(after.shared_bytes - before.shared_bytes) / count / me.size / 1024,
                after.descriptors - before.descriptors);
  for (Team& team : teams) team.close();
}

HMC_SPMD_TEST(TeamCost, memory_of_closed_teams_is_used_again_and_zero) {
  Team& world = me.runtime->world();
  std::int64_t most = 0;
  for (int round = 0; round < 6; ++round) {
    std::vector<Team> teams;
    for (int i = 0; i < 3; ++i) {
      Team team = i % 2 == 0 ? world.duplicate() : world.split(me.rank % 2, me.rank);
      // Enough calls to use every line and slot, and large ones for the staging and for the schedules' areas.
      // The data differs in each round, so lines that an earlier team has left give a wrong sum.
      for (int call = 0; call < 70; ++call) {
        const std::int64_t data = 1000 * round + 100 * i + call;
        HMC_CHECK_EQ(sum_over(team, data + team.rank()), team.size() * data + team.size() * (team.size() - 1) / 2);
      }
      std::vector<double> in(20000, 1.0 + team.rank()), out(in.size());
      team.allreduce(in, out, hmc::sum);
      HMC_CHECK_EQ(out[777], static_cast<double>(team.size()) * (team.size() + 1) / 2);
      team.iallreduce(in.data(), out.data(), in.size(), hmc::DType::f64, hmc::max).wait();
      HMC_CHECK_EQ(out[19999], static_cast<double>(team.size()));
      teams.push_back(team);
    }
    world.barrier();
    for (Team& team : teams) team.close();
    world.barrier();
    const std::int64_t held = Held::now().shared_bytes;
    if (round == 1) most = held;
    // A round's three teams take more than 100 KiB per rank; the world's own arena may grow by a few pages.
    if (round > 1) HMC_CHECK(held <= most + me.size * (std::int64_t{32} << 10));
    world.barrier();
  }
}
