// The contract of every provider, on its fake driver; for OpenCL, on the installed implementation.
#include <algorithm>
#include <chrono>
#include <thread>

#include "tests/unit/memory/fake.hpp"

namespace hmc::memory {

namespace {

class EveryProvider : public testing::TestWithParam<Which> {
 protected:
  void SetUp() override {
    use_fakes();
    if (GetParam().is_fake) {
      fake_ = std::make_unique<Fake>(GetParam().name);
      fake_->arm("");
      fake_->set_delay_us(0);
      live_at_first_ = fake_->live();
    }
    provider_ = std::make_unique<DeviceProvider>(GetParam().open());
    if (GetParam().is_fake) {
      ASSERT_EQ(provider_->why_not(), "");
    } else if (!provider_->why_not().empty()) {
      GTEST_SKIP() << provider_->why_not();
    }
  }
  /// The provider releases all resources.
  void TearDown() override {
    provider_.reset();
    if (fake_ != nullptr) {
      EXPECT_EQ(fake_->live(), live_at_first_);
    }
  }

  std::unique_ptr<DeviceProvider> provider_;
  std::unique_ptr<Fake> fake_;
  long live_at_first_ = 0;
};

TEST_P(EveryProvider, library_and_devices_are_named) {
  EXPECT_NE(provider_->library().path, "");
  EXPECT_NE(provider_->library().version, "");
  ASSERT_FALSE(provider_->devices().empty());
  EXPECT_EQ(provider_->devices().back().index, static_cast<int>(provider_->devices().size()) - 1);
}

TEST_P(EveryProvider, memory_is_zeroed_and_keeps_contents) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{4097}, granularity - 1, granularity, granularity + 1}) {
    const auto memory = provider_->allocate(0, bytes);
    EXPECT_EQ(read_back(*provider_, memory->address, bytes), std::vector<unsigned char>(bytes, 0)) << bytes;
    const auto data = pattern(bytes, 1);
    write(*provider_, memory->address, data);
    EXPECT_EQ(read_back(*provider_, memory->address, bytes), data) << bytes;
  }
}

TEST_P(EveryProvider, copies_start_and_end_inside_of_memory) {
  const auto memory = provider_->allocate(0, 10'000);
  write(*provider_, memory->address, pattern(10'000, 2));
  const auto piece = pattern(777, 3);
  write(*provider_, memory->address + 1234, piece);
  auto expected = pattern(10'000, 2);
  std::copy(piece.begin(), piece.end(), expected.begin() + 1234);
  EXPECT_EQ(read_back(*provider_, memory->address, 10'000), expected);
  EXPECT_EQ(read_back(*provider_, memory->address + 1234, 777), piece);
}

TEST_P(EveryProvider, overlapping_copies_are_correct) {
  for (const std::size_t to : {std::size_t{0}, std::size_t{100}, std::size_t{5000}}) {
    const auto memory = provider_->allocate(0, 10'000);
    write(*provider_, memory->address, pattern(10'000, 4));
    const auto status = provider_->copy_within(memory->address + to, memory->address + 50, 4000);
    ASSERT_TRUE(status.ok()) << status.what;
    auto expected = pattern(10'000, 4);
    const auto source = pattern(10'000, 4);
    std::copy(source.begin() + 50, source.begin() + 4050, expected.begin() + static_cast<std::ptrdiff_t>(to));
    EXPECT_EQ(read_back(*provider_, memory->address, 10'000), expected) << to;
  }
}

// A rectangle of 5 rows of 33 bytes: packed on one side, 64 bytes apart on the other.
TEST_P(EveryProvider, rows_are_copied_in_every_direction) {
  constexpr std::size_t rows = 5, width = 33, pitch = 64;
  const auto a = provider_->allocate(0, 4096), b = provider_->allocate(0, 4096);
  const auto packed = pattern(rows * width, 5);
  const auto check = [](const base::Status& status) { ASSERT_TRUE(status.ok()) << status.what; };
  check(provider_->copy({a->address + 128, packed.data(), width, Direction::host_to_device, rows, pitch, width}));
  check(provider_->copy({b->address, a->address + 128, width, Direction::device_to_device, rows, width, pitch}));
  EXPECT_EQ(read_back(*provider_, b->address, packed.size()), packed);
  std::vector<unsigned char> back(rows * pitch, 0x77);
  check(provider_->copy({back.data(), a->address + 128, width, Direction::device_to_host, rows, pitch, pitch}));
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < pitch; ++column)
      EXPECT_EQ(back[row * pitch + column], column < width ? packed[row * width + column] : 0x77);
  }
  EXPECT_EQ(read_back(*provider_, a->address + 128 + width, 1)[0], 0);  // between the rows
}

TEST_P(EveryProvider, copies_between_devices_are_correct) {
  if (provider_->devices().size() < 2) GTEST_SKIP() << "one device";
  const auto near = provider_->allocate(0, 5000), far = provider_->allocate(1, 5000);
  write(*provider_, near->address, pattern(5000, 6));
  const auto status = provider_->copy({.destination = far->address,
                                       .source = near->address,
                                       .width = 5000,
                                       .direction = Direction::device_to_device,
                                       .destination_device = 1,
                                       .source_device = 0});
  ASSERT_TRUE(status.ok()) << status.what;
  EXPECT_EQ(read_back(*provider_, far->address, 5000), pattern(5000, 6));
}

TEST_P(EveryProvider, work_is_done_after_a_stream_wait) {
  const auto memory = provider_->allocate(0, 4096);
  if (fake_ != nullptr) fake_->set_delay_us(30'000);
  const auto stream = provider_->make_stream(0);
  const auto data = pattern(4096, 7);
  std::vector<unsigned char> back(4096, 0xEE);
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(provider_->copy_async({memory->address, data.data(), 4096, Direction::host_to_device}, *stream).ok());
  ASSERT_TRUE(provider_->copy_async({back.data(), memory->address, 4096, Direction::device_to_host}, *stream).ok());
  const Code early = stream->query().code;
  const unsigned char old = back[0];
  // On a busy machine the delay may have passed.
  if (fake_ != nullptr && std::chrono::steady_clock::now() - start < std::chrono::milliseconds(30)) {
    EXPECT_EQ(early, Code::in_progress);
    EXPECT_EQ(old, 0xEE);  // delayed work: the old contents are still visible
  }
  ASSERT_TRUE(stream->synchronize().ok());
  // OpenCL is queried with a marker, which itself takes a moment to complete.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  auto status = stream->query();
  while (status.code == Code::in_progress && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    status = stream->query();
  }
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(back, data);
}

TEST_P(EveryProvider, stream_waits_for_an_event_of_another_stream) {
  const auto memory = provider_->allocate(0, 4096);
  if (fake_ != nullptr) fake_->set_delay_us(20'000);
  const auto first = provider_->make_stream(0), second = provider_->make_stream(0);
  const auto event = provider_->make_event(0);
  EXPECT_TRUE(event->query().ok());  // nothing recorded: nothing to wait for
  const auto data = pattern(4096, 8);
  std::vector<unsigned char> back(4096, 0xEE);
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(provider_->copy_async({memory->address, data.data(), 4096, Direction::host_to_device}, *first).ok());
  ASSERT_TRUE(event->record(*first).ok());
  const Code early = event->query().code;
  if (fake_ != nullptr && std::chrono::steady_clock::now() - start < std::chrono::milliseconds(20)) {
    EXPECT_EQ(early, Code::in_progress);
  }
  ASSERT_TRUE(second->wait(*event).ok());
  ASSERT_TRUE(provider_->copy_async({back.data(), memory->address, 4096, Direction::device_to_host}, *second).ok());
  ASSERT_TRUE(second->synchronize().ok());
  EXPECT_TRUE(event->query().ok());
  EXPECT_TRUE(event->synchronize().ok());
  EXPECT_EQ(back, data);
}

TEST_P(EveryProvider, stream_stops_at_a_gate_until_the_host_opens_it) {
  ASSERT_EQ(provider_->why_no_gates(0), "");
  const auto memory = provider_->allocate(0, 4096);
  const auto first = provider_->make_stream(0), second = provider_->make_stream(0);
  const auto data = pattern(4096, 9);
  std::vector<unsigned char> back(4096, 0xEE), others(4096, 0xEE);
  for (int round = 0; round < 3; ++round) {  // words are used again
    std::unique_ptr<Gate> gate;
    write(*provider_, memory->address, data);
    ASSERT_TRUE(first->stop(gate).ok());
    ASSERT_TRUE(provider_->copy_async({back.data(), memory->address, 4096, Direction::device_to_host}, *first).ok());
    // Another stream isn't blocked by the gate.
    ASSERT_TRUE(provider_->copy_async({others.data(), memory->address, 4096, Direction::device_to_host}, *second).ok());
    ASSERT_TRUE(second->synchronize().ok());
    EXPECT_EQ(others, data);
    EXPECT_EQ(back[0], 0xEE);
    if (round == 2) {
      gate.reset();  // the destructor opens the gate
    } else {
      std::thread([&] { gate->open(); }).join();
    }
    ASSERT_TRUE(first->synchronize().ok());
    EXPECT_EQ(back, data);
    back.assign(4096, 0xEE);
  }
}

// Gates are host functions. With a driver that runs host functions one at a time, two processes could deadlock.
TEST(Gates, drivers_with_serialized_streams_have_no_gates) {
  use_fakes();
  const Fake fake("musa");
  fake.set_one_function(1);
  const DeviceProvider provider(open_musa());
  EXPECT_EQ(provider.why_no_gates(0), "a stream that stops for the host holds up others");
  fake.set_one_function(0);
  EXPECT_EQ(provider.why_no_gates(0), "a stream that stops for the host holds up others");  // found out once
  EXPECT_EQ(DeviceProvider(open_musa()).why_no_gates(0), "");
}

TEST_P(EveryProvider, user_stream_may_be_borrowed) {
  const std::vector<unsigned char> nines(64, 9);
  const auto memory = provider_->allocate(0, 64);
  const auto users = provider_->make_stream(0);
  {
    const auto borrowed = provider_->borrow_stream(0, users->native());
    ASSERT_TRUE(provider_->copy_async({memory->address, nines.data(), 64, Direction::host_to_device}, *borrowed).ok());
  }
  ASSERT_TRUE(users->synchronize().ok());  // it is still there
  EXPECT_EQ(read_back(*provider_, memory->address + 63, 1)[0], 9);
}

TEST_P(EveryProvider, several_threads_use_a_provider_at_once) {
  std::vector<std::thread> threads;
  for (unsigned id = 0; id < 4; ++id) {
    threads.emplace_back([this, id] {
      const int device = static_cast<int>(id % provider_->devices().size());
      for (unsigned round = 0; round < 20; ++round) {
        const auto memory = provider_->allocate(device, 3000);
        const auto data = pattern(3000, id * 100 + round);
        EXPECT_TRUE(provider_->copy_from_host(memory->address, data.data(), data.size()).ok());
        EXPECT_EQ(read_back(*provider_, memory->address, 3000), data) << id << " " << round;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(EveryProvider, pointer_has_its_kind_and_device) {
  const int last = static_cast<int>(provider_->devices().size()) - 1;
  const auto memory = provider_->allocate(last, 100);
  const PointerInfo info = provider_->query(memory->address + 99);
  EXPECT_EQ(info.kind, PointerKind::device);
  EXPECT_EQ(info.device, last);
  int local = 0;
  EXPECT_EQ(provider_->query(&local).kind, PointerKind::unknown);
  EXPECT_EQ(provider_->query(nullptr).kind, PointerKind::unknown);
  for (const Backing backing : {Backing::pinned, Backing::managed}) {
    if (!provider_->why_not(backing).empty()) continue;
    const auto reached = provider_->allocate(0, 100, backing);
    EXPECT_EQ(provider_->query(reached->address).kind,
              backing == Backing::pinned ? PointerKind::pinned : PointerKind::managed);
    EXPECT_TRUE(reached->host_accessible);
    EXPECT_EQ(reached->address[99], std::byte{0});  // the host reads it itself
  }
}

TEST_P(EveryProvider, every_backing_keeps_bytes) {
  for (const Backing backing :
       {Backing::plain, Backing::vmm, Backing::stream_ordered, Backing::pinned, Backing::managed}) {
    if (const std::string why = provider_->why_not(backing); !why.empty()) {
      EXPECT_THROW((void)provider_->allocate(0, 10, backing), Error) << why;
      continue;
    }
    const auto memory = provider_->allocate(0, 1000, backing);
    EXPECT_EQ(memory->backing, backing);
    EXPECT_EQ(read_back(*provider_, memory->address, 1000), std::vector<unsigned char>(1000, 0));
    write(*provider_, memory->address, pattern(1000, 10));
    EXPECT_EQ(read_back(*provider_, memory->address, 1000), pattern(1000, 10));
  }
}

TEST_P(EveryProvider, missing_device_is_rejected) {
  const int count = static_cast<int>(provider_->devices().size());
  for (const int device : {-1, count}) {
    try {
      (void)provider_->allocate(device, 10);
      ADD_FAILURE() << device;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid_argument);
    }
  }
}

TEST_P(EveryProvider, host_access_to_device_memory_faults) {
  const auto memory = provider_->allocate(0, 100);
  const volatile std::byte* const first = memory->address;
  EXPECT_DEATH((void)*first, "");
}

INSTANTIATE_TEST_SUITE_P(Vendors, EveryProvider, testing::ValuesIn(whiches),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(MissingProvider, reason_is_reported_without_a_crash) {
  for (const Which& which : whiches) {
    ::setenv(which.variable, "/nowhere/lib.so", 1);
    const DeviceProvider missing(which.open());
    EXPECT_NE(missing.why_not().find(which.variable), std::string::npos) << missing.why_not();
    EXPECT_THROW((void)missing.allocate(0, 10), Error);
    EXPECT_TRUE(missing.devices().empty());
    ::setenv(which.variable, "none", 1);
    EXPECT_NE(DeviceProvider(which.open()).why_not().find("turned off"), std::string::npos);
    ::setenv(which.variable, "libm.so.6", 1);  // a library, but not that one
    EXPECT_NE(DeviceProvider(which.open()).why_not().find("has no"), std::string::npos);
    ::unsetenv(which.variable);
  }
}

// An invalid device number of the caller returns an error and causes no access outside the table of contexts.
TEST(CudaProvider, missing_device_gets_no_context) {
  use_fakes();
  const auto cuda = open_cuda();
  for (const int device : {-1, cuda->device_count(), 1 << 20}) {
    void* previous = nullptr;
    EXPECT_FALSE(cuda->enter(device, previous).ok()) << device;
  }
}

TEST(HipProvider, pointer_kinds_match_the_version) {
  use_fakes();
  const Fake fake("hip");
  for (const int version : {50'400'000, 60'000'000}) {
    fake.set_hip_version(version);
    const DeviceProvider provider(open_hip());
    EXPECT_EQ(provider.query(provider.allocate(1, 10, Backing::plain)->address).kind, PointerKind::device) << version;
    EXPECT_EQ(provider.query(provider.allocate(0, 10, Backing::pinned)->address).kind, PointerKind::pinned);
    EXPECT_EQ(provider.query(provider.allocate(0, 10, Backing::managed)->address).kind, PointerKind::managed);
  }
  fake.set_hip_version(70'100'000);
}

}  // namespace

}  // namespace hmc::memory
