#include "runtime/base/fork.hpp"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace hmc::base {
namespace {

/// The return value of `look` in a child process.
int in_child(const std::function<int()>& look) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(look());
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

struct Counted {
  explicit Counted(int& count) : count_(count) {}
  ~Counted() { ++count_; }
  int& count_;
};

TEST(Fork, child_reads_zeros_and_the_parent_its_values) {
  std::vector<std::uint64_t, WipedOnForkAllocator<std::uint64_t>> words(1000, 77);  // more than a page
  const WipedOnFork<int> value(5);
  EXPECT_EQ(in_child([&] {
              for (const std::uint64_t word : words)
                if (word != 0) return 1;
              return *value.operator->() == 0 ? 42 : 2;
            }),
            42);
  for (const std::uint64_t word : words) EXPECT_EQ(word, 77U);
  EXPECT_EQ(*value.operator->(), 5);
}

TEST(Fork, each_process_has_its_own_number) {
  const std::uint64_t mine = this_process();
  EXPECT_EQ(this_process(), mine);
  EXPECT_EQ(in_child([&] {
              const std::uint64_t childs = this_process();
              if (childs == mine || childs != this_process()) return 1;
              return in_child([&] { return this_process() == childs || this_process() == mine ? 2 : 41; }) + 1;
            }),
            42);
  EXPECT_EQ(this_process(), mine);
}

TEST(Fork, object_is_deleted_only_by_its_process) {
  int count = 0;
  auto object = make_owned<Counted>(count);
  EXPECT_EQ(in_child([&] {
              object.reset();
              if (count != 0) return 1;
              make_owned<Counted>(count).reset();  // owned by the child
              return count == 1 ? 42 : 2;
            }),
            42);
  EXPECT_EQ(count, 0);
  object.reset();
  EXPECT_EQ(count, 1);
}

}  // namespace
}  // namespace hmc::base
