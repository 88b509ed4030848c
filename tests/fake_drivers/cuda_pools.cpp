// libcuda's memory pools. Processes share a pool by descriptor, and each of its allocations by 64 bytes.
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <map>

#include "tests/fake_drivers/call.hpp"

namespace {

using namespace fake;
using Address = unsigned long long;

constexpr int handle_posix_fd = 1;

/// Identified in every process by the inode of its descriptor.
struct Pool {
  int fd = -1;
  bool imported = false;
};

std::mutex mutex;
std::map<std::uintptr_t, Pool> pools;
std::uintptr_t next_pool = 0x7000;
std::map<Address, std::uint64_t> inode_of_memory;  // the inode of the pool of an allocation

int code_of(Result result) {
  return result == Result::ok ? 0 : result == Result::out_of_memory ? 2 : result == Result::invalid_handle ? 400 : 1;
}

Pool* find(void* pool) {
  const auto found = pools.find(reinterpret_cast<std::uintptr_t>(pool));
  return found == pools.end() ? nullptr : &found->second;
}

Result add(void** made, int fd, bool imported) {
  if (fd < 0) return Result::out_of_memory;
  pools[next_pool] = {fd, imported};
  *made = reinterpret_cast<void*>(next_pool++);
  control().gained(Live::reservation);
  return Result::ok;
}

struct PointerData {
  IpcContent content;
  std::uint64_t pool_inode;
};
static_assert(sizeof(PointerData) <= 64);

}  // namespace

FAKE_API int cuMemPoolCreate(void** pool, const void*) {
  return call("cuMemPoolCreate", code_of, 999, [&] {
    const std::scoped_lock lock(mutex);
    return add(pool, ::memfd_create("fake-pool", MFD_CLOEXEC), false);
  });
}
FAKE_API int cuMemPoolDestroy(void* pool) {
  return call("cuMemPoolDestroy", code_of, 999, [&] {
    const std::scoped_lock lock(mutex);
    Pool* const found = find(pool);
    if (found == nullptr) return Result::invalid_value;
    ::close(found->fd);
    pools.erase(reinterpret_cast<std::uintptr_t>(pool));
    control().lost(Live::reservation);
    return Result::ok;
  });
}
// Allocates at once and not in stream order: a process waits for the stream before it shares the memory.
FAKE_API int cuMemAllocFromPoolAsync(Address* address, std::size_t bytes, void* pool, void* stream) {
  return call("cuMemAllocFromPoolAsync", code_of, 999, [&] {
    if (streams().check_here({stream, 0}) == Result::invalid_handle) return Result::invalid_handle;
    const std::scoped_lock lock(mutex);
    Pool* const found = find(pool);
    if (found == nullptr || found->imported) return Result::invalid_value;
    void* made = nullptr;
    if (const Result result = memory().allocate(made, bytes, 0); result != Result::ok) return result;
    *address = reinterpret_cast<Address>(made);
    inode_of_memory[*address] = inode_of(found->fd);
    return Result::ok;
  });
}
FAKE_API int cuMemPoolExportToShareableHandle(int* fd, void* pool, int type, unsigned long long) {
  return call("cuMemPoolExportToShareableHandle", code_of, 999, [&] {
    const std::scoped_lock lock(mutex);
    Pool* const found = find(pool);
    if (found == nullptr || found->imported || type != handle_posix_fd) return Result::invalid_value;
    *fd = ::dup(found->fd);
    return *fd >= 0 ? Result::ok : Result::out_of_memory;
  });
}
FAKE_API int cuMemPoolImportFromShareableHandle(void** pool, void* handle, int type, unsigned long long) {
  return call("cuMemPoolImportFromShareableHandle", code_of, 999, [&] {
    const std::scoped_lock lock(mutex);
    if (type != handle_posix_fd) return Result::invalid_value;
    return add(pool, ::dup(static_cast<int>(reinterpret_cast<std::intptr_t>(handle))), true);
  });
}
FAKE_API int cuMemPoolExportPointer(void* data, Address address) {
  return call("cuMemPoolExportPointer", code_of, 999, [&] {
    const std::scoped_lock lock(mutex);
    const auto found = inode_of_memory.find(address);
    if (found == inode_of_memory.end()) return Result::invalid_value;
    PointerData made{{}, found->second};
    const Result result = memory().ipc_get(made.content, reinterpret_cast<void*>(address));
    std::memcpy(data, &made, sizeof made);
    return result;
  });
}
FAKE_API int cuMemPoolImportPointer(Address* address, void* pool, const void* data) {
  return call("cuMemPoolImportPointer", code_of, 999, [&] {
    const std::scoped_lock lock(mutex);
    PointerData given;
    std::memcpy(&given, data, sizeof given);
    Pool* const found = find(pool);
    if (found == nullptr || !found->imported || inode_of(found->fd) != given.pool_inode) return Result::invalid_value;
    void* made = nullptr;
    const Result result = memory().ipc_open(made, given.content, 0);
    *address = reinterpret_cast<Address>(made);
    return result;
  });
}
