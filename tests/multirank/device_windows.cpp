// Windows with parts in device memory: every pair of kinds, every verb.
#include <dirent.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <iterator>

#include "tests/multirank/device_names.hpp"

namespace {

constexpr std::size_t granularity = std::size_t{2} << 20;
constexpr std::size_t piece = std::size_t{256} << 10;  // the largest transfer of one command to an owner

/// Puts to the next rank and gets the bytes back. The owner verifies each put byte, the caller each received byte.
void put_and_get(TestRank& me, MemoryKind kind, std::size_t bytes, std::uint64_t call) {
  constexpr std::size_t edge = 24;
  Mixed mixed(me, kind, bytes + 2 * edge);
  const auto guard = made({me.rank, ~call}, edge);
  mixed.write(0, guard);
  mixed.write(edge + bytes, guard);
  me.runtime->world().barrier();
  auto sent = made({me.rank, call}, bytes);
  mixed.window.put(me.next(), edge, sent.data(), bytes);
  std::fill(sent.begin(), sent.end(), std::byte{0});  // put has returned: the caller owns the source
  mixed.window.flush(me.next());
  me.runtime->world().barrier();
  HMC_CHECK_CLEAN((Pattern{me.previous(), call}.verify(mixed.bytes(edge, bytes))));
  HMC_CHECK(mixed.bytes(0, edge) == guard);
  HMC_CHECK(mixed.bytes(edge + bytes, edge) == guard);

  std::vector<std::byte> got(bytes + 2, std::byte{0x11});
  mixed.window.get(me.next(), edge, got.data() + 1, bytes);
  HMC_CHECK_CLEAN((Pattern{me.rank, call}.verify({got.data() + 1, bytes})));
  HMC_CHECK(got.front() == std::byte{0x11} && got.back() == std::byte{0x11});
  me.runtime->world().barrier();
  mixed.window.close();
}

std::size_t entries_of(const char* folder) {
  std::size_t count = 0;
  DIR* const open = ::opendir(folder);
  while (::readdir(open) != nullptr) ++count;
  ::closedir(open);
  return count;
}
std::size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  return static_cast<std::size_t>(
      std::count(std::istreambuf_iterator<char>(maps), std::istreambuf_iterator<char>(), '\n'));
}

}  // namespace

HMC_SPMD_TEST(DeviceWindows, every_memory_kind_transfers_with_every_other) {
  over_every_pair(me, [&](MemoryKind kind, std::uint64_t round) {
    put_and_get(me, kind, 1, 10 * round);
    put_and_get(me, kind, 1000 + static_cast<std::size_t>(round), 10 * round + 1);
  });
}

HMC_SPMD_TEST(DeviceWindows, sizes_around_pieces_and_granularity_are_correct) {
  const auto kinds = hmc::spmd::kinds_of(me);
  std::uint64_t call = 0;
  for (std::size_t shift = 0; shift < kinds.size(); ++shift)
    for (const std::size_t bytes :
         {std::size_t{8}, piece - 1, piece, piece + 1, 2 * piece, granularity - 1, granularity, granularity + 1})
      put_and_get(me, kinds[(static_cast<std::size_t>(me.rank) + shift) % kinds.size()], bytes, ++call);
}

HMC_SPMD_TEST(DeviceWindows, part_without_host_access_has_no_pointer_and_a_reason) {
  over_every_pair(me, [&](MemoryKind kind, std::uint64_t) {
    Mixed mixed(me, kind, 100);
    const auto mine = static_cast<std::uint8_t>(kind.type != MemoryType::CPU);
    std::vector<std::uint8_t> devices(static_cast<std::size_t>(me.size));
    me.runtime->world().allgather(std::span(&mine, 1), devices);
    for (int peer = 0; peer < me.size; ++peer) {
      const hmc::Path path = mixed.window.path(peer);
      const bool same_node = me.runtime->path(peer).direct;
      if (devices[static_cast<std::size_t>(peer)] == 0) {
        HMC_CHECK_EQ(mixed.window.ptr(peer) != nullptr, same_node);
        HMC_CHECK_EQ(path.wire, me.runtime->path(peer).wire);
        continue;
      }
      HMC_CHECK(mixed.window.ptr(peer) == nullptr);
      HMC_CHECK(!path.direct);
      if (peer == me.rank) HMC_CHECK_EQ(path.wire, "self");
      if (!same_node && peer != me.rank) HMC_CHECK_EQ(path.wire, "staged");
      HMC_CHECK_MSG(path.why.find("memory") != std::string::npos, "{}", path.why);
      HMC_CHECK_MSG((path.latency_us > 0) == (peer != me.rank), "{} of rank {}: {}", path.wire, peer, path.why);
      // The path lists the methods that were tried before, in order, each with its reason.
      if (path.wire == "staged" && same_node)
        for (const char* kind_passed_over : {"not same process: ", "not vmm fd: ", "not ipc handle: "})
          HMC_CHECK_MSG(path.why.find(kind_passed_over) != std::string::npos, "{}", path.why);
    }
    HMC_CHECK(mixed.window.data() == mixed.buffer.ptr);
    me.runtime->world().barrier();
    mixed.window.close();
  });
}

HMC_SPMD_TEST(DeviceWindows, each_memory_kind_uses_the_first_working_path) {
  if (me.size < 2 || !me.runtime->path(me.next()).direct || me.runtime->node_count() > 1)
    hmc::spmd::skip("for peers on one node");
  if (!hmc::spmd::drivers_are_fake()) hmc::spmd::skip("for fake drivers, whose sharing methods are known");
  for (const MemoryKind& kind : hmc::spmd::kinds_of(me)) {
    if (kind.type == MemoryType::CPU) continue;
    Mixed mixed(me, kind, 256 << 10);
    const char* const forced = std::getenv("HMC_DEVICE_SHARING");
    const bool is_vmm = forced != nullptr && std::string_view(forced) == "vmm";
    const std::string expected = is_vmm && kind.type == MemoryType::AMD_GPU ? "vmm fd"
                                 : !me.options.processes                    ? "same process"
                                 : kind.type == MemoryType::NVIDIA_GPU      ? "vmm fd"
                                 : kind.type == MemoryType::AMD_GPU         ? "ipc handle"
                                                                            : "staged";
    const hmc::Path path = mixed.window.path(me.next());
    HMC_CHECK_EQ(path.wire, expected);
    HMC_CHECK(path.gigabytes_per_s > 0 && path.latency_us > 0);
    mixed.window.close();
  }
}

HMC_SPMD_TEST(DeviceWindows, window_creation_keeps_the_buffer_contents) {
  over_every_pair(me, [&](MemoryKind kind, std::uint64_t round) {
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{7}, std::size_t{50}}) {
      ConnBuffer buffer(0, bytes, kind.type);
      const auto before = made({me.rank, round}, bytes);
      HMC_CHECK_EQ(buffer.writeFromCpu(before.data(), bytes), hmc::status_t::SUCCESS);
      Window window = Window::create(me.runtime->world(), buffer);
      std::vector<std::byte> got(bytes);
      window.get(me.next(), 0, got.data(), bytes);
      HMC_CHECK_CLEAN((Pattern{me.next(), round}.verify(got)));
      me.runtime->world().barrier();
      window.close();
      HMC_CHECK_EQ(buffer.readToCpu(got.data(), bytes), hmc::status_t::SUCCESS);
      HMC_CHECK(got == before);
    }
  });
}

HMC_SPMD_TEST(DeviceWindows, rows_and_batches_are_written_to_their_places) {
  over_every_pair(me, [&](MemoryKind kind, std::uint64_t round) {
    constexpr std::size_t rows = 9, row = 37, local_pitch = 41, pitch = 64, extent = rows * pitch;
    Mixed mixed(me, kind, 2 * extent);
    const auto source = made({me.rank, round}, rows * local_pitch);
    mixed.window.put_strided(me.next(), 0, source.data(), {rows, row, local_pitch, pitch});
    const hmc::Put puts[] = {{extent + 1, source.data(), 3}, {extent + 100, source.data() + 50, 201}};
    mixed.window.put_batch(me.next(), puts);
    mixed.window.flush();
    me.runtime->world().barrier();
    const auto theirs = made({me.previous(), round}, rows * local_pitch);
    const auto got = mixed.bytes(0, 2 * extent);
    for (std::size_t i = 0; i < extent; ++i) {
      const std::size_t in_row = i % pitch;
      HMC_CHECK_EQ(got[i], in_row < row ? theirs[i / pitch * local_pitch + in_row] : std::byte{0});
    }
    for (std::size_t i = 0; i < extent; ++i) {
      std::byte expected{0};
      if (i >= 1 && i < 4) expected = theirs[i - 1];
      if (i >= 100 && i < 301) expected = theirs[i - 50];
      HMC_CHECK_EQ(got[extent + i], expected);
    }
    std::vector<std::byte> back(rows * local_pitch), parts(204);
    mixed.window.get_strided(me.next(), 0, back.data(), {rows, row, local_pitch, pitch});
    const hmc::Get gets[] = {{extent + 1, parts.data(), 3}, {extent + 100, parts.data() + 3, 201}};
    mixed.window.get_batch(me.next(), gets);
    for (std::size_t i = 0; i < back.size(); ++i)
      HMC_CHECK_EQ(back[i], i % local_pitch < row ? source[i] : std::byte{0});
    HMC_CHECK(std::equal(parts.begin(), parts.begin() + 3, source.begin()));
    HMC_CHECK(std::equal(parts.begin() + 3, parts.end(), source.begin() + 50));
    me.runtime->world().barrier();
    mixed.window.close();
  });
}

// The local side of every verb may be device memory of any vendor.
HMC_SPMD_TEST(DeviceWindows, local_pointers_may_be_device_memory) {
  over_every_pair(me, [&](MemoryKind kind, std::uint64_t round) {
    constexpr std::size_t bytes = 3000, row = 100, rows = 30;
    Mixed mixed(me, kind, 4 * bytes + 8);
    const auto kinds = hmc::spmd::kinds_of(me);
    const MemoryKind local = kinds[(static_cast<std::size_t>(me.rank) + round) % kinds.size()];
    ConnBuffer source(0, bytes, local.type), target(0, bytes, local.type);
    const auto sent = made({me.rank, round}, bytes);
    HMC_CHECK_EQ(source.writeFromCpu(sent.data(), bytes), hmc::status_t::SUCCESS);
    auto* const from = static_cast<std::byte*>(source.ptr);
    mixed.window.put(me.next(), 0, from, bytes);
    mixed.window.put_nb(me.next(), bytes, from, bytes).wait();
    mixed.window.put_strided(me.next(), 2 * bytes, from, {rows, row, row, row});
    const hmc::Put puts[] = {{3 * bytes, from, 1}, {3 * bytes + 1, from + 1, 999}};
    mixed.window.put_batch(me.next(), puts);
    mixed.window.put_signal(me.next(), 3 * bytes + 1000, from + 1000, bytes - 1000, 4 * bytes, round);
    HMC_CHECK_EQ(mixed.window.wait_until(4 * bytes, Cmp::eq, round), round);
    mixed.window.flush();
    me.runtime->world().barrier();
    for (std::size_t part = 0; part < 4; ++part)
      HMC_CHECK_CLEAN((Pattern{me.previous(), round}.verify(mixed.bytes(part * bytes, bytes))));

    const auto arrived = [&] {
      std::vector<std::byte> got(bytes);
      HMC_CHECK_EQ(target.readToCpu(got.data(), bytes), hmc::status_t::SUCCESS);
      HMC_CHECK_CLEAN((Pattern{me.rank, round}.verify(got)));
      std::fill(got.begin(), got.end(), std::byte{0});
      HMC_CHECK_EQ(target.writeFromCpu(got.data(), bytes), hmc::status_t::SUCCESS);
    };
    auto* const to = static_cast<std::byte*>(target.ptr);
    mixed.window.get(me.next(), 0, to, bytes);
    arrived();
    mixed.window.get_nb(me.next(), 0, to, bytes).wait();
    arrived();
    mixed.window.get_strided(me.next(), 0, to, {rows, row, row, row});
    arrived();
    const hmc::Get gets[] = {{0, to, 1}, {1, to + 1, bytes - 1}};
    mixed.window.get_batch(me.next(), gets);
    arrived();
    me.runtime->world().barrier();
    mixed.window.close();
  });
}

HMC_SPMD_TEST(DeviceWindows, open_and_close_leaks_nothing) {
  const auto kinds = hmc::spmd::kinds_of(me);
  const std::string setting = me.options.setting("cycles", "60");
  const int cycles = std::stoi(setting);
  std::size_t descriptors = 0, maps = 0;
  for (int i = 0; i < cycles; ++i) {
    {
      Mixed mixed(me, kinds[static_cast<std::size_t>(i + me.rank) % kinds.size()], 100);
      const auto value = static_cast<std::uint64_t>(i);
      mixed.window.put(me.next(), 8, &value, 8);
      mixed.window.flush();
      me.runtime->world().barrier();
      HMC_CHECK_EQ(mixed.word(8), value);
      mixed.window.close();
    }
    me.runtime->world().barrier();
    if (me.options.processes || me.size == 1) {
      if (i == 20) descriptors = entries_of("/proc/self/fd"), maps = mappings();
    }
  }
  if (descriptors == 0) return;  // ranks that are threads share one process, so its counts vary
  HMC_CHECK_EQ(entries_of("/proc/self/fd"), descriptors);
  HMC_CHECK_LE(mappings(), maps + 3);  // malloc's mappings vary
}

// A team's ranks differ from world ranks: lanes, descriptors and helpers must still match.
HMC_SPMD_TEST(DeviceWindows, teams_have_windows_on_devices) {
  const auto kinds = hmc::spmd::kinds_of(me);
  hmc::Team team = me.runtime->world().split(me.rank % 2, -me.rank);  // reversed order
  for (std::size_t shift = 0; shift < kinds.size(); ++shift) {
    ConnBuffer buffer(0, 3000, kinds[(static_cast<std::size_t>(me.rank) + shift) % kinds.size()].type);
    Window window = Window::create(team, buffer);
    const int next = (team.rank() + 1) % team.size(), previous = (team.rank() + team.size() - 1) % team.size();
    const auto sent = made({team.rank(), shift}, 2000);
    window.put_signal(next, 16, sent.data(), sent.size(), 8, shift + 1);
    HMC_CHECK_EQ(window.wait_until(8, Cmp::eq, shift + 1), shift + 1);
    std::vector<std::byte> got(2000);
    HMC_CHECK_EQ(buffer.readToCpu(got.data(), got.size(), 16), hmc::status_t::SUCCESS);
    HMC_CHECK_CLEAN((Pattern{previous, shift}.verify(got)));
    window.add<std::uint64_t>(0, 0, 1);
    window.flush();
    team.barrier();
    HMC_CHECK_EQ(window.fetch<std::uint64_t>(0, 0), static_cast<std::uint64_t>(team.size()));
    team.barrier();
    window.close();
  }
  me.runtime->world().barrier();
  team.close();
}
