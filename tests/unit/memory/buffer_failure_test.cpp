// Each driver call of a Buffer fails once: the error contains the call and its code, and no resource leaks.
#include <algorithm>

#include "tests/unit/memory/buffer_support.hpp"

namespace hmc {

namespace {

using memory::Fake;

[[maybe_unused]] const bool with_fakes = (memory::use_fakes(), true);  // each test may be the first

bool has_any(const std::string& call, std::initializer_list<const char*> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](const char* part) { return call.find(part) != std::string::npos; });
}
/// Calls that release a resource. Their failure isn't reported to a caller, and the resource remains.
bool gives_back(const std::string& call) {
  return has_any(call, {"Free", "Release", "Destroy", "Unmap", "PopCurrent", "Close"});
}
/// Calls whose failure has no effect: an unclassified pointer counts as host memory, and a completion query is
/// repeated.
bool may_fail_unseen(const std::string& call) {
  return has_any(call, {"PointerGetAttr", "EventQuery", "QueryNotifier", "QueryEvent"});
}
/// Calls that make a device current for the next call, which may be a release.
bool enters(const std::string& call) { return has_any(call, {"PushCurrent", "etDevice", "etCurrent"}); }

using Calls = std::vector<std::pair<std::string, int>>;

/// All device operations of Buffers. Returns the calls made before the first Buffer is destroyed.
Calls use_buffers(Allocator allocator, TransferMode mode, const Fake& fake) {
  std::vector<int> values(500, 3), back(500);
  Buffer<int> here(allocator, values.data(), values.size(), mode);
  here.append(values.data(), 100);
  const Buffer<int> there({allocator, 1}, here, mode);
  Buffer<int> host(Allocator::host_new, there, mode);
  here.set(0, 4);
  there.get(0, back.data(), back.size());
  const auto view = there.get_host_accessible();
  host.append(there);
  here.synchronize();
  there.synchronize();
  host.synchronize();
  if (host.get(1199) != 3 || here.get(0) != 4 || back[499] != 3 || view.get()[599] != 3)
    throw Error(Code::error, "use_buffers", "an element is wrong");
  return fake.seen();
}

int times_of(const std::string& call, const Calls& calls) {
  for (const auto& [name, times] : calls)
    if (name == call) return times;
  return 0;
}

struct Case {
  const char* vendor;
  Allocator allocator;
  TransferMode mode;
};
class EveryBufferCall : public testing::TestWithParam<Case> {};

long left(const Fake& fake) {
  long all = 0;
  for (const char* kind : {"memory", "physical", "reservation", "mapping", "import", "host", "event"})
    all += fake.live(kind);
  return all;
}

TEST_P(EveryBufferCall, failing_call_is_named_without_leaks) {
  (void)places();
  const auto [vendor, allocator, mode] = GetParam();
  const Fake fake(vendor);
  (void)use_buffers(allocator, mode, fake);  // creates the resources that are created once
  fake.arm("");
  const Calls calls = use_buffers(allocator, mode, fake);
  ASSERT_GT(calls.size(), 5u);
  long streams = fake.live("stream");  // one per device, for calls that wait
  int named = 0;
  for (const auto& [call, times] : calls) {
    if (gives_back(call)) continue;
    for (int nth = 1; nth <= times; ++nth) {
      const long before = left(fake);
      std::string message;
      fake.arm(call + ":" + std::to_string(nth) + ":719");
      try {
        (void)use_buffers(allocator, mode, fake);
      } catch (const Error& error) {
        message = error.what();
      }
      const bool reached = times_of(call, fake.seen()) >= nth;  // no wait is made for a mark that is already complete
      fake.arm("");
      if (message.empty() && (enters(call) || !reached)) {
        streams = std::max(streams, fake.live("stream"));  // the resource to release remains
        continue;
      }
      EXPECT_EQ(left(fake), before) << call << " " << nth;
      EXPECT_LE(fake.live("stream"), streams) << call << " " << nth;
      if (message.empty() && may_fail_unseen(call)) continue;
      if (message.empty() && allocator == Allocator::cuda_async && has_any(call, {"StreamSync"}))
        continue;  // of a free
      EXPECT_NE(message.find(call), std::string::npos) << call << " " << nth << ": " << message;
      EXPECT_NE(message.find("719"), std::string::npos) << call << " " << nth << ": " << message;
      ++named;
    }
  }
  EXPECT_GT(named, 3);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const TransferMode mode : {TransferMode::sync, TransferMode::async})
    for (const Case& each : {Case{"cuda", Allocator::cuda, mode}, Case{"cuda", Allocator::cuda_async, mode},
                             Case{"cuda", Allocator::cuda_managed, mode}, Case{"hip", Allocator::hip, mode},
                             Case{"hip", Allocator::hip_pinned, mode}, Case{"musa", Allocator::musa, mode},
                             Case{"cnrt", Allocator::cnrt, mode}, Case{"acl", Allocator::acl, mode}})
      all.push_back(each);
  return all;
}
INSTANTIATE_TEST_SUITE_P(Vendors, EveryBufferCall, testing::ValuesIn(cases()), [](const auto& info) {
  return std::string(name_of(info.param.allocator)) + (info.param.mode == TransferMode::sync ? "_sync" : "_async");
});

TEST(OpenMp, missing_support_or_device_is_reported) {
  EXPECT_THROW(Buffer<int>({Allocator::openmp, -1}, 1), Error);
  EXPECT_THROW(Buffer<int>({Allocator::openmp, 99}, 1), Error);
}

TEST(WindowPlace, place_of_a_closed_window_is_rejected) {
  EXPECT_THROW(Buffer<int>(Window(), 1), Error);
  EXPECT_THROW(Buffer<int>(Allocator::window, 1), Error);
  EXPECT_THROW((void)Buffer<int>(Allocator::host_new, 1).offset(), Error);
  try {
    Buffer<char>(places()[0], std::size_t{1} << 30);  // more than the size of the window
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::out_of_memory);
  }
}

}  // namespace

}  // namespace hmc
