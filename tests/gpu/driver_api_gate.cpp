// Compares driver_api.hpp with cuda.h. Compiled if a CUDA toolkit is present, never run.
#include <cuda.h>

#include "tests/gpu/driver_api.hpp"
#include "tests/unit/memory/prototype_gate.hpp"

namespace hmc::gpu {

HMC_SAME_CALL(DriverApi, device_count, cuDeviceGetCount);
HMC_SAME_CALL(DriverApi, device_attribute, cuDeviceGetAttribute);
HMC_SAME_CALL(DriverApi, can_access_peer, cuDeviceCanAccessPeer);
HMC_SAME_CALL(DriverApi, copy, cuMemcpyAsync);
HMC_SAME_CALL(DriverApi, copy_to_device, cuMemcpyHtoDAsync);
HMC_SAME_CALL(DriverApi, copy_to_host, cuMemcpyDtoHAsync);
HMC_SAME_CALL(DriverApi, copy_within, cuMemcpyDtoDAsync);
HMC_SAME_CALL(DriverApi, synchronize, cuStreamSynchronize);
HMC_SAME_CALL(DriverApi, create, cuMemPoolCreate);
HMC_SAME_CALL(DriverApi, destroy, cuMemPoolDestroy);
HMC_SAME_CALL(DriverApi, allocate, cuMemAllocFromPoolAsync);
HMC_SAME_CALL(DriverApi, free, cuMemFreeAsync);
HMC_SAME_CALL(DriverApi, export_pool, cuMemPoolExportToShareableHandle);
HMC_SAME_CALL(DriverApi, import_pool, cuMemPoolImportFromShareableHandle);
HMC_SAME_CALL(DriverApi, export_pointer, cuMemPoolExportPointer);
HMC_SAME_CALL(DriverApi, import_pointer, cuMemPoolImportPointer);
HMC_SAME_CALL(DriverApi, create_event, cuEventCreate);
HMC_SAME_CALL(DriverApi, destroy_event, cuEventDestroy);
HMC_SAME_CALL(DriverApi, record_event, cuEventRecord);
HMC_SAME_CALL(DriverApi, stream_wait, cuStreamWaitEvent);
HMC_SAME_CALL(DriverApi, get_event_handle, cuIpcGetEventHandle);
HMC_SAME_CALL(DriverApi, open_event_handle, cuIpcOpenEventHandle);
HMC_SAME_CALL(DriverApi, retain_context, cuDevicePrimaryCtxRetain);
HMC_SAME_CALL(DriverApi, release_context, cuDevicePrimaryCtxRelease);
HMC_SAME_CALL(DriverApi, push_context, cuCtxPushCurrent);
HMC_SAME_CALL(DriverApi, pop_context, cuCtxPopCurrent);

static_assert(sizeof(PoolProps) == sizeof(CUmemPoolProps));
static_assert(handle_posix_fd == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
static_assert(event_between_processes == (CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
static_assert(attribute_integrated == CU_DEVICE_ATTRIBUTE_INTEGRATED);
static_assert(attribute_unified_addressing == CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
static_assert(attribute_vmm == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
static_assert(attribute_posix_fd == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
static_assert(attribute_pools == CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
static_assert(attribute_pool_handles == CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES);
static_assert(attribute_ipc_events == CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED);
static_assert(attribute_fabric == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED);

}  // namespace hmc::gpu
