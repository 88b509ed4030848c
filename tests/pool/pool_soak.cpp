// Processes join, leave and are killed at random while they copy:
// pool_soak SECONDS [PROCESSES] [NODES] [SEED] [KILLS: 1 or 0] [LIMITS: 1 or 0].
//
// Prints how long joins, leaves and copies took. No call may take as long as a wait that nothing ends. With LIMITS, for
// a machine that does nothing else: see keeps_limits. Shared by all of them: for each version of the pool, the change
// and the members that the first process has seen. Each other process must see the same. Each part has blocks of a
// pattern that depends on its owner's life; each copy that succeeds must have the bytes of one life.
#include <dirent.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include "members.hpp"

namespace hmc::test {
namespace {

using spmd::Pattern;
using Clock = std::chrono::steady_clock;

constexpr int most_members = 24;
constexpr std::size_t part_bytes = std::size_t{1} << 20, block_bytes = 64 << 10;
constexpr std::size_t mailbox_bytes = 4096;  // one per rank, after the block
constexpr std::size_t most_versions = 1U << 20;

/// The durations of one kind of call, in microseconds.
struct Durations {
  static constexpr std::size_t most = 1U << 20;  // later ones replace earlier ones
  std::atomic<std::size_t> count{0};
  std::atomic<std::uint32_t> longest{0};
  std::atomic<std::uint32_t> us[most];

  void add(Clock::time_point start) {
    const auto taken = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start).count();
    const auto value = static_cast<std::uint32_t>(taken);
    us[count++ % most] = value;
    std::uint32_t known = longest;
    while (value > known && !longest.compare_exchange_weak(known, value)) {
    }
  }
  /// In ms: not longer than this share of them takes.
  double percentile(std::size_t percent) const {
    std::vector<std::uint32_t> sorted(us, us + std::min<std::size_t>(count, most));
    if (sorted.empty()) return 0;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() * percent / 100] / 1e3;
  }
  void print(const char* name) const {
    if (count == 0) return;
    std::printf("%-8s %8zu, in ms: median %.2f, 99 %% %.2f, longest %.2f\n", name, count.load(), percentile(50),
                percentile(99), longest / 1e3);
  }
};

struct Common {
  Durations join, leave, copy, refusal;  // refusal: of a copy that fails because its member has left or was killed
  std::atomic<bool> stop{false}, failed{false};
  std::atomic<std::uint64_t> lives{0}, joins{0}, copies{0}, refused{0};
  std::atomic<std::uint64_t> kills{0};
  std::atomic<std::uint32_t> changes[most_versions];
  std::atomic<std::uint32_t> members[most_versions];
};
Common* common = nullptr;

/// The first process stores the value, the others compare.
void agree(std::atomic<std::uint32_t>& place, std::uint32_t value, const char* what, std::uint64_t version) {
  std::uint32_t expected = 0;
  if (!place.compare_exchange_strong(expected, value))
    HMC_CHECK_MSG(expected == value, "{} of version {}: {:#x} here, {:#x} elsewhere", what, version, value, expected);
}

/// What it throws doesn't end the process.
void on_change(const PoolChange& change) try {
  const std::uint32_t value =
      1U << 31 | static_cast<std::uint32_t>(change.rank) << 2 | (change.joined ? 2U : 0U) | (change.died ? 1U : 0U);
  agree(common->changes[change.version % most_versions], value, "the change", change.version);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  common->failed = true;
}

void check_members(const Pool& pool) {
  const std::uint64_t version = pool.version();
  std::uint32_t mask = 1U << 31;
  for (const int rank : pool.members()) mask |= 1U << rank;
  if (pool.version() == version) agree(common->members[version % most_versions], mask, "the members", version);
}

std::size_t open_files() {
  std::size_t count = 0;
  DIR* const folder = ::opendir("/proc/self/fd");
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

struct Life {
  std::uint64_t number = ++common->lives;
  Store store = Store::connect();
  std::mt19937_64 random{number};
};

/// The first 8 bytes of a block are the life of its owner.
void check_block(const std::byte* block) {
  std::uint64_t life = 0;
  std::memcpy(&life, block, sizeof life);
  HMC_CHECK(life != 0);
  check_pattern({0, life}, block + 8, block_bytes - 8, 8);
}

/// The memory of a part, with the block, before it is in the pool.
int make_part(std::uint64_t life) {
  const int fd = ::memfd_create("soak", MFD_CLOEXEC);
  std::vector<std::byte> block(block_bytes);
  Pattern{0, life}.fill(block);
  std::memcpy(block.data(), &life, sizeof life);
  HMC_CHECK(::ftruncate(fd, static_cast<off_t>(part_bytes)) == 0);
  HMC_CHECK(::pwrite(fd, block.data(), block_bytes, 0) == static_cast<ssize_t>(block_bytes));
  return fd;
}

void copy_somewhere(Life& life, Pool& pool, std::vector<std::byte>& buffer) {
  const auto members = pool.members();
  if (members.empty()) return;
  const int rank = members[life.random() % members.size()];
  const auto start = Clock::now();
  try {
    switch (life.random() % 3) {
      case 0:
        pool.copy(buffer.data(), pool.address(rank, PoolPart::host), block_bytes);
        check_block(buffer.data());
        break;
      case 1: {  // this member's mailbox there
        void* const mailbox =
            pool.address(rank, PoolPart::host, block_bytes + static_cast<std::size_t>(pool.rank()) * mailbox_bytes);
        Pattern{pool.rank(), life.random()}.fill({buffer.data(), mailbox_bytes});
        const PoolCopy pieces[] = {{mailbox, buffer.data(), mailbox_bytes / 2},
                                   {static_cast<std::byte*>(mailbox) + mailbox_bytes / 2,
                                    buffer.data() + mailbox_bytes / 2, mailbox_bytes / 2}};
        pool.copy_batch(pieces);
        std::vector<std::byte> back(mailbox_bytes);
        pool.copy(back.data(), mailbox, mailbox_bytes);
        // The rank may have another owner since: then the bytes are zero, or partly.
        if (std::memcmp(back.data(), buffer.data(), mailbox_bytes) != 0) {
          for (std::size_t i = 0; i < mailbox_bytes; ++i) HMC_CHECK(back[i] == buffer[i] || back[i] == std::byte{0});
        }
        break;
      }
      default: {
        const PoolCopy piece{buffer.data(), pool.address(rank, PoolPart::host), block_bytes};
        pool.copy_async({&piece, 1});
        pool.wait();
        check_block(buffer.data());
      }
    }
    ++common->copies;
    common->copy.add(start);
  } catch (const Error& error) {
    common->refusal.add(start);
    HMC_CHECK_MSG(error.code() == Code::peer_failed, "{}", error.what());
    ++common->refused;
  }
}

void one_membership(Life& life) {
  PoolOptions options;
  options.name = "soak";
  options.most_members = most_members;
  options.host_bytes = options.host_stride = part_bytes;
  options.host_stride = 2 * part_bytes;
  options.host_fd = make_part(life.number);
  Pool pool = Pool::create(life.store, options);
  ::close(options.host_fd);
  pool.on_change(&on_change);
  const auto before_join = Clock::now();
  const int rank = pool.join();
  common->join.add(before_join);
  ++common->joins;
  const auto* const own = static_cast<const std::byte*>(pool.address(rank, PoolPart::host));
  std::vector<std::byte> buffer(block_bytes);
  for (std::uint64_t rounds = life.random() % 300; rounds > 0 && !common->stop; --rounds) {
    check_members(pool);
    copy_somewhere(life, pool, buffer);
  }
  check_block(own);
  std::uint64_t owner = 0;
  std::memcpy(&owner, own, sizeof owner);
  HMC_CHECK_EQ(owner, life.number);
  if (life.random() % 2 == 0) {
    const auto before_leave = Clock::now();
    pool.leave();
    common->leave.add(before_leave);
  }
}

int live() {
  std::unique_ptr<Life> life;
  try {
    life = std::make_unique<Life>();
    std::size_t files = 0;
    while (!common->stop) {
      one_membership(*life);
      if (files == 0) files = open_files();
      HMC_CHECK_EQ(open_files(), files);
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "life %llu: %s\n", life ? static_cast<unsigned long long>(life->number) : 0ULL, error.what());
    common->stop = true;
    return 1;
  }
}

pid_t start(const std::function<int()>& body, int node) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::setenv("HMC_NODE", fmt::format("node{}", node).c_str(), 1);
  std::exit(body());
}

/// At least 1000 joins; an operation that meets a kill ends within 1 s. A median needs a core for each process: with
/// fewer, processes that copy without a pause keep the others from running.
bool keeps_limits(int processes) {
  bool kept = common->joins >= 1000 && common->refusal.longest <= 1'000'000;
  for (const Durations* const each : {&common->join, &common->leave}) {
    kept = kept && each->longest <= 1'000'000 && each->percentile(99) <= 250;
    if (std::thread::hardware_concurrency() >= static_cast<unsigned>(processes))
      kept = kept && each->percentile(50) <= 20;
  }
  return kept;
}

int run(int seconds, int processes, int nodes, unsigned seed, bool kills, bool limits) {
  common = new (::mmap(nullptr, sizeof(Common), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Common;
  pid_t store = 0;
  ::setenv("HMC_STORE", fork_store(store).c_str(), 1);
  std::vector<pid_t> children;
  for (int i = 0; i < processes; ++i) children.push_back(start(&live, i % nodes));
  std::mt19937 random(seed);
  const auto end = Clock::now() + std::chrono::seconds(seconds);
  int failed = 0;
  while (Clock::now() < end && !common->stop) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50 + random() % 200));
    if (!kills) continue;
    const std::size_t victim = random() % children.size();
    ::kill(children[victim], SIGKILL);
    int status = 0;
    ::waitpid(children[victim], &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0) failed = 1;
    ++common->kills;
    children[victim] = start(&live, static_cast<int>(victim) % nodes);
  }
  common->stop = true;
  for (const pid_t each : children) {
    int status = 0;
    ::waitpid(each, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    std::fprintf(stderr, "a process ended with status %#x\n", static_cast<unsigned>(status));
    failed = 1;
  }
  std::printf("seed %u: %llu joins, %llu copies, %llu refused copies, %llu kills\n", seed,
              static_cast<unsigned long long>(common->joins), static_cast<unsigned long long>(common->copies),
              static_cast<unsigned long long>(common->refused), static_cast<unsigned long long>(common->kills));
  common->join.print("join");
  common->leave.print("leave");
  common->copy.print("copy");
  common->refusal.print("refusal");
  // The wait for a former member's copies has a limit of 10 s, and so has the wait for a lost host (HMC_LOST_HOST_S).
  // Only an event that doesn't come lets one expire.
  constexpr std::uint32_t frozen_us = 9'000'000;
  for (const Durations* const each : {&common->join, &common->leave, &common->copy, &common->refusal})
    if (each->longest >= frozen_us) failed = 1;
  if (limits && !keeps_limits(processes)) {
    std::fprintf(stderr, "joins, leaves or copies that met a kill took too long\n");
    failed = 1;
  }
  if (common->failed || common->joins < 5 || common->copies < 100) failed = 1;
  ::kill(store, SIGKILL);
  return failed;
}

}  // namespace
}  // namespace hmc::test

int main(int argc, char** argv) {
  const auto argument = [&](int index, int other) { return argc > index ? std::atoi(argv[index]) : other; };
  return hmc::test::run(argument(1, 5), argument(2, 6), argument(3, 1), static_cast<unsigned>(argument(4, 1)),
                        argument(5, 1) != 0, argument(6, 0) != 0);
}
