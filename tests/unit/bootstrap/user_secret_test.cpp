#include "runtime/control/user_secret.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "bootstrap/launchers/local.hpp"
#include "test_job.hpp"
#include "tests/compat/pair.hpp"
#include "tests/compat/processes.hpp"

namespace hmc::bootstrap::test {
namespace {

using compat::Child;
using compat::Pipe;
using hmc::test::ScopedEnv;
using testing::HasSubstr;

/// A runtime folder of this test.
struct UserSecret : testing::Test {
  static std::string make_folder() {
    std::string made = testing::TempDir() + "/hmc-user-XXXXXX";
    EXPECT_NE(::mkdtemp(made.data()), nullptr);  // mode 0700
    return made;
  }
  ~UserSecret() override { std::filesystem::remove_all(folder); }
  std::string file() const { return folder + "/hmc-secret"; }
  void write_file(const std::string& contents, mode_t mode) const {
    std::ofstream(file()) << contents;
    EXPECT_EQ(::chmod(file().c_str(), mode), 0);
  }
  /// The error names the file, `why` and the variable that makes it unnecessary.
  void expect_refused(const std::string& why) const {
    const Error error = error_of([] { (void)control::user_secret(); });
    EXPECT_EQ(error.code(), Code::invalid_config);
    EXPECT_THAT(error.what(), testing::AllOf(HasSubstr(file()), HasSubstr(why), HasSubstr("HMC_SECRET")));
  }

  const std::string folder = make_folder();
  const ScopedEnv given{"XDG_RUNTIME_DIR", folder};
};

TEST_F(UserSecret, is_the_same_for_processes_that_make_it_at_once) {
  constexpr int processes = 8;
  const Pipe start, checked;
  std::vector<std::unique_ptr<Child>> children;
  for (int i = 0; i < processes; ++i)
    children.push_back(std::make_unique<Child>([&] {
      (void)start.get();
      checked.put(std::to_integer<int>(control::user_secret().key()[0]) |
                  std::to_integer<int>(control::user_secret().key()[31]) << 8);
      return true;
    }));
  for (int i = 0; i < processes; ++i) start.put(0);
  const int first = checked.get();
  for (int i = 1; i < processes; ++i) EXPECT_EQ(checked.get(), first);
  for (const auto& each : children) EXPECT_TRUE(each->join());
  struct stat info {};
  ASSERT_EQ(::stat(file().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777U, 0600U);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()), 1);
}

TEST_F(UserSecret, file_that_others_can_read_is_refused) {
  write_file(std::string(64, 'a'), 0640);
  expect_refused("mode 0640");
}

TEST_F(UserSecret, file_of_another_user_is_refused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  write_file(std::string(64, 'a'), 0600);
  ASSERT_EQ(::chown(file().c_str(), 65534, 65534), 0);
  expect_refused("belongs to user 65534");
}

TEST_F(UserSecret, link_is_refused) {
  const std::string target = folder + "/target";
  std::ofstream(target) << std::string(64, 'a');
  ASSERT_EQ(::chmod(target.c_str(), 0600), 0);
  ASSERT_EQ(::symlink(target.c_str(), file().c_str()), 0);
  expect_refused("");
}

TEST_F(UserSecret, fifo_is_refused_without_a_wait) {
  ASSERT_EQ(::mkfifo(file().c_str(), 0600), 0);
  expect_refused("isn't a regular file");
}

TEST_F(UserSecret, file_with_other_contents_is_refused) {
  for (const std::string& wrong : {std::string(), std::string(63, 'a'), std::string(65, 'a'), std::string(64, 'g')}) {
    write_file(wrong, 0600);
    expect_refused("");
  }
}

TEST_F(UserSecret, is_never_in_a_folder_that_others_can_open_or_that_is_a_link) {
  ASSERT_EQ(::chmod(folder.c_str(), 0710), 0);
  (void)control::user_secret();  // in another folder
  EXPECT_FALSE(std::filesystem::exists(file()));
  ASSERT_EQ(::chmod(folder.c_str(), 0700), 0);
  const std::string link = folder + "-link";
  ASSERT_EQ(::symlink(folder.c_str(), link.c_str()), 0);
  const ScopedEnv linked("XDG_RUNTIME_DIR", link);
  (void)control::user_secret();
  EXPECT_FALSE(std::filesystem::exists(file()));
  std::filesystem::remove(link);
}

TEST_F(UserSecret, folder_in_tmp_that_another_user_has_made_is_refused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can run processes of two users";
  const auto user = static_cast<unsigned>(::getpid()) + 1'000'000'000U;  // of nobody else
  const std::string made = fmt::format("/tmp/hmc-{}", user);
  ASSERT_EQ(::mkdir(made.c_str(), 0777), 0);
  ASSERT_EQ(::chmod(made.c_str(), 0777), 0);
  const auto text_as_user = [&] {
    return ::setuid(user) == 0 ? std::string(error_of([] { (void)control::user_secret(); }).what()) : std::string();
  };
  Child other([&] { return text_as_user().find("belongs to user 0") != std::string::npos; });
  EXPECT_TRUE(other.join());
  ASSERT_EQ(::chown(made.c_str(), user, user), 0);
  Child its_own([&] { return text_as_user().find("mode 0777") != std::string::npos; });
  EXPECT_TRUE(its_own.join());
  EXPECT_TRUE(std::filesystem::is_empty(made));
  std::filesystem::remove_all(made);
}

// A name that others can compute could be taken first.
TEST_F(UserSecret, local_job_without_it_is_refused_unless_every_rank_has_a_secret) {
  write_file(std::string(64, 'a'), 0640);
  const Error error = error_of([] { (void)make_local("job", {}); });
  EXPECT_EQ(error.code(), Code::invalid_config);
  EXPECT_THAT(error.what(), testing::AllOf(HasSubstr(file()), HasSubstr("mode 0640"), HasSubstr("HMC_SECRET")));
  const std::string job = free_address(), given = control::Secret::random().hex();
  Child rank_1([&] { return make_local(job, given)->fetch(soon()) == "record"; });
  const auto rank_0 = make_local(job, given);
  rank_0->publish("record", soon());
  EXPECT_TRUE(rank_1.join());
}

}  // namespace
}  // namespace hmc::bootstrap::test
