// NVIDIA, through the driver API. Every call runs in the device's primary context, which CUDA's runtime uses too.
// leave() restores the caller's context.
#include <fmt/format.h>

#include <array>
#include <mutex>
#include <vector>

#include "runtime/memory/gates.hpp"
#include "runtime/memory/vendor.hpp"
#include "runtime/memory/vendors/cuda_api.hpp"

namespace hmc::memory {

namespace {

using namespace cuda;

Address to_address(const void* pointer) noexcept { return reinterpret_cast<Address>(pointer); }
void* to_pointer(Address address) noexcept { return reinterpret_cast<void*>(address); }

class CudaIpc final : public IpcCalls {
 public:
  explicit CudaIpc(const Api& api) : api_(api) {}
  DriverResult get(IpcHandle& handle, void* address) const noexcept override {
    static_assert(sizeof(IpcMemHandle) == sizeof handle.bytes);
    return api_.ipc_get(reinterpret_cast<IpcMemHandle*>(handle.bytes), to_address(address));
  }
  DriverResult open(void*& address, const IpcHandle& handle) const noexcept override {
    IpcMemHandle theirs;
    std::memcpy(&theirs, handle.bytes, sizeof theirs);
    Address found = 0;
    const DriverResult result = api_.ipc_open(&found, theirs, ipc_lazy_peer_access);
    address = to_pointer(found);
    return result;
  }
  DriverResult close(void* address) const noexcept override { return api_.ipc_close(to_address(address)); }
  DriverResult range(void*& start, std::size_t& bytes, void* address) const noexcept override {
    Address found = 0;
    const DriverResult result = api_.range(&found, &bytes, to_address(address));
    start = to_pointer(found);
    return result;
  }

 private:
  const Api& api_;
};

AllocationProp prop_of(int device) noexcept {
  AllocationProp prop{};
  prop.type = allocation_pinned;
  prop.handle_types = handle_posix_fd;
  prop.location = {location_device, device};
  return prop;
}

class CudaVmm final : public VmmCalls {
 public:
  explicit CudaVmm(const Api& api) : api_(api) {}

  std::string why_not(int device) const override {
    if (!api_.create || !api_.import_handle || !api_.set_access) return "the driver is older than CUDA 11";
    int yes = 0;
    if (!api_.device_attribute(&yes, attribute_vmm, device).ok() || yes == 0)
      return "the device has no virtual memory management";
    if (!api_.device_attribute(&yes, attribute_posix_fd, device).ok() || yes == 0)
      return "the device's memory can't be exported as a file descriptor";
    return {};
  }
  DriverResult granularity(std::size_t& bytes, int device) const noexcept override {
    const AllocationProp prop = prop_of(device);
    return api_.granularity(&bytes, &prop, granularity_recommended);
  }
  DriverResult create(Handle& handle, std::size_t bytes, int device, bool fabric) const noexcept override {
    AllocationProp prop = prop_of(device);
    if (fabric) prop.handle_types |= handle_fabric;
    return api_.create(&handle, bytes, &prop, 0);
  }
  DriverResult release(Handle handle) const noexcept override { return api_.release(handle); }
  DriverResult export_fd(int& fd, Handle handle) const noexcept override {
    return api_.export_handle(&fd, handle, handle_posix_fd, 0);
  }
  DriverResult import_fd(Handle& handle, int fd) const noexcept override {
    return api_.import_handle(&handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)), handle_posix_fd);
  }
  std::string why_no_fabric(int device) const override {
    int yes = 0;
    if (!api_.device_attribute(&yes, attribute_fabric, device).ok()) return "the driver is older than CUDA 12.3";
    return yes != 0 ? "" : "the device's memory can't be exported as a fabric handle";
  }
  DriverResult export_fabric(IpcHandle& theirs, Handle handle) const noexcept override {
    return api_.export_handle(theirs.bytes, handle, handle_fabric, 0);
  }
  DriverResult import_fabric(Handle& handle, const IpcHandle& theirs) const noexcept override {
    return api_.import_handle(&handle, const_cast<std::byte*>(theirs.bytes), handle_fabric);
  }
  DriverResult reserve(void*& address, std::size_t bytes, std::size_t alignment) const noexcept override {
    Address found = 0;
    const DriverResult result = api_.reserve(&found, bytes, alignment, 0, 0);
    address = to_pointer(found);
    return result;
  }
  DriverResult unreserve(void* address, std::size_t bytes) const noexcept override {
    return api_.unreserve(to_address(address), bytes);
  }
  DriverResult map(void* address, std::size_t bytes, Handle handle) const noexcept override {
    return api_.map(to_address(address), bytes, 0, handle, 0);
  }
  DriverResult unmap(void* address, std::size_t bytes) const noexcept override {
    return api_.unmap(to_address(address), bytes);
  }
  DriverResult set_access(void* address, std::size_t bytes, int device, Access access) const noexcept override {
    const AccessDesc permitted{{location_device, device}, access == Access::read ? access_read : access_read_write};
    return api_.set_access(to_address(address), bytes, &permitted, 1);
  }

 private:
  const Api& api_;
};

class CudaKernels final : public KernelCalls {
 public:
  explicit CudaKernels(const Api& api) : api_(api) {}
  std::string why_not() const override {
    return api_.load_module && api_.get_function && api_.launch ? "" : "the driver has no cuModuleLoadData";
  }
  std::string architecture(int device) const override {
    int major = 0, minor = 0;
    if (!api_.device_attribute(&major, attribute_major, device).ok()) return {};
    if (!api_.device_attribute(&minor, attribute_minor, device).ok()) return {};
    return fmt::format("sm_{}{}", major, minor);
  }
  DriverResult load(void*& module, const void* image) const noexcept override {
    return api_.load_module(&module, image);
  }
  DriverResult unload(void* module) const noexcept override { return api_.unload_module(module); }
  DriverResult function(void*& function, void* module, const char* name) const noexcept override {
    return api_.get_function(&function, module, name);
  }
  DriverResult launch(void* function, unsigned blocks, unsigned threads, void** arguments,
                      void* stream) const noexcept override {
    return api_.launch(function, blocks, 1, 1, threads, 1, 1, 0, stream, arguments, nullptr);
  }
  std::string why_no_words(int) const override {
    if (!api_.write_word || !api_.wait_word) return "the driver is older than CUDA 11.7";
    return api_.pin && api_.host_address ? "" : "the driver can't register host memory";
  }
  DriverResult register_host(void* address, std::size_t bytes) const noexcept override {
    return api_.pin(address, bytes, host_register_portable | host_register_mapped);
  }
  DriverResult unregister_host(void* address) const noexcept override { return api_.unpin(address); }
  DriverResult device_address(void*& seen, void* address) const noexcept override {
    Address found = 0;
    const DriverResult result = api_.host_address(&found, address, 0);
    seen = to_pointer(found);
    return result;
  }
  DriverResult write_word(void* stream, void* word, unsigned value) const noexcept override {
    return api_.write_word(stream, to_address(word), value, 0);
  }
  DriverResult wait_word(void* stream, void* word, unsigned value) const noexcept override {
    return api_.wait_word(stream, to_address(word), value, wait_until_past);
  }

 private:
  const Api& api_;
};

/// Words in pinned host memory, for the streams of all devices.
class CudaGates final : public WordGates {
 public:
  explicit CudaGates(const Api& api) : api_(api) {}
  /// A context must be current.
  void free_words() noexcept {
    for (void* const block : blocks_) (void)api_.free_host(block);
    blocks_.clear();
  }
  std::string why_not() const override {
    return api_.wait_word && api_.host_address ? "" : "the driver is older than CUDA 11.7";
  }

 private:
  static constexpr std::size_t line = 64, block_bytes = 65536;  // many words: pinning may wait for work
  DriverResult device(int&) const noexcept override { return {}; }
  DriverResult make(std::vector<Word>& words) const override {
    void* block = nullptr;
    Address seen = 0;
    DriverResult result = api_.allocate_host(&block, block_bytes, host_alloc_portable | host_alloc_mapped);
    if (!result.ok()) return result;
    blocks_.push_back(block);
    result = api_.host_address(&seen, block, 0);
    std::memset(block, 0, block_bytes);
    for (std::size_t at = 0; result.ok() && at < block_bytes; at += line)
      words.push_back({reinterpret_cast<std::uint64_t*>(static_cast<std::byte*>(block) + at), to_pointer(seen + at)});
    return result;
  }
  DriverResult wait(void* stream, const Word& word, std::uint64_t value) const noexcept override {
    return api_.wait_word(stream, to_address(word.seen), static_cast<unsigned>(value), wait_until_past);
  }

  const Api& api_;
  mutable std::vector<void*> blocks_;
};

class CudaVendor final : public Vendor {
 public:
  CudaVendor() : library_(cuda_library), api_(library_), ipc_(api_), vmm_(api_), kernels_(api_) {
    why_not_ = library_.why_not();
    if (why_not_.empty()) start();
  }
  ~CudaVendor() override {
    for (std::size_t i = 0; i < contexts_.size(); ++i) {
      if (contexts_[i] == nullptr) continue;
      const int device = static_cast<int>(i);
      if (const OnDevice here(*this, device); here.result().ok()) gates_.free_words();
      (void)api_.release_context(device);
    }
  }

  const char* name() const noexcept override { return "cuda"; }
  MemoryType type() const noexcept override { return MemoryType::NVIDIA_GPU; }
  const std::string& why_not() const noexcept override { return why_not_; }
  LibraryInfo library() const override {
    int version = 0;
    if (!api_.driver_version || !api_.driver_version(&version).ok()) return {library_.path(), {}};
    return {library_.path(), fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10)};
  }
  int device_count() const noexcept override { return count_; }
  std::string device_name(int device) const override {
    std::array<char, 256> text{};
    if (!api_.device_name(text.data(), static_cast<int>(text.size()) - 1, device).ok()) return {};
    return text.data();
  }
  std::size_t device_bytes(int device) const override {
    std::size_t bytes = 0;
    return api_.device_bytes(&bytes, device).ok() ? bytes : 0;
  }
  std::string code_name(long code) const override {
    const char* text = nullptr;
    if (!api_.error_name(static_cast<int>(code), &text).ok() || text == nullptr) return {};
    return text;
  }
  bool means_out_of_memory(long code) const noexcept override { return code == error_out_of_memory; }

  DriverResult enter(int device, void*& previous) const noexcept override {
    previous = nullptr;  // contexts form a stack, so leave() only pops
    void* context = nullptr;
    if (const DriverResult result = context_of(context, device); !result.ok()) return result;
    return api_.push_context(context);
  }
  void leave(void*) const noexcept override {
    Context popped = nullptr;
    (void)api_.pop_context(&popped);
  }
  int current_device() const noexcept override {
    int device = 0;
    return api_.context_device(&device).ok() ? device : 0;  // it fails if this thread has no context
  }

  bool has(Backing backing) const noexcept override {
    if (backing == Backing::stream_ordered) return static_cast<bool>(api_.allocate_async);
    return true;
  }
  DriverResult allocate(void*& address, std::size_t bytes, Backing backing, void* stream) const noexcept override {
    if (backing == Backing::pinned) return api_.allocate_host(&address, bytes, host_alloc_portable);
    Address found = 0;
    const DriverResult result = backing == Backing::managed ? api_.allocate_managed(&found, bytes, attach_global)
                                : backing == Backing::stream_ordered ? api_.allocate_async(&found, bytes, stream)
                                                                     : api_.allocate(&found, bytes);
    address = to_pointer(found);
    return result;
  }
  DriverResult free(void* address, Backing backing, void* stream) const noexcept override {
    if (backing == Backing::pinned) return api_.free_host(address);
    if (backing == Backing::stream_ordered) return api_.free_async(to_address(address), stream);
    return api_.free(to_address(address));
  }

  DriverResult pin(void* address, std::size_t bytes) const noexcept override {
    return api_.pin(address, bytes, host_register_portable);
  }
  DriverResult unpin(void* address) const noexcept override { return api_.unpin(address); }

  DriverResult copy(const Transfer& transfer, void* stream) const noexcept override {
    const Address to = to_address(transfer.destination), from = to_address(transfer.source);
    if (transfer.direction == Direction::host_to_device)
      return api_.to_device(to, transfer.source, transfer.width, stream);
    if (transfer.direction == Direction::device_to_host)
      return api_.to_host(transfer.destination, from, transfer.width, stream);
    if (transfer.source_device == transfer.destination_device) return api_.within(to, from, transfer.width, stream);
    void *to_context = nullptr, *from_context = nullptr;
    if (const DriverResult result = context_of(to_context, transfer.destination_device); !result.ok()) return result;
    if (const DriverResult result = context_of(from_context, transfer.source_device); !result.ok()) return result;
    return api_.peer(to, to_context, from, from_context, transfer.width, stream);
  }
  DriverResult copy_2d(const Transfer& transfer, void* stream) const noexcept override {
    Copy2D copy{};
    const bool to_host = transfer.direction == Direction::device_to_host;
    const bool from_host = transfer.direction == Direction::host_to_device;
    copy.source_type = from_host ? memory_host : memory_device;
    copy.source_host = from_host ? transfer.source : nullptr;
    copy.source_device = from_host ? 0 : to_address(transfer.source);
    copy.source_pitch = transfer.source_pitch;
    copy.destination_type = to_host ? memory_host : memory_device;
    copy.destination_host = to_host ? transfer.destination : nullptr;
    copy.destination_device = to_host ? 0 : to_address(transfer.destination);
    copy.destination_pitch = transfer.destination_pitch;
    copy.width = transfer.width;
    copy.height = transfer.height;
    return api_.copy_2d(&copy, stream);
  }
  DriverResult fill(void* destination, unsigned char value, std::size_t bytes, void* stream) const noexcept override {
    return api_.fill(to_address(destination), value, bytes, stream);
  }

  DriverResult create_stream(void*& stream) const noexcept override {
    return api_.create_stream(&stream, stream_non_blocking);
  }
  DriverResult destroy_stream(void* stream) const noexcept override { return api_.destroy_stream(stream); }
  DriverResult synchronize_stream(void* stream) const noexcept override { return api_.synchronize_stream(stream); }
  DriverResult query_stream(bool& done, void* stream) const noexcept override {
    const DriverResult result = api_.query_stream(stream);
    return done_or(done, result, result.code == error_not_ready);
  }
  DriverResult create_event(void*& event) const noexcept override {
    return api_.create_event(&event, event_disable_timing);
  }
  DriverResult destroy_event(void* event) const noexcept override { return api_.destroy_event(event); }
  DriverResult record_event(void* event, void* stream) const noexcept override {
    return api_.record_event(event, stream);
  }
  DriverResult synchronize_event(void* event) const noexcept override { return api_.synchronize_event(event); }
  DriverResult query_event(bool& done, void* event) const noexcept override {
    const DriverResult result = api_.query_event(event);
    return done_or(done, result, result.code == error_not_ready);
  }
  DriverResult stream_wait(void* stream, void* event) const noexcept override {
    return api_.stream_wait(stream, event, 0);
  }

  // cuPointerGetAttributes needs no context, unlike the call for a single attribute. The type of a host pointer is 0.
  PointerInfo query(const void* address) const noexcept override {
    unsigned kind = 0, managed = 0;
    int device = -1;
    std::array<int, 3> wanted{pointer_memory_type, pointer_is_managed, pointer_device};
    std::array<void*, 3> got{&kind, &managed, &device};
    if (!api_.pointer_attributes(3, wanted.data(), got.data(), to_address(address)).ok() || kind == 0) return {};
    if (managed != 0) return {PointerKind::managed, device};
    return {kind == memory_device ? PointerKind::device : PointerKind::pinned, device};
  }

  const IpcCalls* ipc() const noexcept override { return &ipc_; }
  const VmmCalls* vmm() const noexcept override { return &vmm_; }
  const KernelCalls* kernels() const noexcept override { return &kernels_; }
  const GateCalls& gates() const noexcept override { return gates_; }

 private:
  void start() {
    DriverResult result = api_.init(0);
    if (result.ok()) result = api_.device_count(&count_);
    if (!result.ok()) why_not_ = fmt::format("{} answered {} ({})", result.call, code_name(result.code), result.code);
    if (result.ok() && count_ == 0) why_not_ = "the driver sees no device";
    contexts_.resize(static_cast<std::size_t>(count_), nullptr);
  }

  /// Retains the primary context at first use, because a context takes hundreds of megabytes of a device.
  /// An invalid device number fails as in the driver, because later code uses it as an index without a check.
  DriverResult context_of(void*& context, int device) const noexcept {
    if (device < 0 || device >= count_) return {api_.retain_context.name(), error_invalid_device};
    const std::scoped_lock lock(mutex_);
    void*& slot = contexts_[static_cast<std::size_t>(device)];
    DriverResult result{api_.retain_context.name(), 0};
    if (slot == nullptr) result = api_.retain_context(&slot, device);
    context = slot;
    return result;
  }

  Library library_;
  Api api_;
  CudaIpc ipc_;
  CudaVmm vmm_;
  CudaKernels kernels_;
  CudaGates gates_{api_};
  std::string why_not_;
  int count_ = 0;
  mutable std::mutex mutex_;
  mutable std::vector<void*> contexts_;
};

}  // namespace

std::unique_ptr<Vendor> open_cuda() { return std::make_unique<CudaVendor>(); }

}  // namespace hmc::memory
