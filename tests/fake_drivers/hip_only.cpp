// Functions of libamdhip64 that libmusart lacks: virtual memory, with both conventions of the import call, and others.
#include <cstdio>

#include "runtime/memory/vendors/runtime_api.hpp"
#include "tests/fake_drivers/kernels.hpp"
#include "tests/fake_drivers/result_numbers.hpp"
#include "tests/fake_drivers/runtime_family.hpp"

namespace {

using namespace fake;
namespace api = hmc::memory::runtime_api;

// hip_runtime_api.h, HIP 5.2: hipHostMalloc*, hipStreamWaitValue*.
constexpr unsigned host_mapped = 2, host_write_combined = 4, host_numa_user = 0x20000000, host_coherent = 0x40000000,
                   host_non_coherent = 0x80000000;
constexpr unsigned last_condition = 3;

StreamName here(void* stream) { return {stream, current_device}; }
template <typename Work> int run(const char* name, Work&& work) {
  return call(name, code_of, 999, static_cast<Work&&>(work));
}
std::uint64_t number(void* handle) { return reinterpret_cast<std::uint64_t>(handle); }
bool is_device(int device) { return device >= 0 && device < control().devices; }

}  // namespace

FAKE_API int hipHostMalloc(void** address, std::size_t bytes, unsigned flags) {
  return run("hipHostMalloc", [&] {
    constexpr unsigned both = host_coherent | host_non_coherent;
    constexpr unsigned known = api::host_alloc_portable | host_mapped | host_write_combined | host_numa_user |
                               host_coherent | host_non_coherent;
    if ((flags & ~known) != 0 || (flags & both) == both) return Result::invalid_value;
    return memory().allocate_host(*address, {.bytes = bytes,
                                             .device = current_device,
                                             .portable = (flags & api::host_alloc_portable) != 0,
                                             .mapped = (flags & host_mapped) != 0});
  });
}
FAKE_API int hipHostFree(void* address) {
  return run("hipHostFree", [&] { return memory().free_host(address); });
}
FAKE_API int hipExtMallocWithFlags(void** address, std::size_t bytes, unsigned flags) {
  return run("hipExtMallocWithFlags", [&] {
    if (flags != api::signal_memory || bytes != 8) return Result::invalid_value;
    return memory().allocate_host(*address, {.bytes = bytes, .device = current_device, .signal = true});
  });
}
FAKE_API int hipStreamWaitValue64(void* stream, void* word, std::uint64_t value, unsigned flags, std::uint64_t mask) {
  return run("hipStreamWaitValue64", [&] {
    HostBlock block;
    if (flags > last_condition || !memory().find_host(block, word) || !block.signal) return Result::invalid_value;
    return streams().wait_word(
        here(stream), word, {.bytes = 8, .value = value, .mask = mask, .until = static_cast<WordWait::Until>(flags)});
  });
}
FAKE_API int hipDeviceGetName(char* name, int room, int device) {
  std::snprintf(name, static_cast<std::size_t>(room), "fake HIP device %d", device);
  return 0;
}
FAKE_API int hipDeviceTotalMem(std::size_t* bytes, int) {
  *bytes = control().device_bytes;
  return 0;
}
FAKE_API int hipMemGetAddressRange(void** start, std::size_t* bytes, void* address) {
  return run("hipMemGetAddressRange", [&] {
    Found found;
    if (!memory().find(found, address)) return Result::invalid_value;
    *start = found.start;  // without a check for null, as in HIP
    *bytes = found.bytes;
    return Result::ok;
  });
}
FAKE_API int hipMemGetAllocationGranularity(std::size_t* bytes, const api::AllocationProp* prop, int which) {
  return run("hipMemGetAllocationGranularity", [&] {
    if (which != 0 && which != api::granularity_recommended) return Result::invalid_value;
    *bytes = Memory::granularity;
    return prop->location.type == 1 ? Result::ok : Result::invalid_value;
  });
}
FAKE_API int hipMemCreate(void** handle, std::size_t bytes, const api::AllocationProp* prop, unsigned long long flags) {
  return run("hipMemCreate", [&] {
    if (flags != 0) return Result::invalid_value;
    if (prop->type != 1 || prop->handle_type != 1 || !is_device(prop->location.id)) return Result::invalid_value;
    std::uint64_t made = 0;
    const Result result = memory().create(made, bytes, prop->location.id);
    *handle = reinterpret_cast<void*>(made);
    return result;
  });
}
FAKE_API int hipMemRelease(void* handle) {
  return run("hipMemRelease", [&] { return memory().release(number(handle)); });
}
FAKE_API int hipMemExportToShareableHandle(void* shareable, void* handle, int type, unsigned long long) {
  return run("hipMemExportToShareableHandle", [&] {
    return type == 1 ? memory().export_fd(*static_cast<int*>(shareable), number(handle)) : Result::invalid_value;
  });
}
FAKE_API int hipMemImportFromShareableHandle(void** handle, void* os_handle, int type) {
  return run("hipMemImportFromShareableHandle", [&] {
    if (type != 1) return Result::invalid_value;
    // Before ROCm 7.1 this is the address of the descriptor; a caller that passes the descriptor itself faults.
    const int fd = control().hip_version >= 70'100'000 ? static_cast<int>(reinterpret_cast<std::intptr_t>(os_handle))
                                                       : *static_cast<const int*>(os_handle);
    std::uint64_t made = 0;
    const Result result = memory().import_fd(made, fd, true);
    *handle = reinterpret_cast<void*>(made);
    return result;
  });
}
FAKE_API int hipMemAddressReserve(void** address, std::size_t bytes, std::size_t alignment, void*,
                                  unsigned long long flags) {
  return run("hipMemAddressReserve",
             [&] { return flags == 0 ? memory().reserve(*address, bytes, alignment) : Result::invalid_value; });
}
FAKE_API int hipMemAddressFree(void* address, std::size_t bytes) {
  return run("hipMemAddressFree", [&] { return memory().unreserve(address, bytes); });
}
FAKE_API int hipMemMap(void* address, std::size_t bytes, std::size_t offset, void* handle, unsigned long long flags) {
  return run("hipMemMap", [&] {
    return offset == 0 && flags == 0 ? memory().map(address, bytes, number(handle)) : Result::invalid_value;
  });
}
FAKE_API int hipMemUnmap(void* address, std::size_t bytes) {
  return run("hipMemUnmap", [&] { return memory().unmap(address, bytes); });
}
FAKE_API int hipMemSetAccess(void* address, std::size_t bytes, const api::AccessDesc* access, std::size_t count) {
  return run("hipMemSetAccess", [&] {
    if (count != 1 || !is_device(access->location.id)) return Result::invalid_value;
    return memory().set_access(address, bytes, access->location.id, access->flags);
  });
}

FAKE_API int hipModuleLoadData(void** module, const void* image) {
  return run("hipModuleLoadData", [&] { return kernels().load(*module, image); });
}
FAKE_API int hipModuleUnload(void* module) {
  return run("hipModuleUnload", [&] { return kernels().unload(module); });
}
FAKE_API int hipModuleGetFunction(void** function, void* module, const char* name) {
  return run("hipModuleGetFunction", [&] { return kernels().function(*function, module, name); });
}
FAKE_API int hipModuleLaunchKernel(void* function, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned,
                                   unsigned, unsigned, void* stream, void** arguments, void**) {
  return run("hipModuleLaunchKernel",
             [&] { return kernels().launch(function, blocks, threads, arguments, here(stream)); });
}
