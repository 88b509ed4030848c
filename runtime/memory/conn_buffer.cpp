#include <hmc/conn_buffer.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "runtime/memory/pointer_lookup.hpp"
#include "runtime/memory/provider.hpp"

namespace hmc {

namespace {

status_t to_older(const base::Status& status) noexcept {
  const auto number = static_cast<int>(status.code);
  return number <= static_cast<int>(status_t::NOT_FOUND) ? static_cast<status_t>(number) : status_t::ERROR;
}

}  // namespace

ConnBuffer::ConnBuffer(int on_device, std::size_t size, MemoryType type)
    : ConnBuffer(memory::provider_for(type).allocate(on_device, size, memory::backing_for(type))) {
  device_id = mem_ops.device_ = on_device;
}

ConnBuffer::ConnBuffer(std::shared_ptr<memory::Allocation> allocation) : allocation_(std::move(allocation)) {
  ptr = allocation_->address;
  buffer_size = allocation_->bytes;
  mem_type = memory::type_of(*allocation_->provider, allocation_->backing);
  device_id = allocation_->device;
  mem_ops.type_ = mem_type;
  mem_ops.device_ = device_id;
}

ConnBuffer ConnBuffer::borrow(void* address, std::size_t size, std::shared_ptr<void> owner) {
  if (address == nullptr || reinterpret_cast<std::uintptr_t>(address) % alignof(std::uint64_t) != 0)
    throw Error(Code::invalid_argument, "ConnBuffer::borrow",
                fmt::format("address {} isn't a multiple of 8, which signals and atomics need", fmt::ptr(address)));
  /// Destroyed from the last member to the first: the memory's owner at the end.
  struct Borrowed {
    std::shared_ptr<void> owner;
    std::shared_ptr<memory::Allocation> allocation;
  };
  const memory::Owner found = memory::owner_of(address);
  const bool host_accessible = memory::is_host_accessible(found);
  auto allocation = found.provider->borrow(address, size, std::max(found.info.device, 0));
  allocation->host_accessible = host_accessible;
  if (found.info.kind == memory::PointerKind::pinned) allocation->backing = memory::Backing::pinned;
  if (found.info.kind == memory::PointerKind::managed) allocation->backing = memory::Backing::managed;
  const auto kept = std::make_shared<Borrowed>(Borrowed{std::move(owner), std::move(allocation)});
  return ConnBuffer(std::shared_ptr<memory::Allocation>(kept, kept->allocation.get()));
}

ConnBuffer::~ConnBuffer() = default;

ConnBuffer::ConnBuffer(ConnBuffer&& other) noexcept { *this = std::move(other); }

ConnBuffer& ConnBuffer::operator=(ConnBuffer&& other) noexcept {
  ptr = std::exchange(other.ptr, nullptr);
  buffer_size = std::exchange(other.buffer_size, 0);
  mem_type = std::exchange(other.mem_type, MemoryType::DEFAULT);
  device_id = std::exchange(other.device_id, -1);
  mem_ops = std::exchange(other.mem_ops, {});
  allocation_ = std::move(other.allocation_);
  return *this;
}

namespace {

/// True if [bias, bias + size) is within a buffer of `whole` bytes. The check can't overflow.
bool inside(std::size_t bias, std::size_t size, std::size_t whole) noexcept {
  return size <= whole && bias <= whole - size;
}

}  // namespace

status_t ConnBuffer::writeFromCpu(const void* src, std::size_t size, std::size_t bias) {
  if (!inside(bias, size, buffer_size) || (src == nullptr && size > 0)) return status_t::ERROR;
  if (size == 0) return status_t::SUCCESS;
  return to_older(allocation_->provider->copy_from_host(allocation_->address + bias, src, size));
}

status_t ConnBuffer::readToCpu(void* dest, std::size_t size, std::size_t bias) const {
  if (!inside(bias, size, buffer_size) || (dest == nullptr && size > 0)) return status_t::ERROR;
  if (size == 0) return status_t::SUCCESS;
  return to_older(allocation_->provider->copy_to_host(dest, allocation_->address + bias, size));
}

namespace {

/// True if a device provider recognizes the pointer, including pinned and managed memory.
bool on_device(const void* pointer) noexcept {
  return memory::owner_of(pointer).info.kind != memory::PointerKind::unknown;
}

}  // namespace

status_t ConnBuffer::writeFromGpu(const void* src, std::size_t size, std::size_t bias) {
  if (!inside(bias, size, buffer_size) || (src == nullptr && size > 0)) return status_t::ERROR;
  if (size == 0) return status_t::SUCCESS;
  if (!on_device(src)) return status_t::UNSUPPORT;
  return to_older(memory::copy_between(allocation_->address + bias, src, size));
}

status_t ConnBuffer::readToGpu(void* dest, std::size_t size, std::size_t bias) const {
  if (!inside(bias, size, buffer_size) || (dest == nullptr && size > 0)) return status_t::ERROR;
  if (size == 0) return status_t::SUCCESS;
  if (!on_device(dest)) return status_t::UNSUPPORT;
  return to_older(memory::copy_between(dest, allocation_->address + bias, size));
}

status_t ConnBuffer::copyWithin(std::size_t dest_bias, std::size_t src_bias, std::size_t size) {
  if (!inside(dest_bias, size, buffer_size) || !inside(src_bias, size, buffer_size)) return status_t::ERROR;
  if (size == 0) return status_t::SUCCESS;
  return to_older(
      allocation_->provider->copy_within(allocation_->address + dest_bias, allocation_->address + src_bias, size));
}

}  // namespace hmc
