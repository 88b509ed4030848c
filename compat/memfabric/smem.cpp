// smem_init and smem_uninit.
#include <smem.h>

#include "compat/memfabric/control_store.hpp"
#include "compat/memfabric/sessions.hpp"

using namespace hmc::memfabric;  // NOLINT: the functions below are C's

uint32_t smem_get_abi_version() {
  constexpr uint32_t major = 1, minor = 3;
  return major << 16 | minor;
}

int32_t smem_init(uint32_t flags) {
  return guarded("smem_init", [&] { require_no_flags(flags); });
}

void smem_uninit() {
  end_trans();
  end_shm();
  end_bm();
  stop_serving();
}
