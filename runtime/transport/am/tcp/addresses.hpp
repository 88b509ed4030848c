// The TCP addresses of a rank, and the order in which to try them.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/interfaces.hpp"

namespace hmc::transport::tcp {

using base::Ip;

struct Address {
  /// Equal for two processes in one network namespace of one kernel; loopback connects them.
  std::uint64_t machine = 0;
  std::uint16_t port = 0;
  std::vector<Ip> ips;  ///< the first of base::usable_addresses()
};

/// The address of this process, without the port. Throws Error if HMC_NET names an unknown interface.
Address own_address();
base::Bytes encode(const Address& address);
std::optional<Address> decode(base::ByteView bytes);

enum class Distance : std::uint8_t {
  machine,  ///< loopback
  network,  ///< in the same IP network as one of this machine's interfaces
  further,
};
/// Distance to the other end of a connection.
Distance distance_of(const Address& mine, const sockaddr_storage& theirs) noexcept;

struct Candidate {
  sockaddr_storage address{};
  socklen_t length = 0;
  Distance distance = Distance::further;
};
/// The addresses to try, best first. On one machine this is only loopback. Otherwise it is the addresses in a common IP
/// network, then the others. An address that both machines have leads back to this machine. Such an address and
/// loopback are tried last, and only if one of the machine numbers is unknown.
std::vector<Candidate> candidates(const Address& mine, const Address& theirs);

}  // namespace hmc::transport::tcp
