// Compares vendors/runtime_api.hpp with HIP's headers. Compiled if they are installed, never run.
#define __HIP_PLATFORM_AMD__ 1
#include <hip/hip_runtime_api.h>

#include "runtime/memory/vendors/runtime_api.hpp"
#include "tests/unit/memory/prototype_gate.hpp"

namespace hmc::memory::runtime_api {

HMC_SAME_CALL(HipApi, range, hipMemGetAddressRange);
HMC_SAME_CALL(HipApi, granularity, hipMemGetAllocationGranularity);
HMC_SAME_CALL(HipApi, create, hipMemCreate);
HMC_SAME_CALL(HipApi, release, hipMemRelease);
HMC_SAME_CALL(HipApi, export_handle, hipMemExportToShareableHandle);
HMC_SAME_CALL(HipApi, import_handle, hipMemImportFromShareableHandle);
HMC_SAME_CALL(HipApi, reserve, hipMemAddressReserve);
HMC_SAME_CALL(HipApi, unreserve, hipMemAddressFree);
HMC_SAME_CALL(HipApi, map, hipMemMap);
HMC_SAME_CALL(HipApi, unmap, hipMemUnmap);
HMC_SAME_CALL(HipApi, set_access, hipMemSetAccess);
HMC_SAME_CALL(HipApi, allocate_signal, hipExtMallocWithFlags);
HMC_SAME_CALL(HipApi, wait_signal, hipStreamWaitValue64);
HMC_SAME_CALL(HipApi, load_module, hipModuleLoadData);
HMC_SAME_CALL(HipApi, unload_module, hipModuleUnload);
HMC_SAME_CALL(HipApi, get_function, hipModuleGetFunction);
HMC_SAME_CALL(HipApi, launch, hipModuleLaunchKernel);
HMC_SAME_CALL(HipApi, device_name, hipDeviceGetName);
HMC_SAME_CALL(HipApi, device_bytes, hipDeviceTotalMem);
// hipMalloc and its like have templates beside them in the header: their addresses can't be taken.
HMC_SAME_CALL(Api, version, hipRuntimeGetVersion);
HMC_SAME_CALL(Api, device_count, hipGetDeviceCount);
HMC_SAME_CALL(Api, get_device, hipGetDevice);
HMC_SAME_CALL(Api, set_device, hipSetDevice);
HMC_SAME_CALL(Api, error_name, hipGetErrorName);
HMC_SAME_CALL(Api, free, hipFree);
HMC_SAME_CALL(Api, free_host, hipHostFree);
HMC_SAME_CALL(Api, free_async, hipFreeAsync);
HMC_SAME_CALL(Api, pointer, hipPointerGetAttributes);
HMC_SAME_CALL(Api, destroy_stream, hipStreamDestroy);
HMC_SAME_CALL(Api, synchronize_stream, hipStreamSynchronize);
HMC_SAME_CALL(Api, query_stream, hipStreamQuery);
HMC_SAME_CALL(Api, destroy_event, hipEventDestroy);
HMC_SAME_CALL(Api, synchronize_event, hipEventSynchronize);
HMC_SAME_CALL(Api, copy, hipMemcpyAsync);
HMC_SAME_CALL(Api, copy_peer, hipMemcpyPeerAsync);
HMC_SAME_CALL(Api, copy_2d, hipMemcpy2DAsync);
HMC_SAME_CALL(Api, fill, hipMemsetAsync);
HMC_SAME_CALL(Api, create_stream, hipStreamCreateWithFlags);
HMC_SAME_CALL(Api, stream_wait, hipStreamWaitEvent);
HMC_SAME_CALL(Api, create_event, hipEventCreateWithFlags);
HMC_SAME_CALL(Api, record_event, hipEventRecord);
HMC_SAME_CALL(Api, query_event, hipEventQuery);
HMC_SAME_CALL(Api, pin, hipHostRegister);
HMC_SAME_CALL(Api, unpin, hipHostUnregister);
HMC_SAME_CALL(Api, launch_host, hipLaunchHostFunc);
HMC_SAME_CALL(Api, ipc_get, hipIpcGetMemHandle);
HMC_SAME_CALL(Api, ipc_open, hipIpcOpenMemHandle);
HMC_SAME_CALL(Api, ipc_close, hipIpcCloseMemHandle);

// Before ROCm 6 the fields had another order; HMC doesn't use that version's virtual memory.
#if HIP_VERSION_MAJOR >= 6
static_assert(sizeof(AllocationProp) == sizeof(hipMemAllocationProp));
static_assert(offsetof(AllocationProp, location) == offsetof(hipMemAllocationProp, location));
#endif
static_assert(sizeof(AccessDesc) == sizeof(hipMemAccessDesc));
static_assert(sizeof(PointerAttributes) >= sizeof(hipPointerAttribute_t));
static_assert(offsetof(PointerAttributes, is_managed) == offsetof(hipPointerAttribute_t, isManaged));
static_assert(sizeof(IpcMemHandle) == sizeof(hipIpcMemHandle_t));
static_assert(allocation_pinned == hipMemAllocationTypePinned && location_device == hipMemLocationTypeDevice);
static_assert(signal_memory == hipMallocSignalMemory && wait_until_past == hipStreamWaitValueGte);
static_assert(handle_posix_fd == hipMemHandleTypePosixFileDescriptor);
static_assert(access_read_write == hipMemAccessFlagsProtReadWrite);
static_assert(stream_non_blocking == hipStreamNonBlocking && event_disable_timing == hipEventDisableTiming);
static_assert(host_alloc_portable == hipHostMallocPortable && host_register_portable == hipHostRegisterPortable);
static_assert(attach_global == hipMemAttachGlobal);
static_assert(hipIpcMemLazyEnablePeerAccess == ipc_lazy_peer_access ||
              hipIpcMemLazyEnablePeerAccess == ipc_lazy_peer_access_older);
static_assert(to_device == hipMemcpyHostToDevice && to_host == hipMemcpyDeviceToHost);
static_assert(within == hipMemcpyDeviceToDevice);
static_assert(granularity_recommended == hipMemAllocationGranularityRecommended);
static_assert(offsetof(PointerAttributes, device) == offsetof(hipPointerAttribute_t, device));
static_assert(error_invalid_value == hipErrorInvalidValue && error_not_ready == hipErrorNotReady &&
              error_out_of_memory == hipErrorOutOfMemory);

}  // namespace hmc::memory::runtime_api
