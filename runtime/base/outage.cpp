#include "runtime/base/outage.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cstdio>

#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44
#endif

namespace hmc::base {

namespace {

constexpr int first_repeat_ms = 200;                     // Linux's TCP_RTO_MIN
constexpr int shortest_ms = 1000, longest_ms = 120'000;  // limits of TCP_RTO_MAX_MS

void set_option(int socket, int level, int option, int value) noexcept {
  (void)::setsockopt(socket, level, option, &value, sizeof value);
}

/// The kernel gives up after this number of attempts (net.ipv4.tcp_retries2).
int attempts() noexcept {
  static const int number = [] {
    int value = 15;
    if (std::FILE* const file = std::fopen("/proc/sys/net/ipv4/tcp_retries2", "re")) {
      if (std::fscanf(file, "%d", &value) != 1) value = 15;
      (void)std::fclose(file);
    }
    return value;
  }();
  return number;
}

/// The time after which the kernel gives up, if it waits at most `most_ms` between two attempts.
long patience_ms(int most_ms) noexcept {
  const int doublings = static_cast<int>(std::bit_width(static_cast<unsigned>(most_ms / first_repeat_ms))) - 1;
  const int doubled = std::min(attempts(), doublings);
  return ((2L << doubled) - 1) * first_repeat_ms + static_cast<long>(attempts() - doubled) * most_ms;
}

/// False with a kernel before Linux 6.15.
bool limit_repetitions(int socket, int most_ms) noexcept {
  return ::setsockopt(socket, IPPROTO_TCP, TCP_RTO_MAX_MS, &most_ms, sizeof most_ms) == 0;
}

}  // namespace

void repeat_lost_data(int socket, int seconds) noexcept {
  int most_ms = shortest_ms;
  while (most_ms < longest_ms && patience_ms(most_ms) < (seconds + 2) * 1000L) most_ms += 500;
  (void)limit_repetitions(socket, most_ms);
}

void detect_lost_host(int socket, int seconds) noexcept {
  // An idle connection: probes. The kernels answer them, so a stopped process isn't lost.
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  // Data that isn't acknowledged. The limit leaves time for one attempt after the end of an outage. It replaces
  // TCP_KEEPCNT and tcp_retries2, so attempts may be as frequent as the kernel allows.
  const bool often = limit_repetitions(socket, shortest_ms);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, often ? seconds * 1000 + 750 : seconds * 2000 + 1000);
}

}  // namespace hmc::base
