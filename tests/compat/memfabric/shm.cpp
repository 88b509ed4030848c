// SHM: the symmetric memory, control operations, contexts, numbers, exit.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include <hmc/store.hpp>

#include "tests/compat/memfabric/support.hpp"

namespace hmc::memfabric_test {
namespace {

/// SHM of all ranks, from init to uninit.
class ShmObject {
 public:
  explicit ShmObject(TestRank& me, std::uint32_t control_timeout = 100, std::uint32_t create_timeout = 100)
      : device_(me) {
    smem_shm_config_t config;
    SMEM_CHECK(smem_shm_config_init(&config));
    config.shmInitTimeout = 100;
    config.shmCreateTimeout = create_timeout;
    config.controlOperationTimeout = control_timeout;
    if (device_.exists()) SMEM_CHECK(smem_set_device_memory(static_cast<int>(device_.type)));
    SMEM_CHECK(smem_shm_init("hmc://", size(me), rank(me), device_.number, &config));
    handle_ = smem_shm_create(5, size(me), rank(me), part_bytes, SMEMS_DATA_OP_MTE, 0, &gva_);
    HMC_CHECK_MSG(handle_ != nullptr, "{}", smem_get_last_err_msg());
  }
  ~ShmObject() { smem_uninit(); }
  ShmObject(const ShmObject&) = delete;
  ShmObject& operator=(const ShmObject&) = delete;

  static std::uint32_t size(const TestRank& me) { return static_cast<std::uint32_t>(me.size); }
  static std::uint32_t rank(const TestRank& me) { return static_cast<std::uint32_t>(me.rank); }
  smem_shm_t handle() const { return handle_; }
  bool on_host() const { return !device_.exists(); }
  std::byte* address(int rank, std::uint64_t offset = 0) const {
    return static_cast<std::byte*>(gva_) + static_cast<std::uint64_t>(rank) * part_bytes + offset;
  }

 private:
  Device device_;
  void* gva_ = nullptr;
  smem_shm_t handle_ = nullptr;
};

HMC_SPMD_TEST(Shm, puts_and_gets_reach_the_owner) {
  const ShmObject shm(me);
  HMC_CHECK_EQ(smem_shm_get_global_rank(shm.handle()), ShmObject::rank(me));
  HMC_CHECK_EQ(smem_shm_get_global_rank_size(shm.handle()), ShmObject::size(me));
  HMC_CHECK_EQ(smem_shm_get_symmetric_size(shm.handle()), part_bytes);
  HMC_CHECK_EQ(smem_shm_get_symmetric_size(nullptr), 0U);
  const auto data = pattern(me.rank, 1, MiB + 3);
  SMEM_CHECK(smem_shm_copy(shm.handle(), shm.address(me.next(), 1021), data.data(), data.size()));
  SMEM_CHECK(smem_shm_control_barrier(shm.handle()));
  std::vector<std::byte> own(data.size());
  if (shm.on_host()) {
    std::memcpy(own.data(), shm.address(me.rank, 1021), own.size());
  } else {
    SMEM_CHECK(smem_shm_copy(shm.handle(), own.data(), shm.address(me.rank, 1021), own.size()));
  }
  HMC_CHECK_CLEAN(Pattern({me.previous(), 1}).verify(own));
  // What can be reached by loads is at the same address.
  std::uint32_t reach = 0;
  SMEM_CHECK(smem_shm_topology_can_reach(shm.handle(), static_cast<std::uint32_t>(me.next()), &reach));
  HMC_CHECK(reach != 0 && reach <= 7);
  if (shm.on_host() && (reach & SMEMS_DATA_OP_MTE) != 0) {
    HMC_CHECK_CLEAN(Pattern({me.rank, 1}).verify(std::span(shm.address(me.next(), 1021), data.size())));
    HMC_CHECK_EQ(smem_shm_ptr(shm.handle(), static_cast<std::uint32_t>(me.next())), shm.address(me.next()));
  }
  HMC_CHECK_EQ((reach & SMEMS_DATA_OP_MTE) != 0,
               smem_shm_ptr(shm.handle(), static_cast<std::uint32_t>(me.next())) != nullptr);
  HMC_CHECK_EQ(smem_shm_topology_can_reach(shm.handle(), ShmObject::size(me), &reach), SMEM_INVALID_PARAM);
  HMC_CHECK_EQ(smem_shm_topology_can_reach(shm.handle(), 0, nullptr), SMEM_INVALID_PARAM);
  SMEM_CHECK(smem_shm_control_barrier(shm.handle()));
  SMEM_CHECK(smem_shm_destroy(shm.handle(), 0));
  HMC_CHECK_EQ(smem_shm_control_barrier(shm.handle()), SMEM_INVALID_PARAM);
}

HMC_SPMD_TEST(Shm, arguments_of_create_are_checked) {
  const ShmObject shm(me);
  const auto rejected = [&](std::uint32_t id, std::uint32_t size, std::uint32_t rank, std::uint64_t bytes,
                            int operation) {
    void* gva = nullptr;
    HMC_CHECK(smem_shm_create(id, size, rank, bytes, static_cast<smem_shm_data_op_type>(operation), 0, &gva) ==
              nullptr);
  };
  const auto size = ShmObject::size(me);
  rejected(64, size, 0, 2 * MiB, SMEMS_DATA_OP_MTE);
  rejected(1, 0, 0, 2 * MiB, SMEMS_DATA_OP_MTE);
  rejected(1, size + 1, 0, 2 * MiB, SMEMS_DATA_OP_MTE);
  rejected(1, size, size, 2 * MiB, SMEMS_DATA_OP_MTE);
  rejected(1, size, 0, 0, SMEMS_DATA_OP_MTE);
  rejected(1, size, 0, MiB, SMEMS_DATA_OP_MTE);
  rejected(1, size, 0, (std::uint64_t{64} << 30) + 2 * MiB, SMEMS_DATA_OP_MTE);
  rejected(1, size, 0, 2 * MiB, 0);
  rejected(1, size, 0, 2 * MiB, 8);
  rejected(5, size, ShmObject::rank(me), 2 * MiB, SMEMS_DATA_OP_MTE);  // the id exists
  HMC_CHECK(smem_shm_create(1, size, 0, 2 * MiB, SMEMS_DATA_OP_MTE, 0, nullptr) == nullptr);
  barrier(me);
}

HMC_SPMD_TEST(Shm, failure_of_one_rank_fails_all_ranks) {
  const ShmObject shm(me);
  void* gva = nullptr;
  const std::uint64_t bytes = me.rank == me.size - 1 ? 4 * MiB : 2 * MiB;  // one rank differs
  HMC_CHECK(smem_shm_create(6, ShmObject::size(me), ShmObject::rank(me), bytes, SMEMS_DATA_OP_MTE, 0, &gva) == nullptr);
  barrier(me);
  const smem_shm_t again =
      smem_shm_create(6, ShmObject::size(me), ShmObject::rank(me), 2 * MiB, SMEMS_DATA_OP_MTE, 0, &gva);
  HMC_CHECK_MSG(again != nullptr, "{}", smem_get_last_err_msg());
  SMEM_CHECK(smem_shm_control_barrier(again));
}

/// This process's descriptors and mappings of shared memory.
std::pair<std::ptrdiff_t, std::ptrdiff_t> resources() {
  std::ifstream maps("/proc/self/maps");
  std::ptrdiff_t mappings = 0;
  for (std::string line; std::getline(maps, line);) mappings += line.find("memfd:") != std::string::npos ? 1 : 0;
  const std::filesystem::directory_iterator descriptors("/proc/self/fd");
  return {std::distance(begin(descriptors), end(descriptors)), mappings};
}

/// Threads of the pool end their connections a moment later.
void await_resources(const std::pair<std::ptrdiff_t, std::ptrdiff_t>& wanted) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (resources().first != wanted.first && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const auto now = resources();
  HMC_CHECK_EQ(now.first, wanted.first);
  HMC_CHECK_LE(now.second, wanted.second);
}

// The last rank may open one descriptor more in each round, so create fails at each step that needs one, until it has
// enough of them. A member without a descriptor for the memory of the others can't be joined: that round has a timeout.
HMC_SPMD_TEST(Shm, failure_at_each_step_releases_everything) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr bool is_slow = true;
#else
  constexpr bool is_slow = false;
#endif
  if (is_slow || me.size != 2 || Device(me).exists())
    hmc::spmd::skip("two ranks show it; one round ends with the timeout of create");
  const ShmObject shm(me, 100, 10);
  const auto create = [&] {
    void* gva = nullptr;
    return smem_shm_create(7, ShmObject::size(me), ShmObject::rank(me), 2 * MiB, SMEMS_DATA_OP_MTE, 0, &gva);
  };
  smem_shm_t object = create();
  HMC_CHECK_MSG(object != nullptr, "{}", smem_get_last_err_msg());
  SMEM_CHECK(smem_shm_destroy(object, 0));
  barrier(me);
  const auto before = resources();
  rlimit usual{};
  HMC_CHECK_EQ(::getrlimit(RLIMIT_NOFILE, &usual), 0);
  int failures = 0;
  for (rlim_t more = 0; more < 100; ++more) {
    // Descriptor numbers from the first free one on are allowed.
    const int first = ::dup(0);
    ::close(first);
    const rlimit few{static_cast<rlim_t>(first) + more, usual.rlim_max};
    if (me.rank == me.size - 1) HMC_CHECK_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    object = create();
    HMC_CHECK_EQ(::setrlimit(RLIMIT_NOFILE, &usual), 0);
    const auto results = allgather(me, object != nullptr ? 1 : 0);
    for (const int each : results) HMC_CHECK_EQ(each, results.front());
    if (object != nullptr) break;
    ++failures;
    await_resources(before);
  }
  HMC_CHECK(object != nullptr);
  HMC_CHECK_GE(failures, 2);
  SMEM_CHECK(smem_shm_control_barrier(object));
  SMEM_CHECK(smem_shm_destroy(object, 0));
  barrier(me);
  await_resources(before);
}

HMC_SPMD_TEST(Shm, barrier_holds_until_the_last_rank) {
  const ShmObject shm(me);
  for (int round = 1; round <= 20; ++round) {
    if (round % me.size == me.rank) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    Store::connect().add("arrived", 1);
    SMEM_CHECK(smem_shm_control_barrier(shm.handle()));
    HMC_CHECK_GE(Store::connect().add("arrived", 0), static_cast<std::int64_t>(round) * me.size);
    SMEM_CHECK(smem_shm_control_barrier(shm.handle()));
  }
  barrier(me);
  if (me.rank == 0) Store::connect().remove("arrived");
  barrier(me);
}

HMC_SPMD_TEST(Shm, missing_rank_is_a_timeout) {
  const ShmObject shm(me, 1);
  if (me.rank != 0) HMC_CHECK_EQ(smem_shm_control_barrier(shm.handle()), SMEM_TIMEOUT);
  char byte = 1;
  std::vector<char> all(static_cast<std::size_t>(me.size));
  if (me.rank != 0) {
    HMC_CHECK_EQ(smem_shm_control_allgather(shm.handle(), &byte, 1, all.data(), ShmObject::size(me)), SMEM_TIMEOUT);
    HMC_CHECK_EQ(smem_shm_subgroup_barrier(shm.handle(), "late", ShmObject::size(me), ShmObject::rank(me)),
                 SMEM_TIMEOUT);
  }
  barrier(me);
}

HMC_SPMD_TEST(Shm, subgroups_gather_and_leave_no_keys) {
  const ShmObject shm(me);
  // Odd and even ranks; and all ranks in the reverse order.
  const auto parity = static_cast<std::uint32_t>(me.rank % 2);
  const auto size = (ShmObject::size(me) + 1 - parity) / 2;
  const std::string key = parity == 0 ? "even" : "odd";
  const Store store = Store::connect().with_prefix("smem.shm").with_prefix("5.");
  SMEM_CHECK(smem_shm_control_barrier(shm.handle()));
  const std::size_t keys = store.count();
  SMEM_CHECK(smem_shm_control_barrier(shm.handle()));
  for (std::uint32_t round = 0; round < 50; ++round) {
    std::vector<char> mine(1 + round * 7), all(mine.size() * size);
    Pattern{me.rank, round}.fill(std::as_writable_bytes(std::span(mine)));
    SMEM_CHECK(smem_shm_subgroup_allgather(shm.handle(), key.c_str(), size, ShmObject::rank(me) / 2, mine.data(),
                                           static_cast<std::uint32_t>(mine.size()), all.data(),
                                           static_cast<std::uint32_t>(all.size())));
    for (std::uint32_t i = 0; i < size; ++i) {
      const int from = static_cast<int>(2 * i + parity);
      HMC_CHECK_CLEAN(
          Pattern({from, round}).verify(std::as_bytes(std::span(all)).subspan(i * mine.size(), mine.size())));
    }
    SMEM_CHECK(smem_shm_subgroup_barrier(shm.handle(), key.c_str(), size, ShmObject::rank(me) / 2));
    SMEM_CHECK(smem_shm_subgroup_barrier(shm.handle(), "reverse", ShmObject::size(me),
                                         ShmObject::size(me) - 1 - ShmObject::rank(me)));
  }
  SMEM_CHECK(smem_shm_control_barrier(shm.handle()));
  HMC_CHECK_EQ(store.count(), keys);
  SMEM_CHECK(smem_shm_control_barrier(shm.handle()));
  char byte = 0;
  const auto invalid = [](std::int32_t code) { HMC_CHECK_EQ(code, SMEM_INVALID_PARAM); };
  invalid(smem_shm_subgroup_barrier(shm.handle(), "", 1, 0));
  invalid(smem_shm_subgroup_barrier(shm.handle(), nullptr, 1, 0));
  invalid(smem_shm_subgroup_barrier(shm.handle(), std::string(64, 'k').c_str(), 1, 0));
  invalid(smem_shm_subgroup_barrier(shm.handle(), "key", 1, 1));
  invalid(smem_shm_subgroup_barrier(shm.handle(), "key", 0, 0));
  invalid(smem_shm_subgroup_allgather(shm.handle(), "key", 1, 0, &byte, 0, &byte, 0));
  invalid(smem_shm_subgroup_allgather(shm.handle(), "key", 1, 0, &byte, 1, &byte, 2));
  SMEM_CHECK(smem_shm_subgroup_barrier(shm.handle(), std::string(63, 'k').c_str(), 1, 0));
  barrier(me);
}

HMC_SPMD_TEST(Shm, allgather_of_more_than_ten_mebibytes) {
  const ShmObject shm(me);
  if (me.size < 8) spmd::skip("for 8 ranks");
  // Each process has several members of one group, in threads: 168 members of 65,536 bytes.
  constexpr std::uint32_t members = 168;
  constexpr std::uint32_t bytes = 65536;
  const std::uint32_t each = members / ShmObject::size(me);
  std::atomic<int> wrong{0};
  std::mutex mutex;
  std::string failure;
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < each; ++i) {
    threads.emplace_back([&, rank = ShmObject::rank(me) * each + i] {
      std::vector<char> mine(bytes), all(std::size_t{bytes} * members);
      Pattern{static_cast<int>(rank), 1}.fill(std::as_writable_bytes(std::span(mine)));
      const std::int32_t code = smem_shm_subgroup_allgather(shm.handle(), "large", members, rank, mine.data(), bytes,
                                                            all.data(), bytes * members);
      if (code != SMEM_OK) {
        ++wrong;
        const std::lock_guard lock(mutex);
        failure = smem_get_last_err_msg();
        return;
      }
      for (std::uint32_t from = rank; from < members; from += 31)
        if (Pattern({static_cast<int>(from), 1})
                .mismatch(std::as_bytes(std::span(all)).subspan(std::size_t{from} * bytes, bytes)))
          ++wrong;
    });
  }
  for (std::thread& thread : threads) thread.join();
  HMC_CHECK_MSG(wrong.load() == 0, "{} wrong, {}", wrong.load(), failure);
  std::vector<char> mine(bytes + 1), all((std::size_t{bytes} + 1) * ShmObject::size(me));
  HMC_CHECK_EQ(smem_shm_control_allgather(shm.handle(), mine.data(), bytes + 1, all.data(),
                                          static_cast<std::uint32_t>(all.size())),
               SMEM_INVALID_PARAM);
  barrier(me);
}

HMC_SPMD_TEST(Shm, contexts_of_all_ranks_can_be_read) {
  const ShmObject shm(me);
  const auto context_of = [](int rank) {
    return pattern(rank, 1, rank % 2 == 0 ? 65536 : 1 + static_cast<std::uint64_t>(rank));
  };
  const auto mine = context_of(me.rank);
  std::uint32_t size = 0;
  HMC_CHECK_EQ(smem_shm_get_extra_context(shm.handle(), ShmObject::rank(me), nullptr, &size), SMEM_OBJECT_NOT_EXISTS);
  SMEM_CHECK(smem_shm_control_barrier(shm.handle()));
  SMEM_CHECK(smem_shm_set_extra_context(shm.handle(), mine.data(), static_cast<std::uint32_t>(mine.size())));
  SMEM_CHECK(smem_shm_control_barrier(shm.handle()));
  for (int rank = 0; rank < me.size; ++rank) {
    std::vector<std::byte> read(65536);
    size = 65536;
    SMEM_CHECK(smem_shm_get_extra_context(shm.handle(), static_cast<std::uint32_t>(rank), read.data(), &size));
    read.resize(size);
    HMC_CHECK(read == context_of(rank));
  }
  size = 0;
  HMC_CHECK_EQ(smem_shm_get_extra_context(shm.handle(), 0, nullptr, &size), SMEM_INVALID_PARAM);
  HMC_CHECK_EQ(size, 65536U);
  std::vector<std::byte> large(65537);
  HMC_CHECK_EQ(smem_shm_set_extra_context(shm.handle(), large.data(), 65537), SMEM_INVALID_PARAM);
  HMC_CHECK_EQ(smem_shm_set_extra_context(shm.handle(), large.data(), 0), SMEM_INVALID_PARAM);
  HMC_CHECK_EQ(smem_shm_set_extra_context(shm.handle(), nullptr, 1), SMEM_INVALID_PARAM);
  barrier(me);
}

HMC_SPMD_TEST(Shm, numbers_are_unique_until_they_are_released) {
  const ShmObject shm(me);
  const std::uint32_t each = SMEM_SHM_ATOMIC_NUM_LIMIT / ShmObject::size(me);
  std::vector<char> mine(SMEM_SHM_ATOMIC_NUM_LIMIT), all(mine.size() * ShmObject::size(me));
  std::uint32_t number = 0;
  for (std::uint32_t i = 0; i < each; ++i) {
    SMEM_CHECK(smem_shm_atomic_alloc_value(shm.handle(), SMEM_SHM_ATOMIC_NUM_LIMIT, &number));
    HMC_CHECK_LT(number, SMEM_SHM_ATOMIC_NUM_LIMIT);
    ++mine[number];
  }
  SMEM_CHECK(smem_shm_control_allgather(shm.handle(), mine.data(), static_cast<std::uint32_t>(mine.size()), all.data(),
                                        static_cast<std::uint32_t>(all.size())));
  for (std::size_t i = 0; i < mine.size(); ++i) {
    int owners = 0;
    for (std::size_t rank = 0; rank < ShmObject::size(me); ++rank) owners += all[rank * mine.size() + i];
    HMC_CHECK_EQ(owners, 1);
  }
  HMC_CHECK_NE(smem_shm_atomic_alloc_value(shm.handle(), SMEM_SHM_ATOMIC_NUM_LIMIT, &number),
               SMEM_OK);  // all are in use
  SMEM_CHECK(smem_shm_control_barrier(shm.handle()));
  if (me.rank == 0) {
    SMEM_CHECK(smem_shm_atomic_release_value(shm.handle(), 517));  // any rank's
    HMC_CHECK_EQ(smem_shm_atomic_release_value(shm.handle(), 517), SMEM_OBJECT_NOT_EXISTS);
    HMC_CHECK_NE(smem_shm_atomic_alloc_value(shm.handle(), 517, &number), SMEM_OK);  // below the limit none is free
    SMEM_CHECK(smem_shm_atomic_alloc_value(shm.handle(), 518, &number));
    HMC_CHECK_EQ(number, 517U);
    HMC_CHECK_EQ(smem_shm_atomic_alloc_value(shm.handle(), 1025, &number), SMEM_INVALID_PARAM);
    HMC_CHECK_EQ(smem_shm_atomic_alloc_value(shm.handle(), 0, &number), SMEM_INVALID_PARAM);
    HMC_CHECK_EQ(smem_shm_atomic_release_value(shm.handle(), -1), SMEM_INVALID_PARAM);
    HMC_CHECK_EQ(smem_shm_atomic_release_value(shm.handle(), 1024), SMEM_INVALID_PARAM);
  }
  SMEM_CHECK(smem_shm_control_barrier(shm.handle()));
  for (std::uint32_t i = 0; i < mine.size(); ++i)
    if (i % ShmObject::size(me) == ShmObject::rank(me))
      SMEM_CHECK(smem_shm_atomic_release_value(shm.handle(), static_cast<std::int32_t>(i)));
  SMEM_CHECK(smem_shm_control_barrier(shm.handle()));
}

std::atomic<int> exit_status{-1};
std::atomic<int> exit_calls{0};

HMC_SPMD_TEST(Shm, global_exit_runs_each_handler_once) {
  const ShmObject shm(me);
  SMEM_CHECK(smem_shm_register_exit(shm.handle(), [](int status) {
    exit_status = status;
    ++exit_calls;
    exit_calls.notify_all();
  }));
  SMEM_CHECK(smem_shm_control_barrier(shm.handle()));
  if (me.rank == me.size - 1) smem_shm_global_exit(shm.handle(), 7);
  exit_calls.wait(0);
  HMC_CHECK_EQ(exit_status.load(), 7);
  SMEM_CHECK(smem_shm_control_barrier(shm.handle()));
  smem_shm_global_exit(shm.handle(), 8);  // only the first status counts
  SMEM_CHECK(smem_shm_control_barrier(shm.handle()));
  HMC_CHECK_EQ(exit_status.load(), 7);
  HMC_CHECK_EQ(exit_calls.load(), 1);
}

}  // namespace
}  // namespace hmc::memfabric_test
