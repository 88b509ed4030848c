// Pools with device parts: all directions, batches, streams. HMC_TEST_KIND: cuda (the fake driver) or opencl (PoCL).
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <thread>

#include <hmc/conn_buffer.hpp>

#include "members.hpp"
#include "runtime/memory/pointer_lookup.hpp"
#include "runtime/memory/provider.hpp"

namespace hmc::test {
namespace {

using spmd::Pattern;

constexpr std::size_t part_bytes = (std::size_t{2} << 20) + 4096;

MemoryType kind() {
  const char* const name = std::getenv("HMC_TEST_KIND");
  return name != nullptr && std::string_view(name) == "opencl" ? MemoryType::OPENCL : MemoryType::NVIDIA_GPU;
}

bool is_present() {
  try {
    const ConnBuffer trial(0, 1, kind());
    return true;
  } catch (const Error&) {
    return false;
  }
}

PoolOptions options_for(Process& me) {
  PoolOptions options;
  options.name = me.new_name();
  options.most_members = me.size();
  options.rank = me.rank();
  options.host_bytes = part_bytes;
  options.device_bytes = part_bytes - 64;
  options.host_stride = options.device_stride = 2 * part_bytes;
  options.device_type = kind();
  return options;
}

Pool joined(Process& me, const PoolOptions& options) {
  Pool pool = Pool::create(me.store(), options);
  (void)pool.join();
  me.barrier();
  return pool;
}

/// Bytes of this process's part, read by the driver.
std::vector<std::byte> own_bytes(Process& me, Pool& pool, PoolPart part, std::size_t offset, std::size_t bytes) {
  std::vector<std::byte> data(bytes);
  const auto* const from = static_cast<const std::byte*>(pool.pointer(me.rank(), part)) + offset;
  HMC_CHECK(memory::copy_between(data.data(), from, bytes).ok());
  return data;
}

void check_own(Process& me, Pool& pool, PoolPart part, std::size_t offset, const Pattern& pattern, std::size_t bytes) {
  check_pattern(pattern, own_bytes(me, pool, part, offset, bytes).data(), bytes);
}

void device_parts_have_a_way(Process& me) {
  Pool pool = joined(me, options_for(me));
  for (int rank = 0; rank < me.size(); ++rank) {
    const PoolPath path = pool.path(rank, PoolPart::device);
    const bool on_node = me.node_of(rank) == me.node_of(me.rank());
    HMC_CHECK(!path.why.empty());
    if (rank == me.rank())
      HMC_CHECK(path.way == PoolWay::own);
    else if (!on_node)
      HMC_CHECK_MSG(path.way == PoolWay::tcp, "{}", path.why);
    else if (kind() == MemoryType::NVIDIA_GPU)
      HMC_CHECK_MSG(path.way == PoolWay::mapped, "{}", path.why);
    // An address of the reservation, which leads to the part.
    const PoolPlace place = pool.place_of(pool.address(rank, PoolPart::device, 77));
    HMC_CHECK(place.rank == rank && place.part == PoolPart::device && place.offset == 77);
  }
  me.barrier();
}

struct Local {
  ConnBuffer device{0, part_bytes, kind()};
  std::vector<std::byte> host = std::vector<std::byte>(part_bytes);
  void* at(bool is_device) { return is_device ? device.ptr : static_cast<void*>(host.data()); }
  void fill(bool is_device, const Pattern& pattern, std::size_t bytes) {
    std::vector<std::byte> data(bytes);
    pattern.fill(data);
    HMC_CHECK(memory::copy_between(at(is_device), data.data(), bytes).ok());
  }
  void check(bool is_device, const Pattern& pattern, std::size_t bytes) {
    std::vector<std::byte> data(bytes);
    HMC_CHECK(memory::copy_between(data.data(), at(is_device), bytes).ok());
    check_pattern(pattern, data.data(), bytes);
  }
};

constexpr PoolPart parts[] = {PoolPart::host, PoolPart::device};
/// By [to the device part][local device memory].
constexpr PoolDirection puts[2][2] = {{PoolDirection::host_to_global_host, PoolDirection::device_to_global_host},
                                      {PoolDirection::host_to_global_device, PoolDirection::device_to_global_device}};
constexpr PoolDirection gets[2][2] = {{PoolDirection::global_host_to_host, PoolDirection::global_host_to_device},
                                      {PoolDirection::global_device_to_host, PoolDirection::global_device_to_device}};
/// By [from the device part][to the device part].
constexpr PoolDirection betweens[2][2] = {
    {PoolDirection::global_host_to_global_host, PoolDirection::global_host_to_global_device},
    {PoolDirection::global_device_to_global_host, PoolDirection::global_device_to_global_device}};

void every_direction_is_verified_at_the_owner(Process& me) {
  Pool pool = joined(me, options_for(me));
  Local local;
  const int next = (me.rank() + 1) % me.size(), previous = (me.rank() + me.size() - 1) % me.size();
  std::uint64_t call = 0;
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{4097}, (std::size_t{1} << 20) + 7}) {
    for (const bool explicitly : {true, false}) {
      const auto as = [&](PoolDirection direction) { return explicitly ? direction : PoolDirection::automatic; };
      const std::size_t offset = explicitly ? 3 : 4096;
      for (const bool to_device : {false, true}) {
        for (const bool is_device : {false, true}) {
          ++call;
          void* const there = pool.address(next, parts[to_device], offset);
          local.fill(is_device, {me.rank(), call}, bytes);
          pool.copy(there, local.at(is_device), bytes, as(puts[to_device][is_device]));
          me.barrier();
          check_own(me, pool, parts[to_device], offset, {previous, call}, bytes);
          local.fill(is_device, {99, call}, bytes);
          pool.copy(local.at(is_device), there, bytes, as(gets[to_device][is_device]));
          local.check(is_device, {me.rank(), call}, bytes);
          me.barrier();
        }
      }
      for (const bool from_device : {false, true}) {
        for (const bool to_device : {false, true}) {
          ++call;
          local.fill(false, {me.rank(), call}, bytes);
          pool.copy(pool.address(me.rank(), parts[from_device], offset), local.host.data(), bytes);
          // Rank r's bytes are copied by the rank before it, into the rank after it.
          me.barrier();
          void* const to =
              pool.address((next + 1) % me.size(), parts[to_device], offset + (std::size_t{1} << 20) - 8192);
          pool.copy(to, pool.address(next, parts[from_device], offset), bytes / 2 + 1,
                    as(betweens[from_device][to_device]));
          me.barrier();
          check_own(me, pool, parts[to_device], offset + (std::size_t{1} << 20) - 8192, {previous, call},
                    bytes / 2 + 1);
          me.barrier();
        }
      }
    }
  }
  HMC_CHECK_THROWS(Code::invalid_argument, pool.copy(local.device.ptr, local.host.data(), 8));
  HMC_CHECK_THROWS(Code::invalid_argument, pool.copy(pool.address(next, PoolPart::device), local.host.data(), 8,
                                                     PoolDirection::host_to_global_host));
  HMC_CHECK_THROWS(Code::out_of_range,
                   pool.copy(pool.address(next, PoolPart::device, part_bytes - 64), local.host.data(), 1));
  me.barrier();
}

/// Between nodes they are several chunks through the owner's host memory.
void large_copies_are_verified_at_the_owner(Process& me) {
  PoolOptions options = options_for(me);
  options.device_bytes = (std::size_t{7} << 20) + 123;
  options.device_stride = std::size_t{8} << 20;
  Pool pool = joined(me, options);
  const int next = (me.rank() + 1) % me.size(), previous = (me.rank() + me.size() - 1) % me.size();
  std::vector<std::byte> data(options.device_bytes), back(options.device_bytes);
  for (std::uint64_t call = 1; call <= 2; ++call) {
    Pattern{me.rank(), call}.fill(data);
    // From two threads: the place at the owner is used by one at a time.
    const std::size_t half = data.size() / 2;
    void* const there = pool.address(next, PoolPart::device);
    void* const second = pool.address(next, PoolPart::device, half);
    std::thread other([&] { pool.copy(second, data.data() + half, data.size() - half); });
    pool.copy(there, data.data(), half);
    other.join();
    me.barrier();
    check_own(me, pool, PoolPart::device, 0, {previous, call}, data.size());
    pool.copy(back.data(), there, back.size());
    HMC_CHECK(back == data);
    me.barrier();
  }
}

void batches_and_matrices_mix_kinds(Process& me) {
  Pool pool = joined(me, options_for(me));
  Local local;
  const int next = (me.rank() + 1) % me.size(), previous = (me.rank() + me.size() - 1) % me.size();
  local.fill(true, {me.rank(), 1}, 8192);
  local.fill(false, {me.rank(), 2}, 8192);
  auto* const device = static_cast<std::byte*>(local.device.ptr);
  const PoolCopy pieces[] = {{pool.address(next, PoolPart::device, 100), device, 4001},
                             {pool.address(next, PoolPart::host, 7), local.host.data(), 5003},
                             {pool.address(next, PoolPart::host, 9000), device, 777},
                             {pool.address(next, PoolPart::device, 9000), local.host.data(), 333}};
  pool.copy_batch(pieces);
  me.barrier();
  check_own(me, pool, PoolPart::device, 100, {previous, 1}, 4001);
  check_own(me, pool, PoolPart::host, 7, {previous, 2}, 5003);
  check_own(me, pool, PoolPart::host, 9000, {previous, 1}, 777);
  check_own(me, pool, PoolPart::device, 9000, {previous, 2}, 333);
  me.barrier();
  for (const bool is_device : {false, true}) {
    pool.copy_2d(pool.address(next, PoolPart::device, 20000), 128, local.at(is_device), 64, 50, 20);
    me.barrier();
    const auto got = own_bytes(me, pool, PoolPart::device, 20000, 128 * 20);
    for (std::size_t row = 0; row < 20; ++row)
      check_pattern({previous, is_device ? 1U : 2U}, got.data() + row * 128, 50, row * 64);
    me.barrier();
  }
}

/// Both sides of a pair have the same way.
bool is_mapped_by(Pool& pool, int rank) { return pool.pointer(rank, PoolPart::device) != nullptr; }

void copies_on_a_stream_run_when_the_stream_does(Process& me) {
  const memory::Provider& provider = memory::provider_for(kind());
  Pool pool = joined(me, options_for(me));
  Local local;
  const int next = (me.rank() + 1) % me.size(), previous = (me.rank() + me.size() - 1) % me.size();
  void* const there = pool.address(next, PoolPart::device, 5);
  local.fill(false, {me.rank(), 1}, 100000);
  const bool is_mapped = pool.pointer(next, PoolPart::device) != nullptr;
  if (!is_mapped)
    HMC_CHECK_THROWS(Code::unsupported, pool.copy_on_stream(there, local.host.data(), 8, kind(), nullptr));
  HMC_CHECK_THROWS(Code::unsupported,
                   pool.copy_on_stream(pool.address(next, PoolPart::host), local.host.data(), 8, kind(), nullptr));
  const auto stream = provider.make_stream(0);
  std::unique_ptr<memory::Gate> gate;
  const bool has_gates = provider.why_no_gates(0).empty() && stream->stop(gate).ok();
  const auto before = own_bytes(me, pool, PoolPart::device, 5, 100000);
  me.barrier();
  pool.register_memory(local.host.data(), local.host.size());
  if (is_mapped) pool.copy_on_stream(there, local.host.data(), 100000, kind(), stream->native());
  me.barrier();
  if (has_gates) HMC_CHECK(own_bytes(me, pool, PoolPart::device, 5, 100000) == before);  // the stream is stopped
  me.barrier();
  if (gate != nullptr) gate->open();
  HMC_CHECK(stream->synchronize().ok());
  me.barrier();
  if (me.node_of(previous) == me.node_of(me.rank()) && is_mapped_by(pool, previous))
    check_own(me, pool, PoolPart::device, 5, {previous, 1}, 100000);
  pool.deregister_memory(local.host.data());
  me.barrier();
}

}  // namespace
}  // namespace hmc::test

int main(int argc, char** argv) {
  using namespace hmc::test;
  // Not in the process that forks: a driver doesn't survive a fork.
  const auto skips = [](Process& me) {
    for (const std::string& theirs : me.allgather(is_present() ? "1" : "0")) {
      if (theirs == "1") continue;
      HMC_CHECK(kind() == hmc::MemoryType::OPENCL);  // the fake drivers are always there
      std::exit(77);
    }
  };
  return run_cases(argc, argv,
                   {{"the_kind_of_memory_is_present", +skips},
                    {"device_parts_have_a_way", &device_parts_have_a_way},
                    {"every_direction_is_verified_at_the_owner", &every_direction_is_verified_at_the_owner},
                    {"large_copies_are_verified_at_the_owner", &large_copies_are_verified_at_the_owner},
                    {"batches_and_matrices_mix_kinds", &batches_and_matrices_mix_kinds},
                    {"copies_on_a_stream_run_when_the_stream_does", &copies_on_a_stream_run_when_the_stream_does}});
}
