// Outage: TCP connections that go on after the network was away for a while.
#pragma once

namespace hmc::base {

/// The largest HMC_LOST_HOST_S: with Linux's limits, 120 s between two attempts and 15 attempts, a connection lasts 924
/// s.
inline constexpr int longest_lost_host_s = 900;

/// After an outage shorter than `seconds` the connection goes on within a second; above 12 seconds, within a thirteenth
/// of them, because the kernel gives up after a number of attempts. By itself the kernel doubles the time between them,
/// so that an outage costs up to twice its length, which is what kernels before Linux 6.15 do. No effect on other
/// sockets.
void repeat_lost_data(int socket, int seconds) noexcept;

/// After a shorter outage the connection goes on within a second, and it fails if the peer's kernel doesn't answer for
/// `seconds`; with a kernel before Linux 6.15 for twice that time. Not for connections whose reader may be slow: the
/// time also runs while the peer's receive buffer is full.
void detect_lost_host(int socket, int seconds) noexcept;

}  // namespace hmc::base
