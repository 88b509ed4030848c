// OpenCL: every implementation that the loader finds. One context per device. Streams are in-order command queues. A
// copy between two devices isn't supported, so HMC stages it through the host.
#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <new>
#include <vector>

#include "runtime/base/segment.hpp"
#include "runtime/memory/vendor.hpp"
#include "runtime/memory/vendors/opencl_api.hpp"

namespace hmc::memory {

namespace {

/// OpenCL buffers have no address, so HMC reserves an inaccessible address range for each. Pointer arithmetic works,
/// and a host access to device memory faults at once.
class OpenClAddresses {
 public:
  struct Place {
    void* buffer = nullptr;  ///< null: the address isn't in any range of HMC
    std::size_t offset = 0;
    std::size_t left = 0;  ///< bytes from the address to the buffer's end
    int device = -1;
  };
  /// Null if out of addresses or host memory.
  void* add(void* buffer, std::size_t bytes, int device) noexcept;
  /// Returns the buffer, which the caller releases; null if `address` isn't the start of a range.
  void* remove(void* address) noexcept;
  Place find(const void* address) const noexcept;

 private:
  struct Range {
    std::size_t bytes;
    void* buffer;
    int device;
  };
  mutable std::mutex mutex_;
  std::map<std::uintptr_t, Range> ranges_;
  // Bounds of all ranges so far. An address outside is host memory; find() checks that without the lock.
  std::atomic<std::uintptr_t> lowest_{UINTPTR_MAX}, end_{0};
};

void* OpenClAddresses::add(void* buffer, std::size_t bytes, int device) noexcept {
  const std::size_t span = base::round_up(bytes, base::page_size());
  void* const address = ::mmap(nullptr, span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) return nullptr;
  const std::scoped_lock lock(mutex_);
  try {
    ranges_.emplace(reinterpret_cast<std::uintptr_t>(address), Range{bytes, buffer, device});
  } catch (const std::bad_alloc&) {
    ::munmap(address, span);
    return nullptr;
  }
  const auto start = reinterpret_cast<std::uintptr_t>(address);
  // Relaxed: a thread that looks up this address has received it after these stores, so the stores happen before its
  // loads.
  if (start < lowest_.load(std::memory_order_relaxed)) lowest_.store(start, std::memory_order_relaxed);
  if (start + span > end_.load(std::memory_order_relaxed)) end_.store(start + span, std::memory_order_relaxed);
  return address;
}

void* OpenClAddresses::remove(void* address) noexcept {
  const std::scoped_lock lock(mutex_);
  const auto found = ranges_.find(reinterpret_cast<std::uintptr_t>(address));
  if (found == ranges_.end()) return nullptr;
  void* const buffer = found->second.buffer;
  ::munmap(address, base::round_up(found->second.bytes, base::page_size()));
  ranges_.erase(found);
  return buffer;
}

OpenClAddresses::Place OpenClAddresses::find(const void* address) const noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  if (at < lowest_.load(std::memory_order_relaxed) || at >= end_.load(std::memory_order_relaxed)) return {};
  const std::scoped_lock lock(mutex_);
  auto found = ranges_.upper_bound(at);
  if (found == ranges_.begin()) return {};
  --found;
  const std::size_t offset = at - found->first;
  if (offset >= found->second.bytes) return {};
  return {found->second.buffer, offset, found->second.bytes - offset, found->second.device};
}

using namespace opencl;

struct Device {
  Object id = nullptr;
  Object context = nullptr;
};

/// A stream waits for a user event until the host completes the event.
class EventGate final : public Gate {
 public:
  explicit EventGate(const Api& api) : api_(api) {}
  ~EventGate() override {
    if (event_ == nullptr) return;
    open();
    (void)api_.release_event(event_);
  }
  DriverResult make(Object context) noexcept {
    Result code = 0;
    event_ = api_.create_event.raw()(context, &code);
    return {api_.create_event.name(), code};
  }
  const Object& event() const noexcept { return event_; }
  void open() noexcept override {
    // Relaxed: it only determines which call is the first. The library orders the memory accesses.
    if (!is_open_.exchange(true, std::memory_order_relaxed)) (void)api_.set_event(event_, complete);
  }

 private:
  const Api& api_;
  Object event_ = nullptr;
  std::atomic<bool> is_open_{false};
};

class EventGates final : public GateCalls {
 public:
  explicit EventGates(const Api& api) : api_(api) {}
  std::string why_not() const override { return {}; }
  DriverResult stop(std::unique_ptr<Gate>& gate, void* queue) const override {
    Object context = nullptr;
    if (const DriverResult result = api_.queue_info(queue, queue_context, sizeof context, &context, nullptr);
        !result.ok())
      return result;
    auto made = std::make_unique<EventGate>(api_);
    DriverResult result = made->make(context);
    if (result.ok()) result = api_.barrier(queue, 1, &made->event(), nullptr);
    if (result.ok()) result = api_.flush(queue);
    if (result.ok()) gate = std::move(made);
    return result;
  }

 private:
  const Api& api_;
};

/// The device of enter(). OpenCL itself has no current device.
thread_local int entered_device = 0;

class OpenClVendor final : public Vendor {
 public:
  OpenClVendor() : library_(opencl_library), api_(library_) {
    why_not_ = library_.why_not();
    if (why_not_.empty()) start();
  }
  ~OpenClVendor() override {
    for (const Device& device : devices_) (void)api_.release_context(device.context);
  }

  const char* name() const noexcept override { return "opencl"; }
  MemoryType type() const noexcept override { return MemoryType::OPENCL; }
  std::string why_no_vmm() const override { return "OpenCL has no call to export memory to other processes"; }
  const std::string& why_not() const noexcept override { return why_not_; }
  LibraryInfo library() const override { return {library_.path(), version_}; }
  int device_count() const noexcept override { return static_cast<int>(devices_.size()); }
  std::string device_name(int device) const override {
    return text_of(api_.device_info, at(device).id, opencl::device_name);
  }
  std::size_t device_bytes(int device) const override {
    unsigned long bytes = 0;
    return api_.device_info(at(device).id, device_global_bytes, sizeof bytes, &bytes, nullptr).ok() ? bytes : 0;
  }
  std::string code_name(long code) const override {
    switch (code) {
      case -4: return "CL_MEM_OBJECT_ALLOCATION_FAILURE";
      case -5: return "CL_OUT_OF_RESOURCES";
      case -6: return "CL_OUT_OF_HOST_MEMORY";
      case -8: return "CL_MEM_COPY_OVERLAP";
      case -30: return "CL_INVALID_VALUE";
      case -34: return "CL_INVALID_CONTEXT";
      case -36: return "CL_INVALID_COMMAND_QUEUE";
      case -38: return "CL_INVALID_MEM_OBJECT";
      case -61: return "CL_INVALID_BUFFER_SIZE";
      default: return {};
    }
  }
  bool means_out_of_memory(long code) const noexcept override {
    return code == error_allocation || code == error_out_of_resources || code == error_out_of_host_memory ||
           code == -61;
  }

  DriverResult enter(int device, void*& previous) const noexcept override {
    previous = reinterpret_cast<void*>(static_cast<std::intptr_t>(entered_device));
    entered_device = device;
    return {};
  }
  void leave(void* previous) const noexcept override {
    entered_device = static_cast<int>(reinterpret_cast<std::intptr_t>(previous));
  }

  bool has(Backing backing) const noexcept override { return backing == Backing::plain; }
  DriverResult allocate(void*& address, std::size_t bytes, Backing, void*) const noexcept override {
    Result code = 0;
    Object const buffer =
        api_.create_buffer.raw()(at(entered_device).context, memory_read_write, bytes, nullptr, &code);
    if (code != 0) return {api_.create_buffer.name(), code};
    address = addresses_.add(buffer, bytes, entered_device);
    if (address != nullptr) return {api_.create_buffer.name(), 0};
    (void)api_.release_buffer(buffer);
    return {"mmap", error_out_of_host_memory};
  }
  DriverResult free(void* address, Backing, void*) const noexcept override {
    Object const buffer = addresses_.remove(address);
    if (buffer == nullptr) return {api_.release_buffer.name(), -38};
    return api_.release_buffer(buffer);
  }

  DriverResult copy(const Transfer& transfer, void* queue) const noexcept override {
    const auto to = addresses_.find(transfer.destination), from = addresses_.find(transfer.source);
    if (transfer.direction == Direction::host_to_device)
      return flushed(queue,
                     api_.write(queue, to.buffer, 0, to.offset, transfer.width, transfer.source, 0, nullptr, nullptr));
    if (transfer.direction == Direction::device_to_host)
      return flushed(queue, api_.read(queue, from.buffer, 0, from.offset, transfer.width, transfer.destination, 0,
                                      nullptr, nullptr));
    if (to.device != from.device) return {api_.copy.name(), DriverResult::missing};
    return flushed(
        queue, api_.copy(queue, from.buffer, to.buffer, from.offset, to.offset, transfer.width, 0, nullptr, nullptr));
  }
  DriverResult copy_2d(const Transfer& transfer, void* queue) const noexcept override {
    if (transfer.direction == Direction::device_to_device) return {"clEnqueueCopyBufferRect", DriverResult::missing};
    const bool writes = transfer.direction == Direction::host_to_device;
    const auto place = addresses_.find(writes ? transfer.destination : transfer.source);
    const std::size_t pitch = writes ? transfer.destination_pitch : transfer.source_pitch;
    const std::size_t host_pitch = writes ? transfer.source_pitch : transfer.destination_pitch;
    // The call takes the start as (column, row), so the offset is split by the pitch. The rectangle must not wrap.
    const std::array<std::size_t, 3> origin{place.offset % pitch, place.offset / pitch, 0}, host_origin{};
    const std::array<std::size_t, 3> region{transfer.width, transfer.height, 1};
    if (origin[0] + transfer.width > pitch) return {api_.write_rect.name(), DriverResult::missing};
    const DriverResult result =
        writes ? api_.write_rect(queue, place.buffer, 0, origin.data(), host_origin.data(), region.data(), pitch, 0,
                                 host_pitch, 0, transfer.source, 0, nullptr, nullptr)
               : api_.read_rect(queue, place.buffer, 0, origin.data(), host_origin.data(), region.data(), pitch, 0,
                                host_pitch, 0, transfer.destination, 0, nullptr, nullptr);
    return flushed(queue, result);
  }
  DriverResult fill(void* destination, unsigned char value, std::size_t bytes, void* queue) const noexcept override {
    const auto to = addresses_.find(destination);
    return flushed(queue, api_.fill(queue, to.buffer, &value, 1, to.offset, bytes, 0, nullptr, nullptr));
  }

  DriverResult create_stream(void*& stream) const noexcept override {
    Result code = 0;
    stream = api_.create_queue.raw()(at(entered_device).context, at(entered_device).id, 0, &code);
    return {api_.create_queue.name(), code};
  }
  DriverResult destroy_stream(void* stream) const noexcept override { return api_.release_queue(stream); }
  DriverResult synchronize_stream(void* stream) const noexcept override { return api_.finish(stream); }
  DriverResult query_stream(bool& done, void* stream) const noexcept override {
    Object event = nullptr;
    if (const DriverResult result = api_.marker(stream, 0, nullptr, &event); !result.ok()) return result;
    DriverResult result = flushed(stream, {});
    // The marker of an idle queue completes when a thread of the library has run. Without these yields a caller that
    // polls on a busy machine would find a new, incomplete marker each time.
    constexpr int yields = 200;
    done = false;
    for (int i = 0; i < yields && result.ok() && !done; ++i) {
      if (i > 0) ::sched_yield();
      result = status_of(done, event);
    }
    (void)api_.release_event(event);
    return result;
  }

  // OpenCL creates an event when it is recorded, so the handle of an HMC event is a box with the current OpenCL event.
  struct Box {
    Object event = nullptr;
  };
  DriverResult create_event(void*& event) const noexcept override {
    event = new (std::nothrow) Box;
    return {"new", event == nullptr ? error_out_of_host_memory : 0};
  }
  DriverResult destroy_event(void* event) const noexcept override {
    Box* const box = static_cast<Box*>(event);
    const DriverResult result = box->event == nullptr ? DriverResult{} : api_.release_event(box->event);
    delete box;
    return result;
  }
  DriverResult record_event(void* event, void* stream) const noexcept override {
    Box* const box = static_cast<Box*>(event);
    Object recorded = nullptr;
    if (const DriverResult result = api_.marker(stream, 0, nullptr, &recorded); !result.ok()) return result;
    if (box->event != nullptr) (void)api_.release_event(box->event);
    box->event = recorded;
    return flushed(stream, {});
  }
  DriverResult synchronize_event(void* event) const noexcept override {
    Box* const box = static_cast<Box*>(event);
    return box->event == nullptr ? DriverResult{} : api_.wait_events(1, &box->event);
  }
  DriverResult query_event(bool& done, void* event) const noexcept override {
    Box* const box = static_cast<Box*>(event);
    done = true;
    return box->event == nullptr ? DriverResult{} : status_of(done, box->event);
  }
  DriverResult stream_wait(void* stream, void* event) const noexcept override {
    Box* const box = static_cast<Box*>(event);
    if (box->event == nullptr) return {};
    return flushed(stream, api_.barrier(stream, 1, &box->event, nullptr));
  }

  const GateCalls& gates() const noexcept override { return gates_; }

  PointerInfo query(const void* address) const noexcept override {
    const auto place = addresses_.find(address);
    if (place.buffer == nullptr) return {};
    return {PointerKind::device, place.device};
  }
  NativeMemory native(const void* address) const noexcept override {
    const auto place = addresses_.find(address);
    return {place.buffer, place.offset};
  }
  void* native_context(int device) const noexcept override { return at(device).context; }

 private:
  const Device& at(int device) const noexcept { return devices_[static_cast<std::size_t>(device)]; }

  /// Without a flush, queued commands may never start.
  DriverResult flushed(void* queue, DriverResult result) const noexcept {
    return result.ok() ? api_.flush(queue) : result;
  }
  DriverResult status_of(bool& done, Object event) const noexcept {
    int status = 0;  // 0 complete, 1 running, 2 submitted, 3 queued; negative: the command's error
    const DriverResult result = api_.event_info(event, event_status, sizeof status, &status, nullptr);
    done = status <= 0;
    if (result.ok() && status < 0) return {result.call, status};
    return result;
  }

  static std::string text_of(const Symbol<Api::Info>& info, Object object, Uint what) {
    std::size_t bytes = 0;
    if (!info(object, what, 0, nullptr, &bytes).ok() || bytes == 0) return {};
    std::string text(bytes, '\0');
    if (!info(object, what, bytes, text.data(), nullptr).ok()) return {};
    text.resize(std::strlen(text.c_str()));
    return text;
  }

  void start() {
    Uint count = 0;
    const DriverResult result = api_.platforms(0, nullptr, &count);
    if (!result.ok() && result.code != error_no_platform) {
      why_not_ = fmt::format("{} answered {}", result.call, result.code);
      return;
    }
    std::vector<Object> platforms(count);
    if (count > 0) (void)api_.platforms(count, platforms.data(), nullptr);
    for (Object platform : platforms) add_devices(platform);
    if (devices_.empty()) why_not_ = "the OpenCL loader finds no device";
  }
  void add_devices(Object platform) {
    Uint count = 0;
    if (!api_.devices(platform, device_type_all, 0, nullptr, &count).ok()) return;
    std::vector<Object> ids(count);
    if (!api_.devices(platform, device_type_all, count, ids.data(), nullptr).ok()) return;
    if (version_.empty()) version_ = text_of(api_.platform_info, platform, platform_version);
    for (Object id : ids) {
      Result code = 0;
      Object const context = api_.create_context.raw()(nullptr, 1, &id, nullptr, nullptr, &code);
      if (code == 0) devices_.push_back({id, context});
    }
  }

  Library library_;
  Api api_;
  EventGates gates_{api_};
  std::string why_not_;
  std::string version_;
  std::vector<Device> devices_;
  mutable OpenClAddresses addresses_;
};

}  // namespace

std::unique_ptr<Vendor> open_opencl() { return std::make_unique<OpenClVendor>(); }

}  // namespace hmc::memory
