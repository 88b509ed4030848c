// Library: libucp, opened at run time by the first wire that needs it.
#pragma once

#include <ucp/api/ucp.h>

#include <string>

namespace hmc::transport::ucx {

/// UCX is opened with dlopen and not linked. Loading it takes milliseconds, which a job on one node avoids. It also has
/// side effects on the process, which library.cpp prevents. UCX stays loaded until the process ends, because its
/// threads and thread-local data don't survive dlclose. Threads: any.
class Library {
 public:
  /// Throws Error{unavailable} with the text of dlerror().
  static const Library& get();
  /// The version, such as "1.13.1", or the reason why UCX is unavailable; for hmcinfo.
  static std::string describe();

  // UCX's functions, under their own names.
// clang-format off
#define HMC_UCX_FUNCTIONS(X) \
  X(ucp_get_version_string) X(ucp_config_read) X(ucp_config_modify) X(ucp_config_release) \
  X(ucp_config_print) X(ucp_init_version) X(ucp_cleanup) X(ucp_worker_create) \
  X(ucp_worker_destroy) X(ucp_worker_flush_nbx) X(ucp_worker_get_address) X(ucp_worker_release_address) \
  X(ucp_worker_progress) X(ucp_worker_get_efd) X(ucp_worker_arm) X(ucp_worker_set_am_recv_handler) \
  X(ucp_ep_create) X(ucp_ep_close_nbx) X(ucp_ep_print_info) X(ucp_am_send_nbx) \
  X(ucp_mem_map) X(ucp_mem_unmap) X(ucp_rkey_pack) X(ucp_rkey_buffer_release) \
  X(ucp_ep_rkey_unpack) X(ucp_rkey_destroy) X(ucp_put_nbx) X(ucp_get_nbx) \
  X(ucp_ep_flush_nbx) X(ucp_worker_fence) \
  X(ucp_request_check_status) X(ucp_request_free) X(ucs_status_string)
// clang-format on
#define HMC_UCX_POINTER(name) decltype(&::name) name = nullptr;
  HMC_UCX_FUNCTIONS(HMC_UCX_POINTER)
#undef HMC_UCX_POINTER

 private:
  Library();
};

}  // namespace hmc::transport::ucx
