// Each driver call fails once: the error contains the call and its code, and no resource leaks.
#include <algorithm>
#include <set>

#include "tests/unit/memory/fake.hpp"

namespace hmc::memory {

namespace {

/// Calls whose failure need not be reported: a classification, or the release of a resource.
bool may_fail_unseen(const std::string& call) {
  static const char* const parts[] = {
      "Free",  "Release",    "Destroy",           "Unmap",         "PopCurrent", "PointerGetAttr",
      "Close", "GetCurrent", "PrimaryCtxRelease", "aclrtGetDevice"};
  return std::any_of(std::begin(parts), std::end(parts),
                     [&](const char* part) { return call.find(part) != std::string::npos; });
}
/// Calls that make a device current. If such a call fails during a release, the resource remains.
bool enters(const std::string& call) {
  return call.find("PushCurrent") != std::string::npos || call.find("etDevice") != std::string::npos;
}
/// Calls that release a resource. If such a call fails, the resource remains.
bool gives_back(const std::string& call) {
  static const char* const parts[] = {"Free", "Release", "Destroy", "Unmap", "PopCurrent", "Close"};
  return std::any_of(std::begin(parts), std::end(parts),
                     [&](const char* part) { return call.find(part) != std::string::npos; });
}

void throw_if_bad(const base::Status& status) {
  if (!status.ok()) throw Error(status.code, "copy", status.what);
}

/// All operations of a provider within one process, with each backing.
void use_all(const DeviceProvider& provider, Backing backing) {
  const auto memory = provider.allocate(0, 5000, backing);
  const auto data = pattern(5000, 1);
  std::vector<unsigned char> back(5000);
  throw_if_bad(provider.copy_from_host(memory->address, data.data(), 5000));
  throw_if_bad(provider.copy_within(memory->address + 2000, memory->address, 1000));
  throw_if_bad(provider.copy({memory->address, data.data(), 10, Direction::host_to_device, 4, 64, 10}));
  const auto stream = provider.make_stream(0), second = provider.make_stream(0);
  const auto event = provider.make_event(0);
  throw_if_bad(provider.copy_async({back.data(), memory->address, 5000, Direction::device_to_host}, *stream));
  throw_if_bad(event->record(*stream));
  throw_if_bad(second->wait(*event));
  throw_if_bad(event->synchronize());
  if (const auto status = event->query(); status.code != Code::in_progress) throw_if_bad(status);
  throw_if_bad(second->synchronize());
  if (const auto status = second->query(); status.code != Code::in_progress) throw_if_bad(status);
  if (back[4999] != data[4999]) throw Error(Code::error, "use_all", "the bytes are wrong");
}

struct Case {
  Which which;
  Backing backing;
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.which.name << " " << name_of(one.backing); }
class EveryDriverCall : public testing::TestWithParam<Case> {};

TEST_P(EveryDriverCall, failing_call_is_named_without_leaks) {
  use_fakes();
  const auto [which, backing] = GetParam();
  const Fake fake(which.name);
  fake.arm("");
  const long at_first = fake.live();  // other tests of this process may hold some
  {
    const DeviceProvider provider(which.open());
    ASSERT_EQ(provider.why_not(), "");
    ASSERT_EQ(provider.why_not(backing), "");
    fake.arm("");
    use_all(provider, backing);
  }
  const auto calls = fake.seen();
  ASSERT_EQ(fake.live(), at_first);
  ASSERT_GT(calls.size(), 10u);

  int failed = 0;
  for (const auto& [call, times] : calls) {
    if (gives_back(call)) continue;
    for (int nth = 1; nth <= times; ++nth) {
      std::string message;
      const long before = fake.live();
      {
        const DeviceProvider provider(which.open());
        (void)provider.why_not(backing);  // the trial is over before the failure is armed
        fake.arm(call + ":" + std::to_string(nth) + ":719");
        try {
          use_all(provider, backing);
        } catch (const Error& error) {
          message = error.what();
        }
        fake.arm("");
      }
      if (message.empty() && enters(call)) continue;
      EXPECT_EQ(fake.live(), before) << call << " " << nth;
      if (message.empty() && may_fail_unseen(call)) continue;
      // The last synchronizations belong to the destruction of streams.
      if (message.empty() && call.find("Sync") != std::string::npos && nth > times - 3) continue;
      EXPECT_NE(message.find(call), std::string::npos) << call << " " << nth << ": " << message;
      EXPECT_NE(message.find("719"), std::string::npos) << message;
      ++failed;
    }
  }
  EXPECT_GT(failed, 15);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Which& which : whiches) {
    if (!which.is_fake) continue;
    const std::string name = which.name;
    all.push_back({which, Backing::plain});
    all.push_back({which, Backing::pinned});
    if (name == "cuda" || name == "hip") all.push_back({which, Backing::vmm});
    if (name != "cnrt" && name != "acl") all.push_back({which, Backing::stream_ordered});
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Vendors, EveryDriverCall, testing::ValuesIn(cases()), [](const auto& info) {
  std::string name = std::string(info.param.which.name) + "_" + name_of(info.param.backing);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(DriverFailure, missing_memory_is_reported) {
  use_fakes();
  for (const Which& which : whiches) {
    if (!which.is_fake) continue;
    const DeviceProvider provider(which.open());
    try {
      (void)provider.allocate(0, std::size_t{5} << 30);
      ADD_FAILURE() << which.name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::out_of_memory) << which.name << ": " << error.what();
    }
  }
}

/// The failure of allocate() when its call answers `code`.
Code of_allocation(const Which& which, const char* call, int code) {
  const Fake fake(which.name);
  const DeviceProvider provider(which.open());
  fake.arm(std::string(call) + ":1:" + std::to_string(code));
  try {
    (void)provider.allocate(0, 100, Backing::plain);
    ADD_FAILURE() << call;
  } catch (const Error& error) {
    fake.arm("");
    return error.code();
  }
  return Code::success;
}

TEST(DriverFailure, published_numbers_mean_out_of_memory) {
  use_fakes();
  const struct {
    const Which& which;
    const char* call;
    int no_memory, other;
  } cases[] = {{whiches[0], "cuMemAlloc_v2", 2, 1},
               {whiches[1], "hipMalloc", 2, 1},
               {whiches[2], "musaMalloc", 2, 1},
               {whiches[3], "cnrtMalloc", 100100, 100006},
               {whiches[4], "aclrtMalloc", 207001, 200002},
               {whiches[4], "aclrtMalloc", 200000, 107002},
               {whiches[4], "aclrtMalloc", 300000, 100000}};
  for (const auto& one : cases) {
    EXPECT_EQ(of_allocation(one.which, one.call, one.no_memory), Code::out_of_memory) << one.no_memory;
    EXPECT_EQ(of_allocation(one.which, one.call, one.other), Code::error) << one.other;
  }
}

// Code 34 meant "not ready" until CUDA 10. In later versions and in MUSA it is the error of a stub library.
TEST(DriverFailure, failed_query_does_not_count_as_unfinished_work) {
  use_fakes();
  for (const Which* const which : {&whiches[1], &whiches[2]}) {
    const Fake fake(which->name);
    const DeviceProvider provider(which->open());
    const auto stream = provider.make_stream(0);
    fake.arm(std::string(which->name) + "StreamQuery:1:34," + which->name + "StreamQuery:2:600");
    EXPECT_EQ(stream->query().code, Code::error) << which->name;
    EXPECT_EQ(stream->query().code, Code::in_progress) << which->name;
    fake.arm("");
  }
}

TEST(DriverFailure, failed_start_is_the_reason_of_an_unusable_library) {
  use_fakes();
  const struct {
    const Which& which;
    const char* call;
  } starts[] = {{whiches[0], "cuInit"},
                {whiches[0], "cuDeviceGetCount"},
                {whiches[1], "hipGetDeviceCount"},
                {whiches[3], "cnrtGetDeviceCount"},
                {whiches[4], "aclInit"}};
  for (const auto& start : starts) {
    const Fake fake(start.which.name);
    fake.arm(std::string(start.call) + ":1");
    const DeviceProvider provider(start.which.open());
    EXPECT_NE(provider.why_not().find(start.call), std::string::npos) << provider.why_not();
    EXPECT_THROW((void)provider.allocate(0, 1), Error);
    fake.arm("");
  }
}

}  // namespace

}  // namespace hmc::memory
