// libcuda: sharing between processes: IPC handles, and physical memory.
#include <cstring>

#include "tests/fake_drivers/cuda_calls.hpp"

using namespace fake;
namespace cuda = hmc::memory::cuda;

FAKE_API int cuIpcGetMemHandle(cuda::IpcMemHandle* handle, Address address) {
  return run_here("cuIpcGetMemHandle", [&](int) {
    IpcContent content{};
    const Result result = memory().ipc_get(content, pointer(address));
    std::memcpy(handle, &content, sizeof content);
    return result;
  });
}
FAKE_API int cuIpcOpenMemHandle_v2(Address* address, cuda::IpcMemHandle handle, unsigned flags) {
  return run_here("cuIpcOpenMemHandle_v2", [&](int device) {
    if (flags != cuda::ipc_lazy_peer_access) return Result::invalid_value;
    IpcContent content{};
    std::memcpy(&content, &handle, sizeof content);
    void* made = nullptr;
    const Result result = memory().ipc_open(made, content, device);
    *address = reinterpret_cast<Address>(made);
    return result;
  });
}
FAKE_API int cuIpcCloseMemHandle(Address address) {
  return run_here("cuIpcCloseMemHandle", [&](int) { return memory().ipc_close(pointer(address)); });
}

FAKE_API int cuMemGetAllocationGranularity(std::size_t* bytes, const cuda::AllocationProp* prop, int which) {
  return run("cuMemGetAllocationGranularity", [&] {
    if (which != 0 && which != cuda::granularity_recommended) return Result::invalid_value;
    *bytes = Memory::granularity;
    return prop->location.type == 1 ? Result::ok : Result::invalid_value;
  });
}
FAKE_API int cuMemCreate(cuda::Handle* handle, std::size_t bytes, const cuda::AllocationProp* prop,
                         unsigned long long flags) {
  return run("cuMemCreate", [&] {
    if (flags != 0) return Result::invalid_value;
    if ((prop->handle_types & cuda::handle_fabric) != 0 && control().fabric != 1) return Result::not_supported;
    if (prop->type != 1 || (prop->handle_types & ~cuda::handle_fabric) != 1 || !is_device(prop->location.id))
      return Result::invalid_value;
    std::uint64_t made = 0;
    const Result result = memory().create(made, bytes, prop->location.id);
    *handle = made;
    return result;
  });
}
FAKE_API int cuMemRelease(cuda::Handle handle) {
  return run("cuMemRelease", [&] { return memory().release(handle); });
}
FAKE_API int cuMemExportToShareableHandle(void* shareable, cuda::Handle handle, int type, unsigned long long flags) {
  return run("cuMemExportToShareableHandle", [&] {
    if (flags != 0) return Result::invalid_value;
    if (type == cuda::handle_fabric) {
      IpcContent content{};
      const Result result = memory().fabric_get(content, handle);
      std::memcpy(shareable, &content, sizeof content);
      return result;
    }
    return type == 1 ? memory().export_fd(*static_cast<int*>(shareable), handle) : Result::not_supported;
  });
}
FAKE_API int cuMemImportFromShareableHandle(cuda::Handle* handle, void* os_handle, int type) {
  return run("cuMemImportFromShareableHandle", [&] {
    if (type != 1 && type != cuda::handle_fabric) return Result::not_supported;
    std::uint64_t made = 0;
    IpcContent content{};
    if (type == cuda::handle_fabric) std::memcpy(&content, os_handle, sizeof content);
    const Result result = type == cuda::handle_fabric
                              ? memory().fabric_open(made, content)
                              : memory().import_fd(made, static_cast<int>(reinterpret_cast<std::intptr_t>(os_handle)));
    *handle = made;
    return result;
  });
}
FAKE_API int cuMemAddressReserve(Address* address, std::size_t bytes, std::size_t alignment, Address,
                                 unsigned long long flags) {
  return run("cuMemAddressReserve", [&] {
    if (flags != 0) return Result::invalid_value;
    void* made = nullptr;
    const Result result = memory().reserve(made, bytes, alignment);
    *address = reinterpret_cast<Address>(made);
    return result;
  });
}
FAKE_API int cuMemAddressFree(Address address, std::size_t bytes) {
  return run("cuMemAddressFree", [&] { return memory().unreserve(pointer(address), bytes); });
}
FAKE_API int cuMemMap(Address address, std::size_t bytes, std::size_t offset, cuda::Handle handle,
                      unsigned long long flags) {
  return run("cuMemMap", [&] {
    if (flags != 0) return Result::invalid_value;
    return offset == 0 ? memory().map(pointer(address), bytes, handle) : Result::not_supported;
  });
}
FAKE_API int cuMemUnmap(Address address, std::size_t bytes) {
  return run("cuMemUnmap", [&] { return memory().unmap(pointer(address), bytes); });
}
FAKE_API int cuMemSetAccess(Address address, std::size_t bytes, const cuda::AccessDesc* access, std::size_t count) {
  return run("cuMemSetAccess", [&] {
    if (count != 1 || !is_device(access->location.id)) return Result::invalid_value;
    return memory().set_access(pointer(address), bytes, access->location.id, access->flags);
  });
}
