// Ascend. A thread has no current device until it sets one. If the caller had none, HMC's device stays set. Sharing
// between processes isn't used yet, because its keys need a list of the importers' pids.
#include <fmt/format.h>

#include <atomic>

#include "runtime/memory/gates.hpp"
#include "runtime/memory/vendor.hpp"

namespace hmc::memory {

namespace {

// Codes from acl/acl_base.h (1xxxxx to 3xxxxx) and acl/error_codes/rt_error_codes.h (x07xxx), CANN 8.0.
constexpr int error_repeat_initialize = 100002;   // ACL_ERROR_REPEAT_INITIALIZE
constexpr int error_bad_alloc = 200000;           // ACL_ERROR_BAD_ALLOC
constexpr int error_memory_allocation = 207001;   // ACL_ERROR_RT_MEMORY_ALLOCATION
constexpr int error_storage_over_limit = 300000;  // ACL_ERROR_STORAGE_OVER_LIMIT; 200002 is ACL_ERROR_INVALID_DEVICE
// Enumerators and flags from acl/acl_rt.h, CANN 8.0.
constexpr int malloc_huge_first = 0;   // ACL_MEM_MALLOC_HUGE_FIRST
constexpr int copy_to_device = 1;      // ACL_MEMCPY_HOST_TO_DEVICE
constexpr int copy_to_host = 2;        // ACL_MEMCPY_DEVICE_TO_HOST
constexpr int copy_within = 3;         // ACL_MEMCPY_DEVICE_TO_DEVICE
constexpr unsigned event_sync = 1;     // ACL_EVENT_SYNC: streams wait for it
constexpr int event_complete = 1;      // ACL_EVENT_RECORDED_STATUS_COMPLETE; NOT_READY is 0, also if never recorded
constexpr int stream_complete = 0;     // ACL_STREAM_STATUS_COMPLETE
constexpr int location_host = 0;       // ACL_MEM_LOCATION_TYPE_HOST
constexpr int location_device = 1;     // ACL_MEM_LOCATION_TYPE_DEVICE; UNREGISTERED is 2
constexpr int location_host_numa = 4;  // ACL_MEM_LOCATION_TYPE_HOST_NUMA

struct PointerAttributes {
  unsigned device;
  int type;  ///< location_*
  unsigned page_size;
  unsigned reserved[4];
  char room[64];  ///< reserved for fields of later versions
};

struct Api {
  explicit Api(Library& from) : library(from) {}
  Library& library;
  template <typename S> using Call = Symbol<S>;
  static constexpr Need optional = Need::optional;
  using Stream = void*;
  using Event = void*;

  Call<int(const char*)> init{library, "aclInit"};
  Call<int(int*, int*, int*)> version{library, "aclrtGetVersion", optional};
  Call<int(unsigned*)> device_count{library, "aclrtGetDeviceCount"};
  Call<int(int*)> get_device{library, "aclrtGetDevice"};
  Call<int(int)> set_device{library, "aclrtSetDevice"};
  Call<const char*()> soc_name{library, "aclrtGetSocName", optional};
  Call<int(void**, std::size_t, int)> allocate{library, "aclrtMalloc"};
  Call<int(void*)> free{library, "aclrtFree"};
  Call<int(void**, std::size_t)> allocate_host{library, "aclrtMallocHost"};
  Call<int(void*)> free_host{library, "aclrtFreeHost"};
  Call<int(const void*, PointerAttributes*)> pointer{library, "aclrtPointerGetAttributes", optional};
  Call<int(void*, std::size_t, const void*, std::size_t, int, Stream)> copy{library, "aclrtMemcpyAsync"};
  Call<int(void*, std::size_t, const void*, std::size_t, std::size_t, std::size_t, int, Stream)> copy_2d{
      library, "aclrtMemcpy2dAsync", optional};
  Call<int(void*, std::size_t, int, std::size_t, Stream)> fill{library, "aclrtMemsetAsync"};
  Call<int(Stream*)> create_stream{library, "aclrtCreateStream"};
  Call<int(Stream)> destroy_stream{library, "aclrtDestroyStream"};
  Call<int(Stream)> synchronize_stream{library, "aclrtSynchronizeStream"};
  Call<int(Stream, int*)> query_stream{library, "aclrtStreamQuery"};
  Call<int(Stream, Event)> stream_wait{library, "aclrtStreamWaitEvent"};
  Call<int(Event*, unsigned)> create_event{library, "aclrtCreateEventWithFlag"};
  Call<int(Event)> destroy_event{library, "aclrtDestroyEvent"};
  Call<int(Event, Stream)> record_event{library, "aclrtRecordEvent"};
  Call<int(Event)> synchronize_event{library, "aclrtSynchronizeEvent"};
  Call<int(Event, int*)> query_event{library, "aclrtQueryEventStatus"};
  Call<int(Stream, void (*)(void*), void*)> launch_host{library, "aclrtLaunchHostFunc", optional};
};

class AclVendor final : public Vendor {
 public:
  AclVendor() : library_(acl_library), api_(library_) {
    why_not_ = library_.why_not();
    if (why_not_.empty()) start();
  }

  const char* name() const noexcept override { return "acl"; }
  MemoryType type() const noexcept override { return MemoryType::ASCEND_NPU; }
  const std::string& why_not() const noexcept override { return why_not_; }
  LibraryInfo library() const override {
    int major = 0, minor = 0, patch = 0;
    if (!api_.version(&major, &minor, &patch).ok()) return {library_.path(), {}};
    return {library_.path(), fmt::format("ACL {}.{}.{}", major, minor, patch)};
  }
  int device_count() const noexcept override { return count_; }
  std::string device_name(int) const override {
    const char* const text = api_.soc_name ? api_.soc_name.raw()() : nullptr;
    return text == nullptr ? "" : text;
  }
  std::size_t device_bytes(int) const override { return 0; }
  std::string code_name(long) const override { return {}; }
  bool means_out_of_memory(long code) const noexcept override {
    return code == error_memory_allocation || code == error_bad_alloc || code == error_storage_over_limit;
  }

  DriverResult enter(int device, void*& previous) const noexcept override {
    previous = nullptr;
    entered_.store(device, std::memory_order_relaxed);
    int current = -1;
    // An error means that this thread has no device yet, so no device must be restored.
    const bool had = api_.get_device(&current).ok();
    if (had && current == device) return {api_.set_device.name(), 0};
    if (had) previous = reinterpret_cast<void*>(static_cast<std::intptr_t>(current) + 1);
    return api_.set_device(device);
  }
  void leave(void* previous) const noexcept override {
    if (previous != nullptr) (void)api_.set_device(static_cast<int>(reinterpret_cast<std::intptr_t>(previous)) - 1);
  }
  int current_device() const noexcept override {
    int device = 0;
    return api_.get_device(&device).ok() ? device : 0;
  }

  bool has(Backing backing) const noexcept override { return backing == Backing::plain || backing == Backing::pinned; }
  DriverResult allocate(void*& address, std::size_t bytes, Backing backing, void*) const noexcept override {
    return backing == Backing::pinned ? api_.allocate_host(&address, bytes)
                                      : api_.allocate(&address, bytes, malloc_huge_first);
  }
  DriverResult free(void* address, Backing backing, void*) const noexcept override {
    return backing == Backing::pinned ? api_.free_host(address) : api_.free(address);
  }

  DriverResult copy(const Transfer& transfer, void* stream) const noexcept override {
    return api_.copy(transfer.destination, transfer.width, transfer.source, transfer.width, kind_of(transfer.direction),
                     stream);
  }
  DriverResult copy_2d(const Transfer& transfer, void* stream) const noexcept override {
    // The call supports only copies between host and device.
    if (transfer.direction == Direction::device_to_device) return {api_.copy_2d.name(), DriverResult::missing};
    return api_.copy_2d(transfer.destination, transfer.destination_pitch, transfer.source, transfer.source_pitch,
                        transfer.width, transfer.height, kind_of(transfer.direction), stream);
  }
  DriverResult fill(void* destination, unsigned char value, std::size_t bytes, void* stream) const noexcept override {
    return api_.fill(destination, bytes, value, bytes, stream);
  }

  DriverResult create_stream(void*& stream) const noexcept override { return api_.create_stream(&stream); }
  DriverResult destroy_stream(void* stream) const noexcept override { return api_.destroy_stream(stream); }
  DriverResult synchronize_stream(void* stream) const noexcept override { return api_.synchronize_stream(stream); }
  DriverResult query_stream(bool& done, void* stream) const noexcept override {
    int status = -1;
    const DriverResult result = api_.query_stream(stream, &status);
    done = status == stream_complete;
    return result;
  }
  DriverResult create_event(void*& event) const noexcept override { return api_.create_event(&event, event_sync); }
  DriverResult destroy_event(void* event) const noexcept override { return api_.destroy_event(event); }
  DriverResult record_event(void* event, void* stream) const noexcept override {
    return api_.record_event(event, stream);
  }
  DriverResult synchronize_event(void* event) const noexcept override { return api_.synchronize_event(event); }
  DriverResult query_event(bool& done, void* event) const noexcept override {
    int status = -1;
    const DriverResult result = api_.query_event(event, &status);
    done = status == event_complete;
    return result;
  }
  DriverResult stream_wait(void* stream, void* event) const noexcept override {
    return api_.stream_wait(stream, event);
  }

  PointerInfo query(const void* address) const noexcept override {
    PointerAttributes attributes{};
    if (!ask(address, attributes)) return {};
    const int device = static_cast<int>(attributes.device);
    if (attributes.type == location_device) return {PointerKind::device, device};
    if (attributes.type == location_host || attributes.type == location_host_numa) return {PointerKind::pinned, device};
    return {};
  }

  const GateCalls& gates() const noexcept override { return gates_; }

 private:
  /// The query may fail on a thread without a device. In this case it is repeated on the device that HMC entered last.
  bool ask(const void* address, PointerAttributes& attributes) const noexcept {
    if (api_.pointer(address, &attributes).ok()) return true;
    const int entered = entered_.load(std::memory_order_relaxed);  // relaxed: any entered device is valid
    int current = -1;
    if (entered < 0 || api_.get_device(&current).ok()) return false;
    const OnDevice here(*this, entered);
    return here.result().ok() && api_.pointer(address, &attributes).ok();
  }

  static int kind_of(Direction direction) noexcept {
    return direction == Direction::host_to_device   ? copy_to_device
           : direction == Direction::device_to_host ? copy_to_host
                                                    : copy_within;
  }
  void start() {
    DriverResult result = api_.init(nullptr);
    if (result.code == error_repeat_initialize) result.code = 0;  // the program has already initialized the library
    unsigned count = 0;
    if (result.ok()) result = api_.device_count(&count);
    if (!result.ok()) why_not_ = fmt::format("{} answered {}", result.call, result.code);
    if (result.ok() && count == 0) why_not_ = "the library sees no device";
    count_ = result.ok() ? static_cast<int>(count) : 0;
  }

  Library library_;
  Api api_;
  FunctionGates gates_{api_.launch_host};
  std::string why_not_;
  int count_ = 0;
  mutable std::atomic<int> entered_{-1};  ///< the device that HMC entered last
};

}  // namespace

std::unique_ptr<Vendor> open_acl() { return std::make_unique<AclVendor>(); }

}  // namespace hmc::memory
