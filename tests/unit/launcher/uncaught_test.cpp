#include "launcher/uncaught.hpp"

#include <gtest/gtest.h>

namespace hmc::launcher {
namespace {

using bootstrap::UncaughtError;

TEST(UncaughtErrors, each_text_is_printed_once_in_the_order_of_arrival) {
  EXPECT_EQ(describe_uncaught({{3, "cause", {}}, {1, "consequence", {}}, {0, "cause", {}}, {2, "consequence", {}}}),
            "ranks 0, 3: uncaught hmc::Error:\n  cause\nranks 1, 2: uncaught hmc::Error:\n  consequence");
  EXPECT_EQ(describe_uncaught({}), "");
}

TEST(UncaughtErrors, report_arrives_unchanged) {
  const UncaughtError error{2, "text", {{"/a b/c", 0x1234}, {"./d", 1}}};
  const base::Bytes bytes = base::encode(error);
  const auto back = base::decode<UncaughtError>(bytes);
  ASSERT_TRUE(back);
  EXPECT_EQ(base::encode(*back), bytes);
  EXPECT_FALSE(base::decode<UncaughtError>(base::ByteView(bytes).first(bytes.size() - 1)));
}

TEST(UncaughtErrors, frame_is_the_first_of_the_program) {
  EXPECT_EQ(frame_of_program("0x11\nvoid hmc::Team::allreduce<int>(int)\n/p/include/hmc/team.hpp:9\n"
                             "std::function<void ()>::operator()() const\n/usr/include/c++/12/functional:1\n"
                             "void step<hmc::Team>(hmc::Team&)\n/home/u/ring.cpp:42 (discriminator 3)\n"
                             "0x22\nmain\n/home/u/ring.cpp:50\n"),
            "void step<hmc::Team> (/home/u/ring.cpp:42)");
  EXPECT_EQ(frame_of_program("0x11\nmain\n??:?\n"), "main");
  EXPECT_EQ(frame_of_program("0x11\n(anonymous namespace)::f(int)\na.cpp:3\n"), "f (a.cpp:3)");
  EXPECT_EQ(frame_of_program("0x11\n??\n??:0\n"), "");
  EXPECT_EQ(frame_of_program(""), "");
}

}  // namespace
}  // namespace hmc::launcher
