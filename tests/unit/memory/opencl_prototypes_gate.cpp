// Compares vendors/opencl_api.hpp with CL/cl.h. Compiled if it is installed, never run.
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "runtime/memory/vendors/opencl_api.hpp"
#include "tests/unit/memory/prototype_gate.hpp"

namespace hmc::memory::opencl {

HMC_SAME_CALL(Api, platforms, clGetPlatformIDs);
HMC_SAME_CALL(Api, platform_info, clGetPlatformInfo);
HMC_SAME_CALL(Api, devices, clGetDeviceIDs);
HMC_SAME_CALL(Api, device_info, clGetDeviceInfo);
HMC_SAME_CALL(Api, create_context, clCreateContext);
HMC_SAME_CALL(Api, release_context, clReleaseContext);
HMC_SAME_CALL(Api, create_queue, clCreateCommandQueue);
HMC_SAME_CALL(Api, release_queue, clReleaseCommandQueue);
HMC_SAME_CALL(Api, queue_info, clGetCommandQueueInfo);
HMC_SAME_CALL(Api, create_buffer, clCreateBuffer);
HMC_SAME_CALL(Api, release_buffer, clReleaseMemObject);
HMC_SAME_CALL(Api, write, clEnqueueWriteBuffer);
HMC_SAME_CALL(Api, read, clEnqueueReadBuffer);
HMC_SAME_CALL(Api, copy, clEnqueueCopyBuffer);
HMC_SAME_CALL(Api, write_rect, clEnqueueWriteBufferRect);
HMC_SAME_CALL(Api, read_rect, clEnqueueReadBufferRect);
HMC_SAME_CALL(Api, fill, clEnqueueFillBuffer);
HMC_SAME_CALL(Api, marker, clEnqueueMarkerWithWaitList);
HMC_SAME_CALL(Api, barrier, clEnqueueBarrierWithWaitList);
HMC_SAME_CALL(Api, flush, clFlush);
HMC_SAME_CALL(Api, finish, clFinish);
HMC_SAME_CALL(Api, wait_events, clWaitForEvents);
HMC_SAME_CALL(Api, event_info, clGetEventInfo);
HMC_SAME_CALL(Api, create_event, clCreateUserEvent);
HMC_SAME_CALL(Api, set_event, clSetUserEventStatus);
HMC_SAME_CALL(Api, release_event, clReleaseEvent);

static_assert(sizeof(Bitfield) == sizeof(cl_bitfield) && device_type_all == CL_DEVICE_TYPE_ALL);
static_assert(memory_read_write == CL_MEM_READ_WRITE && platform_version == CL_PLATFORM_VERSION);
static_assert(device_name == CL_DEVICE_NAME && device_global_bytes == CL_DEVICE_GLOBAL_MEM_SIZE);
static_assert(event_status == CL_EVENT_COMMAND_EXECUTION_STATUS && complete == CL_COMPLETE);
static_assert(queue_context == CL_QUEUE_CONTEXT);
static_assert(error_allocation == CL_MEM_OBJECT_ALLOCATION_FAILURE && error_out_of_resources == CL_OUT_OF_RESOURCES);
static_assert(error_out_of_host_memory == CL_OUT_OF_HOST_MEMORY);

}  // namespace hmc::memory::opencl
