#include "compat/memfabric/control_store.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>
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

bool uses_hmc_tls() {
  const char* tls = std::getenv("HMC_TLS");
  const char* secret = std::getenv("HMC_SECRET");
  return tls != nullptr && std::strcmp(tls, "1") == 0 && secret != nullptr && *secret != '\0';
}

bool is_number(std::string_view host, bool v6) {
  std::byte number[sizeof(in6_addr)];
  return ::inet_pton(v6 ? AF_INET6 : AF_INET, std::string(host).c_str(), number) == 1;
}

bool has_address(const ifaddrs& one, const Url& url) {
  if (one.ifa_addr == nullptr) return false;
  if (url.is_v6 && one.ifa_addr->sa_family == AF_INET6) {
    in6_addr wanted;
    ::inet_pton(AF_INET6, url.host.c_str(), &wanted);
    return std::memcmp(&reinterpret_cast<const sockaddr_in6*>(one.ifa_addr)->sin6_addr, &wanted, sizeof wanted) == 0;
  }
  if (!url.is_v6 && one.ifa_addr->sa_family == AF_INET) {
    in_addr wanted;
    ::inet_pton(AF_INET, url.host.c_str(), &wanted);
    return reinterpret_cast<const sockaddr_in*>(one.ifa_addr)->sin_addr.s_addr == wanted.s_addr;
  }
  return false;
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
  constexpr std::string_view scheme = "tcp://";
  if (all.substr(0, scheme.size()) != scheme)
    throw Failure(SMEM_INVALID_PARAM, fmt::format("the URL '{}' doesn't begin with tcp://", all));
  return parse_place(std::string(all.substr(scheme.size())), 1025);
}

std::string interface_of(const Url& url) {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(all, &::freeifaddrs);
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next)
    if (has_address(*one, url)) return one->ifa_name;
  return {};
}

bool is_local(const Url& url) {
  return url.host == "0.0.0.0" || url.host == "::" || (!url.is_v6 && url.host.rfind("127.", 0) == 0) ||
         !interface_of(url).empty();
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

int32_t smem_create_config_store(const char* url) {
  return guarded("smem_create_config_store", [&] {
    require_security();
    serve(parse_url(url));
  });
}

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
