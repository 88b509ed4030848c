// Vendor: one interface to the calls of each vendor's library. DeviceProvider builds on it: streams with owners,
// allocations, sharing.
#pragma once

#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include <hmc/error.hpp>
#include <hmc/vmm.hpp>

#include "runtime/base/status.hpp"
#include "runtime/memory/library.hpp"
#include "runtime/memory/provider.hpp"

namespace hmc::memory {

/// A handle that another process opens: an IPC handle or a fabric handle.
struct IpcHandle {
  std::byte bytes[64] = {};
};
class IpcCalls {
 public:
  virtual ~IpcCalls() = default;
  /// The handle of the allocation that contains `address`.
  virtual DriverResult get(IpcHandle& handle, void* address) const noexcept = 0;
  virtual DriverResult open(void*& address, const IpcHandle& handle) const noexcept = 0;
  virtual DriverResult close(void* address) const noexcept = 0;
  virtual DriverResult range(void*& start, std::size_t& bytes, void* address) const noexcept = 0;
};

/// Physical memory and reserved address ranges, modelled on CUDA's virtual memory management.
class VmmCalls {
 public:
  using Handle = unsigned long long;
  virtual ~VmmCalls() = default;
  /// Empty if `device` supports sharing by descriptor.
  virtual std::string why_not(int device) const = 0;
  virtual DriverResult granularity(std::size_t& bytes, int device) const noexcept = 0;
  /// `fabric`: the memory can also be exported as a fabric handle.
  virtual DriverResult create(Handle& handle, std::size_t bytes, int device, bool fabric) const noexcept = 0;
  virtual DriverResult release(Handle handle) const noexcept = 0;
  virtual DriverResult export_fd(int& fd, Handle handle) const noexcept = 0;
  /// The caller keeps `fd`.
  virtual DriverResult import_fd(Handle& handle, int fd) const noexcept = 0;
  /// True if the library may use an imported descriptor until the memory is released.
  virtual bool needs_imported_fd() const noexcept { return false; }
  /// Empty if `device` reports that its memory can have fabric handles.
  virtual std::string why_no_fabric(int) const { return "HMC doesn't use this library's handles for a fabric"; }
  virtual DriverResult export_fabric(IpcHandle&, Handle) const noexcept { return {"export", DriverResult::missing}; }
  virtual DriverResult import_fabric(Handle&, const IpcHandle&) const noexcept {
    return {"import", DriverResult::missing};
  }
  virtual DriverResult reserve(void*& address, std::size_t bytes, std::size_t alignment) const noexcept = 0;
  virtual DriverResult unreserve(void* address, std::size_t bytes) const noexcept = 0;
  virtual DriverResult map(void* address, std::size_t bytes, Handle handle) const noexcept = 0;
  virtual DriverResult unmap(void* address, std::size_t bytes) const noexcept = 0;
  virtual DriverResult set_access(void* address, std::size_t bytes, int device, Access access) const noexcept = 0;
};

/// Kernels, and words of host memory that streams write and wait for.
class KernelCalls {
 public:
  virtual ~KernelCalls() = default;
  /// Empty if this library has the calls to load and launch kernels.
  virtual std::string why_not() const = 0;
  /// The compiler's name of the architecture, for example "sm_90"; empty if the compiler library detects it.
  virtual std::string architecture(int device) const = 0;
  virtual DriverResult load(void*& module, const void* image) const noexcept = 0;
  virtual DriverResult unload(void* module) const noexcept = 0;
  virtual DriverResult function(void*& function, void* module, const char* name) const noexcept = 0;
  /// `arguments`: one pointer per parameter, read before the call returns.
  virtual DriverResult launch(void* function, unsigned blocks, unsigned threads, void** arguments,
                              void* stream) const noexcept = 0;

  /// Empty if streams can write and wait for words of registered host memory.
  virtual std::string why_no_words(int device) const = 0;
  virtual DriverResult register_host(void* address, std::size_t bytes) const noexcept = 0;
  virtual DriverResult unregister_host(void* address) const noexcept = 0;
  /// The address of registered memory for the entered device.
  virtual DriverResult device_address(void*& seen, void* address) const noexcept = 0;
  /// Writes the word after all queued work; the write is visible to the host and to all devices.
  virtual DriverResult write_word(void* stream, void* word, unsigned value) const noexcept = 0;
  /// Waits until the word reaches or passes `value`, compared modulo 2^32.
  virtual DriverResult wait_word(void* stream, void* word, unsigned value) const noexcept = 0;
};

/// Blocks streams until the host opens a gate.
class GateCalls {
 public:
  virtual ~GateCalls() = default;
  /// Empty if this library has the required calls.
  virtual std::string why_not() const = 0;
  /// May throw bad_alloc; in this case nothing was queued on the stream.
  virtual DriverResult stop(std::unique_ptr<Gate>& gate, void* stream) const = 0;
};

/// Stateless after the library was opened. Any thread. Calls without a device argument act on the device that the
/// thread has entered.
class Vendor {
 public:
  virtual ~Vendor() = default;
  virtual const char* name() const noexcept = 0;
  virtual MemoryType type() const noexcept = 0;
  /// Empty if the library was found and initialized.
  virtual const std::string& why_not() const noexcept = 0;
  virtual LibraryInfo library() const = 0;
  virtual int device_count() const noexcept = 0;
  virtual std::string device_name(int device) const = 0;
  virtual std::size_t device_bytes(int device) const = 0;
  /// The name of the code, for example "CUDA_ERROR_INVALID_VALUE"; empty if unknown.
  virtual std::string code_name(long code) const = 0;
  virtual bool means_out_of_memory(long code) const noexcept = 0;

  /// Makes `device` current for this thread. leave() needs `previous` to restore the caller's device.
  virtual DriverResult enter(int device, void*& previous) const noexcept = 0;
  virtual void leave(void* previous) const noexcept = 0;
  /// The device that the program has made current for this thread; 0 if it has none, or the library has no such call.
  virtual int current_device() const noexcept { return 0; }

  virtual bool has(Backing backing) const noexcept = 0;
  virtual DriverResult allocate(void*& address, std::size_t bytes, Backing backing, void* stream) const noexcept = 0;
  virtual DriverResult free(void* address, Backing backing, void* stream) const noexcept = 0;

  /// Page-locks the caller's host memory for all devices.
  virtual DriverResult pin(void*, std::size_t) const noexcept { return {"pin", DriverResult::missing}; }
  virtual DriverResult unpin(void*) const noexcept { return {"unpin", DriverResult::missing}; }

  /// Copies one row.
  virtual DriverResult copy(const Transfer& transfer, void* stream) const noexcept = 0;
  /// Returns `missing` if the library has no such call; DeviceProvider then copies row by row.
  virtual DriverResult copy_2d(const Transfer& transfer, void* stream) const noexcept = 0;
  virtual DriverResult fill(void* destination, unsigned char value, std::size_t bytes, void* stream) const noexcept = 0;

  virtual DriverResult create_stream(void*& stream) const noexcept = 0;
  virtual DriverResult destroy_stream(void* stream) const noexcept = 0;
  virtual DriverResult synchronize_stream(void* stream) const noexcept = 0;
  virtual DriverResult query_stream(bool& done, void* stream) const noexcept = 0;
  virtual DriverResult create_event(void*& event) const noexcept = 0;
  virtual DriverResult destroy_event(void* event) const noexcept = 0;
  virtual DriverResult record_event(void* event, void* stream) const noexcept = 0;
  virtual DriverResult synchronize_event(void* event) const noexcept = 0;
  virtual DriverResult query_event(bool& done, void* event) const noexcept = 0;
  virtual DriverResult stream_wait(void* stream, void* event) const noexcept = 0;

  /// Called for the pointers that the user passes to verbs. Must not create a context, and must not depend on the
  /// current device.
  virtual PointerInfo query(const void* address) const noexcept = 0;
  virtual NativeMemory native(const void* address) const noexcept { return {const_cast<void*>(address), 0}; }
  virtual void* native_context(int) const noexcept { return nullptr; }

  /// Null if this library has no such calls, or HMC doesn't use them.
  virtual const IpcCalls* ipc() const noexcept { return nullptr; }
  virtual const VmmCalls* vmm() const noexcept { return nullptr; }
  /// The reason if vmm() is null.
  virtual std::string why_no_vmm() const { return std::string("HMC doesn't use ") + name() + "'s virtual memory"; }
  virtual const KernelCalls* kernels() const noexcept { return nullptr; }
  virtual const GateCalls& gates() const noexcept = 0;
};

inline constexpr LibraryNames cuda_library{"HMC_CUDA_LIBRARY", {"libcuda.so.1", "libcuda.so"}};
// DTK's library is tried first: a machine with DTK may also have AMD's library, which finds no device.
inline constexpr LibraryNames hip_library{
    "HMC_HIP_LIBRARY",
    {"libgalaxyhip.so.5", "libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"}};
inline constexpr LibraryNames musa_library{"HMC_MUSA_LIBRARY", {"libmusart.so"}};
inline constexpr LibraryNames cnrt_library{"HMC_CNRT_LIBRARY", {"libcnrt.so"}};
inline constexpr LibraryNames acl_library{"HMC_ACL_LIBRARY", {"libascendcl.so"}};
inline constexpr LibraryNames opencl_library{"HMC_OPENCL_LIBRARY", {"libOpenCL.so.1"}};

/// Each opens its library. Doesn't throw if the library is missing: see why_not().
std::unique_ptr<Vendor> open_cuda();
std::unique_ptr<Vendor> open_hip();
std::unique_ptr<Vendor> open_musa();
std::unique_ptr<Vendor> open_cnrt();
std::unique_ptr<Vendor> open_acl();
std::unique_ptr<Vendor> open_opencl();

/// Makes a device current for this thread within a scope.
class OnDevice {
 public:
  OnDevice(const Vendor& vendor, int device) noexcept : vendor_(vendor), answer_(vendor.enter(device, previous_)) {}
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() {
    if (answer_.ok()) vendor_.leave(previous_);
  }
  DriverResult result() const noexcept { return answer_; }

 private:
  const Vendor& vendor_;
  void* previous_ = nullptr;
  DriverResult answer_;
};

/// Runs `call` with `device` current. Returns its DriverResult, or the DriverResult of entering the device if that
/// failed.
template <typename Call> DriverResult on_device(const Vendor& vendor, int device, Call&& call) noexcept {
  const OnDevice here(vendor, device);
  return here.result().ok() ? call() : here.result();
}

/// Converts the result of a call to a vendor's library to a Status or an Error that names the call and the code.
class Failures {
 public:
  explicit Failures(const Vendor& vendor) : vendor_(vendor) {}

  Code code_of(const DriverResult& result) const noexcept;
  /// "cuMemCreate answered CUDA_ERROR_OUT_OF_MEMORY (2)".
  std::string text_of(const DriverResult& result) const;

  base::Status to_status(const DriverResult& result) const noexcept;
  /// Throws if the result isn't success.
  void check(const DriverResult& result, std::string_view operation) const;

 private:
  const Vendor& vendor_;
  // A Status points to its text, so the texts are never freed: at most one per pair of call and code.
  mutable std::mutex mutex_;
  mutable std::map<std::pair<const char*, long>, std::string> texts_;
};

}  // namespace hmc::memory
