// BM: creation and its limits, members that leave, the user's memory, ways, and the first release's forms.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <string_view>
#include <utility>

#include "tests/compat/memfabric/support.hpp"

namespace hmc::memfabric_test {
namespace {

/// True if loads reach the member's host part.
bool is_near(smem_bm_t handle, int rank) {
  char path[256] = {};
  HMC_CHECK(smem_bm_path(handle, SMEM_MEM_TYPE_HOST, static_cast<std::uint32_t>(rank), path, sizeof path) > 0);
  return std::string_view(path).substr(0, 4) == "own:" || std::string_view(path).substr(0, 4) == "shm:";
}

HMC_SPMD_TEST(BmForms, first_release_copies_and_joins) {
  BmProcess process(me);
  const smem_bm_t handle = smem_bm_create(0, static_cast<std::uint32_t>(me.size), SMEMB_DATA_OP_ROCE, part_bytes, 0, 0);
  HMC_CHECK_MSG(handle != nullptr, "{}", smem_get_last_err_msg());
  void* mine = nullptr;
  HMC_CHECK_EQ(smem_bm_join_v1(handle, 0, nullptr), SMEM_INVALID_PARAM);
  SMEM_CHECK(smem_bm_join_v1(handle, 0, &mine));
  HMC_CHECK_EQ(mine, smem_bm_ptr(handle, static_cast<std::uint16_t>(me.rank)));
  HMC_CHECK_EQ(smem_bm_get_local_mem_size(handle), part_bytes);
  barrier(me);
  const auto data = pattern(me.rank, 1, 70000);
  void* const next = smem_bm_ptr(handle, static_cast<std::uint16_t>(me.next()));
  SMEM_CHECK(smem_bm_copy_v1(handle, data.data(), next, data.size(), SMEMB_COPY_H2G, 0));
  barrier(me);
  HMC_CHECK_CLEAN(Pattern({me.previous(), 1}).verify(std::span(static_cast<const std::byte*>(mine), data.size())));
  std::vector<std::byte> back(data.size());
  SMEM_CHECK(smem_bm_copy_v1(handle, next, back.data(), back.size(), SMEMB_COPY_G2H, 0));
  HMC_CHECK(back == data);
  barrier(me);
  SMEM_CHECK(smem_bm_leave(handle, 0));
  void* again = nullptr;  // C++ has both forms
  SMEM_CHECK(smem_bm_join(handle, 0, &again));
  HMC_CHECK_EQ(again, mine);
  barrier(me);
  SMEM_CHECK(smem_bm_copy(handle, data.data() + 1, next, data.size() - 1, SMEMB_COPY_H2G, 0));
  barrier(me);
  HMC_CHECK_CLEAN(
      Pattern({me.previous(), 1}).verify(std::span(static_cast<const std::byte*>(mine), data.size() - 1), 1));
  barrier(me);
  smem_bm_destroy(handle);
}

HMC_SPMD_TEST(BmMembers, arguments_of_create_are_checked) {
  BmProcess process(me);
  const auto rejected = [&](auto&& change) {
    auto option = parts();
    change(option);
    HMC_CHECK(smem_bm_create2(9, &option) == nullptr);
    HMC_CHECK_NE(std::string_view(smem_get_and_clear_last_err_msg()), "");
  };
  using Option = smem_bm_create_option_t;
  rejected([](Option& option) { option.localDRAMSize = MiB; });
  rejected([](Option& option) { option.maxHbmSize = 5 * MiB; });
  rejected([](Option& option) { option.maxDramSize = 2 * MiB; });
  rejected([](Option& option) { option.maxHbmSize = (std::uint64_t{64} << 30) + 2 * MiB; });
  rejected([](Option& option) { option.maxDramSize = (std::uint64_t{2} << 40) + 2 * MiB; });
  rejected([](Option& option) {
    option = {};
    option.dataOpType = SMEMB_DATA_OP_SDMA;
  });
  rejected([](Option& option) { option.dataOpType = static_cast<smem_bm_data_op_type>(0); });
  rejected([](Option& option) { option.flags = 1U << 11; });
  rejected([](Option& option) { option.flags = 5; });  // a NUMA node without the performance mode
  rejected([](Option& option) {
    option.flags = SMEM_BM_FLAG_CREATE_WITH_SHM;
    option.dramShmFd = -1;
  });
  rejected([](Option& option) { std::strcpy(option.tag, "a tag"); });
  rejected([](Option& option) { std::strcpy(option.tag, "1234567890123456789012345678901"); });
  for (const char* rules :
       {"a:HOST_TCP", "a:HOST_TCP:b,", "a:HOST_UDPX:b", "a:host_tcp:b", ":HOST_TCP:b", "a:HOST_TCP:b c"})
    rejected([&](Option& option) { std::strcpy(option.tagOpInfo, rules); });
  HMC_CHECK(smem_bm_create2(9, nullptr) == nullptr);
  HMC_CHECK(smem_bm_create(9, static_cast<std::uint32_t>(me.size) + 1, SMEMB_DATA_OP_SDMA, 2 * MiB, 0, 0) == nullptr);
  const auto option = parts();
  const BmPool pool(me, option, 9);
  HMC_CHECK(smem_bm_create2(9, &option) == nullptr);  // the id exists
  HMC_CHECK_EQ(smem_bm_join(pool.handle(), 1), SMEM_INVALID_PARAM);
  HMC_CHECK_EQ(smem_bm_leave(pool.handle(), 1), SMEM_INVALID_PARAM);
  const BmPool other(me, option, 10);  // of another id, with addresses of its own
  HMC_CHECK_EQ(smem_bm_get_rank_id_by_gva(other.handle(), pool.address(0, host)), UINT32_MAX);
  barrier(me);
}

HMC_SPMD_TEST(BmMembers, copies_to_a_member_that_left_fail_until_it_joins_again) {
  BmProcess process(me);
  const BmPool pool(me, parts());
  const auto data = pattern(me.rank, 1, 4096);
  const int leaver = me.size - 1;
  std::byte* const to = pool.address(leaver, host, static_cast<std::uint64_t>(me.rank) * 4096);
  if (me.rank == leaver) SMEM_CHECK(smem_bm_leave(pool.handle(), 0));
  barrier(me);
  // A member may see the leave a moment later.
  std::int32_t code = me.rank == leaver ? SMEM_ERROR : SMEM_OK;
  while (code == SMEM_OK) code = pool.copy(to, data.data(), data.size(), SMEMB_COPY_H2GH);
  HMC_CHECK_EQ(code, SMEM_ERROR);
  barrier(me);
  if (me.rank == leaver) SMEM_CHECK(smem_bm_join(pool.handle(), 0));
  barrier(me);
  SMEM_CHECK(pool.copy(to, data.data(), data.size(), SMEMB_COPY_H2GH));
  barrier(me);
  if (me.rank == leaver) {
    for (int rank = 0; rank < me.size; ++rank)
      HMC_CHECK_CLEAN(Pattern({rank, 1}).verify(pool.own(host, static_cast<std::uint64_t>(rank) * 4096, 4096)));
  }
  barrier(me);
}

HMC_SPMD_TEST(BmMembers, handler_gets_joins_and_leaves_of_other_members) {
  BmProcess process(me);
  const BmPool pool(me, parts(2 * MiB, 0));
  struct Seen {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::pair<std::uint32_t, smem_bm_group_event_t>> events;
    smem_bm_t handle = nullptr;
  } seen;
  const auto await = [&](std::size_t count) {
    std::unique_lock lock(seen.mutex);
    seen.changed.wait(lock, [&] { return seen.events.size() >= count; });
  };
  const auto add = [](smem_bm_t handle, std::uint32_t rank, smem_bm_group_event_t event, void* context) {
    auto& to = *static_cast<Seen*>(context);
    const std::lock_guard lock(to.mutex);
    if (to.events.empty() && event == SMEM_GROUP_EVENT_JOIN) return;  // before the test's leave, seen late
    to.handle = handle;
    to.events.emplace_back(rank, event);
    to.changed.notify_all();
  };
  const auto leaver = static_cast<std::uint32_t>(me.size - 1);
  const bool leaves = me.rank == me.size - 1;
  SMEM_CHECK(smem_bm_set_group_event_handler(pool.handle(), add, &seen));
  barrier(me);
  if (leaves) SMEM_CHECK(smem_bm_leave(pool.handle(), 0));
  if (!leaves) await(1);
  barrier(me);
  if (leaves) SMEM_CHECK(smem_bm_join(pool.handle(), 0));
  if (!leaves) await(2);
  barrier(me);
  if (!leaves) {
    HMC_CHECK_EQ(seen.handle, pool.handle());
    HMC_CHECK_EQ(seen.events.size(), 2U);
    HMC_CHECK(seen.events[0] == std::pair(leaver, SMEM_GROUP_EVENT_LEAVE));
    HMC_CHECK(seen.events[1] == std::pair(leaver, SMEM_GROUP_EVENT_JOIN));
  } else {
    HMC_CHECK_EQ(seen.events.size(), 0U);  // of others: none
  }
  SMEM_CHECK(smem_bm_set_group_event_handler(pool.handle(), nullptr, nullptr));
  barrier(me);
}

HMC_SPMD_TEST(BmMembers, extended_part_keeps_its_contents) {
  BmProcess process(me);
  auto option = parts(2 * MiB, 0);
  option.maxDramSize = 8 * MiB;
  if (me.rank == 0) option.flags = SMEM_BM_FLAG_DRAM_BEST_EFFORT;  // no effect
  const BmPool pool(me, option);
  const auto extend = [&](smem_bm_mem_type type, std::uint64_t bytes) {
    return smem_bm_extend_local_mem(pool.handle(), type, bytes);
  };
  HMC_CHECK_EQ(extend(device, 2 * MiB), SMEM_INVALID_PARAM);
  HMC_CHECK_EQ(extend(host, MiB), SMEM_INVALID_PARAM);
  HMC_CHECK_EQ(extend(host, 0), SMEM_INVALID_PARAM);
  HMC_CHECK_EQ(extend(host, 8 * MiB), SMEM_INVALID_PARAM);
  const auto data = pattern(me.rank, 1, 2 * MiB);
  std::byte* const to = pool.address(me.next(), host);
  SMEM_CHECK(smem_bm_register_user_mem(pool.handle(), reinterpret_cast<std::uint64_t>(data.data()), data.size()));
  SMEM_CHECK(pool.copy(to, data.data(), data.size(), SMEMB_COPY_H2GH));
  HMC_CHECK_EQ(pool.copy(to + 2 * MiB, data.data(), 1, SMEMB_COPY_H2GH), SMEM_INVALID_PARAM);
  barrier(me);
  SMEM_CHECK(extend(host, 4 * MiB));
  HMC_CHECK_EQ(smem_bm_get_local_mem_size_by_mem_type(pool.handle(), host), 6 * MiB);
  barrier(me);
  HMC_CHECK_EQ(pool.address(me.next(), host), to);
  SMEM_CHECK(pool.copy(to + 2 * MiB, data.data(), data.size(), SMEMB_COPY_H2GH));
  SMEM_CHECK(pool.copy(to + 6 * MiB - 5, data.data(), 5, SMEMB_COPY_H2GH));
  HMC_CHECK_EQ(pool.copy(to + 6 * MiB - 5, data.data(), 6, SMEMB_COPY_H2GH), SMEM_INVALID_PARAM);
  barrier(me);
  for (const std::uint64_t offset : {std::uint64_t{0}, 2 * MiB})
    HMC_CHECK_CLEAN(Pattern({me.previous(), 1}).verify(pool.own(host, offset, 2 * MiB)));
  barrier(me);
  // A part that had no bytes, of a process that isn't a member.
  option.localDRAMSize = 0;
  const smem_bm_t empty = smem_bm_create2(1, &option);
  SMEM_CHECK(smem_bm_extend_local_mem(empty, host, 8 * MiB));
  SMEM_CHECK(smem_bm_join(empty, 0));
  HMC_CHECK_EQ(smem_bm_extend_local_mem(empty, host, 2 * MiB), SMEM_INVALID_PARAM);
  barrier(me);
  smem_copy_params params{data.data(), smem_bm_ptr_by_mem_type(empty, host, static_cast<std::uint16_t>(me.next())), 64,
                          nullptr};
  SMEM_CHECK(smem_bm_copy(empty, &params, SMEMB_COPY_H2GH, 0));
  barrier(me);
  smem_bm_destroy(empty);
  auto with_devices = parts(2 * MiB, 2 * MiB);
  with_devices.maxDramSize = 4 * MiB;
  const BmPool other(me, with_devices, 2);
  HMC_CHECK_EQ(smem_bm_extend_local_mem(other.handle(), host, 2 * MiB), SMEM_INVALID_PARAM);
  barrier(me);
}

HMC_SPMD_TEST(BmMembers, addresses_of_this_process_are_loaded_from) {
  BmProcess process(me);
  const BmPool pool(me, parts());
  pool.fill_own(host, 4096, pattern(me.rank, 3, 4096));
  barrier(me);
  for (const int rank : {me.rank, me.next()}) {
    void* address = nullptr;
    const std::int32_t code =
        smem_bm_gva_to_va(pool.handle(), pool.address(rank, host, 4096), SMEM_MEM_TYPE_LOCAL_HOST, &address);
    HMC_CHECK_EQ(code == SMEM_OK, is_near(pool.handle(), rank));
    if (code == SMEM_OK)
      HMC_CHECK_CLEAN(Pattern({rank, 3}).verify(std::span(static_cast<const std::byte*>(address), 4096)));
  }
  void* address = nullptr;
  const auto code =
      smem_bm_gva_to_va(pool.handle(), pool.address(me.rank, device), SMEM_MEM_TYPE_LOCAL_DEVICE, &address);
  HMC_CHECK_EQ(code, SMEM_OK);
  HMC_CHECK(address != nullptr);
  HMC_CHECK_EQ(smem_bm_gva_to_va(pool.handle(), pool.address(me.rank, host), SMEM_MEM_TYPE_LOCAL_DEVICE, &address),
               process.accelerator.exists() ? SMEM_ERROR : SMEM_OK);
  HMC_CHECK_EQ(smem_bm_gva_to_va(pool.handle(), pool.address(me.rank, host), SMEM_MEM_TYPE_HOST, &address),
               SMEM_INVALID_PARAM);
  HMC_CHECK_EQ(smem_bm_gva_to_va(pool.handle(), &address, SMEM_MEM_TYPE_LOCAL_HOST, &address), SMEM_INVALID_PARAM);
  HMC_CHECK_EQ(smem_bm_gva_to_va(pool.handle(), pool.address(0, host), SMEM_MEM_TYPE_LOCAL_HOST, nullptr),
               SMEM_INVALID_PARAM);
  barrier(me);
}

HMC_SPMD_TEST(BmMembers, memory_of_the_user_is_registered_once) {
  BmProcess process(me);
  const BmPool pool(me, parts());
  auto data = pattern(me.rank, 1, MiB);
  const auto address = reinterpret_cast<std::uint64_t>(data.data());
  SMEM_CHECK(smem_bm_register_user_mem(pool.handle(), address, MiB));
  SMEM_CHECK(smem_bm_register_user_mem(pool.handle(), address, MiB));
  HMC_CHECK_EQ(smem_bm_register_user_mem(pool.handle(), address, MiB / 2), SMEM_INVALID_PARAM);
  HMC_CHECK_EQ(smem_bm_register_user_mem(pool.handle(), 0, MiB), SMEM_INVALID_PARAM);
  HMC_CHECK_EQ(smem_bm_register_user_mem(pool.handle(), address, 0), SMEM_INVALID_PARAM);
  SMEM_CHECK(pool.copy(pool.address(me.next(), device), data.data(), MiB, SMEMB_COPY_H2G));
  barrier(me);
  HMC_CHECK_CLEAN(Pattern({me.previous(), 1}).verify(pool.own(device, 0, MiB)));
  SMEM_CHECK(smem_bm_unregister_user_mem(pool.handle(), address));
  SMEM_CHECK(smem_bm_unregister_user_mem(pool.handle(), address));  // unknown
  barrier(me);
}

HMC_SPMD_TEST(BmMembers, shared_memory_of_another_process_is_the_host_part) {
  BmProcess process(me);
  const int descriptor = ::memfd_create("business", MFD_CLOEXEC);
  HMC_CHECK_EQ(::ftruncate(descriptor, static_cast<off_t>(part_bytes)), 0);
  // The mapping of the process that owns the memory.
  void* const view = ::mmap(nullptr, part_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  HMC_CHECK(view != MAP_FAILED);
  auto option = parts(part_bytes, 0);
  option.flags = SMEM_BM_FLAG_CREATE_WITH_SHM;
  option.dramShmFd = descriptor;
  {
    const BmPool pool(me, option);
    ::close(descriptor);
    const auto data = pattern(me.rank, 1, MiB);
    SMEM_CHECK(pool.copy(pool.address(me.next(), host, 4096), data.data(), MiB, SMEMB_COPY_H2GH));
    barrier(me);
    HMC_CHECK_CLEAN(Pattern({me.previous(), 1}).verify(std::span(static_cast<const std::byte*>(view) + 4096, MiB)));
    std::memset(view, 0x5a, 64);  // and in the other direction
    barrier(me);
    std::vector<std::byte> read(64);
    SMEM_CHECK(pool.copy(read.data(), pool.address(me.next(), host), 64, SMEMB_COPY_GH2H));
    HMC_CHECK_EQ(std::count(read.begin(), read.end(), std::byte{0x5a}), 64);
    barrier(me);
  }
  ::munmap(view, part_bytes);
}

HMC_SPMD_TEST(BmMembers, performance_mode_binds_the_host_part) {
  BmProcess process(me);
  auto option = parts(part_bytes, 0);
  option.flags = 1U << SMEM_BM_PERFORMANCE_MODE_FLAG_INDEX | SMEM_BM_BIND_NUMA_AUTO_AFFINITY_FLAG;
  const BmPool pool(me, option);
  const auto data = pattern(me.rank, 1, MiB);
  SMEM_CHECK(pool.copy(pool.address(me.next(), host), data.data(), MiB, SMEMB_COPY_H2GH));
  barrier(me);
  HMC_CHECK_CLEAN(Pattern({me.previous(), 1}).verify(pool.own(host, 0, MiB)));
  barrier(me);
  option.flags = 1U << SMEM_BM_PERFORMANCE_MODE_FLAG_INDEX | 101;  // a node that doesn't exist
  HMC_CHECK(smem_bm_create2(1, &option) == nullptr);
  barrier(me);
}

HMC_SPMD_TEST(BmMembers, tag_rules_select_the_wire) {
  BmProcess process(me);
  auto option = parts(part_bytes, 0);
  std::strcpy(option.tag, me.rank % 2 == 0 ? "even" : "odd");
  std::strcpy(option.tagOpInfo, "even:HOST_TCP:odd,odd:HOST_URMA:odd");
  const BmPool pool(me, option);
  char text[512];
  const int length = smem_bm_path(pool.handle(), host, static_cast<std::uint32_t>(me.next()), text, sizeof text);
  HMC_CHECK_MSG(length > 0, "{}", smem_get_last_err_msg());
  // The sizes are even, so neighbours have different tags.
  HMC_CHECK_MSG(std::string_view(text).substr(0, 5) == "tcp: ", "{}", text);
  char start[4];
  HMC_CHECK_EQ(smem_bm_path(pool.handle(), host, static_cast<std::uint32_t>(me.next()), start, sizeof start), length);
  HMC_CHECK_EQ(std::string_view(start), "tcp");
  HMC_CHECK_EQ(smem_bm_path(pool.handle(), host, static_cast<std::uint32_t>(me.size), nullptr, 0), SMEM_INVALID_PARAM);
  const auto data = pattern(me.rank, 1, MiB + 7);
  SMEM_CHECK(pool.copy(pool.address(me.next(), host, 3), data.data(), data.size(), SMEMB_COPY_H2GH));
  barrier(me);
  HMC_CHECK_CLEAN(Pattern({me.previous(), 1}).verify(pool.own(host, 3, data.size())));
  barrier(me);
}

std::vector<std::string> lines;  // NOLINT: the logger is a C function

HMC_SPMD_TEST(BmMembers, join_reports_the_operation_and_the_path) {
  BmProcess process(me);
  smem_set_extern_logger([](int, const char* text) { lines.emplace_back(text); });
  smem_set_log_level(1);
  {
    auto option = parts();
    option.dataOpType = static_cast<smem_bm_data_op_type>(SMEMB_DATA_OP_SDMA | SMEMB_DATA_OP_HOST_RDMA);
    const BmPool pool(me, option);
    const auto reports = std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
      return line.find("SDMA|HOST_RDMA requested") != std::string::npos && line.find(" used: ") != std::string::npos;
    });
    HMC_CHECK_GE(reports, 2);  // at least this member's parts
    barrier(me);
  }
  smem_set_log_level(2);
  smem_set_extern_logger([](int, const char*) {});
}

}  // namespace
}  // namespace hmc::memfabric_test
