#include "runtime/transport/am/tcp/addresses.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "runtime/base/machine.hpp"

namespace hmc::transport::tcp {

using base::bytes_of;

namespace {

/// Limits the size of a rank's address.
constexpr std::size_t most_ips = 6;

/// Equal for two ranks that reach each other by loopback. 0 if unknown: then the ranks don't assume that they do.
std::uint64_t loopback_number() noexcept {
  const std::uint64_t machine = base::machine_id(), network = base::network_namespace();
  return machine == 0 || network == 0 ? 0 : machine ^ (network * 0x100000001b3ULL);
}

bool share_network(const Ip& mine, const Ip& theirs) noexcept {
  if (mine.bytes_used != theirs.bytes_used || mine.prefix != theirs.prefix) return false;
  for (unsigned bit = 0; bit < mine.prefix; ++bit) {
    const unsigned shift = 7 - bit % 8;
    if (((mine.bytes[bit / 8] ^ theirs.bytes[bit / 8]) >> shift & 1) != 0) return false;
  }
  return true;
}

Candidate candidate(const Ip& ip, std::uint16_t port, Distance distance) noexcept {
  Candidate out;
  out.distance = distance;
  if (ip.bytes_used == 4) {
    auto& to = reinterpret_cast<sockaddr_in&>(out.address);
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    std::memcpy(&to.sin_addr, ip.bytes.data(), 4);
    out.length = sizeof(sockaddr_in);
  } else {
    auto& to = reinterpret_cast<sockaddr_in6&>(out.address);
    to.sin6_family = AF_INET6;
    to.sin6_port = htons(port);
    std::memcpy(&to.sin6_addr, ip.bytes.data(), 16);
    out.length = sizeof(sockaddr_in6);
  }
  return out;
}

}  // namespace

Address own_address() {
  Address address;
  address.machine = loopback_number();
  address.ips = base::usable_addresses();
  if (address.ips.size() > most_ips) address.ips.resize(most_ips);
  return address;
}

base::Bytes encode(const Address& address) {
  base::ByteWriter out;
  out.number(address.machine).number(address.port).number(static_cast<std::uint8_t>(address.ips.size()));
  for (const Ip& ip : address.ips)
    out.number(ip.bytes_used).number(ip.prefix).raw(std::as_bytes(std::span(ip.bytes).first(ip.bytes_used)));
  return out.take();
}

std::optional<Address> decode(base::ByteView bytes) {
  base::ByteReader in(bytes);
  Address address;
  address.machine = in.number<std::uint64_t>();
  address.port = in.number<std::uint16_t>();
  const auto count = in.number<std::uint8_t>();
  for (unsigned i = 0; i < count && in.ok(); ++i) {
    Ip ip;
    ip.bytes_used = in.number<std::uint8_t>();
    ip.prefix = in.number<std::uint8_t>();
    if ((ip.bytes_used != 4 && ip.bytes_used != 16) || ip.prefix > 8 * ip.bytes_used) return std::nullopt;
    const base::ByteView raw = in.raw(ip.bytes_used);
    if (raw.size() == ip.bytes_used) std::memcpy(ip.bytes.data(), raw.data(), raw.size());
    address.ips.push_back(ip);
  }
  if (!in.complete() || address.port == 0) return std::nullopt;
  return address;
}

std::vector<Candidate> candidates(const Address& mine, const Address& theirs) {
  const auto loopback = [&] {
    return candidate({.bytes_used = 4, .prefix = 8, .bytes = {127, 0, 0, 1}}, theirs.port, Distance::machine);
  };
  std::vector<Candidate> all;
  if (mine.machine != 0 && mine.machine == theirs.machine) {
    all.push_back(loopback());
    return all;
  }
  enum class Class : std::uint8_t { shared_network, other_network, own };
  const auto class_of = [&](const Ip& ip) {
    Class best = Class::other_network;
    for (const Ip& own : mine.ips) {
      if (own.bytes_used == ip.bytes_used && own.bytes == ip.bytes) return Class::own;
      if (share_network(own, ip)) best = Class::shared_network;
    }
    return best;
  };
  const bool may_be_one_machine = mine.machine == 0 || theirs.machine == 0;
  for (const Class wanted : {Class::shared_network, Class::other_network, Class::own}) {
    // An address that this machine also has (such as a container bridge's) leads back to this machine.
    if (wanted == Class::own && !may_be_one_machine) continue;
    for (const Ip& ip : theirs.ips)
      if (class_of(ip) == wanted)
        all.push_back(
            candidate(ip, theirs.port, wanted == Class::shared_network ? Distance::network : Distance::further));
  }
  // There may be no other address.
  if (may_be_one_machine) all.push_back(loopback());
  return all;
}

Distance distance_of(const Address& mine, const sockaddr_storage& theirs) noexcept {
  Ip ip;
  const void* const bytes = bytes_of(reinterpret_cast<const sockaddr&>(theirs));
  if (bytes == nullptr) return Distance::further;
  ip.bytes_used = theirs.ss_family == AF_INET ? 4 : 16;
  std::memcpy(ip.bytes.data(), bytes, ip.bytes_used);
  const in6_addr& six = reinterpret_cast<const sockaddr_in6&>(theirs).sin6_addr;
  if (ip.bytes_used == 16 && IN6_IS_ADDR_LOOPBACK(&six)) return Distance::machine;
  if (ip.bytes_used == 16 && IN6_IS_ADDR_V4MAPPED(&six)) {  // accepted by a listener of both families
    std::copy_n(ip.bytes.begin() + 12, 4, ip.bytes.begin());
    ip.bytes_used = 4;
  }
  if (ip.bytes_used == 4 && ip.bytes[0] == 127) return Distance::machine;
  for (const Ip& own : mine.ips) {
    ip.prefix = own.prefix;
    if (share_network(own, ip)) return Distance::network;
  }
  return Distance::further;
}

}  // namespace hmc::transport::tcp
