// Transfers in the order of a user's stream.
#include <fmt/format.h>

#include "runtime/rma/core.hpp"
#include "runtime/rma/device_channel.hpp"

namespace hmc::rma {

void Core::put_on(void* stream, int rank, std::uint64_t offset, const void* source, std::size_t bytes) {
  const Peer& peer = check("put_on", rank, offset, source, bytes);
  const CallSite call{"put_on", peer.world, offset, bytes, true};
  if (bytes == 0) return;
  const DeviceMemory* const mapped = peer.on_device ? static_cast<DeviceChannel*>(peer.channel)->mapped() : nullptr;
  if (peer.direct == nullptr && mapped == nullptr)
    require(*fabric_, base::Status::failure(Code::unsupported, "no copy of a device reaches that rank's memory"), call);
  std::byte* const to = (mapped != nullptr ? mapped->allocation()->address : peer.direct) + offset;
  const memory::Owner target = mapped != nullptr ? mapped->owner() : memory::host_owner();
  const memory::Owner from = memory::known_owner_of(source);
  const bool from_device = !memory::host_reaches(from);
  const memory::Owner& by = from_device ? from : target;
  if (memory::host_reaches(by))
    require(*fabric_, base::Status::failure(Code::invalid_argument, "neither side is a device's: it has no stream"),
            call);
  if (from_device && !memory::host_reaches(target) && from.provider != target.provider)
    require(*fabric_, base::Status::failure(Code::unsupported, "the two sides are devices of different vendors"), call);
  const auto borrowed = by.provider->borrow_stream(by.info.device, stream);
  require(*fabric_, by.provider->copy_async(memory::transfer_between(to, target, source, from, bytes), *borrowed),
          call);
  ++(peer.direct != nullptr ? fabric_->counters.puts_direct : fabric_->counters.puts_wire);
}

}  // namespace hmc::rma
