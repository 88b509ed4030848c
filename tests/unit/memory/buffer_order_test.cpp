// Asynchronous transfers: delayed streams show which transfers a call waits for.
#include <chrono>
#include <cstring>
#include <thread>

#include "tests/unit/memory/buffer_support.hpp"

namespace hmc {

namespace {

using memory::Fake;
using Mode = TransferMode;

[[maybe_unused]] const bool with_fakes = (memory::use_fakes(), true);  // each test may be the first

constexpr std::size_t count = 5000;

std::vector<int> numbers(int seed) {
  std::vector<int> made(count);
  for (std::size_t i = 0; i < count; ++i) made[i] = static_cast<int>(i) * 7 + seed;
  return made;
}

/// Delays a vendor's streams for the lifetime of the object.
class Late {
 public:
  Late(const char* vendor, int us) : fake_(vendor) { fake_.set_delay_us(us); }
  ~Late() { fake_.set_delay_us(0); }
  Late(const Late&) = delete;
  Late& operator=(const Late&) = delete;

 private:
  Fake fake_;
};

struct Kind {
  const char* vendor;
  Allocator allocator;
};
class EveryVendor : public testing::TestWithParam<Kind> {};

/// `attempt(us)` returns true if it finished before streams with a delay of `us` executed anything. The delay grows,
/// because a busy machine may suspend the test.
template <typename Attempt> void expect_no_wait(Attempt&& attempt) {
  for (int us = 250'000; us <= 16'000'000; us *= 4)
    if (attempt(us)) return;
  ADD_FAILURE() << "it waits for its stream";
}

TEST_P(EveryVendor, async_mode_does_not_wait_and_synchronize_waits_for_all) {
  const auto [vendor, allocator] = GetParam();
  Buffer<int> buffer(allocator, count, Mode::async);
  buffer.synchronize();
  const auto sent = numbers(1);
  expect_no_wait([&, vendor = vendor](int us) {
    std::vector<int> back(count, -1);
    const Late late(vendor, us);
    const auto start = std::chrono::steady_clock::now();
    buffer.set(0, sent.data(), count);
    buffer.get(0, back.data(), count);
    const auto before = back;
    const bool waited = std::chrono::steady_clock::now() - start >= std::chrono::microseconds(us);
    buffer.synchronize();
    EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::microseconds(2 * us));
    EXPECT_EQ(back, sent);
    if (!waited) {
      EXPECT_EQ(before, std::vector<int>(count, -1));
    }
    return !waited;
  });
}

TEST_P(EveryVendor, sync_host_mode_waits_for_host_reads) {
  const auto [vendor, allocator] = GetParam();
  Buffer<int> buffer(allocator, count, Mode::sync_host);
  buffer.synchronize();
  const auto sent = numbers(2);
  expect_no_wait([&, vendor = vendor](int us) {
    std::vector<int> back(count, -1);
    const Late late(vendor, us);
    const auto start = std::chrono::steady_clock::now();
    buffer.set(0, sent.data(), count);
    const bool waited = std::chrono::steady_clock::now() - start >= std::chrono::microseconds(us);
    buffer.get(0, back.data(), count);
    EXPECT_EQ(back, sent);
    return !waited;
  });
}

TEST_P(EveryVendor, sync_mode_waits_for_each_transfer) {
  const auto [vendor, allocator] = GetParam();
  Buffer<int> buffer(allocator, count);
  const auto sent = numbers(3);
  const Late late(vendor, 50'000);
  const auto start = std::chrono::steady_clock::now();
  buffer.set(0, sent.data(), count);
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::microseconds(50'000));
  EXPECT_EQ(all_of(buffer), sent);
}

/// The call that waits for a mark in a stream.
std::string wait_for_a_mark(const Fake& fake, const Buffer<int>& buffer) {
  std::vector<int> back(count);
  fake.arm("");
  buffer.get(0, back.data(), count);
  for (const auto& [call, times] : fake.seen())
    if (call.find("SynchronizeEvent") != std::string::npos || call.find("EventSynchronize") != std::string::npos ||
        call.find("cnrtWaitNotifier") != std::string::npos)
      return call;
  return "";
}

// The destination may be on the caller's stack, so no transfer may write it after the call fails.
TEST_P(EveryVendor, failed_wait_leaves_nothing_in_flight) {
  const auto [vendor, allocator] = GetParam();
  const Buffer<int> buffer(allocator, numbers(9).data(), count, Mode::sync_host);
  const Fake fake(vendor);
  const std::string call = wait_for_a_mark(fake, buffer);
  ASSERT_NE(call, "");
  std::vector<int> back(count);
  const Late late(vendor, 50'000);
  fake.arm(call + ":1:719");
  EXPECT_THROW(buffer.get(0, back.data(), count), Error);
  fake.arm("");
  std::fill(back.begin(), back.end(), -9);  // the caller may use it again
  buffer.synchronize();
  EXPECT_EQ(back, std::vector<int>(count, -9));
}

INSTANTIATE_TEST_SUITE_P(Vendors, EveryVendor,
                         testing::Values(Kind{"cuda", Allocator::cuda}, Kind{"cuda", Allocator::cuda_async},
                                         Kind{"hip", Allocator::hip}, Kind{"musa", Allocator::musa},
                                         Kind{"cnrt", Allocator::cnrt}, Kind{"acl", Allocator::acl}),
                         [](const auto& info) { return std::string(name_of(info.param.allocator)); });

// The fakes make a missing wait visible.
TEST(AsyncBuffer, temporary_is_not_filled_before_a_wait) {
  const auto buffer = Buffer<int>(Allocator::cuda, numbers(4).data(), count, Mode::async);
  buffer.synchronize();
  expect_no_wait([&](int us) {
    const Late late("cuda", us);
    const auto view = buffer.get_host_accessible();
    const bool is_filled = std::memcmp(view.get(), numbers(4).data(), count * sizeof(int)) == 0;
    buffer.synchronize();
    EXPECT_EQ(std::memcmp(view.get(), numbers(4).data(), count * sizeof(int)), 0);
    return !is_filled;
  });
}

TEST(AsyncBuffer, values_may_change_after_the_call) {
  Buffer<int> buffer(Allocator::cuda, count, Mode::async);
  buffer.synchronize();
  auto values = numbers(5);
  {
    const Late late("cuda", 50'000);
    buffer.assign(values.data(), count);
    std::fill(values.begin(), values.end(), -9);
    buffer.set(7, 70);
    buffer.synchronize();
  }
  auto expected = numbers(5);
  expected[7] = 70;
  EXPECT_EQ(all_of(buffer), expected);
}

TEST(AsyncBuffer, source_may_be_destroyed_before_the_copy) {
  for (const Allocator from : {Allocator::host_malloc, Allocator::cuda, Allocator::cuda_pinned}) {
    for (const int device : {0, 1}) {
      Buffer<int> to({Allocator::cuda, device}, count, Mode::async);
      auto source = std::make_unique<Buffer<int>>(Place(from), numbers(6).data(), count);
      to.synchronize();
      const Late late("cuda", 50'000);
      to.append(*source);
      source.reset();
      const Buffer<int> in_its_room = Buffer<int>::filled(Place(from), count, -1);
      to.synchronize();
      std::vector<int> back(count);
      to.get(count, back.data(), count);
      to.synchronize();
      EXPECT_EQ(back, numbers(6)) << name_of(from) << " to device " << device;
    }
  }
}

TEST(AsyncBuffer, handle_may_be_destroyed_before_the_copy) {
  (void)places();
  const Fake fake("cuda");
  const long before = fake.live("memory") + fake.live("physical") + fake.live("host");
  {
    const Buffer<int> buffer(Allocator::host_malloc, numbers(7).data(), count, Mode::async);
    const Late late("cuda", 20'000);
    (void)buffer.get_cuda_accessible();
    (void)buffer.get_cuda_accessible(1);
    buffer.synchronize();
    EXPECT_EQ(fake.live("memory") + fake.live("physical") + fake.live("host"), before);
  }
  EXPECT_EQ(fake.live("memory") + fake.live("physical") + fake.live("host"), before);
}

// A later transfer releases kept resources without a call of synchronize.
TEST(AsyncBuffer, retained_memory_is_released_by_a_later_transfer) {
  const Buffer<int> buffer(Allocator::cuda, numbers(1).data(), count, Mode::async);
  const Fake fake("cuda");
  const long before = fake.live("physical");
  {
    const Late late("cuda", 20'000);
    (void)buffer.get_cuda_accessible(1);
    EXPECT_GT(fake.live("physical"), before);
  }
  int back = 0;
  for (int look = 0; look < 2000 && fake.live("physical") > before; ++look) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    buffer.get(0, &back, 1);
  }
  EXPECT_EQ(fake.live("physical"), before);
  buffer.synchronize();
}

// Source and target have their own streams. The target gets the source's contents at the time of the call.
TEST(AsyncBuffer, later_change_of_the_source_is_not_read) {
  for (const Allocator where : {Allocator::cuda, Allocator::host_malloc}) {
    for (const Mode mode : {Mode::async, Mode::sync}) {
      for (const int device : {0, 1}) {
        Buffer<int> from(where, numbers(8).data(), count, mode);
        Buffer<int> to({Allocator::cuda, device}, Mode::async);
        to.reserve(count);
        from.synchronize();
        const Late late("cuda", 20'000);
        for (int i = 0; i < 3; ++i) to.assign(numbers(0).data(), count);  // keeps that stream busy
        to.clear();
        to.append(from);
        from.assign(numbers(9).data(), count);
        EXPECT_EQ(all_of(to), numbers(8)) << name_of(where) << " device " << device;
        EXPECT_EQ(all_of(from), numbers(9)) << name_of(where) << " device " << device;
      }
    }
  }
}
TEST(AsyncBuffer, earlier_change_of_the_source_is_read) {
  for (const Place& place : {Place(Allocator::cuda), Place(Allocator::cuda, 1), Place(Allocator::hip),
                             Place(Allocator::host_new), Place(Allocator::cuda_pinned)}) {
    Buffer<int> from(Allocator::cuda, count, Mode::async);
    Buffer<int> to(place, count, Mode::async);
    from.synchronize();
    to.synchronize();
    const Late late("cuda", 20'000);
    for (int i = 0; i < 3; ++i) from.assign(numbers(i).data(), count);
    to.assign(numbers(77).data(), 1);
    to.append(from);
    auto expected = numbers(2);
    expected.insert(expected.begin(), 77);
    EXPECT_EQ(all_of(to), expected) << text(place);
  }
}

TEST(AsyncBuffer, waiting_buffer_reads_an_async_one) {
  Buffer<int> from(Allocator::cuda, count, Mode::async);
  Buffer<int> middle(Allocator::host_malloc, Mode::async);
  middle.reserve(count);
  from.synchronize();
  const Late late("cuda", 20'000);
  from.assign(numbers(10).data(), count);
  middle.append(from);
  EXPECT_EQ(middle.get(count - 1), numbers(10).back());
  const Buffer<int> host(Allocator::host_new, from);
  EXPECT_EQ(std::vector<int>(host.data(), host.data() + count), numbers(10));
  const Buffer<double> cast(Allocator::hip, from);
  EXPECT_EQ(cast.get(3), numbers(10)[3]);
}

TEST(AsyncBuffer, move_keeps_the_order) {
  Buffer<int> buffer(Allocator::cuda, count, Mode::async);
  buffer.synchronize();
  const Late late("cuda", 10'000);
  buffer.assign(numbers(11).data(), count);
  for (const Place& place : {Place(Allocator::host_malloc), Place(Allocator::cuda, 1), Place(Allocator::cuda_managed),
                             Place(Allocator::hip), Place(Allocator::cuda)}) {
    buffer.move(place);
    EXPECT_EQ(buffer.mode(), Mode::async);
    buffer.set(5, buffer.get(5) + 1);
  }
  auto expected = numbers(11);
  expected[5] += 5;
  EXPECT_EQ(all_of(buffer), expected);
}

TEST(UserStream, transfers_are_ordered_with_user_work) {
  const auto& provider = memory::provider_for(MemoryType::NVIDIA_GPU);
  const auto stream = provider.make_stream(1);
  Buffer<unsigned char> buffer({Allocator::cuda, 1}, count, TransferOrder(Mode::async, stream->native()));
  EXPECT_EQ(buffer.stream(), stream->native());
  const std::vector<unsigned char> nines(10, 9);
  buffer.synchronize();
  const Late late("cuda", 50'000);
  // As for a kernel: ordered after the transfer of the 3s and before the read.
  buffer.assign(std::vector<unsigned char>(count, 3).data(), count);
  ASSERT_TRUE(
      provider.copy_async({buffer.data() + 10, nines.data(), 10, memory::Direction::host_to_device}, *stream).ok());
  Buffer<unsigned char> reader(Allocator::cuda, buffer, Mode::async);
  EXPECT_EQ(stream->query().code, Code::in_progress);
  EXPECT_EQ(reader.get(9), 3);
  EXPECT_EQ(reader.get(10), 9);
  ASSERT_TRUE(stream->synchronize().ok());
  std::vector<unsigned char> back(20);
  buffer.get(0, back.data(), 20);
  ASSERT_TRUE(stream->synchronize().ok());  // the user's wait is enough
  EXPECT_EQ(back[19], 9);
}

TEST(UserStream, stream_is_waited_for_in_sync_mode_and_stays_open) {
  const auto& provider = memory::provider_for(MemoryType::AMD_GPU);
  const auto stream = provider.make_stream(0);
  {
    Buffer<int> buffer(Allocator::hip, TransferOrder(Mode::sync, stream->native()));
    buffer.assign(numbers(12).data(), count);
    const Late late("hip", 20'000);
    buffer.set(0, 5);
    EXPECT_TRUE(stream->query().ok());
    EXPECT_EQ(Buffer<int>(buffer).stream(), stream->native());
  }
  EXPECT_TRUE(stream->synchronize().ok());
}

TEST(UserStream, place_without_a_device_is_rejected) {
  int any = 0;
  EXPECT_THROW(Buffer<int>(Allocator::host_new, TransferOrder(Mode::async, &any)), Error);
  Buffer<int> buffer(Allocator::cuda, count, Mode::async);
  EXPECT_NE(buffer.stream(), nullptr);
  EXPECT_EQ(Buffer<int>(Allocator::host_new, count, Mode::async).stream(), nullptr);
  EXPECT_EQ(Buffer<int>(Allocator::cuda, count).stream(), nullptr);  // every transfer is waited for
  buffer.set_order(Mode::sync);
  EXPECT_EQ(buffer.stream(), nullptr);
  const auto stolen = std::move(buffer);
  EXPECT_EQ(stolen.size(), count);
}

}  // namespace

}  // namespace hmc
