// What libamdhip64 has beyond the family: virtual memory, with the import call's two conventions.
#include <cstdio>

#include "runtime/memory/vendors/runtime_api.hpp"
#include "tests/fake_drivers/call.hpp"
#include "tests/fake_drivers/kernels.hpp"

namespace {

using namespace fake;
namespace api = hmc::memory::runtime_api;

int code_of(Result result) {
  return result == Result::ok ? 0 : result == Result::out_of_memory ? 2 : result == Result::invalid_handle ? 400 : 1;
}
template <typename Work> int run(const char* name, Work&& work) {
  return call(name, code_of, 999, static_cast<Work&&>(work));
}
std::uint64_t number(void* handle) { return reinterpret_cast<std::uint64_t>(handle); }
bool is_device(int device) { return device >= 0 && device < control().devices; }

}  // namespace

FAKE_API int hipHostMalloc(void** address, std::size_t bytes, unsigned) {
  return run("hipHostMalloc", [&] { return memory().allocate_host(*address, bytes, 0, false); });
}
FAKE_API int hipHostFree(void* address) {
  return run("hipHostFree", [&] { return memory().free_host(address); });
}
FAKE_API int hipExtMallocWithFlags(void** address, std::size_t bytes, unsigned flags) {
  return run("hipExtMallocWithFlags", [&] {
    if (flags != api::signal_memory || bytes != 8) return Result::invalid_value;
    return memory().allocate_host(*address, bytes, 0, false);
  });
}
FAKE_API int hipStreamWaitValue64(void* stream, void* word, std::uint64_t value, unsigned flags, std::uint64_t mask) {
  return run("hipStreamWaitValue64", [&] {
    if (flags != api::wait_until_past || ~mask != 0) return Result::invalid_value;
    return streams().wait_word(stream, word, static_cast<unsigned>(value));
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
    *start = found.start;  // without looking for null, as the real one
    *bytes = found.bytes;
    return Result::ok;
  });
}
FAKE_API int hipMemGetAllocationGranularity(std::size_t* bytes, const api::AllocationProp* prop, int) {
  return run("hipMemGetAllocationGranularity", [&] {
    *bytes = Memory::granularity;
    return prop->location.type == 1 ? Result::ok : Result::invalid_value;
  });
}
FAKE_API int hipMemCreate(void** handle, std::size_t bytes, const api::AllocationProp* prop, unsigned long long) {
  return run("hipMemCreate", [&] {
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
    // Before ROCm 7.1 this is the descriptor's address; whoever gives the descriptor itself faults.
    const int fd = control().hip_version >= 70'100'000 ? static_cast<int>(reinterpret_cast<std::intptr_t>(os_handle))
                                                       : *static_cast<const int*>(os_handle);
    std::uint64_t made = 0;
    const Result result = memory().import_fd(made, fd, 0);
    *handle = reinterpret_cast<void*>(made);
    return result;
  });
}
FAKE_API int hipMemAddressReserve(void** address, std::size_t bytes, std::size_t, void*, unsigned long long) {
  return run("hipMemAddressReserve", [&] { return memory().reserve(*address, bytes); });
}
FAKE_API int hipMemAddressFree(void* address, std::size_t bytes) {
  return run("hipMemAddressFree", [&] { return memory().unreserve(address, bytes); });
}
FAKE_API int hipMemMap(void* address, std::size_t bytes, std::size_t, void* handle, unsigned long long) {
  return run("hipMemMap", [&] { return memory().map(address, bytes, number(handle)); });
}
FAKE_API int hipMemUnmap(void* address, std::size_t bytes) {
  return run("hipMemUnmap", [&] { return memory().unmap(address, bytes); });
}
FAKE_API int hipMemSetAccess(void* address, std::size_t bytes, const api::AccessDesc* access, std::size_t count) {
  return run("hipMemSetAccess", [&] {
    if (count != 1 || access->flags != 3 || !is_device(access->location.id)) return Result::invalid_value;
    return memory().set_access(address, bytes);
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
  return run("hipModuleLaunchKernel", [&] { return kernels().launch(function, blocks, threads, arguments, stream); });
}
