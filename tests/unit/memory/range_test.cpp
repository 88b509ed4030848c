// One reservation of address space for the memory of several processes, on the fake drivers.
#include <dirent.h>

#include <algorithm>

#include "runtime/memory/device_allocation.hpp"
#include "tests/unit/memory/fake.hpp"
#include "tests/unit/memory/share_peer.hpp"

namespace hmc::memory {

namespace {

std::size_t open_descriptors() {
  std::size_t count = 0;
  DIR* const folder = ::opendir("/proc/self/fd");
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

class Range : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    use_fakes();
    fake_ = std::make_unique<Fake>(GetParam());
    fake_->arm("");
    provider_ = std::make_unique<DeviceProvider>(GetParam() == std::string("cuda") ? open_cuda() : open_hip());
    ASSERT_EQ(provider_->why_not(SharingKind::vmm_fd), "");
    peer_ = std::make_unique<Peer>(GetParam());
  }
  void TearDown() override {
    fake_->arm("");
    peer_.reset();
    provider_.reset();
    EXPECT_EQ(fake_->live(), 0);
  }
  /// Memory of the peer with pattern(seed) in it.
  Exported theirs(std::size_t bytes, unsigned seed) const {
    return std::move(peer_->ask({'e', seed, bytes, SharingKind::vmm_fd, {}, {}}).memory);
  }
  Exported own_ticket(const std::shared_ptr<Allocation>& own) const {
    return {provider_->share(own, SharingKind::vmm_fd).bytes, {}};
  }
  long live() const {
    return fake_->live("mapping") + fake_->live("reservation") + fake_->live("physical") + fake_->live("import");
  }

  std::unique_ptr<Fake> fake_;
  std::unique_ptr<DeviceProvider> provider_;
  std::unique_ptr<Peer> peer_;
};

TEST_P(Range, local_and_peer_memory_have_equal_address_distances) {
  const auto own = provider_->allocate(0, 5000, Backing::vmm);
  write(*provider_, own->address, pattern(5000, 7));
  const auto range = provider_->reserve(0, 4, granularity + 1);
  EXPECT_EQ(range->stride(), 2 * granularity);
  const auto first = provider_->import_into(range, 0, theirs(granularity + 1, 1), 0);
  const auto again = provider_->import_into(range, 1, own_ticket(own), 0);
  const auto last = provider_->import_into(range, 3, theirs(10, 3), 1);  // place 2 stays empty
  EXPECT_EQ(first->address, range->base());
  EXPECT_EQ(again->address, range->base() + range->stride());
  EXPECT_EQ(last->address, range->base() + 3 * range->stride());
  EXPECT_EQ(fake_->live("reservation"), 2);  // own's, and the range
  EXPECT_EQ(read_back(*provider_, first->address, granularity + 1), pattern(granularity + 1, 1));
  EXPECT_EQ(read_back(*provider_, last->address, 10), pattern(10, 3));
  // Both addresses refer to the same memory.
  EXPECT_EQ(read_back(*provider_, again->address, 5000), pattern(5000, 7));
  write(*provider_, again->address + 100, pattern(300, 8));
  EXPECT_EQ(read_back(*provider_, own->address + 100, 300), pattern(300, 8));
  EXPECT_NE(again->address, own->address);
  // The owner sees the bytes written here.
  write(*provider_, last->address, pattern(10, 4));
  peer_->ask({'v', 4, 0, {}, {}, {}});
  // Place 2 isn't mapped: the driver rejects the access.
  unsigned char byte = 0;
  EXPECT_FALSE(provider_->copy_to_host(&byte, range->at(2), 1).ok());
}

TEST_P(Range, ranges_close_in_any_order_and_end_with_the_last) {
  const auto own = provider_->allocate(0, 100, Backing::vmm);
  const long before = live();
  std::vector<int> order{0, 1, 2, 3};  // 3: the range itself
  unsigned seed = 1;
  do {
    auto range = provider_->reserve(0, 3, granularity);
    std::vector<std::shared_ptr<Allocation>> parts{provider_->import_into(range, 0, theirs(100, seed), 0),
                                                   provider_->import_into(range, 1, own_ticket(own), 0),
                                                   provider_->import_into(range, 2, theirs(200, seed + 1), 1)};
    write(*provider_, own->address, pattern(100, seed + 2));
    const std::vector<std::vector<unsigned char>> expected{pattern(100, seed), pattern(100, seed + 2),
                                                           pattern(200, seed + 1)};
    for (const int goes : order) {
      if (goes == 3) {
        range.reset();
      } else {
        parts[static_cast<std::size_t>(goes)].reset();
      }
      for (std::size_t i = 0; i < parts.size(); ++i) {
        if (parts[i] == nullptr) continue;
        EXPECT_EQ(read_back(*provider_, parts[i]->address, expected[i].size()), expected[i]);
      }
    }
    EXPECT_EQ(live(), before);
    seed += 3;
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_P(Range, local_memory_lives_as_long_as_its_second_mapping) {
  const long before = live();
  auto own = provider_->allocate(0, 100, Backing::vmm);
  const auto range = provider_->reserve(0, 1, 100);
  auto again = provider_->import_into(range, 0, own_ticket(own), 0);
  write(*provider_, own->address, pattern(100, 9));
  own.reset();
  EXPECT_EQ(read_back(*provider_, again->address, 100), pattern(100, 9));
  again.reset();
  EXPECT_EQ(live(), before + 1);  // the range
}

TEST_P(Range, failing_call_is_named_rolled_back_and_can_be_repeated) {
  const auto own = provider_->allocate(0, 100, Backing::vmm);
  const Exported exported = theirs(5000, 9), ticket = own_ticket(own);
  const long before = live();
  const auto use = [&] {
    const auto range = provider_->reserve(0, 2, 5000);
    const auto first = provider_->import_into(range, 0, exported, 0);
    const auto second = provider_->import_into(range, 1, ticket, 0);
    EXPECT_EQ(read_back(*provider_, first->address, 5000), pattern(5000, 9));
  };
  use();
  fake_->arm("");
  {
    const auto range = provider_->reserve(0, 2, 5000);
    const auto first = provider_->import_into(range, 0, exported, 0);
    const auto second = provider_->import_into(range, 1, ticket, 0);
  }
  int failed = 0;
  for (const auto& [call, times] : fake_->seen()) {
    const bool gives_back = call.find("Unmap") != std::string::npos || call.find("Free") != std::string::npos ||
                            call.find("Release") != std::string::npos || call.find("Pop") != std::string::npos ||
                            call.find("SetDevice") != std::string::npos || call.find("GetDevice") != std::string::npos;
    const bool is_optional = call.find("PointerGet") != std::string::npos;  // finds a second device that may get access
    if (gives_back || is_optional) continue;
    for (int nth = 1; nth <= times; ++nth) {
      fake_->arm(call + ":" + std::to_string(nth) + ":719");
      std::string message;
      try {
        const auto range = provider_->reserve(0, 2, 5000);
        const auto first = provider_->import_into(range, 0, exported, 0);
        const auto second = provider_->import_into(range, 1, ticket, 0);
      } catch (const Error& error) {
        message = error.what();
      }
      fake_->arm("");
      if (message.empty() && call.find("Push") != std::string::npos) continue;  // a call during a release
      EXPECT_NE(message.find(call), std::string::npos) << call << " " << nth << ": " << message;
      EXPECT_NE(message.find("719"), std::string::npos) << message;
      EXPECT_EQ(live(), before) << call << " " << nth;
      use();
      EXPECT_EQ(live(), before) << call << " " << nth;
      ++failed;
    }
  }
  EXPECT_GE(failed, 6);  // reserve; import, map and access; map and access
}

TEST_P(Range, memory_that_does_not_fit_is_rejected) {
  const auto own = provider_->allocate(0, 2 * granularity, Backing::vmm);
  const auto plain = provider_->allocate(0, 100, Backing::plain);
  const auto range = provider_->reserve(0, 2, granularity);
  const long before = live();
  EXPECT_THROW((void)provider_->import_into(range, 0, own_ticket(own), 0), Error);            // too large
  EXPECT_THROW((void)provider_->import_into(range, 2, theirs(10, 0), 0), Error);              // no such place
  EXPECT_THROW((void)provider_->import_into(nullptr, 0, theirs(10, 0), 0), Error);            // no range
  EXPECT_THROW((void)provider_->import_into(range, 0, {theirs(10, 0).bytes, {}}, 0), Error);  // no descriptor
  EXPECT_THROW((void)provider_->import_into(range, 0, provider_->share(plain, SharingKind::same_process), 0), Error);
  const auto first = provider_->import_into(range, 0, theirs(10, 1), 0);
  EXPECT_THROW((void)provider_->import_into(range, 0, theirs(10, 2), 0), Error);  // taken
  EXPECT_EQ(read_back(*provider_, first->address, 10), pattern(10, 1));
  EXPECT_THROW((void)provider_->reserve(0, 0, 10), Error);
  EXPECT_THROW((void)provider_->reserve(0, SIZE_MAX / granularity, 2 * granularity), Error);
  EXPECT_THROW((void)provider_->reserve(0, 1, SIZE_MAX - 1), Error);
  EXPECT_THROW((void)provider_->reserve(7, 1, 10), Error);
  EXPECT_EQ(live(), before + 2);  // first: a mapping and its memory
}

TEST_P(Range, thousand_cycles_leak_nothing) {
  const auto own = provider_->allocate(0, 100, Backing::vmm);
  const Exported exported = theirs(100, 5), ticket = own_ticket(own);
  const long before = live();
  std::size_t descriptors = 0;
  for (int i = 0; i < 1000; ++i) {
    {
      const auto range = provider_->reserve(0, 3, 100);
      const auto first = provider_->import_into(range, static_cast<std::size_t>(i) % 3, exported, 0);
      const auto second = provider_->import_into(range, static_cast<std::size_t>(i + 1) % 3, ticket, 0);
      ASSERT_EQ(read_back(*provider_, first->address, 100), pattern(100, 5));
    }
    ASSERT_EQ(live(), before);
    if (i == 10) descriptors = open_descriptors();
  }
  EXPECT_EQ(open_descriptors(), descriptors);
}

INSTANTIATE_TEST_SUITE_P(Vendors, Range, testing::Values("cuda", "hip"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Ranges, unsupported_vendor_is_rejected) {
  use_fakes();
  const DeviceProvider musa(open_musa());
  EXPECT_THROW((void)musa.reserve(0, 2, 100), Error);
  EXPECT_THROW((void)provider_for(MemoryType::CPU).reserve(0, 2, 100), Error);
}

}  // namespace

}  // namespace hmc::memory
