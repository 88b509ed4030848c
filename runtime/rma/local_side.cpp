// Local pointers of verbs in a process with devices: each is looked up, and staged if the wire can't access it.
#include <algorithm>
#include <exception>
#include <new>

#include "runtime/memory/stage.hpp"
#include "runtime/rma/core.hpp"

namespace hmc::rma {

namespace {

memory::StageLease lease(const Fabric& fabric, const memory::Owner& owner, const CallSite& call) {
  try {
    return {*owner.provider, owner.info.device};
  } catch (const Error& error) {
    ErrorDetail detail = error.detail();
    detail.operation = call.operation;
    detail.rank = fabric.rank;
    detail.peer = call.peer;
    detail.offset = call.offset;
    detail.size = call.size;
    detail.has_extent = true;
    throw Error(std::move(detail));
  } catch (const std::exception&) {
    throw_status(fabric, base::Status::failure(Code::out_of_memory, "no memory to stage a transfer"), call);
  }
}

}  // namespace

void Core::copy_in(const char* operation, const Peer& peer, std::uint64_t offset, const void* source,
                   std::size_t bytes) const {
  const memory::Owner from = memory::known_owner_of(source);
  if (memory::host_reaches(from)) return transport::store_bytes(peer.direct + offset, source, bytes);
  require(*fabric_, memory::copy_between(peer.direct + offset, memory::host_owner(), source, from, bytes),
          {operation, peer.world, offset, bytes, true});
}

void Core::copy_out(const char* operation, const Peer& peer, std::uint64_t offset, void* destination,
                    std::size_t bytes) const {
  const memory::Owner to = memory::known_owner_of(destination);
  if (memory::host_reaches(to)) return transport::load_bytes(destination, peer.direct + offset, bytes);
  require(*fabric_, memory::copy_between(destination, to, peer.direct + offset, memory::host_owner(), bytes),
          {operation, peer.world, offset, bytes, true});
}

// The copy of the next piece from the device overlaps the put of the current one.
void Core::put_staged(const char* operation, int rank, std::uint64_t offset, const void* source, std::size_t bytes) {
  const CallSite call{operation, world_rank(rank), offset, bytes, true};
  const memory::StageLease stage = lease(*fabric_, memory::known_owner_of(source), call);
  const std::size_t piece = memory::staged_piece(bytes);
  memory::OutPieces pieces(*stage, source, bytes, piece);
  for (std::size_t done = 0; done < bytes; done += piece) {
    const std::byte* at = nullptr;
    require(*fabric_, pieces.next(at), call);
    put(rank, offset + done, at, std::min(piece, bytes - done));
  }
}

void Core::get_staged(const char* operation, int rank, std::uint64_t offset, void* destination, std::size_t bytes) {
  const CallSite call{operation, world_rank(rank), offset, bytes, true};
  const memory::StageLease stage = lease(*fabric_, memory::known_owner_of(destination), call);
  const std::size_t piece = memory::staged_piece(bytes);
  memory::InPieces pieces(*stage, destination, bytes, piece);
  for (std::size_t done = 0; done < bytes; done += piece) {
    std::byte* at = nullptr;
    require(*fabric_, pieces.room(at), call);
    get(rank, offset + done, at, std::min(piece, bytes - done));
    require(*fabric_, pieces.filled(), call);
  }
  require(*fabric_, pieces.finish(), call);
}

std::byte* Core::between() {
  if (between_ == nullptr) between_.reset(new (std::nothrow) std::byte[2 * between_half]);
  if (between_ == nullptr)
    throw Error(Code::out_of_memory, "copy", "no host memory between two windows that this rank reaches neither of");
  return between_.get();
}

}  // namespace hmc::rma
