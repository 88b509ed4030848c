#include "runtime/device/copy_queue.hpp"

#include <exception>

#include <hmc/error.hpp>

namespace hmc::rma {

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

}  // namespace hmc::rma
