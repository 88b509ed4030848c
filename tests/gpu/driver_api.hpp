// Driver calls that the tests make themselves: device attributes, bare copies, and pools and events shared between
// processes. HMC's windows use neither shared pools (their memory comes from cuMemCreate, which is shared in the same
// way) nor shared events (the host orders processes). The tests check whether the driver supports both.
#pragma once

#include <cstddef>

#include "runtime/memory/vendor.hpp"

namespace hmc::gpu {

using Address = unsigned long long;
using Result = int;

inline constexpr int handle_posix_fd = 1;
// CUdevice_attribute
inline constexpr int attribute_integrated = 18;
inline constexpr int attribute_unified_addressing = 41;
inline constexpr int attribute_vmm = 102;
inline constexpr int attribute_posix_fd = 103;
inline constexpr int attribute_pools = 115;
inline constexpr int attribute_pool_handles = 119;  // a bit mask of handle types
inline constexpr int attribute_ipc_events = 125;
inline constexpr int attribute_fabric = 128;
inline constexpr unsigned event_between_processes = 2 | 4;  // CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS

/// CUmemPoolProps: pinned memory on device 0, exported as a POSIX descriptor.
struct PoolProps {
  int allocation_type = 1;
  int handle_types = handle_posix_fd;
  int location_type = 1;
  int location_id = 0;
  void* win32_security = nullptr;
  std::size_t max_bytes = 0;
  unsigned short usage = 0;
  unsigned char reserved[54] = {};
};
static_assert(sizeof(PoolProps) == 88);
/// CUmemPoolPtrExportData or CUipcEventHandle.
struct PointerData {
  unsigned char bytes[64] = {};
};

struct DriverApi {
  explicit DriverApi(memory::Library& from) : library(from) {}
  memory::Library& library;
  template <typename S> using Call = memory::Symbol<S>;
  static constexpr memory::Need optional = memory::Need::optional;

  Call<Result(int*)> device_count{library, "cuDeviceGetCount"};
  Call<Result(int*, int, int)> device_attribute{library, "cuDeviceGetAttribute"};
  Call<Result(int*, int, int)> can_access_peer{library, "cuDeviceCanAccessPeer", optional};
  /// Copies between any two addresses. A driver without it has one call per direction.
  Call<Result(Address, Address, std::size_t, void*)> copy{library, "cuMemcpyAsync", optional};
  Call<Result(Address, const void*, std::size_t, void*)> copy_to_device{library, "cuMemcpyHtoDAsync_v2"};
  Call<Result(void*, Address, std::size_t, void*)> copy_to_host{library, "cuMemcpyDtoHAsync_v2"};
  Call<Result(Address, Address, std::size_t, void*)> copy_within{library, "cuMemcpyDtoDAsync_v2"};
  Call<Result(void*)> synchronize{library, "cuStreamSynchronize"};

  Call<Result(void**, const PoolProps*)> create{library, "cuMemPoolCreate", optional};
  Call<Result(void*)> destroy{library, "cuMemPoolDestroy", optional};
  Call<Result(Address*, std::size_t, void*, void*)> allocate{library, "cuMemAllocFromPoolAsync", optional};
  Call<Result(Address, void*)> free{library, "cuMemFreeAsync", optional};
  Call<Result(void*, void*, int, unsigned long long)> export_pool{library, "cuMemPoolExportToShareableHandle",
                                                                  optional};
  Call<Result(void**, void*, int, unsigned long long)> import_pool{library, "cuMemPoolImportFromShareableHandle",
                                                                   optional};
  Call<Result(PointerData*, Address)> export_pointer{library, "cuMemPoolExportPointer", optional};
  Call<Result(Address*, void*, PointerData*)> import_pointer{library, "cuMemPoolImportPointer", optional};
  Call<Result(void**, unsigned)> create_event{library, "cuEventCreate"};
  Call<Result(void*)> destroy_event{library, "cuEventDestroy_v2"};
  Call<Result(void*, void*)> record_event{library, "cuEventRecord"};
  Call<Result(void*, void*, unsigned)> stream_wait{library, "cuStreamWaitEvent"};
  Call<Result(PointerData*, void*)> get_event_handle{library, "cuIpcGetEventHandle", optional};
  Call<Result(void**, PointerData)> open_event_handle{library, "cuIpcOpenEventHandle", optional};
  Call<Result(void**, int)> retain_context{library, "cuDevicePrimaryCtxRetain"};
  Call<Result(int)> release_context{library, "cuDevicePrimaryCtxRelease_v2"};
  Call<Result(void*)> push_context{library, "cuCtxPushCurrent_v2"};
  Call<Result(void**)> pop_context{library, "cuCtxPopCurrent_v2"};

  /// Attribute of device 0; 0 if the driver doesn't support the attribute.
  int attribute(int number) const {
    int value = 0;
    return device_attribute(&value, number, 0).ok() ? value : 0;
  }
};

/// Makes the primary context of device 0 current on this thread for a scope.
class Current {
 public:
  explicit Current(const DriverApi& api) : api_(api) {
    void* context = nullptr;
    if (api.retain_context(&context, 0).ok()) (void)api.push_context(context);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  ~Current() {
    void* popped = nullptr;
    (void)api_.pop_context(&popped);
    (void)api_.release_context(0);
  }

 private:
  const DriverApi& api_;
};

}  // namespace hmc::gpu
