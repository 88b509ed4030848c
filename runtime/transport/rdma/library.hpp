// Library: libibverbs, opened at run time by the first wire that needs it.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

// The header redefines these functions as macros that call other symbols. The table holds the functions themselves.
#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr

namespace hmc::transport::rdma {

/// Opened with dlopen and not linked: most machines don't have it. It stays loaded until the process ends. The
/// functions of the data path (ibv_post_send, ibv_poll_cq, ibv_req_notify_cq) are inline in the header and call the
/// driver of the device through the context. Threads: any.
class Library {
 public:
  /// Throws Error{unavailable} with the text of dlerror().
  static const Library& get();

  // The library's functions, under their own names.
// clang-format off
#define HMC_VERBS_FUNCTIONS(X) \
  X(ibv_get_device_list) X(ibv_free_device_list) X(ibv_get_device_name) X(ibv_open_device) \
  X(ibv_close_device) X(ibv_query_device) X(ibv_query_port) X(ibv_query_gid) \
  X(ibv_alloc_pd) X(ibv_dealloc_pd) X(ibv_reg_mr) X(ibv_dereg_mr) \
  X(ibv_create_comp_channel) X(ibv_destroy_comp_channel) X(ibv_create_cq) X(ibv_resize_cq) \
  X(ibv_destroy_cq) X(ibv_get_cq_event) X(ibv_ack_cq_events) X(ibv_create_qp) \
  X(ibv_modify_qp) X(ibv_destroy_qp) X(ibv_create_ah) X(ibv_destroy_ah) X(ibv_wc_status_str)
// clang-format on
#define HMC_VERBS_POINTER(name) decltype(&::name) name = nullptr;
  HMC_VERBS_FUNCTIONS(HMC_VERBS_POINTER)
#undef HMC_VERBS_POINTER
  /// Since rdma-core 34; null in an older library.
  ibv_mr* (*ibv_reg_dmabuf_mr)(ibv_pd* pd, std::uint64_t offset, std::size_t bytes, std::uint64_t address, int fd,
                               int access) = nullptr;

 private:
  Library();
};

}  // namespace hmc::transport::rdma
