#include "runtime/base/interfaces.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <set>
#include <string_view>

#include <hmc/error.hpp>

#include "runtime/base/env.hpp"

namespace hmc::base {

namespace {

std::uint8_t bits_of(const sockaddr* mask, std::size_t bytes) noexcept {
  const void* const from = mask != nullptr ? bytes_of(*mask) : nullptr;
  std::array<std::uint8_t, 16> all{};
  if (from == nullptr) return static_cast<std::uint8_t>(8 * bytes);
  std::memcpy(all.data(), from, bytes);
  int bits = 0;
  for (std::size_t i = 0; i < bytes; ++i) bits += std::popcount(all[i]);
  return static_cast<std::uint8_t>(bits);
}

/// HMC_NET: "eth0,eth1": only these; "^docker0": all others.
class Selection {
 public:
  explicit Selection(const std::string& text) {
    for (std::string_view rest = text; !rest.empty();) {
      std::string_view name = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(name.size() + 1, rest.size()));
      const bool excludes = name.starts_with('^');
      if (excludes) name.remove_prefix(1);
      if (!name.empty()) (excludes ? excluded_ : included_).emplace(name);
    }
  }
  bool contains(const char* name) const {
    return !excluded_.contains(name) && (included_.empty() || included_.contains(name));
  }
  /// `present`: the interfaces of this machine.
  void require_known(const std::set<std::string>& present) const {
    for (const auto* const names : {&included_, &excluded_})
      for (const std::string& name : *names)
        if (!present.contains(name))
          throw Error(Code::invalid_config, "HMC_NET", fmt::format("this machine has no network interface '{}'", name),
                      fmt::format("its interfaces: {}", fmt::join(present, ", ")));
  }

 private:
  std::set<std::string> included_, excluded_;
};

}  // namespace

const void* bytes_of(const sockaddr& address) noexcept {
  if (address.sa_family == AF_INET) return &reinterpret_cast<const sockaddr_in&>(address).sin_addr;
  if (address.sa_family == AF_INET6) return &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  return nullptr;
}

std::string text_of(const Ip& ip) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  return ::inet_ntop(ip.bytes_used == 4 ? AF_INET : AF_INET6, ip.bytes.data(), text.data(), text.size());
}

std::string text_of(const sockaddr_storage& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* const bytes = bytes_of(reinterpret_cast<const sockaddr&>(address));
  if (bytes == nullptr || ::inet_ntop(address.ss_family, bytes, text.data(), text.size()) == nullptr) return "?";
  const bool six = address.ss_family == AF_INET6;
  const std::uint16_t port = ntohs(six ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                       : reinterpret_cast<const sockaddr_in&>(address).sin_port);
  return six ? fmt::format("[{}]:{}", text.data(), port) : fmt::format("{}:{}", text.data(), port);
}

std::string peer_text(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    return "a process that has disconnected";
  return address.ss_family == AF_UNIX ? "a process of this machine" : text_of(address);
}

std::vector<Ip> usable_addresses() {
  std::vector<Ip> ips;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return ips;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(first, &::freeifaddrs);
  const Selection selection(Env::net());
  std::set<std::string> present;
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    present.insert(each->ifa_name);
    constexpr unsigned up = IFF_UP | IFF_RUNNING;
    if (each->ifa_addr == nullptr || (each->ifa_flags & up) != up || (each->ifa_flags & IFF_LOOPBACK) != 0) continue;
    const void* const bytes = bytes_of(*each->ifa_addr);
    if (bytes == nullptr || !selection.contains(each->ifa_name)) continue;
    Ip ip;
    ip.bytes_used = each->ifa_addr->sa_family == AF_INET ? 4 : 16;
    std::memcpy(ip.bytes.data(), bytes, ip.bytes_used);
    if (ip.bytes_used == 16 && ip.bytes[0] == 0xfe && (ip.bytes[1] & 0xc0) == 0x80) continue;  // link-local
    ip.prefix = bits_of(each->ifa_netmask, ip.bytes_used);
    ips.push_back(ip);
  }
  selection.require_known(present);
  return ips;
}

}  // namespace hmc::base
