// BM: addresses, directions, batches, 2-D and asynchronous copies, verified in the owner's memory.
#include <algorithm>
#include <array>

#include "tests/compat/memfabric/support.hpp"

namespace hmc::memfabric_test {
namespace {

HMC_SPMD_TEST(Bm, addresses_are_equal_in_all_members_and_linear) {
  BmProcess process(me);
  auto option = parts(8 * MiB, 4 * MiB);
  // Local sizes differ; the strides are the maxima.
  option.localDRAMSize = me.rank % 2 == 0 ? 2 * MiB : 8 * MiB;
  option.localHBMSize = me.rank % 2 == 0 ? 4 * MiB : 0;
  const smem_bm_t handle = smem_bm_create2(3, &option);
  HMC_CHECK_MSG(handle != nullptr, "{}", smem_get_last_err_msg());
  // Before the join, too.
  const auto number = [&](smem_bm_mem_type type, int rank) {
    return reinterpret_cast<std::uint64_t>(smem_bm_ptr_by_mem_type(handle, type, static_cast<std::uint16_t>(rank)));
  };
  for (const auto type : {host, device}) {
    const std::uint64_t stride = type == host ? option.maxDramSize : option.maxHbmSize;
    for (int rank = 0; rank < me.size; ++rank) {
      HMC_CHECK_EQ(number(type, rank), number(type, 0) + static_cast<std::uint64_t>(rank) * stride);
      for (const std::uint64_t offset : {std::uint64_t{0}, 2 * MiB, stride - 1}) {  // also beyond the local size
        void* const inside = reinterpret_cast<void*>(number(type, rank) + offset);
        HMC_CHECK_EQ(smem_bm_get_rank_id_by_gva(handle, inside), static_cast<std::uint32_t>(rank));
      }
    }
    if (smem_bm_has_one_address_space(handle)) {
      for (const std::uint64_t base : allgather(me, number(type, 0))) HMC_CHECK_EQ(base, number(type, 0));
    }
  }
  int outside = 0;
  HMC_CHECK_EQ(smem_bm_get_rank_id_by_gva(handle, &outside), UINT32_MAX);
  HMC_CHECK(smem_bm_ptr_by_mem_type(handle, host, static_cast<std::uint16_t>(me.size)) == nullptr);
  HMC_CHECK(smem_bm_ptr_by_mem_type(handle, SMEM_MEM_TYPE_LOCAL_HOST, 0) == nullptr);
  HMC_CHECK_EQ(smem_bm_get_local_mem_size_by_mem_type(handle, host), option.localDRAMSize);
  HMC_CHECK_EQ(smem_bm_get_local_mem_size_by_mem_type(handle, device), option.localHBMSize);
  HMC_CHECK_EQ(smem_bm_get_local_mem_size_by_mem_type(handle, SMEM_MEM_TYPE_LOCAL_DEVICE), 0U);
  SMEM_CHECK(smem_bm_join(handle, 0));
  barrier(me);
  // Exactly the local size of the next member can be written.
  const bool even = me.next() % 2 == 0;
  const std::uint64_t bytes = even ? 2 * MiB : 8 * MiB;
  const auto data = pattern(me.rank, 1, bytes);
  void* const to = reinterpret_cast<void*>(number(host, me.next()));
  smem_copy_params params{data.data(), to, bytes, nullptr};
  SMEM_CHECK(smem_bm_copy(handle, &params, SMEMB_COPY_H2GH, 0));
  params.dest = static_cast<std::byte*>(to) + 1;
  if (even) HMC_CHECK_EQ(smem_bm_copy(handle, &params, SMEMB_COPY_H2GH, 0), SMEM_INVALID_PARAM);
  barrier(me);
  const std::span own(reinterpret_cast<std::byte*>(number(host, me.rank)), option.localDRAMSize);
  HMC_CHECK_CLEAN(Pattern({me.previous(), 1}).verify(own));
  barrier(me);
  smem_bm_destroy(handle);
}

struct Way {
  smem_bm_copy_type type;
  bool local_on_device;
  bool part_on_device;
  bool to_pool;
};
constexpr std::array<Way, 12> local_ways = {{
    {SMEMB_COPY_L2G, true, true, true},
    {SMEMB_COPY_G2L, true, true, false},
    {SMEMB_COPY_G2H, false, true, false},
    {SMEMB_COPY_H2G, false, true, true},
    {SMEMB_COPY_L2GH, true, false, true},
    {SMEMB_COPY_GH2L, true, false, false},
    {SMEMB_COPY_GH2H, false, false, false},
    {SMEMB_COPY_H2GH, false, false, true},
    // G is any part of the pool.
    {SMEMB_COPY_L2G, true, false, true},
    {SMEMB_COPY_G2L, true, false, false},
    {SMEMB_COPY_G2H, false, false, false},
    {SMEMB_COPY_H2G, false, false, true},
}};
constexpr std::array<std::uint64_t, 6> sizes = {1, 7, 64, 4096, 65537, MiB + 7};
constexpr std::uint64_t offset_in_part = 1021;  // unaligned
constexpr std::uint64_t guard = 64;

/// Writes to the next member's part, or reads from it, and verifies all bytes and the bytes beside them.
void check_way(TestRank& me, const BmPool& pool, const Device& on, const Way& way, smem_bm_copy_type type,
               std::uint64_t bytes, std::uint64_t call) {
  const auto part = way.part_on_device ? device : host;
  const LocalMemory local(bytes + 2 * guard, on, way.local_on_device);
  std::byte* const remote = pool.address(me.next(), part, offset_in_part);
  pool.fill_own(part, 0, std::vector<std::byte>(offset_in_part + bytes + guard));
  if (way.to_pool) {
    local.write(pattern(me.rank, call, bytes), guard);
    barrier(me);
    SMEM_CHECK(pool.copy(remote, local.data(guard), bytes, type));
    barrier(me);
    const auto own = pool.own(part, 0, offset_in_part + bytes + guard);
    HMC_CHECK_CLEAN(Pattern({me.previous(), call}).verify(std::span(own).subspan(offset_in_part, bytes)));
    HMC_CHECK_EQ(std::count(own.begin(), own.begin() + offset_in_part, std::byte{0}), std::int64_t{offset_in_part});
    HMC_CHECK_EQ(std::count(own.end() - guard, own.end(), std::byte{0}), std::int64_t{guard});
  } else {
    pool.fill_own(part, offset_in_part, pattern(me.rank, call, bytes));
    barrier(me);
    SMEM_CHECK(pool.copy(local.data(guard), remote, bytes, type));
    HMC_CHECK_CLEAN(Pattern({me.next(), call}).verify(local.read(guard, bytes)));
    const auto beside = local.read(guard + bytes, guard);
    HMC_CHECK_EQ(std::count(beside.begin(), beside.end(), std::byte{0}), std::int64_t{guard});
  }
  barrier(me);
}

HMC_SPMD_TEST(Bm, copies_in_each_direction_reach_the_owner) {
  BmProcess process(me);
  const BmPool pool(me, parts());
  std::uint64_t call = 0;
  for (const Way& way : local_ways) {
    for (const std::uint64_t bytes : sizes) {
      check_way(me, pool, process.accelerator, way, way.type, bytes, ++call);
      check_way(me, pool, process.accelerator, way, SMEMB_COPY_AUTO, bytes, ++call);
    }
  }
}

HMC_SPMD_TEST(Bm, copies_between_parts_of_the_pool_reach_the_owner) {
  BmProcess process(me);
  const BmPool pool(me, parts());
  std::uint64_t call = 100;
  for (const auto from : {host, device}) {
    for (const auto to : {host, device}) {
      for (const auto type : {SMEMB_COPY_G2G, SMEMB_COPY_AUTO}) {
        for (const std::uint64_t bytes : sizes) {
          ++call;
          pool.fill_own(from, offset_in_part, pattern(me.rank, call, bytes));
          barrier(me);
          // From the next member's part to the previous member's: neither is this one's, from 3 members on.
          SMEM_CHECK(pool.copy(pool.address(me.previous(), to, 2 * MiB + 1),
                               pool.address(me.next(), from, offset_in_part), bytes, type));
          barrier(me);
          const int source = (me.next() + 1) % me.size;
          HMC_CHECK_CLEAN(Pattern({source, call}).verify(pool.own(to, 2 * MiB + 1, bytes)));
          barrier(me);
        }
      }
    }
  }
}

HMC_SPMD_TEST(Bm, own_part_is_also_named_as_local_memory) {
  BmProcess process(me);
  const BmPool pool(me, parts());
  pool.fill_own(host, 0, pattern(me.rank, 7, 4096));
  barrier(me);
  SMEM_CHECK(pool.copy(pool.address(me.next(), device), pool.address(me.rank, host), 4096, SMEMB_COPY_H2G));
  barrier(me);
  HMC_CHECK_CLEAN(Pattern({me.previous(), 7}).verify(pool.own(device, 0, 4096)));
  SMEM_CHECK(pool.copy(pool.address(me.next(), host, MiB), pool.address(me.rank, device), 4096, SMEMB_COPY_L2GH));
  barrier(me);
  const int source = (me.previous() + me.size - 1) % me.size;
  HMC_CHECK_CLEAN(Pattern({source, 7}).verify(pool.own(host, MiB, 4096)));
  barrier(me);
}

HMC_SPMD_TEST(Bm, wrong_directions_are_invalid) {
  BmProcess process(me);
  const BmPool pool(me, parts());
  const LocalMemory on_host(4096, process.accelerator, false);
  const LocalMemory other(4096, process.accelerator, false);
  const LocalMemory on_device(4096, process.accelerator, true);
  std::byte* const gh = pool.address(me.next(), host);
  std::byte* const gd = pool.address(me.next(), device);
  const auto invalid = [&](void* to, const void* from, smem_bm_copy_type type, std::uint64_t bytes = 64) {
    HMC_CHECK_EQ(pool.copy(to, from, bytes, type), SMEM_INVALID_PARAM);
  };
  for (int type = SMEMB_COPY_L2G; type <= SMEMB_COPY_AUTO; ++type)  // local to local
    invalid(other.data(), on_host.data(), static_cast<smem_bm_copy_type>(type));
  invalid(gd, on_host.data(), SMEMB_COPY_H2GH);
  invalid(gd, on_device.data(), SMEMB_COPY_L2GH);
  invalid(on_host.data(), gd, SMEMB_COPY_GH2H);
  invalid(on_device.data(), gd, SMEMB_COPY_GH2L);
  invalid(gh, on_host.data(), SMEMB_COPY_GH2H);
  invalid(on_host.data(), gh, SMEMB_COPY_H2GH);
  invalid(gh, on_host.data(), SMEMB_COPY_G2G);
  invalid(gh, on_host.data(), SMEMB_COPY_BUTT);
  invalid(gh, nullptr, SMEMB_COPY_H2GH);
  invalid(nullptr, gh, SMEMB_COPY_GH2H);
  invalid(gh, on_host.data(), SMEMB_COPY_H2GH, 0);
  if (process.accelerator.exists()) {
    invalid(gh, on_device.data(), SMEMB_COPY_H2GH);
    invalid(gh, on_host.data(), SMEMB_COPY_L2GH);
    invalid(on_host.data(), gd, SMEMB_COPY_G2L);
  }
  HMC_CHECK_EQ(pool.copy(gh, on_host.data(), 64, SMEMB_COPY_H2GH, 8), SMEM_INVALID_PARAM);  // an unknown flag
  HMC_CHECK_EQ(smem_bm_copy(pool.handle(), nullptr, SMEMB_COPY_AUTO, 0), SMEM_INVALID_PARAM);
  barrier(me);
  const auto own = pool.own(host, 0, part_bytes);
  HMC_CHECK_EQ(std::count(own.begin(), own.end(), std::byte{0}), static_cast<std::int64_t>(part_bytes));
  barrier(me);
}

/// The pieces of a batch in the C form.
struct Batch {
  std::vector<void*> sources, destinations;
  std::vector<std::uint64_t> sizes;
  void add(void* to, const void* from, std::uint64_t bytes) {
    destinations.push_back(to);
    sources.push_back(const_cast<void*>(from));
    sizes.push_back(bytes);
  }
  smem_batch_copy_params params() {
    return {sources.data(), destinations.data(), sizes.data(), static_cast<std::uint32_t>(sizes.size()), nullptr};
  }
};

HMC_SPMD_TEST(Bm, batch_with_mixed_directions_moves_each_piece) {
  BmProcess process(me);
  const BmPool pool(me, parts());
  constexpr std::uint64_t count = 300;
  constexpr std::uint64_t slot = 256;
  const LocalMemory source(count * slot, process.accelerator, false);
  const LocalMemory target(count * slot, process.accelerator, true);
  source.write(pattern(me.rank, 1, count * slot));
  pool.fill_own(device, 2 * MiB, pattern(me.rank, 2, count * slot));
  // Piece i has i % 255 + 1 bytes. Of a writer w it is for the member w + i, at w's place there; each third piece is
  // read from the next member's device part instead.
  const auto bytes_of = [](std::uint64_t i) { return i % 255 + 1; };
  const auto part_of = [](std::uint64_t i) { return i % 3 == 0 ? host : device; };
  const auto place_of = [&](int writer, std::uint64_t i) {
    return static_cast<std::uint64_t>(writer) * count * slot + i * slot;
  };
  const auto reader_of = [&](int writer, std::uint64_t i) {
    return static_cast<int>((static_cast<std::uint64_t>(writer) + i) % static_cast<std::uint64_t>(me.size));
  };
  barrier(me);
  Batch batch;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (i % 3 == 2) {
      batch.add(target.data(i * slot), pool.address(me.next(), device, 2 * MiB + i * slot), bytes_of(i));
    } else {
      batch.add(pool.address(reader_of(me.rank, i), part_of(i), place_of(me.rank, i)), source.data(i * slot),
                bytes_of(i));
    }
  }
  auto params = batch.params();
  SMEM_CHECK(smem_bm_copy_batch(pool.handle(), &params, SMEMB_COPY_AUTO, 0));
  barrier(me);
  const auto on_host = pool.own(host, 0, 2 * MiB);
  const auto on_device = pool.own(device, 0, 2 * MiB);
  for (std::uint64_t i = 0; i < count; ++i) {
    if (i % 3 == 2) {
      HMC_CHECK_CLEAN(Pattern({me.next(), 2}).verify(target.read(i * slot, bytes_of(i)), i * slot));
      continue;
    }
    for (int writer = 0; writer < me.size; ++writer) {
      if (reader_of(writer, i) != me.rank) continue;
      const auto& own = i % 3 == 0 ? on_host : on_device;
      HMC_CHECK_CLEAN(Pattern({writer, 1}).verify(std::span(own).subspan(place_of(writer, i), bytes_of(i)), i * slot));
      HMC_CHECK_EQ(own[place_of(writer, i) + bytes_of(i)], std::byte{0});
    }
  }
  barrier(me);
}

HMC_SPMD_TEST(Bm, invalid_batch_moves_nothing) {
  BmProcess process(me);
  const BmPool pool(me, parts());
  const auto data = pattern(me.rank, 3, 4096);
  std::vector<std::byte> local(64);
  const auto rejected = [&](Batch batch, smem_bm_copy_type type) {
    auto params = batch.params();
    HMC_CHECK_EQ(smem_bm_copy_batch(pool.handle(), &params, type, 0), SMEM_INVALID_PARAM);
  };
  Batch good;
  good.add(pool.address(me.next(), host), data.data(), 64);
  Batch zero = good;
  zero.add(pool.address(me.next(), host, 128), data.data(), 0);
  rejected(zero, SMEMB_COPY_AUTO);
  Batch local_only = good;
  local_only.add(local.data(), data.data(), 64);
  rejected(local_only, SMEMB_COPY_AUTO);
  Batch beyond = good;
  beyond.add(pool.address(me.next(), host, part_bytes - 1), data.data(), 64);
  rejected(beyond, SMEMB_COPY_H2GH);
  Batch other_direction = good;  // the direction isn't that of the first piece
  other_direction.add(local.data(), pool.address(me.next(), host), 64);
  rejected(other_direction, SMEMB_COPY_H2GH);
  Batch none;
  rejected(none, SMEMB_COPY_AUTO);
  smem_batch_copy_params nothing{nullptr, nullptr, nullptr, 1, nullptr};
  HMC_CHECK_EQ(smem_bm_copy_batch(pool.handle(), &nothing, SMEMB_COPY_AUTO, 0), SMEM_INVALID_PARAM);
  barrier(me);
  const auto own = pool.own(host, 0, 4096);
  HMC_CHECK_EQ(std::count(own.begin(), own.end(), std::byte{0}), std::int64_t{4096});
  barrier(me);
}

HMC_SPMD_TEST(Bm, two_dimensional_copies_leave_the_gaps) {
  BmProcess process(me);
  const BmPool pool(me, parts());
  constexpr std::uint64_t height = 33;
  struct Shape {
    std::uint64_t width, source_pitch, target_pitch;
  };
  std::uint64_t call = 0;
  for (const Shape& shape : {Shape{100, 128, 333}, Shape{64, 64, 64}, Shape{1, 7, 3}, Shape{4097, 5000, 4097}}) {
    for (const auto part : {host, device}) {
      ++call;
      const auto source = pattern(me.rank, call, height * shape.source_pitch);
      pool.fill_own(part, 0, std::vector<std::byte>(height * shape.target_pitch + 64));
      barrier(me);
      SMEM_CHECK(smem_bm_copy_2d(pool.handle(), source.data(), shape.source_pitch, pool.address(me.next(), part, 32),
                                 shape.target_pitch, shape.width, height, SMEMB_COPY_H2G, 0));
      barrier(me);
      const auto sent = pattern(me.previous(), call, height * shape.source_pitch);
      std::vector<std::byte> expected(height * shape.target_pitch + 64);
      for (std::uint64_t row = 0; row < height; ++row)
        std::memcpy(&expected[32 + row * shape.target_pitch], &sent[row * shape.source_pitch], shape.width);
      HMC_CHECK(pool.own(part, 0, expected.size()) == expected);
      // And back, into a buffer with gaps of its own.
      std::vector<std::byte> back(height * shape.source_pitch);
      SMEM_CHECK(smem_bm_copy_2d(pool.handle(), pool.address(me.next(), part, 32), shape.target_pitch, back.data(),
                                 shape.source_pitch, shape.width, height, SMEMB_COPY_G2H, 0));
      for (std::uint64_t i = 0; i < back.size(); ++i)
        HMC_CHECK_EQ(back[i], i % shape.source_pitch < shape.width ? source[i] : std::byte{0});
      barrier(me);
    }
  }
  std::byte one{};
  HMC_CHECK_EQ(smem_bm_copy_2d(pool.handle(), &one, 1, pool.address(me.next(), host), 1, 0, 1, SMEMB_COPY_H2G, 0),
               SMEM_INVALID_PARAM);
  HMC_CHECK_EQ(smem_bm_copy_2d(pool.handle(), &one, 1, pool.address(me.next(), host), 1, 2, 1, SMEMB_COPY_H2G, 0),
               SMEM_INVALID_PARAM);
  barrier(me);
}

HMC_SPMD_TEST(Bm, asynchronous_copies_are_complete_after_wait) {
  BmProcess process(me);
  const BmPool pool(me, parts());
  SMEM_CHECK(smem_bm_wait(pool.handle()));  // none
  const auto data = pattern(me.rank, 5, 2 * MiB);
  for (std::uint64_t at = 0; at < 2 * MiB; at += 64 * 1024)
    SMEM_CHECK(pool.copy(pool.address(me.next(), at % (128 * 1024) == 0 ? host : device, at), &data[at], 64 * 1024,
                         SMEMB_COPY_AUTO, ASYNC_COPY_FLAG));
  // The arguments are checked at once.
  HMC_CHECK_EQ(pool.copy(pool.address(me.next(), host), data.data(), 0, SMEMB_COPY_AUTO, ASYNC_COPY_FLAG),
               SMEM_INVALID_PARAM);
  SMEM_CHECK(smem_bm_wait(pool.handle()));
  barrier(me);
  for (std::uint64_t at = 0; at < 2 * MiB; at += 64 * 1024)
    HMC_CHECK_CLEAN(
        Pattern({me.previous(), 5}).verify(pool.own(at % (128 * 1024) == 0 ? host : device, at, 64 * 1024), at));
  barrier(me);
}

HMC_SPMD_TEST(Bm, copies_follow_the_work_of_a_stream) {
  BmProcess process(me);
  const BmPool pool(me, parts());
  const LocalMemory local(MiB, process.accelerator, true);
  const auto data = pattern(me.rank, 6, MiB);
  int not_a_stream = 0;
  void* stream = nullptr;
  smem_copy_params params{local.data(), pool.address(me.next(), host), MiB, nullptr};
  constexpr auto flag = static_cast<std::uint32_t>(SMEM_BM_FLAG_USE_EXTERNAL_STREAM);
  if (process.accelerator.exists()) {
    const Place place(detail::allocator_for(process.accelerator.type), process.accelerator.number);
    const auto work = detail::make_transfers(place, TransferOrder(TransferMode::async, nullptr));
    local.write(data);
    stream = detail::stream_at(work, place);
    params.stream = stream;
    SMEM_CHECK(smem_bm_copy(pool.handle(), &params, SMEMB_COPY_L2GH, flag));
  } else {
    local.write(data);
    params.stream = &not_a_stream;
    HMC_CHECK_EQ(smem_bm_copy(pool.handle(), &params, SMEMB_COPY_L2GH, flag), SMEM_INVALID_PARAM);
    SMEM_CHECK(smem_bm_copy(pool.handle(), &params, SMEMB_COPY_L2GH, 0));  // without the flag it isn't used
  }
  barrier(me);
  HMC_CHECK_CLEAN(Pattern({me.previous(), 6}).verify(pool.own(host, 0, MiB)));
  barrier(me);
}

HMC_SPMD_TEST(Bm, counters_match_the_calls) {
  BmProcess process(me);
  const BmPool pool(me, parts());
  const auto counter = [&](const char* operation) {
    smem_counter_t counted{};
    SMEM_CHECK(smem_bm_get_counter(pool.handle(), operation, &counted));
    return counted;
  };
  const auto data = pattern(me.rank, 1, 4096);
  for (int i = 1; i <= 10; ++i)
    SMEM_CHECK(
        pool.copy(pool.address(me.next(), host), data.data(), 10 * static_cast<std::uint64_t>(i), SMEMB_COPY_H2GH));
  HMC_CHECK_NE(pool.copy(pool.address(me.next(), host, part_bytes - 1), data.data(), 64, SMEMB_COPY_AUTO), SMEM_OK);
  Batch batch;
  for (std::uint64_t i = 0; i < 7; ++i) batch.add(pool.address(me.next(), host, i * 256), data.data(), 100);
  auto params = batch.params();
  for (int i = 0; i < 3; ++i) SMEM_CHECK(smem_bm_copy_batch(pool.handle(), &params, SMEMB_COPY_AUTO, 0));
  const smem_counter_t copies = counter("copy");
  HMC_CHECK_EQ(copies.calls, 11U);
  HMC_CHECK_EQ(copies.failures, 1U);
  HMC_CHECK_EQ(copies.bytes, 550U);
  const smem_counter_t batches = counter("copy_batch");
  HMC_CHECK_EQ(batches.calls, 3U);
  HMC_CHECK_EQ(batches.pieces, 21U);
  HMC_CHECK_EQ(batches.bytes, 2100U);
  HMC_CHECK_EQ(counter("no such operation").calls, 0U);
  barrier(me);
}

}  // namespace
}  // namespace hmc::memfabric_test
