// Cambricon's runtime. Its streams are queues, its events are notifiers. Its 2D copy works only within a device and has
// small limits, so HMC copies row by row. Sharing between processes isn't used yet.
#include <fmt/format.h>

#include "runtime/memory/gates.hpp"
#include "runtime/memory/vendor.hpp"

namespace hmc::memory {

namespace {

// Numbers from cnrt.h, CNRT 6.14. Error codes are compared by name, see means_out_of_memory().
constexpr int copy_to_device = 0;  // cnrtMemcpyHostToDev
constexpr int copy_within = 1;     // cnrtMemcpyDevToDev
constexpr int copy_to_host = 2;    // cnrtMemcpyDevToHost
constexpr int copy_peer = 4;       // cnrtMemcpyPeerToPeer
constexpr int memory_host = 1;     // cnrtMemTypeHost
constexpr int memory_device = 2;   // cnrtMemTypeDevice; Unregistered is 0

struct PointerAttributes {
  int type;  ///< memory_*
  int device;
  std::size_t size;
  void* device_pointer;
  void* host_pointer;
  int cache_mode;
  void* base;
  char room[64];  ///< reserved for fields of later versions
};

struct Api {
  explicit Api(Library& from) : library(from) {}
  Library& library;
  template <typename S> using Call = Symbol<S>;
  static constexpr Need optional = Need::optional;
  using Queue = void*;
  using Notifier = void*;

  Call<int(int*, int*, int*)> version{library, "cnrtGetLibVersion", optional};
  Call<int(unsigned*)> device_count{library, "cnrtGetDeviceCount"};
  Call<int(int*)> get_device{library, "cnrtGetDevice"};
  Call<int(int)> set_device{library, "cnrtSetDevice"};
  Call<const char*(int)> error_name{library, "cnrtGetErrorName"};
  Call<int(void**, std::size_t)> allocate{library, "cnrtMalloc"};
  Call<int(void*)> free{library, "cnrtFree"};
  Call<int(void**, std::size_t)> allocate_host{library, "cnrtHostMalloc", optional};
  Call<int(void*)> free_host{library, "cnrtFreeHost", optional};
  Call<int(PointerAttributes*, const void*)> pointer{library, "cnrtPointerGetAttributes"};
  Call<int(void*, void*, std::size_t, Queue, int)> copy{library, "cnrtMemcpyAsync"};
  Call<int(void*, int, std::size_t, Queue)> fill{library, "cnrtMemsetAsync"};
  Call<int(Queue*)> create_queue{library, "cnrtQueueCreate"};
  Call<int(Queue)> destroy_queue{library, "cnrtQueueDestroy"};
  Call<int(Queue)> synchronize_queue{library, "cnrtQueueSync"};
  Call<int(Queue)> query_queue{library, "cnrtQueueQuery"};
  Call<int(Notifier*)> create_notifier{library, "cnrtNotifierCreate"};
  Call<int(Notifier)> destroy_notifier{library, "cnrtNotifierDestroy"};
  Call<int(Notifier, Queue)> place_notifier{library, "cnrtPlaceNotifier"};
  Call<int(Notifier)> wait_notifier{library, "cnrtWaitNotifier"};
  Call<int(Notifier)> query_notifier{library, "cnrtQueryNotifier"};
  Call<int(Notifier, Queue, unsigned)> queue_wait{library, "cnrtQueueWaitNotifier"};
  Call<int(Queue, void (*)(void*), void*)> launch_host{library, "cnrtInvokeHostFunc", optional};
};

class CnrtVendor final : public Vendor {
 public:
  CnrtVendor() : library_(cnrt_library), api_(library_) {
    why_not_ = library_.why_not();
    if (!why_not_.empty()) return;
    unsigned count = 0;
    const DriverResult result = api_.device_count(&count);
    if (!result.ok()) why_not_ = fmt::format("{} answered {} ({})", result.call, code_name(result.code), result.code);
    if (result.ok() && count == 0) why_not_ = "the library sees no device";
    count_ = result.ok() ? static_cast<int>(count) : 0;
  }

  const char* name() const noexcept override { return "cnrt"; }
  MemoryType type() const noexcept override { return MemoryType::CAMBRICON_MLU; }
  const std::string& why_not() const noexcept override { return why_not_; }
  LibraryInfo library() const override {
    int major = 0, minor = 0, patch = 0;
    if (!api_.version(&major, &minor, &patch).ok()) return {library_.path(), {}};
    return {library_.path(), fmt::format("CNRT {}.{}.{}", major, minor, patch)};
  }
  int device_count() const noexcept override { return count_; }
  std::string device_name(int) const override { return {}; }
  std::size_t device_bytes(int) const override { return 0; }
  std::string code_name(long code) const override {
    const char* const text = api_.error_name.raw()(static_cast<int>(code));
    return text == nullptr ? "" : text;
  }
  // By name: CNRT 5 changed the numbers, but not these parts of the names. In CNRT 6.14 cnrtErrorNoMem is 100100
  // and cnrtErrorSysNoMem is 100010.
  bool means_out_of_memory(long code) const noexcept override { return names(code, "NoMem") || names(code, "NO_MEM"); }

  DriverResult enter(int device, void*& previous) const noexcept override {
    previous = nullptr;
    int current = -1;
    if (const DriverResult result = api_.get_device(&current); !result.ok()) return result;
    if (current == device) return {api_.set_device.name(), 0};
    previous = reinterpret_cast<void*>(static_cast<std::intptr_t>(current) + 1);
    return api_.set_device(device);
  }
  void leave(void* previous) const noexcept override {
    if (previous != nullptr) (void)api_.set_device(static_cast<int>(reinterpret_cast<std::intptr_t>(previous)) - 1);
  }
  int current_device() const noexcept override {
    int device = 0;
    return api_.get_device(&device).ok() ? device : 0;
  }

  bool has(Backing backing) const noexcept override {
    return backing == Backing::plain || (backing == Backing::pinned && api_.allocate_host);
  }
  DriverResult allocate(void*& address, std::size_t bytes, Backing backing, void*) const noexcept override {
    return backing == Backing::pinned ? api_.allocate_host(&address, bytes) : api_.allocate(&address, bytes);
  }
  DriverResult free(void* address, Backing backing, void*) const noexcept override {
    return backing == Backing::pinned ? api_.free_host(address) : api_.free(address);
  }

  DriverResult copy(const Transfer& transfer, void* queue) const noexcept override {
    const bool two = transfer.source_device != transfer.destination_device;
    const int direction = transfer.direction == Direction::host_to_device   ? copy_to_device
                          : transfer.direction == Direction::device_to_host ? copy_to_host
                          : two                                             ? copy_peer
                                                                            : copy_within;
    return api_.copy(transfer.destination, const_cast<void*>(transfer.source), transfer.width, queue, direction);
  }
  DriverResult copy_2d(const Transfer&, void*) const noexcept override {
    return {"cnrtMemcpy2D", DriverResult::missing};
  }
  DriverResult fill(void* destination, unsigned char value, std::size_t bytes, void* queue) const noexcept override {
    return api_.fill(destination, value, bytes, queue);
  }

  DriverResult create_stream(void*& stream) const noexcept override { return api_.create_queue(&stream); }
  DriverResult destroy_stream(void* stream) const noexcept override { return api_.destroy_queue(stream); }
  DriverResult synchronize_stream(void* stream) const noexcept override { return api_.synchronize_queue(stream); }
  DriverResult query_stream(bool& done, void* stream) const noexcept override {
    const DriverResult result = api_.query_queue(stream);
    return done_or(done, result, not_yet(result));
  }
  DriverResult create_event(void*& event) const noexcept override { return api_.create_notifier(&event); }
  DriverResult destroy_event(void* event) const noexcept override { return api_.destroy_notifier(event); }
  DriverResult record_event(void* event, void* stream) const noexcept override {
    return api_.place_notifier(event, stream);
  }
  DriverResult synchronize_event(void* event) const noexcept override { return api_.wait_notifier(event); }
  DriverResult query_event(bool& done, void* event) const noexcept override {
    const DriverResult result = api_.query_notifier(event);
    return done_or(done, result, not_yet(result));
  }
  DriverResult stream_wait(void* stream, void* event) const noexcept override {
    return api_.queue_wait(event, stream, 0);
  }

  PointerInfo query(const void* address) const noexcept override {
    PointerAttributes attributes{};
    if (!api_.pointer(&attributes, address).ok()) return {};
    if (attributes.type == memory_device) return {PointerKind::device, attributes.device};
    if (attributes.type == memory_host) return {PointerKind::pinned, attributes.device};
    return {};
  }

  const GateCalls& gates() const noexcept override { return gates_; }

 private:
  bool names(long code, const char* part) const noexcept {
    const char* const text = api_.error_name.raw()(static_cast<int>(code));
    return text != nullptr && std::strstr(text, part) != nullptr;
  }
  /// cnrtErrorNotReady (1 in CNRT 6.14) or its predecessor cnrtErrorBusy (632014).
  bool not_yet(const DriverResult& result) const noexcept {
    return !result.ok() &&
           (names(result.code, "NotReady") || names(result.code, "NOT_READY") || names(result.code, "Busy"));
  }

  Library library_;
  Api api_;
  FunctionGates gates_{api_.launch_host};
  std::string why_not_;
  int count_ = 0;
};

}  // namespace

std::unique_ptr<Vendor> open_cnrt() { return std::make_unique<CnrtVendor>(); }

}  // namespace hmc::memory
