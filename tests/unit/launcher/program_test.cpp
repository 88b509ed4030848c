#include "launcher/plan.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "launcher/report.hpp"

namespace hmc::launcher {
namespace {

class Program : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "program_XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& name, mode_t mode) const {
    const std::string path = folder_ + "/" + name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << "x";
    ::chmod(path.c_str(), mode);
    return path;
  }
  static int status(const std::string& name, const std::string& path) {
    try {
      find_program(name, path);
      return 0;
    } catch (const LaunchError& failure) {
      return failure.status();
    }
  }
  std::string folder_;
};

TEST_F(Program, path_is_used_unchanged) {
  const std::string path = file("a", 0755);
  EXPECT_EQ(find_program(path, ""), path);
}

TEST_F(Program, first_folder_wins) {
  file("one/a", 0755);
  file("two/a", 0755);
  EXPECT_EQ(find_program("a", folder_ + "/none:" + folder_ + "/two:" + folder_ + "/one"), folder_ + "/two/a");
}

TEST_F(Program, non_executable_file_is_skipped) {
  file("one/a", 0644);
  file("two/a", 0755);
  EXPECT_EQ(find_program("a", folder_ + "/one:" + folder_ + "/two"), folder_ + "/two/a");
}

TEST_F(Program, no_executable_file_has_status_126) {
  file("one/a", 0644);
  EXPECT_EQ(status("a", folder_ + "/one:" + folder_ + "/two"), exit_not_executable);
  EXPECT_EQ(status(folder_ + "/one/a", ""), exit_not_executable);
  EXPECT_EQ(status(folder_, ""), exit_not_executable);
}

TEST_F(Program, missing_program_has_status_127) {
  EXPECT_EQ(status("a", folder_), exit_not_found);
  EXPECT_EQ(status(folder_ + "/a", ""), exit_not_found);
  EXPECT_EQ(status("", folder_), exit_not_found);
  EXPECT_EQ(status(file("plain", 0755) + "/a", ""), exit_not_found);
}

TEST_F(Program, folder_with_the_name_counts_as_missing) {
  std::filesystem::create_directories(folder_ + "/one/a");
  EXPECT_EQ(status("a", folder_ + "/one"), exit_not_found);
}

}  // namespace
}  // namespace hmc::launcher
