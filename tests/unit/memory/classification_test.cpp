// The cost of classifying a pointer, in calls of the fake driver: it creates nothing, and memory that HMC allocated
// needs no driver call.
#include <ucontext.h>

#include <atomic>
#include <thread>

#include "runtime/memory/pointer_lookup.hpp"
#include "tests/unit/memory/fake.hpp"

namespace hmc::memory {

namespace {

/// AddressSanitizer keeps some locals on the heap, to detect use after return.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool locals_are_on_the_stack = false;
#else
constexpr bool locals_are_on_the_stack = true;
#endif

int calls_since_arm(const Fake& fake) {
  int calls = 0;
  for (const auto& [name, times] : fake.seen()) calls += times;
  return calls;
}

TEST(Classification, classification_makes_no_context_and_one_call) {
  use_fakes();
  const Fake fake("cuda");
  const DeviceProvider provider(open_cuda());
  const long contexts = fake.live("context");
  fake.arm("");
  const std::vector<int> host(1000);
  EXPECT_EQ(provider.query(host.data()).kind, PointerKind::unknown);
  EXPECT_EQ(provider.query(host.data() + 999).kind, PointerKind::unknown);
  EXPECT_EQ(fake.live("context"), contexts);
  EXPECT_EQ(calls_since_arm(fake), 2);
  const auto memory = provider.allocate(1, 100);
  fake.arm("");
  std::thread([&] {  // which has no context at all
    EXPECT_EQ(provider.query(memory->address + 99).kind, PointerKind::device);
    EXPECT_EQ(provider.query(memory->address).device, 1);
  })
      .join();
  EXPECT_EQ(calls_since_arm(fake), 2);
}

TEST(Classification, known_memory_needs_no_driver_call) {
  use_fakes();
  const Fake fake("cuda");
  const Provider& cuda = provider_for(MemoryType::NVIDIA_GPU);
  const Provider& cpu = provider_for(MemoryType::CPU);
  for (const Backing backing : {Backing::plain, Backing::vmm, Backing::pinned, Backing::managed}) {
    const auto device = cuda.allocate(1, 5000, backing);
    fake.arm("");
    const Owner owner = known_owner_of(device->address + 4999);
    EXPECT_EQ(owner.provider, &cuda);
    EXPECT_EQ(owner.info.device, 1);
    EXPECT_EQ(owner.info.kind, backing == Backing::pinned    ? PointerKind::pinned
                               : backing == Backing::managed ? PointerKind::managed
                                                             : PointerKind::device);
    EXPECT_EQ(is_host_accessible(owner), device->host_accessible);
    EXPECT_EQ(calls_since_arm(fake), 0) << name_of(backing);
  }
  const auto segment = cpu.allocate(0, 10'000);
  std::uint64_t local = 0;
  const auto word = std::make_unique<std::uint64_t>(1);
  fake.arm("");
  EXPECT_TRUE(is_host_accessible(segment->address + 9999));
  if (locals_are_on_the_stack) {
    EXPECT_TRUE(is_host_accessible(&local));
  }
  EXPECT_EQ(calls_since_arm(fake), 0);
  EXPECT_TRUE(is_host_accessible(word.get()));  // any other pointer costs a driver call each time
  EXPECT_EQ(calls_since_arm(fake), 1);
}

ucontext_t fiber_caller, fiber;
const std::byte* fiber_asks_about = nullptr;
bool fiber_answer = false;
void ask_in_a_fiber() { fiber_answer = on_this_stack(fiber_asks_about); }

// If the top of the thread's stack were the only bound, all memory between a fiber's stack and it would count as stack.
TEST(Classification, addresses_above_a_fiber_stack_are_unknown) {
  std::vector<std::byte> memory(256 << 10);
  std::byte* const stack = memory.data();
  std::byte above_all{};  // on the thread's stack, which is above the heap
  for (const std::byte* const each :
       {static_cast<const std::byte*>(stack + (200 << 10)), static_cast<const std::byte*>(&above_all)}) {
    ASSERT_EQ(::getcontext(&fiber), 0);
    fiber.uc_stack.ss_sp = stack;
    fiber.uc_stack.ss_size = 128 << 10;
    fiber.uc_link = &fiber_caller;
    ::makecontext(&fiber, &ask_in_a_fiber, 0);
    fiber_asks_about = each;
    fiber_answer = true;
    ASSERT_EQ(::swapcontext(&fiber_caller, &fiber), 0);
    EXPECT_FALSE(fiber_answer);
  }
  if (locals_are_on_the_stack) {
    EXPECT_TRUE(on_this_stack(&above_all));
  }
}

// An address is freed and reused by the user for another kind of memory: the cached answer must have been removed.
TEST(Classification, freed_address_is_queried_again) {
  use_fakes();
  const Fake fake("cuda");
  const Provider& cuda = provider_for(MemoryType::NVIDIA_GPU);
  for (const Backing backing : {Backing::plain, Backing::vmm, Backing::pinned}) {
    auto memory = cuda.allocate(1, 5000, backing);
    const std::byte* const address = memory->address;
    EXPECT_EQ(known_owner_of(address).provider, &cuda);
    memory.reset();
    fake.arm("");
    EXPECT_EQ(known_owner_of(address).info.kind, PointerKind::unknown) << name_of(backing);
    EXPECT_EQ(calls_since_arm(fake), 1);
    const auto another = cuda.allocate(0, 5000, backing);  // often at the same place
    EXPECT_EQ(known_owner_of(another->address).info.device, 0);
  }
}

TEST(Classification, lookup_stops_at_the_last_used_range) {
  KnownRanges ranges;
  std::vector<std::byte> memory(10);
  std::vector<int> slots;
  for (int i = 0; i < 10; ++i)
    slots.push_back(ranges.add(&memory[static_cast<std::size_t>(i)], 1, nullptr, PointerKind::device, i));
  EXPECT_EQ(ranges.used(), 10);
  Owner owner;
  ranges.remove(slots[4]);
  EXPECT_EQ(ranges.used(), 10);  // those behind it are in use
  for (const int goes : {9, 8, 7, 6}) ranges.remove(slots[static_cast<std::size_t>(goes)]);
  EXPECT_EQ(ranges.used(), 6);
  ASSERT_TRUE(ranges.find(&memory[5], owner));
  EXPECT_EQ(owner.info.device, 5);
  ranges.remove(slots[5]);
  EXPECT_EQ(ranges.used(), 4);  // over the hole too
  EXPECT_TRUE(ranges.find(&memory[3], owner));
  EXPECT_FALSE(ranges.find(&memory[5], owner));
  EXPECT_EQ(ranges.add(&memory[9], 1, nullptr, PointerKind::device, 19), 4);
  ASSERT_TRUE(ranges.find(&memory[9], owner));
  EXPECT_EQ(owner.info.device, 19);
  for (const int i : {0, 1, 2, 3, 4}) ranges.remove(i);
  EXPECT_EQ(ranges.used(), 0);
}

// A thread finds the ranges that it added, while other threads add and remove ranges.
TEST(Classification, range_is_found_during_concurrent_changes) {
  KnownRanges ranges;
  std::vector<std::thread> threads;
  std::atomic<int> missed{0};
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      std::vector<std::byte> memory(8);
      for (int round = 0; round < 3000; ++round) {
        int slots[8];
        const int count = 1 + (round + thread) % 8;
        for (int i = 0; i < count; ++i)
          slots[i] = ranges.add(&memory[static_cast<std::size_t>(i)], 1, nullptr, PointerKind::device, round + i);
        for (int i = 0; i < count; ++i) {
          Owner owner;
          if (!ranges.find(&memory[static_cast<std::size_t>(i)], owner) || owner.info.device != round + i) ++missed;
        }
        for (int i = 0; i < count; ++i) ranges.remove(slots[(i + round) % count]);
      }
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(missed, 0);
  EXPECT_EQ(ranges.used(), 0);
}

// With all slots in use: the same answers, at the cost of a driver call each.
TEST(Classification, drivers_are_queried_when_the_table_is_full) {
  use_fakes();
  const Fake fake("cuda");
  const Provider& cuda = provider_for(MemoryType::NVIDIA_GPU);
  std::vector<std::byte> taken(KnownRanges::room);
  std::vector<std::unique_ptr<KnownRange>> fillers;
  for (std::byte& each : taken) {
    fillers.push_back(std::make_unique<KnownRange>());
    fillers.back()->announce(&each, 1, &provider_for(MemoryType::CPU), PointerKind::unknown, -1);
  }
  {
    const auto device = cuda.allocate(1, 5000), pinned = cuda.allocate(1, 5000, Backing::pinned);
    const auto segment = provider_for(MemoryType::CPU).allocate(0, 5000);
    fake.arm("");
    const Owner owner = known_owner_of(device->address + 4999);
    EXPECT_EQ(owner.provider, &cuda);
    EXPECT_EQ(owner.info.device, 1);
    EXPECT_EQ(owner.info.kind, PointerKind::device);
    EXPECT_EQ(known_owner_of(pinned->address).info.kind, PointerKind::pinned);
    EXPECT_TRUE(is_host_accessible(segment->address + 4999));
    EXPECT_EQ(calls_since_arm(fake), 3);
    write(cuda, device->address, pattern(5000, 3));
    EXPECT_EQ(read_back(cuda, device->address, 5000), pattern(5000, 3));
  }
  fillers.clear();
  const auto device = cuda.allocate(1, 5000);
  fake.arm("");
  EXPECT_EQ(known_owner_of(device->address).provider, &cuda);
  EXPECT_EQ(calls_since_arm(fake), 0);  // there is room again
}

TEST(Classification, ranges_beyond_the_table_are_unknown) {
  KnownRanges ranges;
  std::vector<std::byte> memory(KnownRanges::room + 1);
  std::vector<int> slots;
  for (int i = 0; i <= KnownRanges::room; ++i)
    slots.push_back(ranges.add(&memory[static_cast<std::size_t>(i)], 1, nullptr, PointerKind::device, i));
  EXPECT_EQ(slots.back(), -1);
  Owner owner;
  for (int i = 0; i < KnownRanges::room; ++i) {
    ASSERT_TRUE(ranges.find(&memory[static_cast<std::size_t>(i)], owner));
    EXPECT_EQ(owner.info.device, i);
  }
  EXPECT_FALSE(ranges.find(&memory.back(), owner));
  ranges.remove(slots[3]);
  EXPECT_FALSE(ranges.find(&memory[3], owner));
  EXPECT_EQ(ranges.add(&memory.back(), 1, nullptr, PointerKind::pinned, 7), slots[3]);
  ASSERT_TRUE(ranges.find(&memory.back(), owner));
  EXPECT_EQ(owner.info.kind, PointerKind::pinned);
}

TEST(Classification, concurrent_lookup_never_mixes_two_ranges) {
  KnownRanges ranges;
  std::vector<std::byte> memory(64);
  const int fixed = ranges.add(memory.data(), 8, nullptr, PointerKind::device, 1);
  std::atomic<bool> stop{false};
  std::thread changes([&] {
    for (int i = 0; i < 20'000; ++i)
      ranges.remove(i % 2 == 0 ? ranges.add(&memory[16], 8, nullptr, PointerKind::pinned, 2)
                               : ranges.add(&memory[32], 8, nullptr, PointerKind::managed, 3));
    stop = true;
  });
  Owner owner;
  while (!stop) {
    ASSERT_TRUE(ranges.find(&memory[7], owner));
    ASSERT_EQ(owner.info.device, 1);
    if (ranges.find(&memory[20], owner)) {
      ASSERT_EQ(owner.info.device, 2);
    }
    if (ranges.find(&memory[36], owner)) {
      ASSERT_EQ(owner.info.kind, PointerKind::managed);
    }
  }
  changes.join();
  ranges.remove(fixed);
}

}  // namespace

}  // namespace hmc::memory
