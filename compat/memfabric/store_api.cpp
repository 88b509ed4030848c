// The C functions of <smem_config_store_api.h>, and those of other headers that concern the store alone.
#include <smem_bm.h>
#include <smem_config_store_api.h>

#include <fmt/ranges.h>

#include <initializer_list>

#include "compat/memfabric/control_store.hpp"
#include "compat/memfabric/sessions.hpp"

namespace hmc::memfabric {
namespace {

/// A handle of a store that this process serves, and the client that watches its ranks.
class StoreServer {
 public:
  explicit StoreServer(const Url& url) : address_(url.address()) { serve(url); }
  const std::string& address() const noexcept { return address_; }

  void on_broken(smem_config_store_broken_cb callback, void* context) {
    const std::lock_guard lock(mutex_);
    watcher_.reset();  // ends the calls of the former one
    if (callback == nullptr) return;
    auto broken = std::make_shared<std::uint32_t>(0);  // only on the client's thread
    watcher_ = Store::connect(address_, std::chrono::seconds(10));
    for (const char* api : {"smem.bm", "smem.shm"}) {
      (void)watcher_->with_prefix(api).watch_ranks([callback, context, broken](int rank, bool alive) {
        if (rank >= 0 && !alive) (void)callback(context, (*broken)++, static_cast<std::uint32_t>(rank));
      });
    }
  }

 private:
  std::string address_;
  std::mutex mutex_;
  std::optional<Store> watcher_;
};

Handles<StoreServer>& servers() { return per_process<Handles<StoreServer>>(); }

bool has_text(const char* text) { return text != nullptr && *text != '\0'; }

[[noreturn]] void fail_without_leaders() {
  throw Failure(SMEM_OBJECT_NOT_EXISTS, "a store has one server here, and no leader; use its URL");
}

}  // namespace
}  // namespace hmc::memfabric

using namespace hmc::memfabric;  // NOLINT: the functions below are C's

int32_t smem_create_config_store(const char* url, uint64_t /*flags*/) {
  return guarded("smem_create_config_store", [&] {
    require_security();
    serve(parse_url(url));
  });
}

void smem_destroy_config_store(const char* url) {
  (void)guarded("smem_destroy_config_store", [&] { stop_serving(parse_url(url)); });
}

int32_t smem_config_store_set_tls(const smem_tls_options_t* tls, const char* tls_library,
                                  const char* decrypter_library) {
  if (tls == nullptr || tls->enable_tls == 0) return smem_set_conf_store_tls(false, nullptr, 0);
  std::string paths;
  for (const char* each :
       {tls->tls_top_path, tls->tls_cert, tls->tls_crl_path, tls->tls_ca_path, tls->tls_ca_file, tls->tls_crl_file,
        tls->tls_private_key, tls->tls_private_key_password, tls_library, decrypter_library})
    if (has_text(each)) paths += each;
  return smem_set_conf_store_tls(true, paths.c_str(), static_cast<uint32_t>(paths.size()));
}

smem_config_store_t smem_config_store_create_server(const char* url) {
  return guarded_or<smem_config_store_t>("smem_config_store_create_server", nullptr, [&] {
    require_security();
    return servers().add(std::make_shared<StoreServer>(parse_url(url)));
  });
}

void smem_config_store_destroy_server(smem_config_store_t store, const char* url) {
  if (store == nullptr) return;
  (void)guarded("smem_config_store_destroy_server", [&] {
    servers().remove(store)->on_broken(nullptr, nullptr);
    if (url != nullptr) stop_serving(parse_url(url));
  });
}

void smem_config_store_set_server_broken_handler(smem_config_store_t store, smem_config_store_broken_cb callback,
                                                 void* context) {
  (void)guarded("smem_config_store_set_server_broken_handler",
                [&] { servers().find(store)->on_broken(callback, context); });
}

int32_t smem_config_store_set_leader_handler(smem_config_store_t store, smem_config_store_leader_change_cb, void*) {
  return store == nullptr ? -1 : 1;
}

int32_t smem_config_store_get_cluster_status(char* json, uint32_t bufLen, uint32_t* outLen) {
  return guarded("smem_config_store_get_cluster_status", [&] {
    require(json != nullptr || outLen != nullptr, "both results are null");
    std::vector<std::string> stores = status_of_services();
    for (const auto& status : {bm_status(), shm_status()})
      if (!status.empty()) stores.push_back(status);
    const std::string text = fmt::format("[{}]", fmt::join(stores, ","));
    if (outLen != nullptr) *outLen = static_cast<uint32_t>(text.size());
    if (json != nullptr) {
      if (bufLen <= text.size()) throw Failure(SMEM_BUFFER_TOO_SMALL, fmt::format("{} bytes", text.size() + 1));
      std::memcpy(json, text.c_str(), text.size() + 1);
    }
    if (stores.empty()) throw Failure(SMEM_OBJECT_NOT_EXISTS, "this process has no store");
  });
}

// ---- <smem_bm.h>: leaders
int32_t smem_bm_register_leader_change_callback(smem_bm_leader_change_cb, void*) {
  return guarded("smem_bm_register_leader_change_callback", [] { fail_without_leaders(); });
}

int32_t smem_bm_get_bindable_leader_address(char*, size_t, uint16_t*) {
  return guarded("smem_bm_get_bindable_leader_address", [] { fail_without_leaders(); });
}

int32_t smem_bm_get_bindable_leader_address_by_store_url(const char*, const smem_tls_config*, uint32_t, char*, size_t,
                                                         uint16_t*) {
  return guarded("smem_bm_get_bindable_leader_address_by_store_url", [] { fail_without_leaders(); });
}

void smem_bm_release_leader_address_store() {}  // nothing is cached
