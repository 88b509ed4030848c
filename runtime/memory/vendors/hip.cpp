// AMD, and Hygon's DTK, whose library has the same functions under another file name.
#include <fmt/format.h>

#include <array>

#include "runtime/memory/gates.hpp"
#include "runtime/memory/vendors/runtime_vendor.hpp"

namespace hmc::memory {

namespace {

using namespace runtime_api;

constexpr Names names = HMC_RUNTIME_NAMES("hip", "hipInit", "hipHostMalloc", "hipHostFree");

constexpr int version_of(int major, int minor) { return major * 10'000'000 + minor * 100'000; }

class HipIpc final : public IpcCalls {
 public:
  HipIpc(const Api& api, const HipApi& hip) : api_(api), hip_(hip) {}
  DriverResult get(IpcHandle& handle, void* address) const noexcept override {
    return api_.ipc_get(reinterpret_cast<IpcMemHandle*>(handle.bytes), address);
  }
  DriverResult open(void*& address, const IpcHandle& handle) const noexcept override {
    IpcMemHandle theirs;
    std::memcpy(&theirs, handle.bytes, sizeof theirs);
    const DriverResult result = api_.ipc_open(&address, theirs, ipc_lazy_peer_access);
    if (result.code != error_invalid_value) return result;  // each version accepts only its own value of the flag
    return api_.ipc_open(&address, theirs, ipc_lazy_peer_access_older);
  }
  DriverResult close(void* address) const noexcept override { return api_.ipc_close(address); }
  // HIP writes both results without a check for null.
  DriverResult range(void*& start, std::size_t& bytes, void* address) const noexcept override {
    return hip_.range(&start, &bytes, address);
  }

 private:
  const Api& api_;
  const HipApi& hip_;
};

AllocationProp prop_of(int device) noexcept {
  AllocationProp prop{};
  prop.type = allocation_pinned;
  prop.handle_type = handle_posix_fd;
  prop.location = {location_device, device};
  return prop;
}

void* to_native(VmmCalls::Handle handle) noexcept { return reinterpret_cast<void*>(handle); }

class HipVmm final : public VmmCalls {
 public:
  HipVmm(const HipApi& hip, int version) : hip_(hip), version_(version) {}

  // The device attribute for this differs between versions, so the trial determines whether a device supports it.
  std::string why_not(int) const override {
    // The layout of hipMemAllocationProp changed in ROCm 6.
    if (version_ < version_of(6, 0)) return "the library is older than ROCm 6";
    return hip_.create && hip_.import_handle && hip_.set_access ? "" : "the library has no virtual memory management";
  }
  DriverResult granularity(std::size_t& bytes, int device) const noexcept override {
    const AllocationProp prop = prop_of(device);
    return hip_.granularity(&bytes, &prop, granularity_recommended);
  }
  DriverResult create(VmmCalls::Handle& handle, std::size_t bytes, int device, bool) const noexcept override {
    const AllocationProp prop = prop_of(device);
    void* made = nullptr;
    const DriverResult result = hip_.create(&made, bytes, &prop, 0);
    handle = reinterpret_cast<VmmCalls::Handle>(made);
    return result;
  }
  DriverResult release(VmmCalls::Handle handle) const noexcept override { return hip_.release(to_native(handle)); }
  DriverResult export_fd(int& fd, VmmCalls::Handle handle) const noexcept override {
    return hip_.export_handle(&fd, to_native(handle), handle_posix_fd, 0);
  }
  DriverResult import_fd(VmmCalls::Handle& handle, int fd) const noexcept override {
    // Before ROCm 7.1 the function takes the address of the descriptor, since 7.1 the descriptor itself.
    void* const os_handle =
        version_ >= version_of(7, 1) ? reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)) : &fd;
    void* made = nullptr;
    const DriverResult result = hip_.import_handle(&made, os_handle, handle_posix_fd);
    handle = reinterpret_cast<VmmCalls::Handle>(made);
    return result;
  }
  bool needs_imported_fd() const noexcept override { return true; }  // HIP uses it when it maps the memory
  DriverResult reserve(void*& address, std::size_t bytes, std::size_t alignment) const noexcept override {
    return hip_.reserve(&address, bytes, alignment, nullptr, 0);
  }
  DriverResult unreserve(void* address, std::size_t bytes) const noexcept override {
    return hip_.unreserve(address, bytes);
  }
  DriverResult map(void* address, std::size_t bytes, VmmCalls::Handle handle) const noexcept override {
    return hip_.map(address, bytes, 0, to_native(handle), 0);
  }
  DriverResult unmap(void* address, std::size_t bytes) const noexcept override { return hip_.unmap(address, bytes); }
  DriverResult set_access(void* address, std::size_t bytes, int device, Access access) const noexcept override {
    const AccessDesc permitted{{location_device, device}, access == Access::read ? access_read : access_read_write};
    return hip_.set_access(address, bytes, &permitted, 1);
  }

 private:
  const HipApi& hip_;
  int version_;
};

class HipKernels final : public KernelCalls {
 public:
  explicit HipKernels(const HipApi& hip) : hip_(hip) {}
  std::string why_not() const override {
    return hip_.load_module && hip_.get_function && hip_.launch ? "" : "the library has no hipModuleLoadData";
  }
  std::string architecture(int) const override { return {}; }  // hipRTC uses the current device's
  DriverResult load(void*& module, const void* image) const noexcept override {
    return hip_.load_module(&module, image);
  }
  DriverResult unload(void* module) const noexcept override { return hip_.unload_module(module); }
  DriverResult function(void*& function, void* module, const char* name) const noexcept override {
    return hip_.get_function(&function, module, name);
  }
  DriverResult launch(void* function, unsigned blocks, unsigned threads, void** arguments,
                      void* stream) const noexcept override {
    return hip_.launch(function, blocks, 1, 1, threads, 1, 1, 0, stream, arguments, nullptr);
  }
  // HIP's streams wait only for words in signal memory, which processes can't share.
  std::string why_no_words(int) const override { return "HIP's streams can't wait for words that processes share"; }
  DriverResult register_host(void*, std::size_t) const noexcept override { return no_words; }
  DriverResult unregister_host(void*) const noexcept override { return no_words; }
  DriverResult device_address(void*&, void*) const noexcept override { return no_words; }
  DriverResult write_word(void*, void*, unsigned) const noexcept override { return no_words; }
  DriverResult wait_word(void*, void*, unsigned) const noexcept override { return no_words; }

 private:
  static constexpr DriverResult no_words{"hipStreamWaitValue32", DriverResult::missing};
  const HipApi& hip_;
};

/// Words in signal memory. Each word is an allocation of one device.
class HipGates final : public WordGates {
 public:
  HipGates(const Api& api, const HipApi& hip) : api_(api), hip_(hip) {}
  ~HipGates() override {
    for (void* const word : made_) (void)api_.free(word);
  }
  std::string why_not() const override {
    return hip_.allocate_signal && hip_.wait_signal ? "" : "the library has no hipStreamWaitValue64";
  }

 private:
  static constexpr int at_once = 64;  // many words at once, because an allocation may wait for streams
  DriverResult device(int& device) const noexcept override { return api_.get_device(&device); }
  DriverResult make(std::vector<Word>& words) const override {
    Word word;
    DriverResult result = device(word.device);
    for (int i = 0; result.ok() && i < at_once; ++i) {
      made_.reserve(made_.size() + 1);
      words.reserve(words.size() + 1);
      result = hip_.allocate_signal(&word.seen, sizeof *word.written, signal_memory);
      if (!result.ok()) break;
      made_.push_back(word.seen);
      word.written = static_cast<std::uint64_t*>(word.seen);
      *word.written = 0;  // no stream waits for it yet
      words.push_back(word);
    }
    if (!words.empty()) result.code = 0;
    return result;
  }
  DriverResult wait(void* stream, const Word& word, std::uint64_t value) const noexcept override {
    return hip_.wait_signal(stream, word.seen, value, wait_until_past, ~std::uint64_t{0});
  }

  const Api& api_;
  const HipApi& hip_;
  mutable std::vector<void*> made_;
};

class HipVendor final : public RuntimeVendor {
 public:
  HipVendor()
      : RuntimeVendor(hip_library, names),
        hip_(library_),
        version_(version()),
        ipc_(api_, hip_),
        vmm_(hip_, version_),
        kernels_(hip_),
        gates_by_words_(api_, hip_) {}

  const char* name() const noexcept override { return "hip"; }
  MemoryType type() const noexcept override { return MemoryType::AMD_GPU; }
  std::string device_name(int device) const override {
    std::array<char, 256> text{};
    if (!hip_.device_name(text.data(), static_cast<int>(text.size()) - 1, device).ok()) return {};
    return text.data();
  }
  std::size_t device_bytes(int device) const override {
    std::size_t bytes = 0;
    return hip_.device_bytes(&bytes, device).ok() ? bytes : 0;
  }
  const IpcCalls* ipc() const noexcept override { return api_.ipc_get && hip_.range ? &ipc_ : nullptr; }
  const VmmCalls* vmm() const noexcept override { return &vmm_; }
  const KernelCalls* kernels() const noexcept override { return &kernels_; }
  const GateCalls& gates() const noexcept override {
    return gates_by_words_.why_not().empty() ? static_cast<const GateCalls&>(gates_by_words_) : RuntimeVendor::gates();
  }

 protected:
  std::string version_text() const override {
    if (version_ == 0) return {};
    return fmt::format("HIP {}.{}", version_ / 10'000'000, version_ / 100'000 % 100);
  }
  PointerKind kind_of(const PointerAttributes& attributes) const noexcept override {
    if (attributes.is_managed != 0) return PointerKind::managed;
    // Since ROCm 6 the numbers equal CUDA's. In earlier versions 0 is the host and 1 a device.
    const int shift = version_ >= version_of(6, 0) ? 0 : 1;
    const int type = attributes.type + shift;
    return type == 2   ? PointerKind::device
           : type == 1 ? PointerKind::pinned
           : type == 3 ? PointerKind::managed
                       : PointerKind::unknown;
  }

 private:
  HipApi hip_;
  int version_;
  HipIpc ipc_;
  HipVmm vmm_;
  HipKernels kernels_;
  HipGates gates_by_words_;
};

}  // namespace

std::unique_ptr<Vendor> open_hip() { return std::make_unique<HipVendor>(); }

}  // namespace hmc::memory
