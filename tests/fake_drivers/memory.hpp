// The memory of a fake device. Device addresses lie in an inaccessible address range (the window). The bytes are
// memfds, which are mapped at the same offset in a second range (the shadow). Only the driver uses the shadow. An
// access to memory that isn't mapped or enabled faults.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "tests/fake_drivers/control.hpp"

namespace fake {

enum class Result {
  ok,
  invalid_value,
  out_of_memory,
  not_initialized,
  invalid_device,
  invalid_context,
  invalid_handle,
  other_context,  ///< the handle's device isn't the current one
  not_ready,
  already_mapped,
  not_supported,
};

std::uint64_t inode_of(int fd);
/// The device whose memory the descriptor is; -1 if it isn't device memory.
int device_of_memory(int fd);

/// Physical memory of a device: a memfd.
class Physical {
 public:
  /// Takes ownership of `fd`.
  Physical(int fd, std::size_t bytes, int device);
  ~Physical();
  Physical(const Physical&) = delete;
  Physical& operator=(const Physical&) = delete;
  int fd() const noexcept { return fd_; }
  int importers_fd = -1;  ///< it must be open when the memory is mapped
  std::size_t bytes() const noexcept { return bytes_; }
  int device() const noexcept { return device_; }

 private:
  int fd_;
  std::size_t bytes_;
  int device_;
};

enum class Kind { malloced, reserved, imported };
enum class Side { host, device, any };
/// The values are the flags of the vendors' set-access calls.
enum class Permitted { none = 0, read = 1, read_write = 3 };
/// The access of a copy: mapped physical memory must permit it to the stream's device or to the memory's own.
struct Use {
  int device = 0;
  bool writes = false;
};

struct Found {
  void* start = nullptr;
  std::size_t bytes = 0;
  int device = -1;
  Kind kind = Kind::malloced;
};
struct HostBlock {
  std::size_t bytes = 0;
  int device = 0;  ///< the current device of the call that allocated or registered it
  bool managed = false;
  bool portable = false;  ///< pinned for all devices
  bool mapped = false;    ///< has a device pointer
  bool signal = false;    ///< HIP's signal memory, for words that streams wait for
  bool is_users = false;  ///< registered, not allocated here
};

/// The content of an IPC handle or of a fabric handle.
struct IpcContent {
  std::uint64_t magic, pid, fd, inode, bytes, device;
};

/// Any thread.
class Memory {
 public:
  static constexpr std::size_t granularity = std::size_t{2} << 20;
  /// Plain memory starts at odd multiples of this, so that it has no larger alignment.
  static constexpr std::size_t alignment = 256;
  Memory();

  // ---- plain memory
  Result allocate(void*& address, std::size_t bytes, int device) { return allocate(address, bytes, device, true); }
  Result free(void* address) { return drop(address, Kind::malloced); }
  /// Stream-ordered memory: the driver can access it from come_alive() on. free_soon() checks that it can be freed; it
  /// lives until free().
  Result allocate_dormant(void*& address, std::size_t bytes, int device) {
    return allocate(address, bytes, device, false);
  }
  void come_alive(void* address);
  Result free_soon(void* address);
  Result allocate_host(void*& address, const HostBlock& block);
  Result free_host(void* address);
  /// Registers the caller's host memory. A byte can be registered only once.
  Result pin(void* address, HostBlock block);
  Result unpin(void* address);
  /// The device pointer of host memory. The memory must be mapped, and portable or of the same device.
  Result device_pointer(void*& seen, void* address, int device);

  // ---- physical memory and address ranges
  Result create(std::uint64_t& handle, std::size_t bytes, int device);
  Result release(std::uint64_t handle);
  Result export_fd(int& fd, std::uint64_t handle);
  /// `used_by_map`: the caller must keep the descriptor open until the memory is mapped, as HIP's callers.
  Result import_fd(std::uint64_t& handle, int fd, bool used_by_map = false);
  /// As ipc_get and ipc_open, but the same handle can be opened many times, also in this process.
  Result fabric_get(IpcContent& content, std::uint64_t handle);
  Result fabric_open(std::uint64_t& handle, const IpcContent& content);
  /// `aligned`: 0 or a power of two.
  Result reserve(void*& address, std::size_t bytes, std::size_t aligned);
  Result unreserve(void* address, std::size_t bytes);
  Result map(void* address, std::size_t bytes, std::uint64_t handle);
  Result unmap(void* address, std::size_t bytes);
  Result set_access(void* address, std::size_t bytes, int device, int flags);

  // ---- IPC handles
  Result ipc_get(IpcContent& content, void* address);
  Result ipc_open(void*& address, const IpcContent& content, int device);
  Result ipc_close(void* address);

  /// The driver's address of [address, address + bytes); null if the range isn't mapped, isn't of `side`, or doesn't
  /// permit the use.
  std::byte* resolve(const void* address, std::size_t bytes, Side side, Use use = {});
  /// As resolve(), for a word that streams write or wait for; null unless it is aligned to its size and in device
  /// memory, mapped host memory or signal memory.
  std::byte* word(const void* address, std::size_t bytes);
  /// For kernels: without checks. An access to memory that isn't mapped or enabled faults.
  void* reach(const void* address) const noexcept {
    std::size_t offset = 0;
    return in_window(address, offset) ? shadow(offset) : const_cast<void*>(address);
  }
  bool find(Found& found, const void* address);
  bool find_host(HostBlock& block, const void* address);

 private:
  struct Range {
    std::size_t bytes = 0;     ///< requested: accesses beyond are refused
    std::size_t reserved = 0;  ///< bytes taken from the window
    std::size_t lead = 0;      ///< from the start of the range to its first byte
    Kind kind = Kind::reserved;
    std::shared_ptr<Physical> physical;  ///< null: only reserved
    std::uint64_t inode = 0;
    std::map<int, Permitted> permitted;  ///< of a mapped piece, by device
    bool dormant = false;                ///< stream-ordered: the stream hasn't executed the allocation yet
    bool leaving = false;                ///< stream-ordered: its free is queued in a stream
  };
  using Ranges = std::map<std::size_t, Range>;  // by offset in the window

  std::byte* shadow(std::size_t offset) const noexcept { return shadow_ + offset; }
  bool in_window(const void* address, std::size_t& offset) const noexcept;
  Ranges::iterator exact(void* address);
  static Ranges::iterator around(Ranges& ranges, std::size_t offset);
  /// The range with physical memory at `offset`, and its start; null if there is none.
  const Range* backed(std::size_t offset, std::size_t& start);
  Result allocate(void*& address, std::size_t bytes, int device, bool at_once);
  Result place(Ranges::iterator& placed, std::size_t bytes, Kind kind, std::size_t lead, std::size_t aligned);
  Result back(Ranges::iterator range, std::shared_ptr<Physical> physical, bool readable);
  void clear(Ranges::iterator range);
  Result make_physical(std::shared_ptr<Physical>& made, std::size_t bytes, int device);
  Result drop(void* address, Kind kind);
  const HostBlock* host_block(const void* address, std::size_t& left);

  std::mutex mutex_;
  std::byte* window_;
  std::byte* shadow_;
  Ranges ranges_;
  Ranges mapped_;  ///< pieces of reserved ranges that are mapped
  std::map<std::uint64_t, std::shared_ptr<Physical>> handles_;
  std::uint64_t next_handle_ = 0x1000;
  std::map<std::uintptr_t, HostBlock> host_;
};

Memory& memory();

}  // namespace fake
