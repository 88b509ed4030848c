// Where a rank can be reached by TCP, and which of its addresses to try.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/bytes.hpp"

namespace hmc::transport::tcp {

/// An IPv4 or IPv6 address of an interface.
struct Ip {
  std::uint8_t bytes_used = 4;  ///< 4 or 16
  std::uint8_t prefix = 0;      ///< bits that its network shares
  std::array<std::uint8_t, 16> bytes{};
};

struct Address {
  /// Equal where two processes share a kernel and its network namespace, so that loopback connects them.
  std::uint64_t machine = 0;
  std::uint16_t port = 0;
  std::vector<Ip> ips;  ///< of interfaces that are up, without loopback
};

/// Of this process, but for the port. Never throws: a machine whose interfaces can't be listed has loopback.
Address own_address() noexcept;
base::Bytes encode(const Address& address);
std::optional<Address> decode(base::ByteView bytes);

enum class Distance : std::uint8_t {
  machine,  ///< loopback
  network,  ///< an interface of ours is in its network
  further,
};
/// Of the other end of a connection.
Distance distance_of(const Address& mine, const sockaddr_storage& theirs) noexcept;

struct Candidate {
  sockaddr_storage address{};
  socklen_t length = 0;
  Distance distance = Distance::further;
};
/// Best first: loopback on one machine alone, else addresses of a network that both have, then the others. One that
/// both machines have leads to oneself: like loopback it is tried where a machine can't be told, at last.
std::vector<Candidate> candidates(const Address& mine, const Address& theirs);
std::string text_of(const Candidate& candidate);

}  // namespace hmc::transport::tcp
