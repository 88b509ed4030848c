// hmc::copy between any two locations.
#include "tests/multirank/device_names.hpp"

// A chain through every kind of location. Each copy detects its own direction.
HMC_SPMD_TEST(DeviceCopies, bytes_survive_a_chain_through_every_memory_kind) {
  over_every_pair(me, [&](MemoryKind kind, std::uint64_t round) {
    constexpr std::size_t bytes = 2000;
    Mixed mixed(me, kind, 4 * bytes);
    ConnBuffer device(0, bytes, kind.type), other(0, bytes, kind.type);
    const Pattern pattern{me.rank, round};
    const auto start = made(pattern, bytes);
    std::vector<std::byte> host(bytes), back(bytes);
    hmc::copy(host.data(), start.data(), bytes);
    hmc::copy(device.ptr, host.data(), bytes);
    hmc::copy(other.ptr, device.ptr, bytes);
    hmc::copy({mixed.window, me.next(), 8}, other.ptr, bytes);
    hmc::copy({mixed.window, me.next(), bytes + 8}, {mixed.window, me.next(), 8}, bytes);  // within the next rank's
                                                                                           // part
    hmc::copy({mixed.window, me.rank, 2 * bytes + 8}, {mixed.window, me.next(), bytes + 8}, bytes);  // to this rank's
                                                                                                     // part
    hmc::copy(device.ptr, {mixed.window, me.rank, 2 * bytes + 8}, bytes);
    HMC_CHECK_EQ(device.readToCpu(back.data(), bytes), hmc::status_t::SUCCESS);
    HMC_CHECK_CLEAN(pattern.verify(back));
    hmc::copy(host.data(), {mixed.window, me.next(), bytes + 8}, bytes);
    HMC_CHECK_CLEAN(pattern.verify(host));
    me.runtime->world().barrier();
    HMC_CHECK_CLEAN((Pattern{me.previous(), round}.verify(mixed.bytes(bytes + 8, bytes))));
    me.runtime->world().barrier();
    mixed.window.close();
  });
}

HMC_SPMD_TEST(DeviceCopies, wrong_copy_direction_is_rejected) {
  for (const MemoryKind& kind : hmc::spmd::kinds_of(me)) {
    const bool on_device = kind.type != hmc::MemoryType::CPU;
    Mixed mixed(me, kind, 64);
    ConnBuffer buffer(0, 64, kind.type);
    std::byte host[64]{};
    const Location window(mixed.window, me.next(), 0), local(buffer.ptr), mine(host);
    const auto fits = [&](const Location& to, const Location& from, Direction direction) {
      hmc::copy(to, from, 8, direction);
      for (int other = 1; other <= static_cast<int>(Direction::global_to_global); ++other)
        if (other != static_cast<int>(direction))
          HMC_CHECK_THROWS(Code::invalid_argument, hmc::copy(to, from, 8, static_cast<Direction>(other)));
    };
    fits(mine, mine, Direction::host_to_host);
    fits(local, mine, on_device ? Direction::host_to_local : Direction::host_to_host);
    fits(mine, local, on_device ? Direction::local_to_host : Direction::host_to_host);
    fits(local, local, on_device ? Direction::local_to_local : Direction::host_to_host);
    fits(window, mine, Direction::host_to_global);
    fits(window, local, on_device ? Direction::local_to_global : Direction::host_to_global);
    fits(mine, window, Direction::global_to_host);
    fits(local, window, on_device ? Direction::global_to_local : Direction::global_to_host);
    fits(window, window, Direction::global_to_global);
    HMC_CHECK_THROWS(Code::out_of_range, hmc::copy({mixed.window, me.next(), 60}, mine, 8));
    HMC_CHECK_THROWS(Code::out_of_range, hmc::copy({mixed.window, me.next(), 60}, {mixed.window, me.next(), 0}, 8));
    HMC_CHECK_THROWS(Code::bad_rank, hmc::copy(mine, {mixed.window, me.size, 0}, 8));
    HMC_CHECK_THROWS(Code::invalid_argument, hmc::copy(mine, nullptr, 8));
    me.runtime->world().barrier();
    mixed.window.close();
  }
}

HMC_SPMD_TEST(DeviceCopies, copies_between_mapped_parts_avoid_the_host) {
  const auto kinds = hmc::spmd::kinds_of(me);
  const auto cuda = std::find_if(kinds.begin(), kinds.end(), [](const auto& kind) { return kind.name == "cuda"; });
  if (!hmc::spmd::drivers_are_fake() || !me.options.processes || cuda == kinds.end() || me.size < 2 ||
      me.runtime->node_count() > 1 || !me.runtime->path(me.next()).direct)
    hmc::spmd::skip("for ranks of one node that each have a driver of their own");
  constexpr std::size_t bytes = (std::size_t{3} << 20) + 5;
  Mixed mixed(me, *cuda, 2 * bytes);
  mixed.write(0, made({me.rank, 4}, bytes));
  me.runtime->world().barrier();
  const Fake fake("cuda");
  fake.arm("");
  hmc::copy({mixed.window, me.previous(), bytes}, {mixed.window, me.next(), 0}, bytes);
  HMC_CHECK_EQ(fake.times("cuMemcpyDtoHAsync_v2"), 0);
  HMC_CHECK_EQ(fake.times("cuMemcpyHtoDAsync_v2"), 0);
  me.runtime->world().barrier();
  HMC_CHECK_CLEAN((Pattern{(me.rank + 2) % me.size, 4}.verify(mixed.bytes(bytes, bytes))));
  me.runtime->world().barrier();
  mixed.window.close();
}

// From a rank of another node to a rank of this node; the caller is neither.
HMC_SPMD_TEST(DeviceCopies, remote_copy_to_a_mapped_part_is_staged_in_two_halves) {
  for (const MemoryKind& kind : hmc::spmd::kinds_of(me)) {
    constexpr std::size_t bytes = (std::size_t{3} << 20) + 5;
    Mixed mixed(me, kind, 2 * bytes);
    mixed.write(0, made({me.rank, 9}, bytes));
    me.runtime->world().barrier();
    // With three ranks on two nodes, the first rank makes this copy. The other ranks copy by other paths.
    hmc::copy({mixed.window, (me.rank + 1) % me.size, bytes}, {mixed.window, (me.rank + 2) % me.size, 0}, bytes);
    me.runtime->world().barrier();
    HMC_CHECK_CLEAN((Pattern{(me.rank + 1) % me.size, 9}.verify(mixed.bytes(bytes, bytes))));
    me.runtime->world().barrier();
    mixed.window.close();
  }
}
