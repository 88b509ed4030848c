#include "runtime/device/device_requests.hpp"

#include <utility>

namespace hmc::rma {

using base::Status;

DeviceRequests::DeviceRequests(Fabric& fabric, std::vector<MappedChannel*> channels)
    : fabric_(fabric), channels_(std::move(channels)), index_(fabric.tickets.add(*this)) {}

DeviceRequests::~DeviceRequests() { fabric_.tickets.remove(index_); }

Status DeviceRequests::test(std::uint64_t ticket) noexcept {
  return channel(ticket)->look(ticket & ((std::uint64_t{1} << number_bits) - 1));
}

void DeviceRequests::abandon(std::uint64_t ticket) noexcept { (void)channel(ticket)->wait_for_begun(); }

void DeviceRequests::throw_failure(const Status& status, const char* operation) {
  throw_status(fabric_, status, {operation});
}

Status DeviceRequests::flush(int rank, const base::WaitNote& note, std::chrono::nanoseconds timeout) noexcept {
  for (std::size_t i = 0; i < channels_.size(); ++i) {
    MappedChannel* const channel = channels_[i];
    if (channel == nullptr || (rank >= 0 && static_cast<std::size_t>(rank) != i)) continue;
    const Status unseen = channel->take_unseen();
    if (channel->idle() && unseen.ok()) continue;
    Status looked;
    const auto over = [&]() noexcept {
      looked = channel->look(channel->begun());
      return looked.code != Code::in_progress;
    };
    if (const Status status = fabric_.waiter.until(note, over, timeout); !status.ok()) return status;
    if (!looked.ok()) return looked;
    if (!unseen.ok()) return unseen;  // failure of an earlier copy, whose event was reused
  }
  return {};
}

Status DeviceRequests::complete() noexcept { return flush(-1, {base::Activity::flush}, fabric_.timeout); }

}  // namespace hmc::rma
