// TRANS: transfers between registered memory of named peers.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>

#include "tests/compat/memfabric/support.hpp"
#include "tests/multirank/stopped_peer.hpp"

namespace hmc::memfabric_test {
namespace {

std::string id_of(int rank) { return fmt::format("10.1.2.{}:{}", rank + 1, 7000 + rank); }

/// TRANS from init to uninit, with a peer of each rank.
class TransPeer {
 public:
  explicit TransPeer(TestRank& me) : device(me) {
    if (device.exists()) SMEM_CHECK(smem_set_device_memory(static_cast<int>(device.type)));
    SMEM_CHECK(smem_trans_config_init(&config));
    config.role = me.rank % 2 == 0 ? SMEM_TRANS_SENDER : SMEM_TRANS_RECEIVER;
    config.initTimeout = 100;
    config.deviceId = device.number;
    SMEM_CHECK(smem_trans_init(&config));
    handle = smem_trans_create("hmc://", id_of(me.rank).c_str(), &config);
    HMC_CHECK_MSG(handle != nullptr, "{}", smem_get_last_err_msg());
  }
  ~TransPeer() { smem_uninit(); }
  TransPeer(const TransPeer&) = delete;
  TransPeer& operator=(const TransPeer&) = delete;

  Device device;
  smem_trans_config_t config{};
  smem_trans_t handle = nullptr;
};

constexpr std::uint64_t large = 40 * MiB + 12345;  // several chunks

HMC_SPMD_TEST(Trans, peers_write_and_read_registered_memory) {
  const TransPeer peer(me);
  for (const bool on_device : {false, true}) {
    if (on_device && !peer.device.exists()) continue;
    const LocalMemory memory(large, peer.device, on_device);
    const LocalMemory local(large, peer.device, on_device);
    SMEM_CHECK(smem_trans_register_mem(peer.handle, memory.data(), large, 0));
    SMEM_CHECK(smem_trans_register_mem(peer.handle, memory.data(), large, 0));  // again
    HMC_CHECK_EQ(smem_trans_register_mem(peer.handle, memory.data(), large - 1, 0), SMEM_INVALID_PARAM);
    const auto addresses = allgather(me, reinterpret_cast<std::uint64_t>(memory.data()));
    auto* const remote = reinterpret_cast<std::byte*>(addresses[static_cast<std::size_t>(me.next())]);
    const std::string next = id_of(me.next());
    std::uint64_t call = on_device ? 100 : 0;
    for (const std::uint64_t bytes : {std::uint64_t{1}, std::uint64_t{4097}, 2 * MiB, large - 1}) {
      ++call;
      local.write(pattern(me.rank, call, bytes));
      barrier(me);
      SMEM_CHECK(smem_trans_write(peer.handle, local.data(), next.c_str(), remote + 1, bytes));
      barrier(me);
      HMC_CHECK_CLEAN(Pattern({me.previous(), call}).verify(memory.read(1, bytes)));
      memory.write(pattern(me.rank, call + 50, bytes), 1);
      barrier(me);
      SMEM_CHECK(smem_trans_read(peer.handle, local.data(), next.c_str(), remote + 1, bytes));
      HMC_CHECK_CLEAN(Pattern({me.next(), call + 50}).verify(local.read(0, bytes)));
      barrier(me);
    }
    SMEM_CHECK(smem_trans_deregister_mem(peer.handle, memory.data()));
    HMC_CHECK_EQ(smem_trans_deregister_mem(peer.handle, memory.data()), SMEM_OBJECT_NOT_EXISTS);
    barrier(me);
    std::byte byte{};
    HMC_CHECK_EQ(smem_trans_read(peer.handle, &byte, next.c_str(), remote, 1), SMEM_INVALID_PARAM);
    barrier(me);
  }
}

HMC_SPMD_TEST(Trans, batches_move_each_piece) {
  const TransPeer peer(me);
  // The KV block of the published numbers: 61 pieces of 128 KiB and 61 of 16 KiB, in two registered ranges.
  std::vector<std::byte> keys(61 * 128 * 1024), values(61 * 16 * 1024);
  void* ranges[] = {keys.data(), values.data()};
  std::size_t range_sizes[] = {keys.size(), values.size()};
  SMEM_CHECK(smem_trans_batch_register_mem(peer.handle, ranges, range_sizes, 2, 0));
  const auto key_addresses = allgather(me, reinterpret_cast<std::uint64_t>(keys.data()));
  const auto value_addresses = allgather(me, reinterpret_cast<std::uint64_t>(values.data()));
  const auto source_keys = pattern(me.rank, 1, keys.size());
  const auto source_values = pattern(me.rank, 2, values.size());
  std::vector<const void*> locals;
  std::vector<void*> remotes;
  std::vector<std::size_t> sizes;
  for (std::size_t i = 0; i < 61; ++i) {
    locals.insert(locals.end(), {&source_keys[i * 131072], &source_values[i * 16384]});
    remotes.push_back(reinterpret_cast<void*>(key_addresses[static_cast<std::size_t>(me.next())] + i * 131072));
    remotes.push_back(reinterpret_cast<void*>(value_addresses[static_cast<std::size_t>(me.next())] + i * 16384));
    sizes.insert(sizes.end(), {131072, 16384});
  }
  const std::string next = id_of(me.next());
  SMEM_CHECK(smem_trans_batch_write(peer.handle, locals.data(), next.c_str(), remotes.data(), sizes.data(), 122));
  barrier(me);
  HMC_CHECK_CLEAN(Pattern({me.previous(), 1}).verify(keys));
  HMC_CHECK_CLEAN(Pattern({me.previous(), 2}).verify(values));
  // Back, in another order of the pieces.
  std::vector<std::byte> back(keys.size() + values.size());
  std::vector<void*> targets;
  std::size_t at = 0;
  for (const std::size_t size : sizes) {
    targets.push_back(&back[at]);
    at += size;
  }
  std::reverse(targets.begin(), targets.end());
  std::reverse(remotes.begin(), remotes.end());
  std::reverse(sizes.begin(), sizes.end());
  SMEM_CHECK(smem_trans_batch_read(peer.handle, targets.data(), next.c_str(), const_cast<const void**>(remotes.data()),
                                   sizes.data(), 122));
  for (std::size_t i = 0; i < 122; ++i) {
    const void* expected = locals[121 - i];
    HMC_CHECK_EQ(std::memcmp(targets[i], expected, sizes[i]), 0);
  }
  barrier(me);
}

HMC_SPMD_TEST(Trans, addresses_outside_registered_memory_are_invalid) {
  const TransPeer peer(me);
  std::vector<std::byte> memory(3 * MiB), local(3 * MiB, std::byte{1});
  // Two adjacent ranges of three: a transfer may cross from one to the other.
  SMEM_CHECK(smem_trans_register_mem(peer.handle, memory.data(), MiB, 0));
  SMEM_CHECK(smem_trans_register_mem(peer.handle, &memory[MiB], MiB, 0));
  const auto addresses = allgather(me, reinterpret_cast<std::uint64_t>(memory.data()));
  auto* const remote = reinterpret_cast<std::byte*>(addresses[static_cast<std::size_t>(me.next())]);
  const std::string next = id_of(me.next());
  const auto write = [&](std::byte* to, std::size_t bytes) {
    return smem_trans_write(peer.handle, local.data(), next.c_str(), to, bytes);
  };
  HMC_CHECK_EQ(write(remote - 1, 2), SMEM_INVALID_PARAM);
  HMC_CHECK_EQ(write(remote + 2 * MiB - 1, 2), SMEM_INVALID_PARAM);
  HMC_CHECK_EQ(write(remote + 2 * MiB, 1), SMEM_INVALID_PARAM);
  HMC_CHECK_EQ(write(remote, 0), SMEM_INVALID_PARAM);
  HMC_CHECK_EQ(write(nullptr, 1), SMEM_INVALID_PARAM);
  HMC_CHECK_EQ(smem_trans_write(peer.handle, local.data(), next.c_str(), remote, 1, 1), SMEM_INVALID_PARAM);
  HMC_CHECK_EQ(smem_trans_write(peer.handle, local.data(), "10.9.9.9:1", remote, 1), SMEM_OBJECT_NOT_EXISTS);
  HMC_CHECK_EQ(smem_trans_write(peer.handle, local.data(), "not an id", remote, 1), SMEM_INVALID_PARAM);
  HMC_CHECK_EQ(smem_trans_write(peer.handle, local.data(), nullptr, remote, 1), SMEM_INVALID_PARAM);
  // A batch with one such piece moves nothing, whatever its size.
  std::vector<const void*> locals(20, local.data());
  std::vector<std::size_t> sizes(20, MiB);
  std::vector<void*> remotes(20, remote);
  remotes[19] = remote + MiB + 1;
  HMC_CHECK_EQ(smem_trans_batch_write(peer.handle, locals.data(), next.c_str(), remotes.data(), sizes.data(), 20),
               SMEM_INVALID_PARAM);
  barrier(me);
  HMC_CHECK_EQ(std::count(memory.begin(), memory.end(), std::byte{0}), static_cast<std::int64_t>(memory.size()));
  barrier(me);
  SMEM_CHECK(write(remote + MiB / 2, MiB));
  barrier(me);
  HMC_CHECK_EQ(std::count(memory.begin(), memory.end(), std::byte{1}), static_cast<std::int64_t>(MiB));
  barrier(me);
}

HMC_SPMD_TEST(Trans, allocated_memory_is_registered) {
  const TransPeer peer(me);
  auto* const memory = static_cast<std::byte*>(smem_trans_malloc(peer.handle, 3 * MiB));
  HMC_CHECK_MSG(memory != nullptr, "{}", smem_get_last_err_msg());
  HMC_CHECK(smem_trans_malloc(peer.handle, 0) == nullptr);
  HMC_CHECK(smem_trans_malloc(peer.handle, std::size_t{129} << 30) == nullptr);
  const auto addresses = allgather(me, reinterpret_cast<std::uint64_t>(memory));
  const auto data = pattern(me.rank, 1, 3 * MiB);
  SMEM_CHECK(smem_trans_write(peer.handle, data.data(), id_of(me.next()).c_str(),
                              reinterpret_cast<void*>(addresses[static_cast<std::size_t>(me.next())]), data.size()));
  barrier(me);
  HMC_CHECK_CLEAN(Pattern({me.previous(), 1}).verify(std::span(memory, 3 * MiB)));
  HMC_CHECK_EQ(smem_trans_deregister_mem(peer.handle, memory), SMEM_INVALID_PARAM);
  SMEM_CHECK(smem_trans_free(peer.handle, memory));
  HMC_CHECK_EQ(smem_trans_free(peer.handle, memory), SMEM_OBJECT_NOT_EXISTS);
  barrier(me);
}

HMC_SPMD_TEST(Trans, unique_id_has_one_peer_and_can_be_used_again) {
  TransPeer peer(me);
  barrier(me);  // each rank has its id
  HMC_CHECK(smem_trans_create("hmc://", id_of(me.next()).c_str(), &peer.config) == nullptr);
  HMC_CHECK(smem_trans_create("hmc://", "10.1.2.3", &peer.config) == nullptr);
  std::vector<std::byte> memory(4096);
  SMEM_CHECK(smem_trans_register_mem(peer.handle, memory.data(), memory.size(), 0));
  const auto addresses = allgather(me, reinterpret_cast<std::uint64_t>(memory.data()));
  void* const remote = reinterpret_cast<void*>(addresses[static_cast<std::size_t>(me.next())]);
  const auto data = pattern(me.rank, 1, 4096);
  SMEM_CHECK(smem_trans_write(peer.handle, data.data(), id_of(me.next()).c_str(), remote, 4096));
  barrier(me);
  if (me.rank == 0) {  // a peer that ends and starts again: the others find it by the same id
    smem_trans_destroy(peer.handle, 0);
    peer.handle = smem_trans_create("hmc://", id_of(0).c_str(), &peer.config);
    HMC_CHECK_MSG(peer.handle != nullptr, "{}", smem_get_last_err_msg());
    std::fill(memory.begin(), memory.end(), std::byte{0});
    SMEM_CHECK(smem_trans_register_mem(peer.handle, memory.data(), memory.size(), 0));
  }
  barrier(me);
  SMEM_CHECK(smem_trans_write(peer.handle, data.data(), id_of(me.next()).c_str(), remote, 4096));
  barrier(me);
  HMC_CHECK_CLEAN(Pattern({me.previous(), 1}).verify(memory));
  barrier(me);
}

HMC_SPMD_TEST(Trans, callback_names_a_peer_that_ends) {
  TransPeer peer(me);
  barrier(me);
  struct Seen {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::string> names;
  } seen;
  const auto add = [](const char* name, void* to) {
    auto& all = *static_cast<Seen*>(to);
    const std::lock_guard lock(all.mutex);
    all.names.emplace_back(name);
    all.changed.notify_all();
  };
  SMEM_CHECK(smem_trans_set_peer_down_callback(peer.handle, add, &seen));
  barrier(me);
  const int ending = me.size - 1;
  for (const std::uint64_t round : {1U, 2U}) {  // a name that was there before the callback, and one that came later
    if (me.rank == ending) {
      smem_trans_destroy(peer.handle, 0);
    } else {
      std::unique_lock lock(seen.mutex);
      seen.changed.wait(lock, [&] { return seen.names.size() >= round; });
      HMC_CHECK_EQ(seen.names.size(), round);
      HMC_CHECK_EQ(seen.names.back(), id_of(ending));
    }
    barrier(me);
    if (me.rank == ending) {
      peer.handle = smem_trans_create("hmc://", id_of(ending).c_str(), &peer.config);
      HMC_CHECK_MSG(peer.handle != nullptr, "{}", smem_get_last_err_msg());
    }
    barrier(me);
  }
  SMEM_CHECK(smem_trans_set_peer_down_callback(peer.handle, nullptr, nullptr));
  barrier(me);
}

/// More threads than the handle has slots, to two peers.
HMC_SPMD_TEST(Trans, threads_transfer_at_once) {
  const TransPeer peer(me);
  constexpr int threads = 6;
  constexpr std::uint64_t each = 5 * MiB + 321;
  std::vector<std::byte> memory(2 * threads * each);
  SMEM_CHECK(smem_trans_register_mem(peer.handle, memory.data(), memory.size(), 0));
  const auto addresses = allgather(me, reinterpret_cast<std::uint64_t>(memory.data()));
  std::vector<std::string> failures(threads);
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      const auto call = static_cast<std::uint64_t>(t);
      const int to = t % 2 == 0 ? me.next() : me.previous();
      // With two ranks both are one peer: its memory has a half for each.
      const std::uint64_t at = (2 * call + static_cast<std::uint64_t>(t % 2)) * each;
      void* const remote = reinterpret_cast<void*>(addresses[static_cast<std::size_t>(to)] + at);
      const auto data = pattern(me.rank, call, each);
      std::vector<std::byte> back(each);
      const bool done = smem_trans_write(peer.handle, data.data(), id_of(to).c_str(), remote, each) == SMEM_OK &&
                        smem_trans_read(peer.handle, back.data(), id_of(to).c_str(), remote, each) == SMEM_OK &&
                        back == data;
      if (!done) failures[call] = fmt::format("thread {}: {}", t, smem_get_last_err_msg());
    });
  }
  for (std::thread& worker : workers) worker.join();
  for (const std::string& failure : failures) HMC_CHECK_MSG(failure.empty(), "{}", failure);
  barrier(me);
  for (int t = 0; t < threads; ++t) {
    const auto call = static_cast<std::uint64_t>(t);
    const std::uint64_t at = (2 * call + static_cast<std::uint64_t>(t % 2)) * each;
    HMC_CHECK_CLEAN(
        Pattern({t % 2 == 0 ? me.previous() : me.next(), call}).verify(std::span(memory).subspan(at, each)));
  }
  barrier(me);
}

/// Each rank's memory isn't registered for moments, some of them after the first bytes of a transfer.
HMC_SPMD_TEST(Trans, transfers_that_fail_in_the_middle_leave_later_ones_possible) {
  const TransPeer peer(me);
  constexpr std::uint64_t bytes = 9 * MiB + 77;
  constexpr int wanted_failures = 8;  // twice the transfers that may be in progress at once
  std::vector<std::byte> memory(bytes);
  SMEM_CHECK(smem_trans_register_mem(peer.handle, memory.data(), bytes, 0));
  const auto addresses = allgather(me, reinterpret_cast<std::uint64_t>(memory.data()));
  void* const remote = reinterpret_cast<void*>(addresses[static_cast<std::size_t>(me.next())]);
  std::uint64_t call = 0;
  const auto write = [&] {
    const auto data = pattern(me.rank, ++call, bytes);
    return smem_trans_write(peer.handle, data.data(), id_of(me.next()).c_str(), remote, bytes);
  };
  const auto has_begun = [&] {  // the last write
    std::vector<std::byte> first(4096);
    while (smem_trans_read(peer.handle, first.data(), id_of(me.next()).c_str(), remote, first.size()) != SMEM_OK)
      ;  // for moments the memory isn't registered
    return first == pattern(me.rank, call, first.size());
  };
  std::jthread owner([&](const std::stop_token& stop) {
    for (int round = 0; !stop.stop_requested(); ++round) {
      std::this_thread::sleep_for(std::chrono::microseconds(300 * (round % 11)));
      (void)smem_trans_deregister_mem(peer.handle, memory.data());
      std::this_thread::sleep_for(std::chrono::microseconds(200));  // a chunk is refused that arrives now
      (void)smem_trans_register_mem(peer.handle, memory.data(), bytes, 0);
    }
  });
  int failures = 0;  // in the middle
  std::int32_t code = SMEM_OK;
  while (failures < wanted_failures && (code == SMEM_OK || code == SMEM_INVALID_PARAM)) {
    code = write();
    failures += code != SMEM_OK && has_begun();
  }
  barrier(me);
  owner.request_stop();
  owner.join();
  HMC_CHECK_EQ(code, SMEM_INVALID_PARAM);
  barrier(me);
  for (int i = 0; i < 5; ++i) SMEM_CHECK(write());
  const auto calls = allgather(me, call);
  HMC_CHECK_CLEAN(Pattern({me.previous(), calls[static_cast<std::size_t>(me.previous())]}).verify(memory));
  barrier(me);
}

/// Rank 1's process is stopped while a thread of rank 0 writes to it.
HMC_SPMD_TEST(Trans, stopped_peer_does_not_delay_a_transfer_to_another) {
  if (me.size < 3) hmc::spmd::skip("it needs two peers");
  const TransPeer peer(me);
  constexpr std::uint64_t bytes = MiB + 5;
  std::vector<std::byte> memory(bytes);
  SMEM_CHECK(smem_trans_register_mem(peer.handle, memory.data(), memory.size(), 0));
  const auto addresses = allgather(me, reinterpret_cast<std::uint64_t>(memory.data()));
  Window window = Window::create(me.runtime->world(), 64);
  barrier(me);
  const auto write = [&](int to) {
    const auto data = pattern(me.rank, static_cast<std::uint64_t>(to), bytes);
    void* const remote = reinterpret_cast<void*>(addresses[static_cast<std::size_t>(to)]);
    return smem_trans_write(peer.handle, data.data(), id_of(to).c_str(), remote, bytes);
  };
  if (me.rank == 0) {
    std::atomic<bool> is_done{false};
    std::int32_t code = SMEM_ERROR;
    auto standing = std::make_unique<hmc::spmd::Standing>(window, 0);
    std::thread blocked([&] {
      code = write(1);
      is_done = true;
    });
    std::int32_t other = SMEM_OK;
    for (int i = 0; i < 50 && other == SMEM_OK; ++i) other = write(2);  // meanwhile the thread has begun
    const bool was_blocked = !is_done;
    standing.reset();
    blocked.join();
    HMC_CHECK_EQ(other, SMEM_OK);
    HMC_CHECK(was_blocked);
    HMC_CHECK_EQ(code, SMEM_OK);
  } else if (me.rank == 1) {
    hmc::spmd::stand_still(window, 0, 0);
  }
  barrier(me);
  if (me.rank == 1 || me.rank == 2) HMC_CHECK_CLEAN(Pattern({0, static_cast<std::uint64_t>(me.rank)}).verify(memory));
  window.close();
}

HMC_SPMD_TEST(Trans, submitted_transfers_are_in_the_order_of_a_stream) {
  const TransPeer peer(me);
  std::vector<std::byte> memory(MiB);
  SMEM_CHECK(smem_trans_register_mem(peer.handle, memory.data(), MiB, 0));
  const auto addresses = allgather(me, reinterpret_cast<std::uint64_t>(memory.data()));
  void* const remote = reinterpret_cast<void*>(addresses[static_cast<std::size_t>(me.next())]);
  const std::string next = id_of(me.next());
  const LocalMemory local(MiB, peer.device, true);
  const auto data = pattern(me.rank, 1, MiB);
  if (peer.device.exists()) {
    // The Buffer's copy is queued in its stream; the transfer follows it.
    const Place place(detail::allocator_for(peer.device.type), peer.device.number);
    auto work = detail::make_transfers(place, TransferOrder(TransferMode::async, nullptr));
    (void)work;
    local.write(data);
    void* const stream = detail::stream_at(work, place);
    SMEM_CHECK(smem_trans_write_submit(peer.handle, local.data(), next.c_str(), remote, MiB, stream));
  } else {
    local.write(data);
    SMEM_CHECK(smem_trans_write_submit(peer.handle, local.data(), next.c_str(), remote, MiB, nullptr));
    int not_a_stream = 0;
    HMC_CHECK_EQ(smem_trans_write_submit(peer.handle, local.data(), next.c_str(), remote, MiB, &not_a_stream),
                 SMEM_INVALID_PARAM);
  }
  barrier(me);
  HMC_CHECK_CLEAN(Pattern({me.previous(), 1}).verify(memory));
  SMEM_CHECK(smem_trans_read_submit(peer.handle, local.data(), next.c_str(), remote, MiB, nullptr));
  HMC_CHECK(local.read(0, MiB) == data);
  barrier(me);
}

}  // namespace
}  // namespace hmc::memfabric_test
