// Sharing of device memory between two processes on the present driver, one method at a time:
// - each kind of sharing by the providers' own calls;
// - hmc::PhysicalMemory;
// - memory of a pool by the driver's calls;
// - a window with owner-copied bytes.
// If the driver's attributes promise a method, the test fails if the method doesn't work. A method that the driver
// reports as missing is absent.
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <hmc/vmm.hpp>

#include "runtime/memory/provider.hpp"
#include "runtime/rma/team_core.hpp"
#include "tests/gpu/driver_api.hpp"
#include "tests/multirank/device_support.hpp"

namespace {

using hmc::Error;
using hmc::memory::Backing;
using hmc::memory::Exported;
using hmc::memory::Provider;
using hmc::memory::SharingKind;
using hmc::spmd::made;
using hmc::spmd::Pattern;
using hmc::spmd::TestRank;

void check(const hmc::base::Status& status) { HMC_CHECK_MSG(status.ok(), "{}", status.what); }

const Provider& gpu(const TestRank& me) {
  if (me.size < 2 || !me.options.processes || me.runtime->node_count() > 1)
    hmc::spmd::skip("for processes of one node");
  return hmc::memory::provider_for(hmc::MemoryType::NVIDIA_GPU);
}

struct Driver {
  hmc::memory::Library library{hmc::memory::cuda_library};
  hmc::gpu::DriverApi api{library};
};

bool has_imex_channel() {
  std::error_code none;
  return std::filesystem::directory_iterator("/dev/nvidia-caps-imex-channels", none) !=
         std::filesystem::directory_iterator();
}

/// Why device 0 can't share its memory by this kind; empty if the driver's attributes say that it can.
std::string why_absent(const hmc::gpu::DriverApi& api, SharingKind kind) {
  if (hmc::spmd::drivers_are_fake())  // it supports all; fabric handles only with FAKE_FABRIC
    return kind == SharingKind::fabric && std::getenv("FAKE_FABRIC") == nullptr ? "FAKE_FABRIC isn't set" : "";
  const bool has_vmm = api.attribute(hmc::gpu::attribute_vmm) != 0;
  switch (kind) {
    case SharingKind::same_process: return "the ranks are processes";
    case SharingKind::vmm_fd:
      if (!has_vmm) return "the device has no virtual memory management (attribute 102)";
      if (api.attribute(hmc::gpu::attribute_posix_fd) == 0) return "the device exports no descriptors (attribute 103)";
      return "";
    case SharingKind::fabric:
      if (!has_vmm || api.attribute(hmc::gpu::attribute_fabric) == 0)
        return "the device has no fabric handles (attribute 128)";
      return has_imex_channel() ? "" : "no IMEX channel in /dev/nvidia-caps-imex-channels";
    case SharingKind::ipc:
      if (api.attribute(hmc::gpu::attribute_unified_addressing) == 0)
        return "the device has no unified addressing (attribute 41)";
      return api.attribute(hmc::gpu::attribute_integrated) == 0 ? "" : "the device is integrated (attribute 18)";
  }
  return "no such kind";
}

/// Every rank passes its descriptor and bytes to the next rank.
Exported from_previous(TestRank& me, Exported mine) {
  hmc::rma::Fabric& fabric = me.runtime->world().core()->fabric();
  std::uint64_t number = fabric.node_link->next_share();
  me.runtime->world().broadcast(&number, sizeof number, 0);
  hmc::base::ShareGroup group;
  group.number = number;
  for (int rank = 0; rank < me.size; ++rank) group.members.push_back(rank);
  constexpr std::size_t room = 512;
  HMC_CHECK_LE(mine.bytes.size() + 8, room);
  std::vector<std::byte> all(room * static_cast<std::size_t>(me.size)), line(room);
  const std::uint64_t length = mine.bytes.size();
  std::memcpy(line.data(), &length, 8);
  std::copy(mine.bytes.begin(), mine.bytes.end(), line.begin() + 8);
  me.runtime->world().allgather(line.data(), all.data(), room);
  auto descriptors = fabric.node_link->pass(group, mine.fd, fabric.deadline());
  const auto at = static_cast<std::size_t>(me.previous());
  Exported theirs;
  std::uint64_t got = 0;
  std::memcpy(&got, all.data() + at * room, 8);
  theirs.bytes.assign(all.data() + at * room + 8, all.data() + at * room + 8 + got);
  theirs.fd = std::move(descriptors[at]);
  return theirs;
}

std::uint64_t sum_of(TestRank& me, std::uint64_t mine) {
  std::uint64_t sum = 0;
  me.runtime->world().allreduce(std::span(&mine, 1), std::span(&sum, 1), hmc::sum);
  return sum;
}

constexpr std::size_t bytes = (std::size_t{3} << 20) + 17;

/// The importer reads the owner's bytes; the owner reads the bytes that the importer writes.
void both_ways(TestRank& me, const Provider& provider, std::byte* own, std::byte* imported, std::uint64_t call) {
  const auto sent = made({me.rank, call}, bytes);
  check(provider.copy_from_host(own, sent.data(), bytes));
  me.runtime->world().barrier();
  std::vector<std::byte> got(bytes);
  check(provider.copy_to_host(got.data(), imported, bytes));
  HMC_CHECK_CLEAN((Pattern{me.previous(), call}.verify(got)));
  me.runtime->world().barrier();
  const auto answer = made({me.rank, call + 1}, bytes);
  check(provider.copy_from_host(imported, answer.data(), bytes));
  me.runtime->world().barrier();
  check(provider.copy_to_host(got.data(), own, bytes));
  HMC_CHECK_CLEAN((Pattern{me.next(), call + 1}.verify(got)));
  me.runtime->world().barrier();
}

void share_by(TestRank& me, const Provider& provider, const Driver& driver, SharingKind kind) {
  const std::string absent = why_absent(driver.api, kind), why = provider.why_not(kind);
  if (absent.empty()) HMC_CHECK_MSG(why.empty(), "the driver has {}, but: {}", name_of(kind), why);
  if (hmc::spmd::drivers_are_fake()) HMC_CHECK_EQ(why.empty(), absent.empty());
  if (me.rank == 0)
    std::printf("sharing: %-14s %s\n", name_of(kind), why.empty() ? "present" : ("absent: " + absent).c_str());
  if (sum_of(me, why.empty() ? 0 : 1) != 0) return;
  const auto own = provider.allocate(0, bytes, kind == SharingKind::ipc ? Backing::plain : Backing::vmm);
  for (std::uint64_t round = 0; round < 3; ++round) {
    const auto imported = provider.import(from_previous(me, provider.share(own, kind)), 0);
    both_ways(me, provider, own->address, imported->address, 10 * round + static_cast<std::uint64_t>(kind) * 100);
  }
}

}  // namespace

HMC_SPMD_TEST(Gpu, each_kind_of_sharing_works_between_two_processes) {
  const Provider& provider = gpu(me);
  const Driver driver;
  for (const SharingKind kind : hmc::memory::sharing_kinds)
    if (kind != SharingKind::same_process) share_by(me, provider, driver, kind);
}

// hmc::PhysicalMemory, in the exported form that any process takes: a descriptor, or the bytes of a fabric handle.
HMC_SPMD_TEST(Gpu, physical_memory_is_mapped_by_the_other_of_two_processes) {
  const Provider& provider = gpu(me);
  const Driver driver;
  if (const std::string absent = why_absent(driver.api, SharingKind::vmm_fd); !absent.empty())
    hmc::spmd::skip("absent: " + absent);
  const hmc::PhysicalMemory own = hmc::PhysicalMemory::create(bytes, 0, hmc::MemoryType::NVIDIA_GPU);
  const hmc::Mapping mine = own.map(), view = own.map(hmc::Access::read);
  const auto share_and_check = [&](Exported exported, std::uint64_t call) {
    const Exported theirs = from_previous(me, std::move(exported));
    hmc::FabricHandle handle;
    if (!theirs.bytes.empty()) std::memcpy(handle.bytes.data(), theirs.bytes.data(), handle.bytes.size());
    hmc::PhysicalMemory memory =
        theirs.bytes.empty() ? hmc::PhysicalMemory::import_fd(theirs.fd.get(), bytes, 0, hmc::MemoryType::NVIDIA_GPU)
                             : hmc::PhysicalMemory::import_fabric(handle, bytes, 0, hmc::MemoryType::NVIDIA_GPU);
    const hmc::Mapping mapped = memory.map();
    memory.close();
    both_ways(me, provider, static_cast<std::byte*>(mine.data()), static_cast<std::byte*>(mapped.data()), call);
    std::vector<std::byte> got(bytes);
    view.read(0, got.data(), bytes);
    HMC_CHECK_CLEAN((Pattern{me.next(), call + 1}.verify(got)));
    me.runtime->world().barrier();
  };
  Exported descriptor;
  descriptor.fd.reset(own.export_fd());
  share_and_check(std::move(descriptor), 8000);
  // The size that an import can't map is refused.
  const hmc::base::UniqueFd again(own.export_fd());
  bool is_refused = false;
  try {
    (void)hmc::PhysicalMemory::import_fd(again.get(), 2 * own.size(), 0, hmc::MemoryType::NVIDIA_GPU);
  } catch (const Error& error) {
    is_refused = true;
    if (me.rank == 0) std::printf("sharing: %-14s %s\n", "a wrong size", error.what());
  }
  HMC_CHECK(is_refused);
  if (sum_of(me, provider.why_not(SharingKind::fabric).empty() ? 0 : 1) != 0) return;
  Exported by_fabric;
  const hmc::FabricHandle handle = own.export_fabric();
  by_fabric.bytes.assign(handle.bytes.begin(), handle.bytes.end());
  share_and_check(std::move(by_fabric), 8100);
}

// Memory of a pool. The pool's descriptor is passed once for all allocations of the pool.
HMC_SPMD_TEST(Gpu, pool_memory_is_shared_between_two_processes) {
  const Provider& provider = gpu(me);
  const Driver driver;
  const hmc::gpu::DriverApi& api = driver.api;
  const bool has_pools = hmc::spmd::drivers_are_fake() ||
                         (api.attribute(hmc::gpu::attribute_pools) != 0 &&
                          (api.attribute(hmc::gpu::attribute_pool_handles) & hmc::gpu::handle_posix_fd) != 0);
  if (!has_pools)
    hmc::spmd::skip("absent: the device has no pools that are shared by descriptor (attributes 115, 119)");
  HMC_CHECK(static_cast<bool>(api.create));
  const auto stream = provider.make_stream(0);
  const hmc::gpu::Current here(api);
  hmc::gpu::PoolProps props{};
  void* pool = nullptr;
  HMC_CHECK_EQ(api.create(&pool, &props).code, 0);
  hmc::gpu::Address own = 0;
  HMC_CHECK_EQ(api.allocate(&own, bytes, pool, stream->native()).code, 0);
  check(stream->synchronize());
  int fd = -1;
  HMC_CHECK_EQ(api.export_pool(&fd, pool, hmc::gpu::handle_posix_fd, 0).code, 0);
  hmc::gpu::PointerData data{};
  HMC_CHECK_EQ(api.export_pointer(&data, own).code, 0);
  Exported mine;
  mine.fd.reset(fd);
  mine.bytes.resize(sizeof data);
  std::memcpy(mine.bytes.data(), &data, sizeof data);
  const Exported theirs = from_previous(me, std::move(mine));
  std::memcpy(&data, theirs.bytes.data(), sizeof data);
  void* their_pool = nullptr;
  hmc::gpu::Address imported = 0;
  HMC_CHECK_EQ(api.import_pool(&their_pool, reinterpret_cast<void*>(static_cast<std::intptr_t>(theirs.fd.get())),
                               hmc::gpu::handle_posix_fd, 0)
                   .code,
               0);
  HMC_CHECK_EQ(api.import_pointer(&imported, their_pool, &data).code, 0);
  both_ways(me, provider, reinterpret_cast<std::byte*>(own), reinterpret_cast<std::byte*>(imported), 7000);
  // The driver requires that the importer frees first.
  HMC_CHECK_EQ(api.free(imported, stream->native()).code, 0);
  check(stream->synchronize());
  me.runtime->world().barrier();
  HMC_CHECK_EQ(api.free(own, stream->native()).code, 0);
  check(stream->synchronize());
  HMC_CHECK_EQ(api.destroy(their_pool).code, 0);
  HMC_CHECK_EQ(api.destroy(pool).code, 0);
}

// A stream of one process waits for an event of another process, without a wait on the host. The bytes are complete
// after it, however late the copy runs.
HMC_SPMD_TEST(Gpu, event_orders_streams_of_two_processes) {
  const Provider& provider = gpu(me);
  const Driver driver;
  const hmc::gpu::DriverApi& api = driver.api;
  if (!hmc::spmd::drivers_are_fake() && api.attribute(hmc::gpu::attribute_ipc_events) == 0)
    hmc::spmd::skip("absent: the device has no events between processes (attribute 125)");
  if (const std::string absent = why_absent(api, SharingKind::vmm_fd); !absent.empty())
    hmc::spmd::skip("absent: " + absent);
  HMC_CHECK(static_cast<bool>(api.open_event_handle));
  const auto stream = provider.make_stream(0);
  const hmc::gpu::Current here(api);
  const auto own = provider.allocate(0, bytes, Backing::vmm);
  void *event = nullptr, *theirs = nullptr;
  HMC_CHECK_EQ(api.create_event(&event, hmc::gpu::event_between_processes).code, 0);
  hmc::gpu::PointerData handle{};
  HMC_CHECK_EQ(api.get_event_handle(&handle, event).code, 0);
  Exported mine;
  mine.bytes.resize(sizeof handle);
  std::memcpy(mine.bytes.data(), &handle, sizeof handle);
  const Exported got_handle = from_previous(me, std::move(mine));
  std::memcpy(&handle, got_handle.bytes.data(), sizeof handle);
  HMC_CHECK_EQ(api.open_event_handle(&theirs, handle).code, 0);
  const auto imported = provider.import(from_previous(me, provider.share(own, SharingKind::vmm_fd)), 0);
  const auto sent = made({me.rank, 77}, bytes);
  std::vector<std::byte> got(bytes);
  if (hmc::spmd::drivers_are_fake()) hmc::spmd::Fake("cuda").set_delay_us(5000);
  check(provider.copy_async({own->address, sent.data(), bytes}, *stream));
  HMC_CHECK_EQ(api.record_event(event, stream->native()).code, 0);
  me.runtime->world().barrier();  // all events are recorded; none need be complete
  const auto reader = provider.make_stream(0);
  HMC_CHECK_EQ(api.stream_wait(reader->native(), theirs, 0).code, 0);
  check(provider.copy_async({got.data(), imported->address, bytes, hmc::memory::Direction::device_to_host}, *reader));
  check(reader->synchronize());
  if (hmc::spmd::drivers_are_fake()) hmc::spmd::Fake("cuda").set_delay_us(0);
  HMC_CHECK_CLEAN((Pattern{me.previous(), 77}.verify(got)));
  check(stream->synchronize());
  me.runtime->world().barrier();
  HMC_CHECK_EQ(api.destroy_event(theirs).code, 0);
  HMC_CHECK_EQ(api.destroy_event(event).code, 0);
}

namespace {

/// The method that a window between two processes must use: the forced one, else the first that the driver supports.
std::string way_to_take(const hmc::gpu::DriverApi& api, std::string_view forced) {
  struct {
    std::string_view word;
    SharingKind kind;
  } const ways[] = {{"vmm", SharingKind::vmm_fd}, {"fabric", SharingKind::fabric}, {"ipc", SharingKind::ipc}};
  for (const auto& [word, kind] : ways) {
    if (!forced.empty() && forced != word) continue;
    const std::string absent = why_absent(api, kind);
    if (absent.empty()) return name_of(kind);
    if (forced == word) hmc::spmd::skip(fmt::format("absent: {}: {}", name_of(kind), absent));
  }
  return "staged";
}

}  // namespace

// HMC_DEVICE_SHARING forces one method. Otherwise the window uses the first available.
HMC_SPMD_TEST(Gpu, window_with_a_forced_path_keeps_every_byte) {
  (void)gpu(me);
  const Driver driver;
  const char* const forced = std::getenv("HMC_DEVICE_SHARING");
  const std::string way = way_to_take(driver.api, forced != nullptr ? forced : "");
  hmc::spmd::Mixed mixed(me, {"cuda", hmc::MemoryType::NVIDIA_GPU}, 2 * bytes);
  const hmc::Path path = mixed.window.path(me.next());
  if (me.rank == 0) std::printf("window: %s (%s)\n", path.wire.c_str(), path.why.c_str());
  HMC_CHECK_MSG(path.wire == way, "{} instead of {}: {}", path.wire, way, path.why);
  HMC_CHECK(path.gigabytes_per_s > 0 && path.latency_us > 0);
  const std::string mine = mixed.window.path(me.rank).why;
  HMC_CHECK_EQ(mine.find("staged in pinned host memory") != std::string::npos, path.wire == "staged");
  hmc::ConnBuffer local(0, bytes, hmc::MemoryType::NVIDIA_GPU);
  const auto sent = made({me.rank, 3}, bytes);
  HMC_CHECK_EQ(local.writeFromCpu(sent.data(), bytes), hmc::status_t::SUCCESS);
  mixed.window.put_signal(me.next(), 0, local.ptr, bytes, (bytes + 7) / 8 * 8, 5);
  HMC_CHECK_EQ(mixed.window.wait_until((bytes + 7) / 8 * 8, hmc::Cmp::eq, 5), 5U);
  HMC_CHECK_CLEAN((Pattern{me.previous(), 3}.verify(mixed.bytes(0, bytes))));
  std::vector<std::byte> got(bytes);
  mixed.window.get_nb(me.next(), 0, got.data(), bytes).wait();
  HMC_CHECK_CLEAN((Pattern{me.rank, 3}.verify(got)));
  me.runtime->world().barrier();
  constexpr std::size_t count = 100'000;
  std::vector<std::uint64_t> words(count), sums(count);
  for (std::size_t i = 0; i < count; ++i) words[i] = i * 3 + static_cast<std::uint64_t>(me.rank);
  mixed.write(0, std::as_bytes(std::span(words)));
  auto* const in = mixed.window.local<std::uint64_t>();
  me.runtime->world().allreduce(in, in + count, count, hmc::DType::u64, hmc::sum);
  const auto all = mixed.bytes(count * 8, count * 8);
  std::memcpy(sums.data(), all.data(), all.size());
  const auto n = static_cast<std::uint64_t>(me.size);
  for (std::size_t i = 0; i < count; ++i) HMC_CHECK_EQ(sums[i], n * i * 3 + n * (n - 1) / 2);
  me.runtime->world().barrier();
  mixed.window.close();
}

// Each rank is on a device of its own, if the driver reports the devices as peers.
HMC_SPMD_TEST(Gpu, window_over_two_devices_is_mapped_between_peers) {
  (void)gpu(me);
  const Driver driver;
  int count = 0, out = 0, back = 0;
  HMC_CHECK_EQ(driver.api.device_count(&count).code, 0);
  if (count < 2) hmc::spmd::skip("absent: peer access: there is one device");
  const bool are_peers = driver.api.can_access_peer(&out, 0, 1).ok() && out != 0 &&
                         driver.api.can_access_peer(&back, 1, 0).ok() && back != 0;
  if (!are_peers) hmc::spmd::skip("absent: peer access: the driver says that devices 0 and 1 don't reach each other");
  const int mine = me.rank % 2;
  hmc::ConnBuffer buffer(mine, bytes, hmc::MemoryType::NVIDIA_GPU);
  hmc::Window window = hmc::Window::create(me.runtime->world(), buffer);
  const hmc::Path path = window.path(me.next());
  HMC_CHECK_MSG(path.wire != "staged", "devices 0 and 1 are peers, but: {}", path.why);
  hmc::ConnBuffer local(mine, bytes, hmc::MemoryType::NVIDIA_GPU);
  const auto sent = made({me.rank, 11}, bytes);
  HMC_CHECK_EQ(local.writeFromCpu(sent.data(), bytes), hmc::status_t::SUCCESS);
  window.put(me.next(), 0, local.ptr, bytes);
  me.runtime->world().barrier();
  std::vector<std::byte> got(bytes);
  HMC_CHECK_EQ(buffer.readToCpu(got.data(), bytes), hmc::status_t::SUCCESS);
  HMC_CHECK_CLEAN((Pattern{me.previous(), 11}.verify(got)));
  window.get(me.next(), 0, local.ptr, bytes);
  HMC_CHECK_EQ(local.readToCpu(got.data(), bytes), hmc::status_t::SUCCESS);
  HMC_CHECK_CLEAN((Pattern{me.rank, 11}.verify(got)));
  me.runtime->world().barrier();
  window.close();
}
