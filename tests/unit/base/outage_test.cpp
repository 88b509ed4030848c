#include "runtime/base/outage.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cstdlib>
#include <hmc/error.hpp>
#include <optional>
#include <string>

#include "runtime/base/env.hpp"
#include "runtime/base/fd.hpp"

#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44
#endif

namespace hmc::base {
namespace {

/// -1: the kernel doesn't know the option.
int option_of(const UniqueFd& socket, int option) {
  int value = -1;
  socklen_t length = sizeof value;
  return ::getsockopt(socket.get(), IPPROTO_TCP, option, &value, &length) == 0 ? value : -1;
}
UniqueFd tcp_socket() { return UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

TEST(Outage, lost_data_is_repeated_each_second_until_the_limit) {
  const UniqueFd socket = tcp_socket(), patient = tcp_socket();
  if (option_of(socket, TCP_RTO_MAX_MS) < 0) GTEST_SKIP() << "a kernel before Linux 6.15";
  repeat_lost_data(socket.get(), 10);
  EXPECT_EQ(option_of(socket, TCP_RTO_MAX_MS), 1000);
  EXPECT_EQ(option_of(socket, TCP_USER_TIMEOUT), 0) << "a stopped reader would be lost";
  // By 15 attempts the kernel would give up after 14 s.
  repeat_lost_data(patient.get(), 60);
  EXPECT_GE(option_of(patient, TCP_RTO_MAX_MS), 4000);
}

TEST(Outage, lost_host_is_detected_one_attempt_after_the_limit) {
  const UniqueFd socket = tcp_socket();
  detect_lost_host(socket.get(), 20);
  const bool often = option_of(socket, TCP_RTO_MAX_MS) >= 0;
  EXPECT_EQ(option_of(socket, TCP_USER_TIMEOUT), often ? 20'750 : 41'000);
  EXPECT_EQ(option_of(socket, TCP_RTO_MAX_MS), often ? 1000 : -1);
  EXPECT_EQ(option_of(socket, TCP_KEEPIDLE), 1);
  EXPECT_EQ(option_of(socket, TCP_KEEPINTVL), 1);
}

TEST(Outage, times_that_tcp_cannot_hold_are_refused) {
  const char* const before = std::getenv("HMC_LOST_HOST_S");
  const std::optional<std::string> saved = before == nullptr ? std::nullopt : std::optional<std::string>(before);
  const auto read = [](const char* value) {
    ::setenv("HMC_LOST_HOST_S", value, 1);
    return Env::lost_host_s();
  };
  EXPECT_EQ(read("900"), 900);
  for (const char* const value : {"0", "901", "3600"}) {
    try {
      (void)read(value);
      ADD_FAILURE() << value << " was taken";
    } catch (const Error& error) {
      EXPECT_NE(std::string_view(error.what()).find("1..900"), std::string_view::npos) << error.what();
    }
  }
  if (saved)
    ::setenv("HMC_LOST_HOST_S", saved->c_str(), 1);
  else
    ::unsetenv("HMC_LOST_HOST_S");
}

}  // namespace
}  // namespace hmc::base
