// The memory classes of HMC's older library, one per MemoryType: each is what Memory::createMemoryClass() returns.
#pragma once

#include <hmc.h>
#include <hmc/older/src/utils/log.h>

namespace hmc {

/// The constructor throws Error{unsupported}, with the reason, if this machine has no memory of the type.
template <MemoryType Type> class MemoryOf : public MemoryBase {
 public:
  MemoryOf(int on_device, MemoryType)
      : MemoryBase(on_device, Type), memory_(Memory(on_device, Type).createMemoryClass(Type)) {}
  status_t init() override { return memory_->init(); }
  status_t free() override { return memory_->free(); }
  status_t allocateBuffer(void** addr, std::size_t size) override { return memory_->allocateBuffer(addr, size); }
  status_t allocatePeerableBuffer(void** addr, std::size_t size) override {
    return memory_->allocatePeerableBuffer(addr, size);
  }
  status_t freeBuffer(void* addr) override { return memory_->freeBuffer(addr); }
  status_t copyHostToDevice(void* dest, const void* src, std::size_t size) override {
    return memory_->copyHostToDevice(dest, src, size);
  }
  status_t copyDeviceToHost(void* dest, const void* src, std::size_t size) override {
    return memory_->copyDeviceToHost(dest, src, size);
  }
  status_t copyDeviceToDevice(void* dest, const void* src, std::size_t size) override {
    return memory_->copyDeviceToDevice(dest, src, size);
  }

 private:
  const std::unique_ptr<MemoryBase> memory_;
};

using HostMemory = MemoryOf<MemoryType::CPU>;
using CudaMemory = MemoryOf<MemoryType::NVIDIA_GPU>;
using RocmMemory = MemoryOf<MemoryType::AMD_GPU>;
using NeuwareMemory = MemoryOf<MemoryType::CAMBRICON_MLU>;
using MusaMemory = MemoryOf<MemoryType::MOORE_GPU>;
using HuaweiMemory = MemoryOf<MemoryType::ASCEND_NPU>;

}  // namespace hmc
