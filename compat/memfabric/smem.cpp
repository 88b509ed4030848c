// smem_init and smem_uninit.
#include <smem.h>

#include "compat/memfabric/control_store.hpp"
#include "compat/memfabric/shutdown.hpp"

using namespace hmc::memfabric;  // NOLINT: the functions below are C's

int32_t smem_init(uint32_t flags) {
  return guarded("smem_init", [&] { require_no_flags(flags); });
}

void smem_uninit() {
  end_trans();
  end_shm();
  end_bm();
  stop_serving();
}
