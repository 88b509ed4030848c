// The addresses of this machine's network interfaces.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace hmc::base {

/// An IPv4 or IPv6 address of an interface.
struct Ip {
  std::uint8_t bytes_used = 4;  ///< 4 or 16
  std::uint8_t prefix = 0;      ///< length of the network prefix in bits
  std::array<std::uint8_t, 16> bytes{};
};
std::string text_of(const Ip& ip);
/// The bytes of an IPv4 or IPv6 address; null for another family.
const void* bytes_of(const sockaddr& address) noexcept;
/// "10.0.0.1:5432", "[::1]:5432"; "?" for another family.
std::string text_of(const sockaddr_storage& address);
/// The address of the other end of a connection, for a log line.
std::string peer_text(int socket);

/// The addresses of the interfaces that are up and that HMC_NET selects, without loopback and link-local addresses.
/// Empty if the interfaces can't be listed. Throws Error{invalid_config} if HMC_NET names no interface of this machine.
std::vector<Ip> usable_addresses();

}  // namespace hmc::base
