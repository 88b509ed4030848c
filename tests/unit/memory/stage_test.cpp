// Host memory for staging: pinned, reused, and not accessed before a device has finished with it.
#include <algorithm>
#include <set>

#include "runtime/memory/pointer_lookup.hpp"
#include "runtime/memory/stage.hpp"
#include "tests/unit/memory/fake.hpp"

namespace hmc::memory {

namespace {

int times_of(const Fake& fake, const std::string& call) {
  for (const auto& [name, times] : fake.seen())
    if (name == call) return times;
  return 0;
}

class EveryStage : public testing::TestWithParam<Which> {
 protected:
  void SetUp() override {
    use_fakes();
    fake_ = std::make_unique<Fake>(GetParam().name);
    fake_->arm("");
    live_at_first_ = fake_->live();
    provider_ = std::make_unique<DeviceProvider>(GetParam().open());
    ASSERT_EQ(provider_->why_not(), "");
  }
  void TearDown() override {
    fake_->set_delay_us(0);
    provider_.reset();
    EXPECT_EQ(fake_->live(), live_at_first_);
  }
  std::unique_ptr<Fake> fake_;
  std::unique_ptr<DeviceProvider> provider_;
  long live_at_first_ = 0;
};

constexpr std::size_t piece = 4096;
constexpr std::size_t sizes[] = {1, piece - 1, piece, piece + 1, 2 * piece, 5 * piece + 3};

TEST_P(EveryStage, device_bytes_are_read_in_pieces_from_a_slow_device) {
  const auto memory = provider_->allocate(0, 6 * piece);
  const auto data = pattern(6 * piece, 1);
  write(*provider_, memory->address, data);
  for (const std::size_t bytes : sizes) {
    const StageLease stage(*provider_, 0);
    std::fill_n(stage->half(0), 2 * Stage::half_bytes, std::byte{0xEE});
    fake_->set_delay_us(2000);
    OutPieces pieces(*stage, memory->address, bytes, piece);
    for (std::size_t done = 0; done < bytes; done += piece) {
      const std::byte* at = nullptr;
      ASSERT_TRUE(pieces.next(at).ok());
      const std::size_t now = std::min(piece, bytes - done);
      ASSERT_EQ(std::memcmp(at, data.data() + done, now), 0) << bytes << " at " << done;
    }
    fake_->set_delay_us(0);
  }
}

TEST_P(EveryStage, device_bytes_are_written_in_pieces_to_a_slow_device) {
  const auto memory = provider_->allocate(0, 6 * piece);
  for (const std::size_t bytes : sizes) {
    const auto data = pattern(bytes, static_cast<unsigned>(bytes));
    fake_->set_delay_us(2000);
    {
      const StageLease stage(*provider_, 0);
      InPieces pieces(*stage, memory->address, bytes, piece);
      for (std::size_t done = 0; done < bytes; done += piece) {
        std::byte* at = nullptr;
        ASSERT_TRUE(pieces.room(at).ok());
        std::memcpy(at, data.data() + done, std::min(piece, bytes - done));
        ASSERT_TRUE(pieces.filled().ok());
      }
      ASSERT_TRUE(pieces.finish().ok());
    }
    fake_->set_delay_us(0);
    EXPECT_EQ(read_back(*provider_, memory->address, bytes), data) << bytes;
  }
}

TEST_P(EveryStage, stage_is_pinned_where_supported_and_reused) {
  std::set<const std::byte*> seen;
  for (int i = 0; i < 3; ++i) {
    const StageLease stage(*provider_, 0), beside(*provider_, 0);  // two callers at the same time
    EXPECT_NE(stage->half(0), beside->half(0));
    seen.insert({stage->half(0), beside->half(0)});
    EXPECT_EQ(stage->why_pageable(), provider_->why_not(Backing::pinned));
    if (stage->why_pageable().empty()) {
      EXPECT_EQ(provider_->query(stage->half(1)).kind, PointerKind::pinned);
    }
  }
  EXPECT_EQ(seen.size(), 2u);
  HostBlock block = provider_->take_block(0, 100'000);
  EXPECT_GE(block.bytes, 100'000u);
  const std::byte* const data = block.data;
  provider_->give_back(std::move(block));
  HostBlock again = provider_->take_block(0, 99'000);
  EXPECT_EQ(again.data, data);
  provider_->give_back(std::move(again));
}

INSTANTIATE_TEST_SUITE_P(Vendors, EveryStage, testing::ValuesIn(whiches, whiches + 5),
                         [](const auto& info) { return std::string(info.param.name); });

// The copy of the second piece is submitted before the first is waited for.
TEST(Stage, two_pieces_are_in_flight_at_once) {
  use_fakes();
  const Fake fake("cuda");
  const DeviceProvider provider(open_cuda());
  const auto memory = provider.allocate(0, 4 * piece);
  const StageLease stage(provider, 0);
  OutPieces pieces(*stage, memory->address, 4 * piece, piece);
  fake.arm("");
  const std::byte* at = nullptr;
  ASSERT_TRUE(pieces.next(at).ok());
  EXPECT_EQ(times_of(fake, "cuMemcpyDtoHAsync_v2"), 2);
  EXPECT_EQ(times_of(fake, "cuEventSynchronize"), 1);
  EXPECT_EQ(times_of(fake, "cuStreamSynchronize"), 0);
  ASSERT_TRUE(pieces.next(at).ok());
  EXPECT_EQ(times_of(fake, "cuMemcpyDtoHAsync_v2"), 3);
}

TEST(Stage, pageable_stage_reports_the_reason_and_works) {
  use_fakes();
  const Fake fake("cuda");
  const DeviceProvider provider(open_cuda());
  const auto memory = provider.allocate(0, 100);
  write(provider, memory->address, pattern(100, 3));
  fake.arm("cuMemHostAlloc:1:719");
  {
    const StageLease stage(provider, 0);
    EXPECT_NE(stage->why_pageable().find("cuMemHostAlloc answered 719"), std::string::npos) << stage->why_pageable();
    OutPieces pieces(*stage, memory->address, 100, 100);
    const std::byte* at = nullptr;
    ASSERT_TRUE(pieces.next(at).ok());
    EXPECT_EQ(std::memcmp(at, pattern(100, 3).data(), 100), 0);
  }
  fake.arm("");
}

TEST(Stage, blocks_that_were_in_use_last_are_kept) {
  use_fakes();
  const Fake fake("cuda");
  const DeviceProvider provider(open_cuda());
  constexpr std::size_t large = std::size_t{128} << 20;  // two of them are the most that is kept
  const auto use_two = [&](std::size_t bytes) {
    HostBlock one = provider.take_block(0, bytes), other = provider.take_block(0, bytes);
    provider.give_back(std::move(one));
    provider.give_back(std::move(other));
  };
  use_two(large / 2);
  use_two(large);
  fake.arm("");
  use_two(large);
  EXPECT_EQ(times_of(fake, "cuMemHostAlloc"), 0);
}

TEST(Stage, allocation_failure_is_an_error_code) {
  use_fakes();
  const DeviceProvider provider(open_cuda());
  for (const std::size_t bytes : {SIZE_MAX, SIZE_MAX / 8}) {
    try {
      (void)provider.take_block(0, bytes);
      ADD_FAILURE() << bytes;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::out_of_memory) << error.what();
    }
  }
}

TEST(Stage, user_memory_is_pinned_as_long_as_its_pin) {
  use_fakes();
  const Fake fake("cuda");
  const DeviceProvider provider(open_cuda());
  const auto segment = base::Segment::create(64 << 10);
  segment->populate(0, segment->bytes());
  const long before = fake.live("host");
  {
    const auto pinned = provider.pin(0, segment->base(), segment->bytes());
    EXPECT_EQ(fake.live("host"), before + 1);
    EXPECT_EQ(provider.query(segment->base() + 5).kind, PointerKind::pinned);
    EXPECT_THROW((void)provider.pin(0, segment->base(), 4096), Error);
  }
  EXPECT_EQ(fake.live("host"), before);
  const DeviceProvider cnrt(open_cnrt());
  EXPECT_THROW((void)cnrt.pin(0, segment->base(), 4096), Error);
}

// Between two vendors' devices: the second's copy doesn't begin before the first's is over.
TEST(Stage, copies_between_two_vendors_are_ordered) {
  use_fakes();
  const Fake cuda("cuda"), hip("hip");
  const auto from = provider_for(MemoryType::NVIDIA_GPU).allocate(1, 700'000);
  const auto to = provider_for(MemoryType::AMD_GPU).allocate(0, 700'000);
  const auto data = pattern(700'000, 9);
  write(*from->provider, from->address, data);
  cuda.set_delay_us(2000);
  hip.set_delay_us(1000);
  const auto status = copy_between(to->address + 1, from->address, 699'999);
  cuda.set_delay_us(0);
  hip.set_delay_us(0);
  ASSERT_TRUE(status.ok()) << status.what;
  const auto got = read_back(*to->provider, to->address + 1, 699'999);
  EXPECT_TRUE(std::equal(got.begin(), got.end(), data.begin()));
}

}  // namespace

}  // namespace hmc::memory
