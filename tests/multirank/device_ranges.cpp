// The parts of a node's ranks in one address range: a kernel finds rank r's part at base + r * stride.
#include <cstring>

#include "runtime/memory/provider.hpp"
#include "tests/multirank/device_names.hpp"

namespace {

constexpr std::size_t granularity = std::size_t{2} << 20;
constexpr MemoryKind cuda{"cuda", MemoryType::NVIDIA_GPU};

void need_fake_cuda(const TestRank& me) {
  if (!hmc::spmd::drivers_are_fake()) hmc::spmd::skip("for fake drivers, whose sharing methods are known");
  const auto kinds = hmc::spmd::kinds_of(me);
  if (std::none_of(kinds.begin(), kinds.end(), [](const auto& kind) { return kind.name == "cuda"; }))
    hmc::spmd::skip("for CUDA");
}

bool all_on_one_node(const TestRank& me) {
  for (int peer = 0; peer < me.size; ++peer)
    if (!me.runtime->path(peer).direct) return false;
  return true;
}

/// Accesses memory by the handle's addresses, as a kernel of this rank would: reads every rank's bytes, and writes
/// bytes that their owner verifies.
void read_and_write_by_handle(TestRank& me, Mixed& mixed, std::size_t bytes, std::uint64_t round) {
  const hmc::DeviceHandle handle = mixed.window.device_handle();
  HMC_CHECK(handle.base != nullptr);
  HMC_CHECK_EQ(handle.bytes, bytes);
  HMC_CHECK_GE(handle.stride, bytes);
  const hmc::memory::Provider& provider = hmc::memory::provider_for(MemoryType::NVIDIA_GPU);
  std::vector<std::byte> got(bytes);
  for (int peer = 0; peer < me.size; ++peer) {
    const unsigned char* const at = handle.base + static_cast<std::size_t>(peer) * handle.stride;
    HMC_CHECK(provider.copy_to_host(got.data(), at, bytes).ok());
    HMC_CHECK_CLEAN((Pattern{peer, round}.verify(got)));
  }
  me.runtime->world().barrier();
  const auto sent = made({me.rank, round + 1}, bytes);
  unsigned char* const next = handle.base + static_cast<std::size_t>(me.next()) * handle.stride;
  HMC_CHECK(provider.copy_from_host(next, sent.data(), bytes).ok());
  me.runtime->world().barrier();
  HMC_CHECK_CLEAN((Pattern{me.previous(), round + 1}.verify(mixed.bytes(0, bytes))));
}

}  // namespace

HMC_SPMD_TEST(DeviceRanges, parts_of_one_node_have_equal_address_distances) {
  need_fake_cuda(me);
  if (!all_on_one_node(me)) hmc::spmd::skip("for ranks of one node");
  std::uint64_t round = 1;
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{5000}, granularity + 8}) {
    Mixed mixed(me, cuda, bytes);
    mixed.write(0, made({me.rank, round}, bytes));
    for (int peer = 0; peer < me.size && me.size > 1; ++peer) {
      const std::string place = fmt::format("place {} of the node's range", peer);
      HMC_CHECK_MSG(mixed.window.path(peer).why.find(place) != std::string::npos, "{}", mixed.window.path(peer).why);
    }
    me.runtime->world().barrier();
    read_and_write_by_handle(me, mixed, bytes, round);
    round += 2;
    me.runtime->world().barrier();
    mixed.window.close();
  }
}

// A part that isn't memory shared by descriptor leaves its slot empty. Parts of different sizes share a range, but a
// kernel needs the table to find the end of a part.
HMC_SPMD_TEST(DeviceRanges, part_too_large_for_the_range_is_mapped_alone) {
  need_fake_cuda(me);
  if (!all_on_one_node(me) || me.size < 2) hmc::spmd::skip("for ranks of one node");
  {
    Mixed mixed(me, me.rank == 0 ? MemoryKind{"cpu", MemoryType::CPU} : cuda, 3000);
    HMC_CHECK(mixed.window.path(0).why.find("range") == std::string::npos);
    for (int peer = 1; peer < me.size; ++peer)
      HMC_CHECK_EQ(mixed.window.path(peer).why.find("range") != std::string::npos, me.size > 2);
    mixed.write(0, made({me.rank, 5}, 3000));
    me.runtime->world().barrier();
    std::vector<std::byte> got(3000);
    mixed.window.get(me.next(), 0, got.data(), got.size());
    HMC_CHECK_CLEAN((Pattern{me.next(), 5}.verify(got)));
    me.runtime->world().barrier();
    mixed.window.close();
  }
  const std::size_t bytes = me.rank == 0 ? granularity + 1 : 100;
  Mixed mixed(me, cuda, bytes);
  HMC_CHECK(mixed.window.path(me.next()).why.find("place") != std::string::npos);
  HMC_CHECK(mixed.window.device_handle().base == nullptr);
  me.runtime->world().barrier();
  mixed.window.close();
}

HMC_SPMD_TEST(DeviceRanges, failed_reservation_is_reported_and_parts_are_mapped_alone) {
  need_fake_cuda(me);
  if (!all_on_one_node(me) || me.size < 2 || !me.options.processes)
    hmc::spmd::skip("for ranks that each have a driver of their own");
  const Fake fake("cuda");
  const long before = fake.live();
  for (const char* const call :
       {"cuMemAddressReserve", "cuMemImportFromShareableHandle", "cuMemMap", "cuMemSetAccess"}) {
    hmc::ConnBuffer buffer(0, 5000, cuda.type);
    me.runtime->world().barrier();
    if (me.rank == 0) fake.arm(fmt::format("{}:1:719", call));
    Window window = Window::create(me.runtime->world(), buffer);
    if (me.rank == 0) fake.arm("");
    if (me.rank == 0) {
      std::string whys;
      for (int peer = 0; peer < me.size; ++peer) whys += window.path(peer).why;
      HMC_CHECK_MSG(whys.find(call) != std::string::npos, "{}: {}", call, whys);
      HMC_CHECK_MSG(whys.find("range: ") != std::string::npos || whys.find("others: ") != std::string::npos, "{}",
                    whys);
    }
    HMC_CHECK_EQ(window.path(me.next()).wire, "vmm fd");
    const auto sent = made({me.rank, 6}, 5000);
    window.put(me.next(), 0, sent.data(), sent.size());
    me.runtime->world().barrier();
    std::vector<std::byte> got(5000);
    HMC_CHECK_EQ(buffer.readToCpu(got.data(), got.size()), hmc::status_t::SUCCESS);
    HMC_CHECK_CLEAN((Pattern{me.previous(), 6}.verify(got)));
    // The addresses may have changed: a handle has the current ones.
    const hmc::DeviceHandle handle = window.device_handle();
    std::vector<hmc::DeviceHandle::Part> parts(static_cast<std::size_t>(me.size));
    const hmc::memory::Provider& provider = hmc::memory::provider_for(cuda.type);
    HMC_CHECK(provider.copy_to_host(parts.data(), handle.parts, parts.size() * sizeof parts[0]).ok());
    for (int peer = 0; peer < me.size; ++peer) {
      HMC_CHECK(provider.copy_to_host(got.data(), parts[static_cast<std::size_t>(peer)].address, got.size()).ok());
      HMC_CHECK_CLEAN((Pattern{(peer + me.size - 1) % me.size, 6}.verify(got)));
    }
    me.runtime->world().barrier();
    window.close();
  }
  HMC_CHECK_EQ(fake.live(), before);
}

// One after the other, and concurrently: windows over one buffer have separate ranges.
HMC_SPMD_TEST(DeviceRanges, windows_over_one_buffer_close_in_any_order) {
  need_fake_cuda(me);
  if (!all_on_one_node(me)) hmc::spmd::skip("for ranks of one node");
  const Fake fake("cuda");
  me.runtime->world().barrier();
  const long before = fake.live();
  me.runtime->world().barrier();
  {
    hmc::ConnBuffer buffer(0, 700, cuda.type);
    const auto mine = made({me.rank, 8}, 700);
    HMC_CHECK_EQ(buffer.writeFromCpu(mine.data(), mine.size()), hmc::status_t::SUCCESS);
    for (const bool first_goes_first : {true, false}) {
      Window first = Window::create(me.runtime->world(), buffer), second = Window::create(me.runtime->world(), buffer);
      (first_goes_first ? first : second).close();
      Window& left = first_goes_first ? second : first;
      std::vector<std::byte> got(700);
      left.get(me.next(), 0, got.data(), got.size());
      HMC_CHECK_CLEAN((Pattern{me.next(), 8}.verify(got)));
      left.close();
    }
  }
  me.runtime->world().barrier();
  HMC_CHECK_EQ(fake.live(), before);
}
