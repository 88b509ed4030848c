// Compares vendors/cuda_api.hpp with cuda.h. Compiled if a CUDA toolkit is installed, never run.
#include <cuda.h>

#include "runtime/memory/vendors/cuda_api.hpp"
#include "tests/unit/memory/prototype_gate.hpp"

namespace hmc::memory::cuda {

HMC_SAME_CALL(Api, init, cuInit);
HMC_SAME_CALL(Api, driver_version, cuDriverGetVersion);
HMC_SAME_CALL(Api, device_count, cuDeviceGetCount);
HMC_SAME_CALL(Api, device, cuDeviceGet);
HMC_SAME_CALL(Api, device_name, cuDeviceGetName);
HMC_SAME_CALL(Api, device_bytes, cuDeviceTotalMem);
HMC_SAME_CALL(Api, device_attribute, cuDeviceGetAttribute);
HMC_SAME_CALL(Api, error_name, cuGetErrorName);
HMC_SAME_CALL(Api, retain_context, cuDevicePrimaryCtxRetain);
HMC_SAME_CALL(Api, release_context, cuDevicePrimaryCtxRelease);
HMC_SAME_CALL(Api, push_context, cuCtxPushCurrent);
HMC_SAME_CALL(Api, pop_context, cuCtxPopCurrent);
HMC_SAME_CALL(Api, context_device, cuCtxGetDevice);
HMC_SAME_CALL(Api, allocate, cuMemAlloc);
HMC_SAME_CALL(Api, free, cuMemFree);
HMC_SAME_CALL(Api, allocate_host, cuMemHostAlloc);
HMC_SAME_CALL(Api, free_host, cuMemFreeHost);
HMC_SAME_CALL(Api, allocate_managed, cuMemAllocManaged);
HMC_SAME_CALL(Api, allocate_async, cuMemAllocAsync);
HMC_SAME_CALL(Api, free_async, cuMemFreeAsync);
HMC_SAME_CALL(Api, range, cuMemGetAddressRange);
HMC_SAME_CALL(Api, pointer_attributes, cuPointerGetAttributes);
HMC_SAME_CALL(Api, pin, cuMemHostRegister);
HMC_SAME_CALL(Api, unpin, cuMemHostUnregister);
HMC_SAME_CALL(Api, to_device, cuMemcpyHtoDAsync);
HMC_SAME_CALL(Api, to_host, cuMemcpyDtoHAsync);
HMC_SAME_CALL(Api, within, cuMemcpyDtoDAsync);
HMC_SAME_CALL(Api, peer, cuMemcpyPeerAsync);
HMC_SAME_CALL(Api, copy_2d, cuMemcpy2DAsync);
HMC_SAME_CALL(Api, fill, cuMemsetD8Async);
HMC_SAME_CALL(Api, create_stream, cuStreamCreate);
HMC_SAME_CALL(Api, destroy_stream, cuStreamDestroy);
HMC_SAME_CALL(Api, synchronize_stream, cuStreamSynchronize);
HMC_SAME_CALL(Api, query_stream, cuStreamQuery);
HMC_SAME_CALL(Api, stream_wait, cuStreamWaitEvent);
HMC_SAME_CALL(Api, create_event, cuEventCreate);
HMC_SAME_CALL(Api, destroy_event, cuEventDestroy);
HMC_SAME_CALL(Api, record_event, cuEventRecord);
HMC_SAME_CALL(Api, synchronize_event, cuEventSynchronize);
HMC_SAME_CALL(Api, query_event, cuEventQuery);
HMC_SAME_CALL(Api, ipc_get, cuIpcGetMemHandle);
HMC_SAME_CALL(Api, ipc_open, cuIpcOpenMemHandle);
HMC_SAME_CALL(Api, ipc_close, cuIpcCloseMemHandle);
HMC_SAME_CALL(Api, granularity, cuMemGetAllocationGranularity);
HMC_SAME_CALL(Api, create, cuMemCreate);
HMC_SAME_CALL(Api, release, cuMemRelease);
HMC_SAME_CALL(Api, export_handle, cuMemExportToShareableHandle);
HMC_SAME_CALL(Api, import_handle, cuMemImportFromShareableHandle);
HMC_SAME_CALL(Api, reserve, cuMemAddressReserve);
HMC_SAME_CALL(Api, unreserve, cuMemAddressFree);
HMC_SAME_CALL(Api, map, cuMemMap);
HMC_SAME_CALL(Api, unmap, cuMemUnmap);
HMC_SAME_CALL(Api, set_access, cuMemSetAccess);
HMC_SAME_CALL(Api, load_module, cuModuleLoadData);
HMC_SAME_CALL(Api, unload_module, cuModuleUnload);
HMC_SAME_CALL(Api, get_function, cuModuleGetFunction);
HMC_SAME_CALL(Api, launch, cuLaunchKernel);
HMC_SAME_CALL(Api, host_address, cuMemHostGetDevicePointer);
HMC_SAME_CALL(Api, write_word, cuStreamWriteValue32);
HMC_SAME_CALL(Api, wait_word, cuStreamWaitValue32);
static_assert(attribute_major == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(attribute_minor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
static_assert(host_register_portable == CU_MEMHOSTREGISTER_PORTABLE);
static_assert(host_register_mapped == CU_MEMHOSTREGISTER_DEVICEMAP);
static_assert(wait_until_past == CU_STREAM_WAIT_VALUE_GEQ);

// The header's macros select the version of a name; these are the versions that HMC loads.
#define HMC_TEXT2(x) #x
#define HMC_TEXT(x) HMC_TEXT2(x)
constexpr bool same_text(const char* a, const char* b) {
  for (; *a != '\0' && *a == *b; ++a, ++b) {
  }
  return *a == *b;
}
static_assert(same_text(HMC_TEXT(cuMemAlloc), "cuMemAlloc_v2"));
static_assert(same_text(HMC_TEXT(cuMemFree), "cuMemFree_v2"));
static_assert(same_text(HMC_TEXT(cuDeviceTotalMem), "cuDeviceTotalMem_v2"));
static_assert(same_text(HMC_TEXT(cuDevicePrimaryCtxRelease), "cuDevicePrimaryCtxRelease_v2"));
static_assert(same_text(HMC_TEXT(cuCtxPushCurrent), "cuCtxPushCurrent_v2"));
static_assert(same_text(HMC_TEXT(cuCtxPopCurrent), "cuCtxPopCurrent_v2"));
static_assert(same_text(HMC_TEXT(cuMemcpyHtoDAsync), "cuMemcpyHtoDAsync_v2"));
static_assert(same_text(HMC_TEXT(cuMemcpyDtoHAsync), "cuMemcpyDtoHAsync_v2"));
static_assert(same_text(HMC_TEXT(cuMemcpyDtoDAsync), "cuMemcpyDtoDAsync_v2"));
static_assert(same_text(HMC_TEXT(cuMemcpy2DAsync), "cuMemcpy2DAsync_v2"));
static_assert(same_text(HMC_TEXT(cuStreamDestroy), "cuStreamDestroy_v2"));
static_assert(same_text(HMC_TEXT(cuEventDestroy), "cuEventDestroy_v2"));
static_assert(same_text(HMC_TEXT(cuIpcOpenMemHandle), "cuIpcOpenMemHandle_v2"));
static_assert(same_text(HMC_TEXT(cuMemGetAddressRange), "cuMemGetAddressRange_v2"));

#define HMC_SAME_FIELD(ours, our_field, theirs, their_field)                  \
  static_assert(offsetof(ours, our_field) == offsetof(theirs, their_field) && \
                    sizeof(ours::our_field) == sizeof(theirs::their_field),   \
                #our_field " isn't " #their_field)
static_assert(sizeof(AllocationProp) == sizeof(CUmemAllocationProp));
HMC_SAME_FIELD(AllocationProp, type, CUmemAllocationProp, type);
HMC_SAME_FIELD(AllocationProp, handle_types, CUmemAllocationProp, requestedHandleTypes);
HMC_SAME_FIELD(AllocationProp, location, CUmemAllocationProp, location);
HMC_SAME_FIELD(AllocationProp, flags, CUmemAllocationProp, allocFlags);
static_assert(sizeof(Location) == sizeof(CUmemLocation) && offsetof(Location, id) == offsetof(CUmemLocation, id));
static_assert(sizeof(AccessDesc) == sizeof(CUmemAccessDesc));
HMC_SAME_FIELD(AccessDesc, flags, CUmemAccessDesc, flags);
static_assert(sizeof(IpcMemHandle) == sizeof(CUipcMemHandle));
static_assert(sizeof(Copy2D) == sizeof(CUDA_MEMCPY2D));
HMC_SAME_FIELD(Copy2D, source_type, CUDA_MEMCPY2D, srcMemoryType);
HMC_SAME_FIELD(Copy2D, source_host, CUDA_MEMCPY2D, srcHost);
HMC_SAME_FIELD(Copy2D, source_device, CUDA_MEMCPY2D, srcDevice);
HMC_SAME_FIELD(Copy2D, source_pitch, CUDA_MEMCPY2D, srcPitch);
HMC_SAME_FIELD(Copy2D, destination_x, CUDA_MEMCPY2D, dstXInBytes);
HMC_SAME_FIELD(Copy2D, destination_type, CUDA_MEMCPY2D, dstMemoryType);
HMC_SAME_FIELD(Copy2D, destination_host, CUDA_MEMCPY2D, dstHost);
HMC_SAME_FIELD(Copy2D, destination_device, CUDA_MEMCPY2D, dstDevice);
HMC_SAME_FIELD(Copy2D, destination_pitch, CUDA_MEMCPY2D, dstPitch);
HMC_SAME_FIELD(Copy2D, width, CUDA_MEMCPY2D, WidthInBytes);
HMC_SAME_FIELD(Copy2D, height, CUDA_MEMCPY2D, Height);

static_assert(error_out_of_memory == CUDA_ERROR_OUT_OF_MEMORY && error_not_ready == CUDA_ERROR_NOT_READY);
static_assert(attribute_vmm == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
static_assert(attribute_posix_fd == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
static_assert(pointer_memory_type == CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
static_assert(pointer_is_managed == CU_POINTER_ATTRIBUTE_IS_MANAGED);
static_assert(pointer_device == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
static_assert(memory_host == CU_MEMORYTYPE_HOST && memory_device == CU_MEMORYTYPE_DEVICE);
static_assert(stream_non_blocking == CU_STREAM_NON_BLOCKING && event_disable_timing == CU_EVENT_DISABLE_TIMING);
static_assert(host_alloc_portable == CU_MEMHOSTALLOC_PORTABLE && attach_global == CU_MEM_ATTACH_GLOBAL);
static_assert(ipc_lazy_peer_access == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
static_assert(allocation_pinned == CU_MEM_ALLOCATION_TYPE_PINNED && location_device == CU_MEM_LOCATION_TYPE_DEVICE);
static_assert(handle_posix_fd == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
static_assert(access_read_write == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
static_assert(granularity_recommended == CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);

}  // namespace hmc::memory::cuda
