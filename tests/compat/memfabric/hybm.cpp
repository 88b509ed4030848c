// hybm: slices that the processes of one machine exchange by themselves.
#include <hybm.h>
#include <hybm_big_mem.h>
#include <hybm_data_op.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "tests/compat/memfabric/support.hpp"

#define HYBM_CHECK(...)                                                                                      \
  do {                                                                                                       \
    if (const std::int32_t code_ = (__VA_ARGS__); code_ != BM_OK)                                            \
      ::hmc::spmd::fail_check(__FILE__, __LINE__,                                                            \
                              fmt::format("{}: {}", hybm_get_error_string(code_), smem_get_last_err_msg())); \
  } while (false)

namespace hmc::memfabric_test {
namespace {

constexpr std::uint64_t part = 8 * MiB;

hybm_options options_of(const TestRank& me) {
  hybm_options options{};
  options.bmType = HYBM_TYPE_HOST_INITIATE;
  options.memType = static_cast<hybm_mem_type>(HYBM_MEM_TYPE_HOST | HYBM_MEM_TYPE_DEVICE);
  options.bmDataOpType = HYBM_DOP_TYPE_HOST_SHM;
  options.rankCount = static_cast<std::uint32_t>(me.size);
  options.rankId = static_cast<std::uint32_t>(me.rank);
  options.devId = static_cast<std::uint16_t>(SMEM_INVALID_DEV_ID);
  options.maxDRAMSize = options.maxHBMSize = part;
  options.scene = HYBM_SCENE_DEFAULT;
  return options;
}

/// An entity from init to uninit, with its addresses reserved.
class HybmEntity {
 public:
  explicit HybmEntity(TestRank& me, const hybm_options& options) : me_(&me) {
    HYBM_CHECK(hybm_init(0, 0));
    entity_ = hybm_create_entity(5, &options, 0);
    HMC_CHECK_MSG(entity_ != nullptr, "{}", smem_get_last_err_msg());
    HYBM_CHECK(hybm_reserve_mem_space(entity_, 0));
  }
  ~HybmEntity() { hybm_uninit(); }
  HybmEntity(const HybmEntity&) = delete;
  HybmEntity& operator=(const HybmEntity&) = delete;

  hybm_entity_t handle() const { return entity_; }
  std::byte* address(int rank, hybm_mem_type type, std::uint64_t offset = 0) const {
    auto* const base = static_cast<std::byte*>(hybm_get_memory_ptr(entity_, type));
    HMC_CHECK_MSG(base != nullptr, "{}", smem_get_last_err_msg());
    return base + static_cast<std::uint64_t>(rank) * part + offset;
  }
  hybm_mem_slice_t allocate(hybm_mem_type type, std::uint64_t bytes) const {
    const hybm_mem_slice_t slice = hybm_alloc_local_memory(entity_, type, bytes, 0);
    HMC_CHECK_MSG(slice != nullptr, "{}", smem_get_last_err_msg());
    return slice;
  }
  /// The exported bytes of all ranks.
  std::vector<std::vector<std::uint64_t>> exchange(hybm_mem_slice_t slice) const {
    hybm_exchange_info mine{};
    HYBM_CHECK(hybm_export(entity_, slice, 0, &mine));
    std::vector<std::uint64_t> words(mine.descLen / 8);
    HMC_CHECK_EQ(words.size() * 8, std::size_t{mine.descLen});
    std::memcpy(words.data(), mine.desc, mine.descLen);
    hybm_export_info_free(&mine);
    HMC_CHECK(mine.desc == nullptr);
    std::vector<std::uint64_t> all(words.size() * static_cast<std::size_t>(me_->size));
    me_->runtime->world().allgather(std::span<const std::uint64_t>(words), std::span(all));
    std::vector<std::vector<std::uint64_t>> by_rank;
    for (auto at = all.begin(); at != all.end(); at += static_cast<std::ptrdiff_t>(words.size()))
      by_rank.emplace_back(at, at + static_cast<std::ptrdiff_t>(words.size()));
    return by_rank;
  }
  std::int32_t import(std::vector<std::vector<std::uint64_t>> all, void* addresses[] = nullptr) const {
    std::vector<hybm_exchange_info> infos;
    for (auto& each : all)
      infos.push_back({reinterpret_cast<std::uint8_t*>(each.data()), static_cast<std::uint32_t>(each.size() * 8)});
    return hybm_import(entity_, infos.data(), static_cast<std::uint32_t>(infos.size()), addresses, 0);
  }
  std::int32_t copy(void* to, const void* from, std::uint64_t bytes, hybm_data_copy_direction direction) const {
    hybm_copy_params params{const_cast<void*>(from), to, bytes};
    return hybm_data_copy(entity_, &params, direction, nullptr, 0);
  }

 private:
  TestRank* me_;
  hybm_entity_t entity_ = nullptr;
};

constexpr auto on_host = HYBM_MEM_TYPE_HOST;
constexpr auto on_device = HYBM_MEM_TYPE_DEVICE;

HMC_SPMD_TEST(Hybm, copies_reach_the_slices_of_their_owner) {
  const HybmEntity entity(me, options_of(me));
  HMC_CHECK_EQ(hybm_alloc_local_memory(entity.handle(), on_host, MiB, 0), nullptr);
  const hybm_mem_slice_t first = entity.allocate(on_host, 2 * MiB);
  const hybm_mem_slice_t second = entity.allocate(on_host, 2 * MiB);
  const hybm_mem_slice_t other = entity.allocate(on_device, 2 * MiB);
  HMC_CHECK_EQ(hybm_alloc_local_memory(entity.handle(), on_host, part, 0), nullptr);  // beyond the part
  HMC_CHECK_EQ(hybm_get_slice_va(entity.handle(), second), entity.address(me.rank, on_host, 2 * MiB));
  HMC_CHECK_EQ(hybm_get_slice_size(entity.handle(), other), 2 * MiB);
  std::byte* const to = entity.address(me.next(), on_host);
  const auto data = pattern(me.rank, 1, 3 * MiB);
  HMC_CHECK_EQ(entity.copy(to, data.data(), 8, HYBM_LOCAL_HOST_TO_GLOBAL_HOST), BM_INVALID_PARAM);  // not imported
  for (const hybm_mem_slice_t slice : {first, second, other}) {
    std::vector<void*> addresses(static_cast<std::size_t>(me.size));
    HYBM_CHECK(entity.import(entity.exchange(slice), addresses.data()));
    const std::uint64_t offset = slice == second ? 2 * MiB : 0;
    for (int rank = 0; rank < me.size; ++rank)
      HMC_CHECK_EQ(addresses[static_cast<std::size_t>(rank)],
                   entity.address(rank, slice == other ? on_device : on_host, offset));
    barrier(me);
  }
  HYBM_CHECK(hybm_mmap(entity.handle(), 0));
  barrier(me);
  // Over the end of the first slice, unaligned.
  HYBM_CHECK(entity.copy(to + 1021, data.data(), data.size(), HYBM_LOCAL_HOST_TO_GLOBAL_HOST));
  HYBM_CHECK(entity.copy(entity.address(me.next(), on_device, 7), data.data(), MiB, HYBM_DATA_COPY_DIRECTION_AUTO));
  barrier(me);
  const auto verify = [&](const std::byte* at, std::uint64_t bytes) {
    HMC_CHECK_CLEAN(Pattern({me.previous(), 1}).verify(std::span(at, bytes)));
  };
  verify(entity.address(me.rank, on_host, 1021), data.size());
  verify(entity.address(me.rank, on_device, 7), MiB);
  std::vector<std::byte> back(data.size());
  HYBM_CHECK(entity.copy(back.data(), to + 1021, back.size(), HYBM_GLOBAL_HOST_TO_LOCAL_HOST));
  HMC_CHECK(back == data);
  barrier(me);
  // A batch, of which one piece moves between the parts of other ranks.
  std::array<void*, 2> sources = {entity.address(me.next(), on_device, 7), entity.address(me.next(), on_device, 7)};
  std::array<void*, 2> targets = {entity.address(me.next(), on_device, MiB + 64), back.data()};
  const std::array<std::uint64_t, 2> sizes = {4096, 100};
  hybm_batch_copy_params batch{sources.data(), targets.data(), sizes.data(), 2};
  HYBM_CHECK(hybm_data_batch_copy(entity.handle(), &batch, HYBM_DATA_COPY_DIRECTION_AUTO, nullptr, 0));
  HYBM_CHECK(hybm_wait(entity.handle()));
  HMC_CHECK(std::equal(back.begin(), back.begin() + 100, data.begin()));
  barrier(me);
  verify(entity.address(me.rank, on_device, MiB + 64), 4096);
  HMC_CHECK_EQ(hybm_data_batch_copy(entity.handle(), &batch, HYBM_GLOBAL_DEVICE_TO_GLOBAL_DEVICE, nullptr, 0),
               BM_INVALID_PARAM);
  barrier(me);
}

HMC_SPMD_TEST(Hybm, directions_and_ranges_are_checked) {
  const HybmEntity entity(me, options_of(me));
  const hybm_mem_slice_t slice = entity.allocate(on_host, 2 * MiB);
  (void)entity.allocate(on_device, 2 * MiB);
  std::byte* const global = entity.address(me.rank, on_host);
  std::byte* const device_part = entity.address(me.rank, on_device);
  std::vector<std::byte> local(64), other(64);
  const auto invalid = [&](void* to, const void* from, hybm_data_copy_direction direction, std::uint64_t bytes = 64) {
    HMC_CHECK_EQ(entity.copy(to, from, bytes, direction), BM_INVALID_PARAM);
  };
  for (int direction = 0; direction <= HYBM_DATA_COPY_DIRECTION_BUTT; ++direction)
    invalid(other.data(), local.data(), static_cast<hybm_data_copy_direction>(direction));
  invalid(device_part, local.data(), HYBM_LOCAL_HOST_TO_GLOBAL_HOST);
  invalid(global, local.data(), HYBM_LOCAL_HOST_TO_GLOBAL_DEVICE);
  invalid(global, local.data(), HYBM_GLOBAL_HOST_TO_LOCAL_HOST);
  invalid(local.data(), global, HYBM_LOCAL_HOST_TO_GLOBAL_HOST);
  invalid(global, local.data(), HYBM_LOCAL_HOST_TO_GLOBAL_HOST, 0);
  invalid(global, nullptr, HYBM_LOCAL_HOST_TO_GLOBAL_HOST);
  invalid(global + 2 * MiB - 63, local.data(), HYBM_LOCAL_HOST_TO_GLOBAL_HOST);  // beyond the slice
  HYBM_CHECK(entity.copy(global + 2 * MiB - 64, local.data(), 64, HYBM_LOCAL_HOST_TO_GLOBAL_HOST));
  std::uint64_t va = 0;
  const auto gva = reinterpret_cast<std::uint64_t>(global);
  HYBM_CHECK(hybm_gva_to_va(gva, on_host, &va));
  HMC_CHECK_EQ(va, gva);
  HMC_CHECK_EQ(hybm_gva_to_va(gva, on_device, &va), BM_INVALID_PARAM);
  HMC_CHECK_EQ(hybm_gva_to_va(gva + 2 * MiB, on_host, &va), BM_INVALID_PARAM);
  HYBM_CHECK(hybm_free_local_memory(entity.handle(), slice, 1, 0));
  HMC_CHECK_EQ(hybm_free_local_memory(entity.handle(), slice, 1, 0), BM_INVALID_PARAM);
  invalid(global, local.data(), HYBM_LOCAL_HOST_TO_GLOBAL_HOST);
  HMC_CHECK_EQ(hybm_get_slice_va(entity.handle(), entity.allocate(on_host, 2 * MiB)), global);  // its place is free
  const hybm_mem_slice_t users = hybm_register_local_memory(entity.handle(), local.data(), local.size(), 0);
  HMC_CHECK_EQ(hybm_get_slice_va(entity.handle(), users), local.data());
  hybm_exchange_info info{};
  HMC_CHECK_EQ(hybm_export(entity.handle(), users, 0, &info), BM_NOT_SUPPORTED);
  HYBM_CHECK(hybm_free_local_memory(entity.handle(), nullptr, 0, 0));
  auto options = options_of(me);
  HMC_CHECK(hybm_create_entity(5, &options, 0) == nullptr);  // the id exists
  options.rankId = options.rankCount;
  HMC_CHECK(hybm_create_entity(6, &options, 0) == nullptr);
  options = options_of(me);
  options.maxDRAMSize = MiB;
  HMC_CHECK(hybm_create_entity(6, &options, 0) == nullptr);
  HMC_CHECK(hybm_create_entity(6, nullptr, 0) == nullptr);
  HMC_CHECK_EQ(std::string_view(hybm_get_error_string(BM_NOT_SUPPORTED)), "NOT_SUPPORTED");
  HMC_CHECK(hybm_get_error_string(17) == nullptr);
  barrier(me);
}

HMC_SPMD_TEST(Hybm, imported_ranks_can_be_unmapped_and_removed) {
  const HybmEntity entity(me, options_of(me));
  const auto all = entity.exchange(entity.allocate(on_host, 2 * MiB));
  const auto next = static_cast<std::uint32_t>(me.next());
  HMC_CHECK_EQ(hybm_transport_connect(entity.handle(), &next, 1, 0), BM_NOT_CONNECTED);
  HYBM_CHECK(entity.import(all));
  HYBM_CHECK(hybm_transport_connect(entity.handle(), &next, 1, 0));
  const auto reaches = [&](std::uint32_t rank) {
    hybm_data_op_type types{};
    HYBM_CHECK(hybm_entity_reach_types(entity.handle(), rank, types, 0));
    return types != HYBM_DOP_TYPE_DEFAULT;
  };
  const auto copy = [&] {
    std::byte byte{};
    return entity.copy(&byte, entity.address(me.next(), on_host), 1, HYBM_GLOBAL_HOST_TO_LOCAL_HOST);
  };
  HMC_CHECK(!reaches(next));
  for (int round = 0; round < 2; ++round) {
    HYBM_CHECK(hybm_mmap(entity.handle(), 0));
    HMC_CHECK(reaches(next));
    HYBM_CHECK(copy());
    if (round == 0)
      HYBM_CHECK(hybm_unmap_rank(entity.handle(), next));
    else
      hybm_unmap(entity.handle(), 0);
    HMC_CHECK(!reaches(next));
    HMC_CHECK_EQ(copy(), BM_INVALID_PARAM);
  }
  HYBM_CHECK(hybm_remove_imported(entity.handle(), next, 0));
  HYBM_CHECK(hybm_mmap(entity.handle(), 0));
  HMC_CHECK(!reaches(next));
  HMC_CHECK_EQ(hybm_transport_connect(entity.handle(), &next, 1, 0), BM_NOT_CONNECTED);
  barrier(me);
  // Bytes of another machine, malformed ones, and those of a slice that doesn't exist any more. None is imported.
  auto foreign = all;
  foreign.back()[1] ^= 1;
  HMC_CHECK_EQ(entity.import(foreign), BM_NOT_SUPPORTED);
  foreign = all;
  foreign.back().pop_back();
  HMC_CHECK_EQ(entity.import(foreign), BM_INVALID_PARAM);
  foreign = all;
  foreign.back()[0] ^= 1;
  HMC_CHECK_EQ(entity.import(foreign), BM_INVALID_PARAM);
  barrier(me);
  HYBM_CHECK(hybm_unreserve_mem_space(entity.handle(), 0));
  HMC_CHECK(hybm_get_memory_ptr(entity.handle(), on_host) == nullptr);
  barrier(me);
  HYBM_CHECK(hybm_reserve_mem_space(entity.handle(), 0));
  HMC_CHECK_EQ(entity.import(all), BM_FILE_NOT_ACCESS);
  barrier(me);
}

HMC_SPMD_TEST(Hybm, shared_memory_of_the_caller_is_a_slice) {
  auto options = options_of(me);
  options.dramShmFd = ::memfd_create("hybm_test", MFD_CLOEXEC);
  HMC_CHECK_EQ(::ftruncate(options.dramShmFd, 2 * MiB), 0);
  options.flags = HYBM_FLAG_CREATE_WITH_SHM;
  void* const mine = ::mmap(nullptr, 2 * MiB, PROT_READ | PROT_WRITE, MAP_SHARED, options.dramShmFd, 0);
  {
    const HybmEntity entity(me, options);
    HMC_CHECK(hybm_alloc_local_memory(entity.handle(), on_host, 4 * MiB, 0) == nullptr);  // the file is smaller
    const auto all = entity.exchange(entity.allocate(on_host, 2 * MiB));
    HYBM_CHECK(entity.import(all));
    HYBM_CHECK(hybm_mmap(entity.handle(), 0));
    const auto data = pattern(me.rank, 4, MiB);
    HYBM_CHECK(entity.copy(entity.address(me.next(), on_host, 5), data.data(), MiB, HYBM_LOCAL_HOST_TO_GLOBAL_HOST));
    barrier(me);
    HMC_CHECK_CLEAN(Pattern({me.previous(), 4}).verify(std::span(static_cast<const std::byte*>(mine) + 5, MiB)));
    barrier(me);
  }
  ::munmap(mine, 2 * MiB);
  ::close(options.dramShmFd);
}

}  // namespace
}  // namespace hmc::memfabric_test
