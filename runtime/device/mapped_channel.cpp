#include "runtime/device/mapped_channel.hpp"

#include <cstring>
#include <exception>

#include <hmc/error.hpp>

namespace hmc::device {

using base::Status;

Status CopyQueue::open() noexcept {
  if (stream_ != nullptr) return {};
  try {
    for (auto& event : events_) event = provider_.make_event(device_);
    stream_ = provider_.make_stream(device_);
    return {};
  } catch (const Error& error) {
    open_failure_ = error.detail().message;
    return Status::failure(error.code(), open_failure_.c_str());
  } catch (const std::exception&) {
    return Status::failure(Code::out_of_memory, "no memory for a stream of copies");
  }
}

Status CopyQueue::start(const memory::Transfer& transfer, std::uint64_t& number) noexcept {
  if (const Status status = open(); !status.ok()) return status;
  if (begun_ - over_ == room)
    if (const Status oldest = over_until(over_ + 1, event(over_ + 1).synchronize()); !oldest.ok()) unseen_ = oldest;
  Status status = provider_.copy_async(transfer, *stream_);
  if (status.ok()) status = event(begun_ + 1).record(*stream_);
  if (!status.ok()) {
    (void)stream_->synchronize();  // the copy may have started although record() failed
    return status;
  }
  number = ++begun_;
  return {};
}

/// Records that the copies up to `number` have ended with this outcome.
Status CopyQueue::over_until(std::uint64_t number, const Status& status) noexcept {
  if (!status.ok()) {
    if (last_failed_ == 0) first_failed_ = over_ + 1;
    last_failed_ = number;
    failure_ = status;
  }
  over_ = number;
  return status;
}

Status CopyQueue::look(std::uint64_t number) noexcept {
  if (number > over_) {
    const Status status = event(number).query();
    if (status.code == Code::in_progress) return status;
    if (!status.ok()) (void)stream_->synchronize();  // a failed copy must have stopped when this function returns
    (void)over_until(number, status);
  }
  return number >= first_failed_ && number <= last_failed_ ? failure_ : Status{};
}

Status CopyQueue::wait() noexcept {
  if (begun_ == over_) return {};
  return over_until(begun_, stream_->synchronize());
}

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

Status MappedChannel::atomic(const transport::Atomic& atomic, std::uint64_t offset, void* result,
                             Ticket& ticket) noexcept {
  ticket = transport::done;
  if (const Status status = lock(); !status.ok()) return status;
  std::uint64_t old = 0;
  const Status status = memory_.apply(atomic, offset, old);
  unlock(head_);
  if (result != nullptr) std::memcpy(result, &old, atomic.width);
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

}  // namespace hmc::device
