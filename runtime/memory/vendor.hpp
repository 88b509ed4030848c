// Vendor: the calls of one vendor's library in the shape that all of them share. What is made of them
// (streams with owners, allocations, sharing) is in device_provider.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>

#include "runtime/memory/library.hpp"
#include "runtime/memory/provider.hpp"

namespace hmc::memory {

/// What another process opens, of the older sharing and of a fabric: 64 bytes.
struct IpcHandle {
  std::byte bytes[64] = {};
};
class IpcCalls {
 public:
  virtual ~IpcCalls() = default;
  /// Of the allocation that `address` lies in.
  virtual Answer get(IpcHandle& handle, void* address) const noexcept = 0;
  virtual Answer open(void*& address, const IpcHandle& handle) const noexcept = 0;
  virtual Answer close(void* address) const noexcept = 0;
  virtual Answer range(void*& start, std::size_t& bytes, void* address) const noexcept = 0;
};

/// Physical memory and reserved ranges, as CUDA has them and HIP after it.
class VmmCalls {
 public:
  using Handle = unsigned long long;
  virtual ~VmmCalls() = default;
  /// Empty when `device` has what sharing by descriptor needs.
  virtual std::string why_not(int device) const = 0;
  virtual Answer granularity(std::size_t& bytes, int device) const noexcept = 0;
  /// `fabric`: to be shared by such a handle too.
  virtual Answer create(Handle& handle, std::size_t bytes, int device, bool fabric) const noexcept = 0;
  virtual Answer release(Handle handle) const noexcept = 0;
  virtual Answer export_fd(int& fd, Handle handle) const noexcept = 0;
  /// `fd` stays the caller's, and must stay open until access was set: HIP takes it up only then.
  virtual Answer import_fd(Handle& handle, int fd) const noexcept = 0;
  /// Empty when `device` says that its memory has handles for a fabric.
  virtual std::string why_no_fabric(int) const { return "HMC doesn't use this library's handles for a fabric"; }
  virtual Answer export_fabric(IpcHandle&, Handle) const noexcept { return {"export", Answer::missing}; }
  virtual Answer import_fabric(Handle&, const IpcHandle&) const noexcept { return {"import", Answer::missing}; }
  virtual Answer reserve(void*& address, std::size_t bytes, std::size_t alignment) const noexcept = 0;
  virtual Answer unreserve(void* address, std::size_t bytes) const noexcept = 0;
  virtual Answer map(void* address, std::size_t bytes, Handle handle) const noexcept = 0;
  virtual Answer unmap(void* address, std::size_t bytes) const noexcept = 0;
  virtual Answer set_access(void* address, std::size_t bytes, int device) const noexcept = 0;
};

/// Kernels, and words of host memory that a stream writes and waits for.
class KernelCalls {
 public:
  virtual ~KernelCalls() = default;
  /// Empty when this library has what kernels need.
  virtual std::string why_not() const = 0;
  /// What compilers call it: "sm_90", "gfx90a".
  virtual std::string architecture(int device) const = 0;
  virtual Answer load(void*& module, const void* image) const noexcept = 0;
  virtual Answer unload(void* module) const noexcept = 0;
  virtual Answer function(void*& function, void* module, const char* name) const noexcept = 0;
  /// `arguments`: one pointer per parameter, read before it returns.
  virtual Answer launch(void* function, unsigned blocks, unsigned threads, void** arguments,
                        void* stream) const noexcept = 0;

  /// Empty when streams can write and wait for words of registered host memory.
  virtual std::string why_no_words(int device) const = 0;
  virtual Answer register_host(void* address, std::size_t bytes) const noexcept = 0;
  virtual Answer unregister_host(void* address) const noexcept = 0;
  /// How the entered device addresses registered memory.
  virtual Answer device_address(void*& seen, void* address) const noexcept = 0;
  /// After all that the stream holds, visible to everybody.
  virtual Answer write_word(void* stream, void* word, unsigned value) const noexcept = 0;
  /// Until the word has come to `value` or past it, counting in a circle.
  virtual Answer wait_word(void* stream, void* word, unsigned value) const noexcept = 0;
};

/// Streams that stop until the host lets them go on.
class GateCalls {
 public:
  virtual ~GateCalls() = default;
  /// Empty when this library has what that takes.
  virtual std::string why_not() const = 0;
  /// May throw bad_alloc; then the stream holds nothing of it.
  virtual Answer stop(std::unique_ptr<Gate>& gate, void* stream) const = 0;
};

/// Stateless but for what opening found. Any thread. Calls that take no device act on the one that
/// was entered.
class Vendor {
 public:
  virtual ~Vendor() = default;
  virtual const char* name() const noexcept = 0;
  virtual MemoryType type() const noexcept = 0;
  /// Empty when the library is here and was started.
  virtual const std::string& why_not() const noexcept = 0;
  virtual LibraryInfo library() const = 0;
  virtual int device_count() const noexcept = 0;
  virtual std::string device_name(int device) const = 0;
  virtual std::size_t device_bytes(int device) const = 0;
  /// The code's own name, "CUDA_ERROR_INVALID_VALUE"; empty when the library doesn't tell.
  virtual std::string code_name(long code) const = 0;
  virtual bool means_out_of_memory(long code) const noexcept = 0;

  /// Makes `device` this thread's; `previous` is what leave() needs to restore the caller's.
  virtual Answer enter(int device, void*& previous) const noexcept = 0;
  virtual void leave(void* previous) const noexcept = 0;

  virtual bool has(Backing backing) const noexcept = 0;
  virtual Answer allocate(void*& address, std::size_t bytes, Backing backing, void* stream) const noexcept = 0;
  virtual Answer free(void* address, Backing backing, void* stream) const noexcept = 0;

  /// Page-locks host memory that the caller has, for all devices.
  virtual Answer pin(void*, std::size_t) const noexcept { return {"pin", Answer::missing}; }
  virtual Answer unpin(void*) const noexcept { return {"unpin", Answer::missing}; }

  /// One row.
  virtual Answer copy(const Transfer& transfer, void* stream) const noexcept = 0;
  /// `missing` where the library has no such call: then rows are copied one by one.
  virtual Answer copy_2d(const Transfer& transfer, void* stream) const noexcept = 0;
  virtual Answer fill(void* destination, unsigned char value, std::size_t bytes, void* stream) const noexcept = 0;

  virtual Answer create_stream(void*& stream) const noexcept = 0;
  virtual Answer destroy_stream(void* stream) const noexcept = 0;
  virtual Answer synchronize_stream(void* stream) const noexcept = 0;
  virtual Answer query_stream(bool& done, void* stream) const noexcept = 0;
  virtual Answer create_event(void*& event) const noexcept = 0;
  virtual Answer destroy_event(void* event) const noexcept = 0;
  virtual Answer record_event(void* event, void* stream) const noexcept = 0;
  virtual Answer synchronize_event(void* event) const noexcept = 0;
  virtual Answer query_event(bool& done, void* event) const noexcept = 0;
  virtual Answer stream_wait(void* stream, void* event) const noexcept = 0;

  /// Asked of every pointer that a verb gets: enters no device, makes no context. Which device is current doesn't
  /// matter.
  virtual PointerInfo query(const void* address) const noexcept = 0;
  virtual NativeMemory native(const void* address) const noexcept { return {const_cast<void*>(address), 0}; }
  virtual void* native_context(int) const noexcept { return nullptr; }

  /// Null where this library has no such sharing, or HMC doesn't use it.
  virtual const IpcCalls* ipc() const noexcept { return nullptr; }
  virtual const VmmCalls* vmm() const noexcept { return nullptr; }
  virtual const KernelCalls* kernels() const noexcept { return nullptr; }
  virtual const GateCalls& gates() const noexcept = 0;
};

inline constexpr LibraryNames cuda_library{"HMC_CUDA_LIBRARY", {"libcuda.so.1", "libcuda.so"}};
// DTK's first: a machine that has it may have AMD's library too, which finds none of its devices.
inline constexpr LibraryNames hip_library{
    "HMC_HIP_LIBRARY",
    {"libgalaxyhip.so.5", "libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"}};
inline constexpr LibraryNames musa_library{"HMC_MUSA_LIBRARY", {"libmusart.so"}};
inline constexpr LibraryNames cnrt_library{"HMC_CNRT_LIBRARY", {"libcnrt.so"}};
inline constexpr LibraryNames acl_library{"HMC_ACL_LIBRARY", {"libascendcl.so"}};
inline constexpr LibraryNames opencl_library{"HMC_OPENCL_LIBRARY", {"libOpenCL.so.1"}};

/// Each opens its library. Never throws for one that isn't there: see why_not().
std::unique_ptr<Vendor> open_cuda();
std::unique_ptr<Vendor> open_hip();
std::unique_ptr<Vendor> open_musa();
std::unique_ptr<Vendor> open_cnrt();
std::unique_ptr<Vendor> open_acl();
std::unique_ptr<Vendor> open_opencl();

/// Makes a device this thread's for a scope.
class OnDevice {
 public:
  OnDevice(const Vendor& vendor, int device) noexcept : vendor_(vendor), answer_(vendor.enter(device, previous_)) {}
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() {
    if (answer_.ok()) vendor_.leave(previous_);
  }
  Answer answer() const noexcept { return answer_; }

 private:
  const Vendor& vendor_;
  void* previous_ = nullptr;
  Answer answer_;
};

}  // namespace hmc::memory
