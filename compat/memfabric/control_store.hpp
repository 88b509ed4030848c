// The config store: URLs, who serves, and a connection with a rank.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

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
/// Reports the network interface that has the address; empty: none.
std::string interface_of(const Url& url);

/// Serves the store until smem_uninit. No effect if this process does already.
void serve(const Url& url);
/// As serve(), if the address is this machine's and no process serves there.
void serve_if_free(const Url& url);
void stop_serving();

/// Each init function calls it: throws Failure if TLS was requested and isn't used.
void require_security();
void require_security(const smem_tls_config& tls, const char* name);

/// The memory of device parts for the number of a device: CPU if there is no device.
MemoryType device_memory(int device);

/// What one of the three APIs has after its init function.
struct Session {
  std::string url;
  std::uint32_t world = 0;
  int device = 0;
  int rank = -1;
  Timeout create_timeout{};
  Timeout control_timeout{};
  std::optional<Store> store;  ///< with the prefix of the API; none: this process only serves the store

  Store& joined() {
    if (!store) throw Failure(SMEM_NOT_STARTED, "this process only serves the store (startConfigStoreOnly)");
    return *store;
  }
};

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
