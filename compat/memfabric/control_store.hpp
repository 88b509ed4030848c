// The config store: URLs, who serves, and a connection with a rank.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <hmc/memory_type.hpp>
#include <hmc/store.hpp>

#include <smem_bm_def.h>
#include "compat/memfabric/layer.hpp"

namespace hmc::memfabric {

/// A place in the network: "tcp://a.b.c.d:port" or "tcp://[v6]:port"; port 1025..65535. "hmc://" is the store of
/// hmcrun, with an empty address.
struct Url {
  std::string host;
  int port = 0;
  bool is_v6 = false;

  /// As <hmc/store.hpp> expects it.
  std::string address() const;
};
/// Throws Failure{SMEM_INVALID_PARAM}.
Url parse_url(const char* text);
/// "ip:port", without a scheme.
Url parse_place(const std::string& text, int lowest_port);
bool is_local(const Url& url);

/// The addresses that begin with the first `bits` bits of `address`.
struct Network {
  Url address;
  int bits = 0;
};
/// "tcp://ip:port", one address, or "tcp://ip/bits:port"; port 1024..65535. Throws Failure{SMEM_INVALID_PARAM}.
Network parse_network(const char* text);
struct Interface {
  std::string name;
  bool is_loopback = false;
};
/// The network interfaces of this machine that have an address in the network.
std::vector<Interface> interfaces_in(const Network& network);

/// Serves the store until smem_uninit. No effect if this process does already.
void serve(const Url& url);
/// As serve(), if the address is this machine's and no process serves there.
void serve_if_free(const Url& url);
void stop_serving();
/// One of them; another address has no effect.
void stop_serving(const Url& url);
/// A JSON object for each store that this process serves.
std::vector<std::string> status_of_services();

/// Each init function calls it: throws Failure if TLS was requested and isn't used.
void require_security();
void require_security(const smem_tls_config& tls, const char* name);

/// hcomUrl: the core chooses interfaces by HMC_NET, unless it is set. No effect: an empty text; a network of all
/// addresses; loopback, which programs pass for the port alone. False: this machine has no address in the network.
/// Throws Failure.
bool use_network(const char (&hcom_url)[64]);
/// Throws Failure if a data operation of the host needs the network and it isn't there. The operations of devices don't
/// use hcomUrl, so programs leave any network in it.
void require_network(bool is_there, std::uint32_t operations);

/// Returns after the work that the stream of this machine's accelerator has. Null: at once. Throws Failure.
void wait_for_stream(void* stream, int device);

/// The memory of device parts for the number of a device: CPU if there is no device.
MemoryType device_memory(int device);

/// What one of the three APIs has after its init function.
struct Session {
  std::string url;
  std::uint32_t world = 0;
  int device = 0;
  int rank = -1;
  bool has_network = true;  ///< of hcomUrl
  Timeout create_timeout{};
  Timeout control_timeout{};
  std::optional<Store> store;  ///< with the prefix of the API; none: this process only serves the store

  Store& joined() {
    if (!store) throw Failure(SMEM_NOT_STARTED, "this process only serves the store (startConfigStoreOnly)");
    return *store;
  }
};

/// A JSON object about the session's store.
std::string status_of(const Session& session, const char* api);

std::chrono::seconds checked_timeout(std::uint32_t seconds);
/// Throws unless one bit of `known` is set, and no other. C callers may pass any bits as an enum; C++ may read only
/// some of them as one.
void require_operations(const auto& bits, std::uint32_t known) {
  std::uint32_t operations;
  static_assert(sizeof bits == sizeof operations);
  std::memcpy(&operations, &bits, sizeof operations);
  require((operations & known) != 0 && (operations & ~known) == 0, "the data operation type is unknown");
}

}  // namespace hmc::memfabric
