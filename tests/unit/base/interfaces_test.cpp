#include "runtime/base/interfaces.hpp"

#include <gtest/gtest.h>
#include <ifaddrs.h>

#include <cstdlib>
#include <string>

#include <hmc/error.hpp>

namespace hmc::base {
namespace {

/// Sets HMC_NET for one test.
class HmcNet {
 public:
  explicit HmcNet(const std::string& value) { ::setenv("HMC_NET", value.c_str(), 1); }
  ~HmcNet() { ::unsetenv("HMC_NET"); }
};

std::string all_interfaces(const std::string& prefix) {
  std::string text;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return text;
  for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) text += prefix + each->ifa_name + ",";
  ::freeifaddrs(all);
  return text;
}

TEST(Interfaces, unknown_names_are_rejected_with_those_that_exist) {
  for (const char* const value : {"no-such-net0", "^no-such-net0", "lo,no-such-net0"}) {
    const HmcNet net(value);
    try {
      (void)usable_addresses();
      ADD_FAILURE() << value << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid_config);
      EXPECT_NE(std::string(error.what()).find("'no-such-net0'"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("lo"), std::string::npos) << error.what();
    }
  }
}

TEST(Interfaces, selection_includes_and_excludes) {
  const std::size_t all = usable_addresses().size();
  {
    const HmcNet net(all_interfaces(""));
    EXPECT_EQ(usable_addresses().size(), all);
  }
  {
    const HmcNet net(all_interfaces("^"));
    EXPECT_EQ(usable_addresses().size(), 0U);
  }
  const HmcNet net("lo");  // loopback is never offered
  EXPECT_EQ(usable_addresses().size(), 0U);
}

TEST(Interfaces, addresses_have_texts) {
  Ip v4{4, 24, {10, 0, 0, 7}}, v6{16, 64, {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  EXPECT_EQ(text_of(v4), "10.0.0.7");
  EXPECT_EQ(text_of(v6), "fd00::1");
}

}  // namespace
}  // namespace hmc::base
