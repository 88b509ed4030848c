// Memory shared by two real processes, on the fake drivers: the contract of SharingKind for each kind.
#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "tests/unit/memory/fake.hpp"
#include "tests/unit/memory/share_peer.hpp"

namespace hmc::memory {

namespace {

struct Way {
  const char* vendor;
  SharingKind kind;
  int hip_version;
};

void PrintTo(const Way& way, std::ostream* out) { *out << way.vendor << " " << name_of(way.kind); }

std::size_t open_descriptors() {
  std::size_t count = 0;
  DIR* const folder = ::opendir("/proc/self/fd");
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}
std::size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  return static_cast<std::size_t>(
      std::count(std::istreambuf_iterator<char>(maps), std::istreambuf_iterator<char>(), '\n'));
}

class EverySharing : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    use_fakes();
    const bool fabric = GetParam().kind == SharingKind::fabric;
    ::setenv("FAKE_FABRIC", fabric ? "1" : "0", 1);
    ::setenv("FAKE_HIP_VERSION", std::to_string(GetParam().hip_version).c_str(), 1);
    fake_ = std::make_unique<Fake>(GetParam().vendor);
    fake_->arm("");
    fake_->set_hip_version(GetParam().hip_version);
    fake_->set_fabric(fabric ? 1 : 0);
    provider_ = open();
    ASSERT_EQ(provider_->why_not(GetParam().kind), "");
    peer_ = std::make_unique<Peer>(GetParam().vendor);
  }
  void TearDown() override {
    peer_.reset();
    provider_.reset();
    fake_->set_fabric(0);
    ::setenv("FAKE_FABRIC", "0", 1);
    EXPECT_EQ(fake_->live(), 0);
  }
  std::unique_ptr<DeviceProvider> open() const {
    for (const Which& which : whiches)
      if (GetParam().vendor == std::string(which.name)) return std::make_unique<DeviceProvider>(which.open());
    return nullptr;
  }
  Backing backing() const { return GetParam().kind == SharingKind::ipc ? Backing::plain : Backing::vmm; }
  /// Memory of the peer with pattern(seed) in it.
  Exported theirs(std::size_t bytes, unsigned seed) const {
    return std::move(peer_->ask({'e', seed, bytes, GetParam().kind, {}, {}}).memory);
  }
  long live_imports() const { return fake_->live("import") + fake_->live("mapping"); }

  std::unique_ptr<Fake> fake_;
  std::unique_ptr<DeviceProvider> provider_;
  std::unique_ptr<Peer> peer_;
};

TEST_P(EverySharing, each_process_reads_writes_of_the_other) {
  for (const std::size_t bytes : {std::size_t{1}, granularity - 1, granularity, granularity + 1}) {
    const auto mine = provider_->allocate(0, bytes, backing());
    write(*provider_, mine->address, pattern(bytes, 40));
    peer_->ask({'i', 40, bytes, GetParam().kind, {}, provider_->share(mine, GetParam().kind)});
    EXPECT_EQ(read_back(*provider_, mine->address, bytes), pattern(bytes, 41)) << bytes;

    const auto imported = provider_->import(theirs(bytes, 50), 1);
    EXPECT_EQ(imported->bytes, bytes);
    EXPECT_EQ(read_back(*provider_, imported->address, bytes), pattern(bytes, 50)) << bytes;
    write(*provider_, imported->address, pattern(bytes, 51));
    peer_->ask({'v', 51, 0, {}, {}, {}});
  }
}

TEST_P(EverySharing, imports_stay_valid_after_death_of_the_exporter) {
  const auto imported = provider_->import(theirs(10'000, 3), 0);
  peer_->kill();
  EXPECT_EQ(read_back(*provider_, imported->address, 10'000), pattern(10'000, 3));
  write(*provider_, imported->address, pattern(10'000, 4));
  EXPECT_EQ(read_back(*provider_, imported->address, 10'000), pattern(10'000, 4));
}

TEST_P(EverySharing, second_import_opens_nothing_and_the_last_holder_closes) {
  const long before = live_imports();
  const Exported exported = theirs(5000, 5);
  auto first = provider_->import(duplicate(exported), 0);
  auto second = provider_->import(duplicate(exported), 0);
  EXPECT_EQ(first->address, second->address);
  EXPECT_EQ(live_imports(), before + 1);
  first.reset();
  EXPECT_EQ(read_back(*provider_, second->address, 5000), pattern(5000, 5));
  second.reset();
  EXPECT_EQ(live_imports(), before);
  const auto again = provider_->import(duplicate(exported), 0);
  EXPECT_EQ(read_back(*provider_, again->address, 5000), pattern(5000, 5));
}

TEST_P(EverySharing, imports_close_in_any_order) {
  std::vector<std::shared_ptr<Allocation>> imports;
  std::vector<std::unique_ptr<Peer>> peers;
  for (unsigned i = 0; i < 4; ++i) {
    peers.push_back(std::make_unique<Peer>(GetParam().vendor));
    imports.push_back(
        provider_->import(std::move(peers.back()->ask({'e', i, 3000, GetParam().kind, {}, {}}).memory), 0));
  }
  for (const std::size_t i : {2u, 0u, 3u, 1u}) {
    EXPECT_EQ(read_back(*provider_, imports[i]->address, 3000), pattern(3000, static_cast<unsigned>(i)));
    imports[i].reset();
  }
  EXPECT_EQ(live_imports(), 0);
}

TEST_P(EverySharing, thousand_cycles_leak_no_descriptor_or_mapping) {
  std::size_t descriptors = 0, maps = 0;
  std::uint64_t theirs_live = 0;
  for (int i = 0; i < 1000; ++i) {
    {
      const auto mine = provider_->allocate(0, 100, backing());
      write(*provider_, mine->address, pattern(100, 1));
      peer_->ask({'i', 1, 0, GetParam().kind, {}, provider_->share(mine, GetParam().kind)});
      const auto imported = provider_->import(theirs(100, 2), 1);
      ASSERT_EQ(read_back(*provider_, imported->address, 100), pattern(100, 2));
    }
    const std::uint64_t live = peer_->ask({'c', 0, 0, {}, {}, {}}).number;
    if (i == 10) descriptors = open_descriptors(), maps = mappings(), theirs_live = live;
  }
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_NEAR(static_cast<double>(mappings()), static_cast<double>(maps), 3);  // malloc's own may come and go
  EXPECT_EQ(peer_->ask({'c', 0, 0, {}, {}, {}}).number, theirs_live);
  EXPECT_EQ(theirs_live, 0u);
}

TEST_P(EverySharing, failing_import_is_named_rolled_back_and_can_be_repeated) {
  const Exported exported = theirs(5000, 9);
  const long before =
      fake_->live("import") + fake_->live("mapping") + fake_->live("reservation") + fake_->live("physical");
  { const auto once = provider_->import(duplicate(exported), 1); }  // creates the resources that are created once
  fake_->arm("");
  { const auto once = provider_->import(duplicate(exported), 1); }
  const auto calls = fake_->seen();
  int failed = 0;
  for (const auto& [call, times] : calls) {
    const bool gives_back = call.find("Unmap") != std::string::npos || call.find("Free") != std::string::npos ||
                            call.find("Release") != std::string::npos || call.find("Close") != std::string::npos ||
                            call.find("Pop") != std::string::npos;
    const bool is_optional = call.find("PointerGet") != std::string::npos;  // finds a second device that may get access
    if (gives_back || is_optional) continue;
    fake_->arm(call + ":1:719");
    try {
      const auto imported = provider_->import(duplicate(exported), 1);
      ADD_FAILURE() << call << " failed without an error";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(call), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("719"), std::string::npos) << error.what();
      ++failed;
    }
    fake_->arm("");
    EXPECT_EQ(fake_->live("import") + fake_->live("mapping") + fake_->live("reservation") + fake_->live("physical"),
              before)
        << call;
    const auto again = provider_->import(duplicate(exported), 1);
    EXPECT_EQ(read_back(*provider_, again->address, 5000), pattern(5000, 9)) << call;
  }
  EXPECT_GE(failed, GetParam().kind == SharingKind::vmm_fd ? 4 : 1);
}

TEST_P(EverySharing, failing_export_is_named) {
  const auto mine = provider_->allocate(0, 100, backing());
  fake_->arm("");
  { const Exported once = provider_->share(mine, GetParam().kind); }
  int failed = 0;
  for (const auto& [call, times] : fake_->seen()) {
    if (call.find("Pop") != std::string::npos) continue;
    fake_->arm(call + ":1:719");
    try {
      (void)provider_->share(mine, GetParam().kind);
      ADD_FAILURE() << call;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(call), std::string::npos) << error.what();
      ++failed;
    }
    fake_->arm("");
  }
  EXPECT_GE(failed, 1);
}

TEST_P(EverySharing, import_in_the_exporting_process_is_the_allocation) {
  const auto mine = provider_->allocate(0, 100, backing());
  EXPECT_EQ(provider_->import(provider_->share(mine, GetParam().kind), 1), mine);
  EXPECT_EQ(provider_->import(provider_->share(mine, SharingKind::same_process), 0), mine);
  EXPECT_THROW((void)provider_->import({theirs(10, 0).bytes, {}}, 7), Error);  // no such device
}

TEST_P(EverySharing, invalid_ticket_is_rejected) {
  const Exported exported = theirs(10, 0);
  for (std::size_t length = 0; length < exported.bytes.size(); length += 7) {
    Exported part = duplicate(exported);
    part.bytes.resize(length);
    EXPECT_THROW((void)provider_->import(std::move(part), 0), Error) << length;
  }
  Exported other = duplicate(exported);
  other.bytes[0] ^= std::byte{1};
  EXPECT_THROW((void)provider_->import(std::move(other), 0), Error);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, EverySharing,
    testing::Values(Way{"cuda", SharingKind::vmm_fd, 70'100'000}, Way{"cuda", SharingKind::fabric, 70'100'000},
                    Way{"cuda", SharingKind::ipc, 70'100'000}, Way{"hip", SharingKind::vmm_fd, 70'000'000},
                    Way{"hip", SharingKind::vmm_fd, 70'100'000}, Way{"hip", SharingKind::ipc, 60'000'000},
                    Way{"hip", SharingKind::ipc, 50'200'000}),
    [](const auto& info) {
      return std::string(info.param.vendor) +
             (info.param.kind == SharingKind::ipc      ? "_ipc_"
              : info.param.kind == SharingKind::fabric ? "_fabric_"
                                                       : "_vmm_") +
             std::to_string(info.param.hip_version / 100'000);
    });

TEST(Sharing, pointer_inside_of_an_allocation_is_shared_with_its_offset) {
  use_fakes();
  const DeviceProvider provider(open_cuda());
  const Peer peer("cuda");
  const auto whole = provider.allocate(0, 10'000, Backing::plain);
  write(provider, whole->address, pattern(10'000, 1));
  write(provider, whole->address + 4096, pattern(100, 60));
  write(provider, whole->address + 8192, pattern(100, 70));
  // Two regions of one allocation share one handle, which may be opened only once.
  for (const unsigned at : {4096u, 8192u}) {
    const auto part = provider.borrow(whole->address + at, 100, 0);
    peer.ask({'i', at == 4096 ? 60u : 70u, 100, SharingKind::ipc, {}, provider.share(part, SharingKind::ipc)});
  }
  EXPECT_EQ(read_back(provider, whole->address + 4096, 100), pattern(100, 61));
  EXPECT_EQ(read_back(provider, whole->address + 8192, 100), pattern(100, 71));
  EXPECT_EQ(read_back(provider, whole->address + 4095, 1)[0], pattern(10'000, 1)[4095]);
}

TEST(Sharing, ended_process_leaves_no_handle) {
  use_fakes();
  const std::string file = testing::TempDir() + "/hmc_fake_dump." + std::to_string(::getpid());
  ::setenv("FAKE_DUMP", file.c_str(), 1);
  {
    const DeviceProvider provider(open_cuda());
    const Peer peer("cuda");
    const auto mine = provider.allocate(0, 100, Backing::vmm);
    write(provider, mine->address, pattern(100, 1));
    peer.ask({'i', 1, 0, SharingKind::vmm_fd, {}, provider.share(mine, SharingKind::vmm_fd)});
    peer.ask({'e', 1, 100, SharingKind::ipc, {}, {}});
  }
  ::unsetenv("FAKE_DUMP");
  std::ifstream in(file);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  ::unlink(file.c_str());
  EXPECT_NE(
      text.find(" memory=0 physical=0 reservation=0 mapping=0 stream=0 event=0 import=0 host=0 context=0 module=0\n"),
      std::string::npos)
      << text;
}

TEST(Sharing, unsupported_vendor_or_backing_reports_the_reason) {
  use_fakes();
  for (const Which& which : whiches) {
    if (!which.is_fake || std::string(which.name) == "cuda" || std::string(which.name) == "hip") continue;
    const DeviceProvider provider(which.open());
    EXPECT_NE(provider.why_not(SharingKind::vmm_fd), "") << which.name;
    EXPECT_THROW((void)provider.share(provider.allocate(0, 10), SharingKind::ipc), Error) << which.name;
  }
  const DeviceProvider cuda(open_cuda());
  EXPECT_THROW((void)cuda.share(cuda.allocate(0, 10, Backing::plain), SharingKind::vmm_fd), Error);
  EXPECT_THROW((void)cuda.share(cuda.allocate(0, 10, Backing::vmm), SharingKind::ipc), Error);
}

TEST(Sharing, failing_fabric_handles_report_a_reason_only) {
  use_fakes();
  const Fake fake("cuda");
  fake.set_fabric(2);
  {
    const DeviceProvider provider(open_cuda());
    EXPECT_NE(provider.why_not(SharingKind::fabric).find("cuMemCreate answered"), std::string::npos)
        << provider.why_not(SharingKind::fabric);
    EXPECT_EQ(provider.why_not(SharingKind::vmm_fd), "");
    const auto memory = provider.allocate(0, 10);
    EXPECT_EQ(memory->backing, Backing::vmm);
    EXPECT_TRUE(provider.share(memory, SharingKind::vmm_fd).fd);
    EXPECT_THROW((void)provider.share(memory, SharingKind::fabric), Error);
  }
  fake.set_fabric(0);
  EXPECT_NE(DeviceProvider(open_cuda()).why_not(SharingKind::fabric).find("fabric"), std::string::npos);
}

TEST(Sharing, failed_trial_selects_another_backing_with_a_reason) {
  use_fakes();
  const Fake fake("cuda");
  for (const char* call : {"cuMemCreate", "cuMemExportToShareableHandle", "cuMemImportFromShareableHandle", "cuMemMap",
                           "cuMemSetAccess", "cuMemAddressReserve"}) {
    fake.arm(std::string(call) + ":1");
    const DeviceProvider provider(open_cuda());
    EXPECT_NE(provider.why_not(SharingKind::vmm_fd).find(call), std::string::npos)
        << provider.why_not(SharingKind::vmm_fd);
    EXPECT_EQ(provider.allocate(0, 10)->backing, Backing::plain);
    EXPECT_EQ(fake.live("mapping") + fake.live("reservation"), 0) << call;
  }
  fake.arm("");
}

}  // namespace

}  // namespace hmc::memory

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--peer") return hmc::memory::serve_peer(3, argv[2]);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
