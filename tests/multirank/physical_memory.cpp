// Windows over mappings of hmc::PhysicalMemory.
#include <vector>

#include <hmc/vmm.hpp>

#include "tests/multirank/device_support.hpp"

namespace {

using hmc::Mapping;
using hmc::MemoryType;
using hmc::PhysicalMemory;
using hmc::spmd::made;
using hmc::spmd::MemoryKind;
using hmc::spmd::Pattern;
using hmc::spmd::TestRank;

std::vector<std::byte> bytes_of(const Mapping& mapping, std::size_t offset, std::size_t count) {
  std::vector<std::byte> got(count);
  mapping.read(offset, got.data(), count);
  return got;
}

/// The kinds with physical memory. A real driver may have none.
std::vector<MemoryType> types_of(const TestRank& me) {
  std::vector<MemoryType> found;
  for (const MemoryKind& kind : hmc::spmd::kinds_of(me)) {
    if (kind.type != MemoryType::NVIDIA_GPU && kind.type != MemoryType::AMD_GPU) continue;
    try {
      (void)PhysicalMemory::create(1, 0, kind.type);
      found.push_back(kind.type);
    } catch (const hmc::Error&) {
      if (hmc::spmd::drivers_are_fake()) throw;
    }
  }
  if (found.empty()) hmc::spmd::skip("for memory with handles");
  return found;
}

}  // namespace

// The window keeps the memory, which ranks put to and get from, after this rank has given up both of its objects. A
// second mapping sees the bytes.
HMC_SPMD_TEST(PhysicalMemory, window_over_a_mapping_is_shared_by_descriptor) {
  const char* const forced = std::getenv("HMC_DEVICE_SHARING");
  for (const MemoryType type : types_of(me)) {
    constexpr std::size_t bytes = 300'000;
    const auto round = static_cast<std::uint64_t>(type);
    PhysicalMemory memory = PhysicalMemory::create(bytes + 64, 0, type);
    Mapping mapping = memory.map();
    const Mapping seen = memory.map(hmc::Access::read);
    const auto before = made({me.rank, 100 + round}, bytes);
    mapping.write(0, before.data(), bytes);
    const std::vector<std::byte> zeros(64);
    mapping.write(bytes, zeros.data(), zeros.size());
    hmc::Window window = hmc::Window::create(me.runtime->world(), mapping.conn_buffer());
    HMC_CHECK_EQ(window.bytes(), memory.size());
    HMC_CHECK(window.data() == mapping.data());
    mapping.unmap();
    memory.close();
    const bool is_near = me.runtime->path(me.next()).direct && me.runtime->node_count() == 1;
    if (hmc::spmd::drivers_are_fake() && me.size > 1 && is_near && me.options.processes && forced == nullptr)
      HMC_CHECK_EQ(window.path(me.next()).wire, "vmm fd");

    std::vector<std::byte> got(bytes);
    window.get(me.next(), 0, got.data(), bytes);
    HMC_CHECK_CLEAN((Pattern{me.next(), 100 + round}.verify(got)));
    me.runtime->world().barrier();
    const auto sent = made({me.rank, 200 + round}, bytes);
    window.put_signal(me.next(), 0, sent.data(), bytes, (bytes + 7) / 8 * 8, round);
    HMC_CHECK_EQ(window.wait_until((bytes + 7) / 8 * 8, hmc::Cmp::eq, round), round);
    HMC_CHECK_CLEAN((Pattern{me.previous(), 200 + round}.verify(bytes_of(seen, 0, bytes))));
    me.runtime->world().barrier();
    window.close();
  }
}

// As another library's memory.
HMC_SPMD_TEST(PhysicalMemory, window_over_the_address_of_a_mapping_works) {
  for (const MemoryType type : types_of(me)) {
    const PhysicalMemory memory = PhysicalMemory::create(5000, 0, type);
    const Mapping mapping = memory.map();
    hmc::Window window = hmc::Window::create(
        me.runtime->world(), hmc::ConnBuffer::borrow(static_cast<std::byte*>(mapping.data()) + 8, 4096));
    const auto sent = made({me.rank, 7}, 4096);
    window.put(me.next(), 0, sent.data(), 4096);
    me.runtime->world().barrier();
    HMC_CHECK_CLEAN((Pattern{me.previous(), 7}.verify(bytes_of(mapping, 8, 4096))));
    me.runtime->world().barrier();
    window.close();
  }
}
