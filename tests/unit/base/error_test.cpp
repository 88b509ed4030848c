#include <hmc/error.hpp>

#include <gtest/gtest.h>

#include <cerrno>
#include <set>
#include <string>

namespace hmc {
namespace {

bool has(const Error& error, const std::string& part) {
  return std::string(error.what()).find(part) != std::string::npos;
}

TEST(ErrorText, text_has_every_field_that_applies) {
  ErrorDetail detail;
  detail.code = Code::out_of_range;
  detail.operation = "put";
  detail.rank = 3;
  detail.peer = 7;
  detail.offset = 18446744073709551615U;
  detail.size = 4096;
  detail.has_extent = true;
  detail.sys_errno = ENOMEM;
  detail.message = "it lies beyond the window";
  detail.hint = "look at the size";
  const Error error(detail);
  for (const char* part : {"put", "out_of_range", "rank 3", "peer 7", "18446744073709551615", "4096",
                           "Cannot allocate memory", "it lies beyond the window", "look at the size"})
    EXPECT_TRUE(has(error, part)) << part << " in: " << error.what();
  EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
}

TEST(ErrorText, unused_fields_are_omitted) {
  const Error error(Code::closed, "barrier", "the team is closed");
  for (const char* part : {"rank", "peer", "offset", "errno", ";"})
    EXPECT_FALSE(has(error, part)) << part << " in: " << error.what();
  EXPECT_EQ(error.rank(), -1);
  EXPECT_EQ(error.peer(), -1);
}

TEST(ErrorText, every_code_has_its_own_name) {
  std::set<std::string> names;
  for (int code = 0; code <= static_cast<int>(Code::in_progress); ++code) {
    const std::string name = name_of(static_cast<Code>(code));
    EXPECT_NE(name, "unknown") << code;
    EXPECT_TRUE(names.insert(name).second) << name;
  }
}

TEST(ErrorText, compat_results_share_the_first_numbers) {
  EXPECT_EQ(static_cast<int>(status_t::UNSUPPORT), static_cast<int>(Code::unsupported));
  EXPECT_EQ(static_cast<int>(status_t::INVALID_CONFIG), static_cast<int>(Code::invalid_config));
  EXPECT_EQ(static_cast<int>(status_t::TIMEOUT), static_cast<int>(Code::timeout));
  EXPECT_EQ(static_cast<int>(status_t::NOT_FOUND), static_cast<int>(Code::not_found));
}

}  // namespace
}  // namespace hmc
