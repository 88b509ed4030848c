// put_nb and get_nb of device memory.
#include "runtime/window/core.hpp"
#include "runtime/window/device/device_requests.hpp"

namespace hmc::window {

Request Core::begun(const char* operation, const Peer& peer, int rank, std::uint64_t number) {
  if (number == 0) return Request(operation, peer.world);
  return Request(weak_from_this(), device_requests_->index(), device_requests_->ticket(rank, number), operation,
                 peer.world);
}

Request Core::begin_put(const Peer& peer, int rank, std::uint64_t offset, const void* source, std::size_t bytes) {
  auto* const channel = static_cast<DeviceChannel*>(peer.channel);
  std::uint64_t number = 0;
  base::Status status;
  transport::Ticket ticket = transport::done;
  if (MappedChannel* const mapped = channel->as_mapped())
    status = mapped->begin_put(offset, source, bytes, number);
  else
    status = channel->put(offset, source, bytes, ticket);
  require(*fabric_, status, {"put_nb", peer.world, offset, bytes, true});
  ++fabric_->counters.puts_wire;
  return begun("put_nb", peer, rank, number);
}

Request Core::begin_get(const Peer& peer, int rank, std::uint64_t offset, void* destination, std::size_t bytes) {
  auto* const channel = static_cast<DeviceChannel*>(peer.channel);
  std::uint64_t number = 0;
  base::Status status;
  transport::Ticket ticket = transport::done;
  if (MappedChannel* const mapped = channel->as_mapped())
    status = mapped->begin_get(offset, destination, bytes, number);
  else
    status = channel->get(offset, destination, bytes, ticket);
  require(*fabric_, status, {"get_nb", peer.world, offset, bytes, true});
  if (number != 0) ++fabric_->gets_begun;  // or a barrier wouldn't find anything to wait for
  return begun("get_nb", peer, rank, number);
}

void Core::complete_begun(const char* operation, int rank, Timeout timeout) {
  const int world = rank >= 0 ? world_rank(rank) : -1;
  require(*fabric_, device_requests_->flush(rank, {base::Activity::flush, world}, fabric_->resolve(timeout)),
          {operation, world});
}

}  // namespace hmc::window
