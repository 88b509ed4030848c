#include "compat/memfabric/control_store.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <hmc/place.hpp>

#include <smem_hmc.h>

namespace hmc::memfabric {
namespace {

struct Process {
  std::mutex mutex;
  std::map<std::string, StoreService> services;  // by the address as the URL has it
  bool requires_tls = false;
  MemoryType device_memory = MemoryType::DEFAULT;
};
Process& process() { return per_process<Process>(); }

[[noreturn]] void reject(std::string_view text, int lowest_port) {
  throw Failure(SMEM_INVALID_PARAM,
                fmt::format("'{}' isn't a.b.c.d:port or [v6]:port with a port of {}..65535", text, lowest_port));
}

[[noreturn]] void reject_network(std::string_view text) {
  throw Failure(SMEM_INVALID_PARAM, fmt::format("hcomUrl '{}' isn't tcp://ip:port or tcp://ip/bits:port", text));
}

constexpr std::string_view scheme = "tcp://";

bool uses_hmc_tls() {
  const char* tls = std::getenv("HMC_TLS");
  const char* secret = std::getenv("HMC_SECRET");
  return tls != nullptr && std::strcmp(tls, "1") == 0 && secret != nullptr && *secret != '\0';
}

bool is_number(std::string_view host, bool v6) {
  std::byte number[sizeof(in6_addr)];
  return ::inet_pton(v6 ? AF_INET6 : AF_INET, std::string(host).c_str(), number) == 1;
}

constexpr int bits_of(const Url& url) { return url.is_v6 ? 128 : 32; }

bool is_in(const ifaddrs& one, const Network& network) {
  const int family = network.address.is_v6 ? AF_INET6 : AF_INET;
  if (one.ifa_addr == nullptr || one.ifa_addr->sa_family != family) return false;
  std::array<std::byte, sizeof(in6_addr)> wanted{};
  ::inet_pton(family, network.address.host.c_str(), wanted.data());
  std::array<std::byte, sizeof(in6_addr)> has{};
  if (network.address.is_v6)
    std::memcpy(has.data(), &reinterpret_cast<const sockaddr_in6*>(one.ifa_addr)->sin6_addr, sizeof(in6_addr));
  else
    std::memcpy(has.data(), &reinterpret_cast<const sockaddr_in*>(one.ifa_addr)->sin_addr, sizeof(in_addr));
  const auto whole = static_cast<std::size_t>(network.bits / 8);
  const int rest = network.bits % 8;
  return std::memcmp(wanted.data(), has.data(), whole) == 0 &&
         (rest == 0 || std::to_integer<unsigned>(wanted[whole] ^ has[whole]) >> (8 - rest) == 0);
}

bool is_empty(const char (&path)[SMEM_TLS_PATH_SIZE]) { return path[0] == '\0'; }

}  // namespace

std::string Url::address() const {
  if (host.empty()) return {};
  return is_v6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

Url parse_place(const std::string& text, int lowest_port) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) reject(text, lowest_port);
  std::string_view host(text.data(), colon);
  const std::string_view digits = std::string_view(text).substr(colon + 1);
  Url url;
  url.is_v6 = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (url.is_v6) host = host.substr(1, host.size() - 2);
  url.host = host;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), url.port);
  if (error != std::errc{} || end != digits.end() || url.port < lowest_port || url.port > 65535)
    reject(text, lowest_port);
  if (!is_number(host, url.is_v6)) reject(text, lowest_port);
  return url;
}

Url parse_url(const char* text) {
  require(text != nullptr, "the URL of the store is null");
  const std::string_view all(text);
  if (all == "hmc://") return {};
  if (all.substr(0, scheme.size()) != scheme)
    throw Failure(SMEM_INVALID_PARAM, fmt::format("the URL '{}' doesn't begin with tcp://", all));
  return parse_place(std::string(all.substr(scheme.size())), 1025);
}

Network parse_network(const char* text) {
  const std::string_view all(text);
  if (all.substr(0, scheme.size()) != scheme) reject_network(all);
  std::string place(all.substr(scheme.size()));
  std::optional<int> bits;
  const std::size_t slash = place.find('/');
  if (slash != std::string::npos) {
    const std::size_t colon = std::min(place.find(':', slash), place.size());
    const char* const end = place.data() + colon;
    int value = -1;
    const auto [stop, error] = std::from_chars(place.data() + slash + 1, end, value);
    if (error != std::errc{} || stop != end || value < 0) reject_network(all);
    bits = value;
    place.erase(slash, colon - slash);
  }
  const Url address = parse_place(place, 1024);
  if (bits && *bits > bits_of(address)) reject_network(all);
  const bool is_any = address.host == "0.0.0.0" || address.host == "::";
  return {address, bits.value_or(is_any ? 0 : bits_of(address))};
}

std::vector<Interface> interfaces_in(const Network& network) {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(all, &::freeifaddrs);
  std::vector<Interface> found;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    const auto has_name = [&](const Interface& other) { return other.name == one->ifa_name; };
    if (is_in(*one, network) && std::none_of(found.begin(), found.end(), has_name))
      found.push_back({one->ifa_name, (one->ifa_flags & IFF_LOOPBACK) != 0});
  }
  return found;
}

bool is_local(const Url& url) {
  return url.host == "0.0.0.0" || url.host == "::" || (!url.is_v6 && url.host.rfind("127.", 0) == 0) ||
         !interfaces_in({url, bits_of(url)}).empty();
}

void serve(const Url& url) {
  require(!url.host.empty(), "hmcrun serves the store of hmc://");
  const std::lock_guard lock(process().mutex);
  if (process().services.count(url.address()) != 0) return;
  process().services.emplace(url.address(), StoreService(url.address()));
  log(LogLevel::info, "this process serves the config store at " + url.address());
}

void serve_if_free(const Url& url) {
  if (url.host.empty() || !is_local(url)) return;
  try {
    serve(url);
  } catch (const Error& error) {
    if (error.detail().sys_errno != EADDRINUSE) throw;
    log(LogLevel::info, "another process serves at " + url.address());
  }
}

void stop_serving() {
  std::map<std::string, StoreService> services;
  const std::lock_guard lock(process().mutex);
  services.swap(process().services);
}

void stop_serving(const Url& url) {
  std::map<std::string, StoreService>::node_type ended;  // destroyed without the lock
  const std::lock_guard lock(process().mutex);
  ended = process().services.extract(url.address());
}

std::vector<std::string> status_of_services() {
  std::vector<std::string> all;
  const std::lock_guard lock(process().mutex);
  for (const auto& [address, service] : process().services)
    all.push_back(fmt::format(R"({{"type":"server","address":"{}","refusedConnections":{}}})", address,
                              service.refused_connections()));
  return all;
}

std::string status_of(const Session& session, const char* api) {
  const bool is_connected = session.store && session.store->is_connected();
  return fmt::format(R"({{"type":"client","api":"{}","url":"{}","worldSize":{},"rank":{},"connected":{}}})", api,
                     session.url, session.world, session.rank, is_connected);
}

bool use_network(const char (&hcom_url)[64]) {
  require(std::memchr(hcom_url, 0, sizeof hcom_url) != nullptr, "hcomUrl doesn't end");
  if (hcom_url[0] == '\0') return true;
  const Network network = parse_network(hcom_url);
  const std::vector<Interface> interfaces = interfaces_in(network);
  std::vector<std::string> names;
  if (network.bits > 0) {
    for (const Interface& each : interfaces)
      if (!each.is_loopback) names.push_back(each.name);
  }
  if (!names.empty()) ::setenv("HMC_NET", fmt::format("{}", fmt::join(names, ",")).c_str(), 0);
  const char* const used = std::getenv("HMC_NET");
  log(LogLevel::info, fmt::format("hcomUrl {}: TCP uses {}", hcom_url, used != nullptr ? used : "all interfaces"));
  return network.bits == 0 || !interfaces.empty();
}

void require_network(bool is_there, std::uint32_t operations) {
  constexpr std::uint32_t of_the_host = SMEMB_DATA_OP_HOST_RDMA | SMEMB_DATA_OP_HOST_TCP | SMEMB_DATA_OP_HOST_URMA;
  require(is_there || (operations & of_the_host) == 0, "hcomUrl: this machine has no address in this network");
}

void wait_for_stream(void* stream, int device) {
  if (stream == nullptr) return;
  const MemoryType type = device_memory(device);
  require(type != MemoryType::CPU, "there is no accelerator that has streams");
  const Place place(detail::allocator_for(type), device);
  const auto work = detail::make_transfers(place, TransferOrder(TransferMode::sync, stream));
  detail::synchronize(*work);
}

void require_security() {
  const std::lock_guard lock(process().mutex);
  if (process().requires_tls && !uses_hmc_tls())
    throw Failure(SMEM_ERROR,
                  "smem_set_conf_store_tls(true, ...) has failed, and nothing is sent in clear text instead");
}

void require_security(const smem_tls_config& tls, const char* name) {
  if (!tls.tlsEnable) return;
  const bool has_paths = !is_empty(tls.caPath) || !is_empty(tls.crlPath) || !is_empty(tls.certPath) ||
                         !is_empty(tls.keyPath) || !is_empty(tls.keyPassPath) || !is_empty(tls.packagePath) ||
                         !is_empty(tls.decrypterLibPath);
  if (has_paths) throw Failure(SMEM_ERROR, fmt::format("{}: certificates aren't supported; use HMC_TLS=1", name));
  if (!uses_hmc_tls()) throw Failure(SMEM_ERROR, fmt::format("{}: TLS needs HMC_TLS=1 and HMC_SECRET", name));
}

MemoryType device_memory(int device) {
  if (device == no_device) return MemoryType::CPU;
  const std::lock_guard lock(process().mutex);
  return detail::resolved(process().device_memory);
}

std::chrono::seconds checked_timeout(std::uint32_t seconds) {
  require(seconds >= 1, "a timeout is at least 1 s");
  return std::chrono::seconds(seconds);
}

}  // namespace hmc::memfabric

using namespace hmc::memfabric;  // NOLINT: the functions below are C's

int32_t smem_set_conf_store_tls(bool enable, const char* tls_info, const uint32_t tls_info_len) {
  return guarded("smem_set_conf_store_tls", [&] {
    const std::lock_guard lock(process().mutex);
    process().requires_tls = enable;
    if (!enable) return;
    const bool has_certificates = tls_info != nullptr && tls_info_len > 0;
    if (has_certificates) {
      throw Failure(SMEM_ERROR, "certificates aren't supported; pass no text, and run with HMC_TLS=1 and HMC_SECRET");
    }
    if (!uses_hmc_tls()) throw Failure(SMEM_ERROR, "TLS needs HMC_TLS=1 and HMC_SECRET in the environment");
  });
}

int32_t smem_set_config_store_tls_key(const char*, const uint32_t, const char*, const uint32_t,
                                      const smem_decrypt_handler) {
  return guarded("smem_set_config_store_tls_key", [] {
    const std::lock_guard lock(process().mutex);
    process().requires_tls = true;
    throw Failure(SMEM_ERROR, "private keys aren't supported: HMC_TLS=1 derives its keys from HMC_SECRET");
  });
}

int32_t smem_set_device_memory(int memory_type) {
  return guarded("smem_set_device_memory", [&] {
    require(memory_type >= 0 && memory_type <= static_cast<int>(hmc::MemoryType::OPENCL),
            "the number is none of hmc_memory_type's devices");
    const std::lock_guard lock(process().mutex);
    process().device_memory = static_cast<hmc::MemoryType>(memory_type);
  });
}
