#include "runtime/base/env.hpp"

#include <gtest/gtest.h>

#include <hmc/error.hpp>

#include <map>
#include <set>

namespace hmc::base {
namespace {

std::map<std::string, std::string, std::less<>>& variables() {
  static std::map<std::string, std::string, std::less<>> map;
  return map;
}

Env read(std::map<std::string, std::string, std::less<>> given) {
  variables() = std::move(given);
  return Env::from([](std::string_view name) -> std::optional<std::string> {
    const auto found = variables().find(name);
    if (found == variables().end()) return std::nullopt;
    return found->second;
  });
}

void expect_refused(const std::string& name, const std::string& value) {
  try {
    read({{name, value}});
    ADD_FAILURE() << name << "=" << value << " was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_config) << error.what();
    const std::string text = error.what();
    EXPECT_NE(text.find(name), std::string::npos) << text;
    EXPECT_NE(text.find("'" + value + "'"), std::string::npos) << text;
    for (const EnvVar& var : env_table()) {
      if (var.name == name) {
        EXPECT_NE(text.find(var.values), std::string::npos) << "what may be given? " << text;
      }
    }
  }
}

TEST(Env, empty_environment_has_the_documented_defaults) {
  const Env env = read({});
  EXPECT_FALSE(env.rank);
  EXPECT_FALSE(env.size);
  EXPECT_EQ(env.store, "");
  EXPECT_EQ(env.transport, "");
  EXPECT_EQ(env.log, LogLevel::warn);
  EXPECT_EQ(env.timeout, Env::no_timeout);
  EXPECT_EQ(env.wait, "");
}

TEST(Env, every_setting_is_read) {
  const Env env = read({{"HMC_RANK", "2"},
                        {"HMC_SIZE", "4"},
                        {"HMC_STORE", "[::1]:4242"},
                        {"HMC_SECRET", "abcd"},
                        {"HMC_NODE", "left"},
                        {"HMC_LAUNCHER", "hmcrun"},
                        {"HMC_TRANSPORT", "ucx"},
                        {"HMC_LOG", "debug"},
                        {"HMC_TIMEOUT_S", "1.5"},
                        {"HMC_WAIT", "sleep"},
                        {"HMC_COLL_PRIVATE", "read"},
                        {"HMC_PROGRESS", "caller"}});
  EXPECT_EQ(env.rank, 2);
  EXPECT_EQ(env.size, 4);
  EXPECT_EQ(env.store, "[::1]:4242");
  EXPECT_EQ(env.secret, "abcd");
  EXPECT_EQ(env.node, "left");
  EXPECT_EQ(env.launcher, "hmcrun");
  EXPECT_EQ(env.transport, "ucx");
  EXPECT_EQ(env.log, LogLevel::debug);
  EXPECT_EQ(env.timeout, std::chrono::milliseconds(1500));
  EXPECT_EQ(env.wait, "sleep");
  EXPECT_EQ(env.coll_private, "read");
  EXPECT_EQ(env.progress, "caller");
}

TEST(Env, start_has_a_timeout_of_its_own_unless_one_is_set) {
  EXPECT_EQ(read({}).timeout_or(Env::start_timeout), std::chrono::seconds(60));
  EXPECT_EQ(read({{"HMC_TIMEOUT_S", "2.5"}}).timeout_or(Env::start_timeout), std::chrono::milliseconds(2500));
  EXPECT_EQ(read({}).report, std::chrono::seconds(60));
  EXPECT_EQ(read({{"HMC_REPORT_S", "0.5"}}).report, std::chrono::milliseconds(500));
}

TEST(Env, empty_value_counts_as_unset) {
  const Env env = read({{"HMC_RANK", ""}, {"HMC_TIMEOUT_S", ""}, {"HMC_LOG", ""}, {"HMC_TRANSPORT", ""}});
  EXPECT_FALSE(env.rank);
  EXPECT_EQ(env.timeout, Env::no_timeout);
  EXPECT_EQ(env.log, LogLevel::warn);
}

TEST(Env, invalid_value_is_rejected_with_the_valid_values) {
  for (const char* value : {"x", "-1", "1x", " 1", "1 ", "99999999999999999999", "0x1", "1.0"})
    expect_refused("HMC_RANK", value);
  for (const char* value : {"0", "-4", "four"}) expect_refused("HMC_SIZE", value);
  for (const char* value : {"0", "-1", "nan", "inf", "1e99", "5s", "soon"}) expect_refused("HMC_TIMEOUT_S", value);
  for (const char* value : {"verbose", "WARN", "2"}) expect_refused("HMC_LOG", value);
  for (const char* value : {"rdma", "SHM", "shm,ucx"}) expect_refused("HMC_TRANSPORT", value);
  for (const char* value : {"yield", "1"}) expect_refused("HMC_WAIT", value);
  for (const char* value : {"thread", "off"}) expect_refused("HMC_PROGRESS", value);
  for (const char* value : {"1", "cma"}) expect_refused("HMC_COLL_PRIVATE", value);
}

TEST(Env, rank_outside_the_size_is_rejected) {
  EXPECT_THROW(read({{"HMC_RANK", "4"}, {"HMC_SIZE", "4"}}), Error);
  EXPECT_EQ(read({{"HMC_RANK", "3"}, {"HMC_SIZE", "4"}}).rank, 3);
}

TEST(Env, table_has_each_variable_once_with_a_description) {
  std::set<std::string_view> names;
  for (const EnvVar& var : env_table()) {
    EXPECT_TRUE(names.insert(var.name).second) << var.name;
    // CTRL_TRANSPORT has the name that programs of the older API set.
    EXPECT_TRUE(var.name.starts_with("HMC_") || var.name == "CTRL_TRANSPORT") << var.name;
    EXPECT_FALSE(var.meaning.empty()) << var.name;
    EXPECT_FALSE(var.values.empty()) << var.name;
  }
}

TEST(Env, name_close_to_a_variable_counts_as_misspelt) {
  const char* const environment[] = {
      "HMC_TIMEOUT=3", "HMC_TRANPSORT=tcp", "HMC_LGO=info",       "HMC_COLL_FILES=x", "HMC_TIMEOUT_S=3",
      "HMC_LOG=info",  "HMC_HOME=/x",       "HMC_TEST_SEED=1",    "MY_HMC_TIMEOUT=3", "HMC_=1",
      "HMC_BIN=/x",    "PATH=/x",           "HMC_CUDA_LIBARY=/x", "HMC_WAIT",         "HMC_RANKING=1"};
  std::map<std::string, std::string_view> found;
  for (const auto& [name, nearest] : Env::misspelt(environment)) EXPECT_TRUE(found.emplace(name, nearest).second);
  const std::map<std::string, std::string_view> wanted = {{"HMC_TIMEOUT", "HMC_TIMEOUT_S"},
                                                          {"HMC_TRANPSORT", "HMC_TRANSPORT"},
                                                          {"HMC_LGO", "HMC_LOG"},
                                                          {"HMC_COLL_FILES", "HMC_COLL_FILE"},
                                                          {"HMC_CUDA_LIBARY", "HMC_CUDA_LIBRARY"}};
  EXPECT_EQ(found, wanted);
}

TEST(Env, cache_folder_follows_the_xdg_specification) {
  EXPECT_EQ(read({}).cache, "");
  EXPECT_EQ(read({{"HOME", "/home/me"}}).cache, "/home/me/.cache/hmc");
  EXPECT_EQ(read({{"HOME", "/home/me"}, {"XDG_CACHE_HOME", "/fast"}}).cache, "/fast/hmc");
  EXPECT_EQ(read({{"HOME", "/home/me"}, {"XDG_CACHE_HOME", "relative"}}).cache, "/home/me/.cache/hmc");
  EXPECT_EQ(read({{"HOME", "/home/me"}, {"HMC_CACHE", "/mine"}}).cache, "/mine");
  EXPECT_EQ(read({{"HOME", "/home/me"}, {"HMC_CACHE", "off"}}).cache, "");
}

}  // namespace
}  // namespace hmc::base
