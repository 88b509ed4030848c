#include "runtime/device/device_memory.hpp"

#include "runtime/transport/load_store.hpp"

namespace hmc::device {

using base::Status;

Status DeviceMemory::write(std::uint64_t offset, const void* source, std::size_t bytes) const noexcept {
  if (bytes == 0) return {};
  return memory::copy_between(allocation_->address + offset, owner_, source, memory::known_owner_of(source), bytes);
}

Status DeviceMemory::read(std::uint64_t offset, void* destination, std::size_t bytes) const noexcept {
  if (bytes == 0) return {};
  return memory::copy_between(destination, memory::known_owner_of(destination), allocation_->address + offset, owner_,
                              bytes);
}

Status DeviceMemory::write_from_host(std::uint64_t offset, const void* source, std::size_t bytes) const noexcept {
  return memory::copy_between(allocation_->address + offset, owner_, source, memory::host_owner(), bytes);
}

Status DeviceMemory::read_to_host(std::uint64_t offset, void* destination, std::size_t bytes) const noexcept {
  return memory::copy_between(destination, memory::host_owner(), allocation_->address + offset, owner_, bytes);
}

Status DeviceMemory::write_rows(std::uint64_t offset, std::size_t pitch, const void* source, std::size_t source_pitch,
                                std::size_t row_bytes, std::size_t rows) const noexcept {
  const memory::Owner from = memory::known_owner_of(source);
  if (memory::is_host_accessible(from) && !memory::is_host_accessible(owner_))
    return owner_.provider->copy({.destination = allocation_->address + offset,
                                  .source = source,
                                  .width = row_bytes,
                                  .direction = memory::Direction::host_to_device,
                                  .height = rows,
                                  .destination_pitch = pitch,
                                  .source_pitch = source_pitch});
  for (std::size_t row = 0; row < rows; ++row)
    if (const Status status =
            memory::copy_between(allocation_->address + offset + row * pitch, owner_,
                                 static_cast<const std::byte*>(source) + row * source_pitch, from, row_bytes);
        !status.ok())
      return status;
  return {};
}

Status DeviceMemory::read_rows(std::uint64_t offset, std::size_t pitch, void* destination,
                               std::size_t destination_pitch, std::size_t row_bytes, std::size_t rows) const noexcept {
  const memory::Owner to = memory::known_owner_of(destination);
  if (memory::is_host_accessible(to) && !memory::is_host_accessible(owner_))
    return owner_.provider->copy({.destination = destination,
                                  .source = allocation_->address + offset,
                                  .width = row_bytes,
                                  .direction = memory::Direction::device_to_host,
                                  .height = rows,
                                  .destination_pitch = destination_pitch,
                                  .source_pitch = pitch});
  for (std::size_t row = 0; row < rows; ++row)
    if (const Status status = memory::copy_between(static_cast<std::byte*>(destination) + row * destination_pitch, to,
                                                   allocation_->address + offset + row * pitch, owner_, row_bytes);
        !status.ok())
      return status;
  return {};
}

Status DeviceMemory::apply(const transport::Atomic& atomic, std::uint64_t offset, std::uint64_t& old) const noexcept {
  alignas(8) std::byte word[8] = {};
  if (const Status status = read_to_host(offset, word, atomic.width); !status.ok()) return status;
  old = transport::apply_atomic(atomic, word);
  if (atomic.op == transport::AtomicOp::fetch) return {};
  return write_from_host(offset, word, atomic.width);
}

}  // namespace hmc::device
