// pool::Membership without a store: the order of the control plane's events is the test's.
#include <gtest/gtest.h>

#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>

#include "runtime/base/machine.hpp"
#include "runtime/pool/membership.hpp"
#include "tests/support/code_of.hpp"
#include "tests/support/too_much_memory.hpp"

namespace hmc::pool::test {
namespace {

using base::Deadline;

/// The process has rank 0 in an empty pool. flush() delivers nothing.
class SilentControl : public Control {
 public:
  void stop() noexcept override {}
  const std::string& local_name() const noexcept override { return name_; }
  Entry enter(int, int, base::ByteView) override { return {1, 0, {}}; }
  std::uint64_t commit() override { return 2; }
  std::uint64_t leave() override { return 3; }
  void post(int, base::ByteView) override {}
  void flush() override {
    {
      const std::lock_guard guard(lock_);
      ++flushes_;
    }
    changed_.notify_all();
  }
  Shared share(const std::string&, const Shared&, Deadline, const std::atomic<bool>&) override { return {}; }

  void await_flushes(int count) {
    std::unique_lock guard(lock_);
    changed_.wait(guard, [&] { return flushes_ >= count; });
  }

 private:
  const std::string name_ = "silent";
  std::mutex lock_;
  std::condition_variable changed_;
  int flushes_ = 0;
};

PoolOptions two_members() {
  PoolOptions options;
  options.most_members = 2;
  options.host_stride = std::size_t{2} << 20;
  return checked(options);
}

/// A process that shares its memory with the first join of SilentControl's process, and its card.
struct Candidate {
  explicit Candidate(const std::string& name) {
    const PoolOptions options = two_members();
    Card mine;
    mine.settings = settings_of(options);
    mine.local_name = name;
    card = base::encode(mine);
    base::ByteWriter out;
    out.text("silent:1").number(std::int32_t{1}).blob(card).blob(OwnParts(options).share().bytes);
    shared.bytes = out.take();
  }
  base::Bytes card;
  Shared shared;
};

TEST(Membership, leave_ends_a_candidates_wait_for_the_former_holder_of_its_rank) {
  for (int round = 0; round < 50; ++round) {
    Control::Handler* events = nullptr;
    SilentControl* control = nullptr;
    const auto make_control = [&](Control::Handler& handler) {
      events = &handler;
      auto made = std::make_unique<SilentControl>();
      control = made.get();
      return made;
    };
    Membership me(two_members(), 0, make_control, {}, base::Env::from_process());
    ASSERT_EQ(me.join(Deadline::after(std::chrono::seconds(60))), 0);
    Candidate former("former"), next("next");
    (void)events->on_share(std::move(former.shared));
    events->on_joined(1, 2, former.card);
    ASSERT_TRUE(me.use(1));
    // The former holder has left, and this process leaves before that event arrives.
    Code code = Code::success;
    std::thread link([&] { code = code_of([&] { (void)events->on_share(std::move(next.shared)); }); });
    control->await_flushes(2);
    me.leave();
    link.join();
    ASSERT_EQ(code, Code::peer_failed);  // not timeout
  }
}

/// The first join gets rank 0. The second gets rank 1 and two members. The first doesn't answer before the join is
/// given up; the other has other settings, which gives it up. The third gets rank 0 again.
class SecondJoinFails final : public SilentControl {
 public:
  Entry enter(int, int, base::ByteView card) override {
    own_card.assign(card.begin(), card.end());
    switch (++joins_) {
      case 1: return {1, 0, {}};
      case 2: return {3, 1, {{2, false, card_of(4)}, {3, false, card_of(5)}}};
      default: return {5, 0, {}};
    }
  }
  Shared share(const std::string&, const Shared&, Deadline, const std::atomic<bool>& stop) override {
    while (!stop.load(std::memory_order_relaxed)) std::this_thread::yield();
    throw Error(Code::timeout, "share", "the join was given up");
  }
  static PoolOptions options(int most_members) {
    PoolOptions options = two_members();
    options.most_members = most_members;
    return checked(options);
  }
  base::Bytes own_card;

 private:
  static base::Bytes card_of(int most_members) {
    Card card;
    card.settings = settings_of(options(most_members));
    card.machine = base::machine_id();
    card.node = base::Env::from_process().node;
    return base::encode(card);
  }
  int joins_ = 0;
};

TEST(Membership, join_after_one_that_was_given_up_waits_for_copies_of_the_ranks_former_member) {
  Control::Handler* events = nullptr;
  SecondJoinFails* control = nullptr;
  const auto make_control = [&](Control::Handler& handler) {
    events = &handler;
    auto made = std::make_unique<SecondJoinFails>();
    control = made.get();
    return made;
  };
  Membership me(SecondJoinFails::options(4), 0, make_control, {}, base::Env::from_process());
  const auto join = [&] { return me.join(Deadline::after(std::chrono::seconds(60))); };
  ASSERT_EQ(join(), 0);
  events->on_joined(0, 2, control->own_card);
  MemberUse copy = me.use(0);
  ASSERT_TRUE(copy);
  me.leave();
  ASSERT_EQ(code_of([&] { (void)join(); }), Code::mismatch);
  std::future<int> third = std::async(std::launch::async, join);
  EXPECT_EQ(third.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  copy = {};
  EXPECT_EQ(third.get(), 0);
}

TEST(PoolLimits, parts_that_the_machine_lacks_memory_for_are_refused) {
  const StoreService service("127.0.0.1:0");
  const Store store = Store::connect(service.address());
  const std::size_t bytes = hmc::test::too_much_memory();
  for (std::size_t PoolOptions::*const part : {&PoolOptions::host_bytes, &PoolOptions::device_bytes}) {
    PoolOptions options;
    options.most_members = 2;
    options.device_type = MemoryType::CPU;
    options.name = part == &PoolOptions::host_bytes ? "host" : "device";
    options.*part = bytes;
    EXPECT_EQ(code_of([&] { (void)Pool::create(store, options); }), Code::out_of_memory) << options.name;
  }
}

}  // namespace
}  // namespace hmc::pool::test
