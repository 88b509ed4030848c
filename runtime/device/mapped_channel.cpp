#include "runtime/device/mapped_channel.hpp"

namespace hmc::rma {

using base::Status;
using transport::Ticket;

Status MappedChannel::lock() noexcept {
  const auto who = static_cast<std::uint64_t>(fabric_.rank) + 1;
  const auto mine = [&]() noexcept { return try_lock(head_, who); };
  return fabric_.waiter.until({base::Activity::wait_request, peer_}, mine, fabric_.timeout);
}

Status MappedChannel::changed(const Status& status) noexcept {
  note_change(head_);
  fabric_.waiter.ring(fabric_.peer(peer_).local_index);
  return status;
}

Status MappedChannel::put(std::uint64_t offset, const void* source, std::size_t bytes, Ticket& ticket) noexcept {
  ticket = transport::done;
  return changed(memory_.write(offset, source, bytes));
}

Status MappedChannel::get(std::uint64_t offset, void* destination, std::size_t bytes, Ticket& ticket) noexcept {
  ticket = transport::done;
  return memory_.read(offset, destination, bytes);
}

bool MappedChannel::begins(const memory::Transfer& transfer, const memory::Owner& local, Status& status,
                           std::uint64_t& number) noexcept {
  const memory::Owner& theirs = memory_.owner();
  if (memory::is_host_accessible(theirs)) return false;  // the host copies synchronously
  if (!memory::is_host_accessible(local) && local.provider != theirs.provider) return false;
  const auto to = reinterpret_cast<std::uintptr_t>(transfer.destination);
  const auto from = reinterpret_cast<std::uintptr_t>(transfer.source);
  if (to < from + transfer.width && from < to + transfer.width) return false;
  status = queue_.start(transfer, number);
  return status.code != Code::unsupported;
}

Status MappedChannel::begin_put(std::uint64_t offset, const void* source, std::size_t bytes,
                                std::uint64_t& number) noexcept {
  number = 0;
  if (bytes == 0) return {};
  const memory::Owner from = memory::known_owner_of(source);
  const bool by_host = memory::is_host_accessible(from);
  Status status;
  if (begins({.destination = memory_.allocation()->address + offset,
              .source = source,
              .width = bytes,
              .direction = by_host ? memory::Direction::host_to_device : memory::Direction::device_to_device,
              .destination_device = memory_.owner().info.device,
              .source_device = by_host ? -1 : from.info.device},
             from, status, number))
    return status;
  return changed(memory_.write(offset, source, bytes));
}

Status MappedChannel::begin_get(std::uint64_t offset, void* destination, std::size_t bytes,
                                std::uint64_t& number) noexcept {
  number = 0;
  if (bytes == 0) return {};
  const memory::Owner to = memory::known_owner_of(destination);
  const bool by_host = memory::is_host_accessible(to);
  Status status;
  if (begins({.destination = destination,
              .source = memory_.allocation()->address + offset,
              .width = bytes,
              .direction = by_host ? memory::Direction::device_to_host : memory::Direction::device_to_device,
              .destination_device = by_host ? -1 : to.info.device,
              .source_device = memory_.owner().info.device},
             to, status, number))
    return status;
  return memory_.read(offset, destination, bytes);
}

Status MappedChannel::look(std::uint64_t number) noexcept {
  const std::uint64_t over = queue_.over();
  const Status status = queue_.look(number);
  return queue_.over() != over ? changed(status) : status;
}

Status MappedChannel::wait_for_begun() noexcept { return idle() ? Status{} : changed(queue_.wait()); }

Status MappedChannel::put_signal(std::uint64_t offset, const void* source, std::size_t bytes,
                                 std::uint64_t signal_offset, std::uint64_t value, Ticket& ticket) noexcept {
  ticket = transport::done;
  if (const Status status = memory_.write(offset, source, bytes); !status.ok()) return status;
  if (const Status status = lock(); !status.ok()) return status;
  const Status status = memory_.write_from_host(signal_offset, &value, sizeof value);
  unlock(head_);
  return changed(status);
}

Status MappedChannel::atomic(const transport::Atomic& atomic, std::uint64_t offset, std::uint64_t* result,
                             Ticket& ticket) noexcept {
  ticket = transport::done;
  if (const Status status = lock(); !status.ok()) return status;
  std::uint64_t old = 0;
  const Status status = memory_.apply(atomic, offset, old);
  unlock(head_);
  if (result != nullptr) *result = old;
  return atomic.op == transport::AtomicOp::fetch ? status : changed(status);
}

Status MappedChannel::put_rows(std::uint64_t offset, const void* source, const Strides& strides) noexcept {
  return changed(
      memory_.write_rows(offset, strides.remote_pitch, source, strides.local_pitch, strides.row_bytes, strides.rows));
}

Status MappedChannel::get_rows(std::uint64_t offset, void* destination, const Strides& strides) noexcept {
  return memory_.read_rows(offset, strides.remote_pitch, destination, strides.local_pitch, strides.row_bytes,
                           strides.rows);
}

}  // namespace hmc::rma
