// Memory, and the functions about memory of <hmc.h>.
#include <map>
#include <mutex>

#include <hmc.h>

#include "runtime/memory/provider.hpp"

namespace hmc {

const char* status_to_string(status_t status) noexcept {
  switch (status) {
    case status_t::SUCCESS: return "Succeeded";
    case status_t::ERROR: return "Error";
    case status_t::UNSUPPORT: return "Unsupported";
    case status_t::INVALID_CONFIG: return "Invalid config";
    case status_t::TIMEOUT: return "Timed out";
    case status_t::NOT_FOUND: return "Not found";
  }
  return "Unknown status";
}

namespace {

status_t older(Code code) noexcept {
  const int number = static_cast<int>(code);
  return number <= static_cast<int>(status_t::NOT_FOUND) ? static_cast<status_t>(number) : status_t::ERROR;
}

}  // namespace

MemoryType memory_supported() { return memory::resolved(MemoryType::DEFAULT); }

// No provider exports dma-buf descriptors, so device memory is staged through host memory. hmcinfo prints the reason.
bool memory_dmabuf_supported() { return false; }

struct Memory::State {
  std::mutex mutex;
  std::map<void*, std::shared_ptr<memory::Allocation>> buffers;
  const memory::Provider* provider = nullptr;
  int device = 0;
  MemoryType type = MemoryType::DEFAULT;
  status_t init = status_t::ERROR;

  status_t allocate(void** address, std::size_t size, memory::Backing backing) noexcept {
    if (address == nullptr) return status_t::ERROR;
    *address = nullptr;
    if (init != status_t::SUCCESS) return init;
    try {
      auto made = provider->allocate(device, size, backing);
      const std::lock_guard guard(mutex);
      *address = made->address;
      buffers[*address] = std::move(made);
      return status_t::SUCCESS;
    } catch (const Error& error) {
      return older(error.code());
    } catch (const std::exception&) {
      return status_t::ERROR;
    }
  }

  status_t copy(void* to, const void* from, std::size_t size) const noexcept {
    if (init != status_t::SUCCESS) return init;
    if (size > 0 && (to == nullptr || from == nullptr)) return status_t::ERROR;
    const base::Status status = memory::copy_between(to, from, size);
    return status.ok() ? status_t::SUCCESS : older(status.code);
  }
};

MemoryBase::~MemoryBase() = default;

namespace {

class MemoryOfType final : public MemoryBase {
 public:
  MemoryOfType(int on_device, MemoryType type) : MemoryBase(on_device, type), memory_(on_device, type) {}
  status_t init() override { return memory_.init(); }
  status_t free() override { return memory_.free(); }
  status_t allocateBuffer(void** addr, std::size_t size) override { return memory_.allocateBuffer(addr, size); }
  status_t allocatePeerableBuffer(void** addr, std::size_t size) override {
    return memory_.allocatePeerableBuffer(addr, size);
  }
  status_t freeBuffer(void* addr) override { return memory_.freeBuffer(addr); }
  status_t copyHostToDevice(void* dest, const void* src, std::size_t size) override {
    return memory_.copyHostToDevice(dest, src, size);
  }
  status_t copyDeviceToHost(void* dest, const void* src, std::size_t size) override {
    return memory_.copyDeviceToHost(dest, src, size);
  }
  status_t copyDeviceToDevice(void* dest, const void* src, std::size_t size) override {
    return memory_.copyDeviceToDevice(dest, src, size);
  }

 private:
  Memory memory_;
};

}  // namespace

Memory::Memory(int device_id, MemoryType mem_type) : state_(new State) {
  (void)setDeviceIdAndMemoryType(device_id, mem_type);
}
Memory::~Memory() = default;

std::unique_ptr<MemoryBase> Memory::createMemoryClass(MemoryType mem_type) {
  if (mem_type == MemoryType::DEFAULT) return nullptr;
  return std::make_unique<MemoryOfType>(state_->device, mem_type);
}

status_t Memory::setDeviceIdAndMemoryType(int device_id, MemoryType mem_type) {
  const memory::Provider& provider = memory::provider_for(mem_type);  // throws
  state_->provider = &provider;
  state_->type = memory::type_of(provider, memory::backing_for(mem_type));
  state_->device = device_id;
  return init();
}

status_t Memory::init() {
  try {
    // Fails if there is no such device.
    (void)state_->provider->allocate(state_->device, 1, memory::backing_for(state_->type));
    state_->init = status_t::SUCCESS;
  } catch (const Error& error) {
    state_->init = older(error.code());
  } catch (const std::exception&) {
    state_->init = status_t::ERROR;
  }
  return state_->init;
}

status_t Memory::free() {
  std::map<void*, std::shared_ptr<memory::Allocation>> freed;
  const std::lock_guard guard(state_->mutex);
  freed.swap(state_->buffers);
  return status_t::SUCCESS;
}

status_t Memory::allocateBuffer(void** addr, std::size_t size) {
  return state_->allocate(addr, size, memory::backing_for(state_->type));
}

status_t Memory::allocatePeerableBuffer(void** addr, std::size_t size) {
  const bool vmm = state_->init == status_t::SUCCESS && memory::backing_for(state_->type) == memory::Backing::best &&
                   state_->provider->why_not(memory::Backing::vmm).empty();
  return state_->allocate(addr, size, vmm ? memory::Backing::vmm : memory::backing_for(state_->type));
}

status_t Memory::freeBuffer(void* addr) {
  if (addr == nullptr) return state_->type == MemoryType::CPU ? status_t::ERROR : status_t::SUCCESS;
  const std::lock_guard guard(state_->mutex);
  return state_->buffers.erase(addr) == 1 ? status_t::SUCCESS : status_t::NOT_FOUND;
}

status_t Memory::copyHostToDevice(void* dest, const void* src, std::size_t size) {
  return state_->copy(dest, src, size);
}
status_t Memory::copyDeviceToHost(void* dest, const void* src, std::size_t size) {
  return state_->copy(dest, src, size);
}
status_t Memory::copyDeviceToDevice(void* dest, const void* src, std::size_t size) {
  return state_->copy(dest, src, size);
}

Memory* BufferMemory::get() const {
  if (type_ == MemoryType::DEFAULT) return nullptr;  // the buffer was moved
  if (made_ == nullptr) made_ = std::make_shared<Memory>(device_, type_);
  return made_.get();
}

MemoryType Memory::getMemoryType() const { return state_->type; }
status_t Memory::getInitStatus() const { return state_->init; }
int Memory::getDeviceId() const { return state_->device; }

}  // namespace hmc
