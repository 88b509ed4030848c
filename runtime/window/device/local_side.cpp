// Local pointers of verbs where this process has device memory: each is looked up, and staged where a wire can't
// reach it.
#include <algorithm>
#include <vector>

#include "runtime/window/core.hpp"

namespace hmc::window {

namespace {

constexpr std::size_t piece_bytes = std::size_t{1} << 20;

memory::Owner host_owner() noexcept { return {&memory::provider_for(MemoryType::CPU), {}}; }

}  // namespace

void Core::copy_in(const char* operation, const Peer& peer, std::uint64_t offset, const void* source,
                   std::size_t bytes) const {
  const memory::Owner from = memory::known_owner_of(source);
  if (memory::host_reaches(from)) return copy_into_window(peer.direct + offset, source, bytes);
  require(*fabric_, memory::copy_between(peer.direct + offset, host_owner(), source, from, bytes),
          {operation, peer.world, offset, bytes, true});
}

void Core::copy_out(const char* operation, const Peer& peer, std::uint64_t offset, void* destination,
                    std::size_t bytes) const {
  const memory::Owner to = memory::known_owner_of(destination);
  if (memory::host_reaches(to)) return copy_from_window(destination, peer.direct + offset, bytes);
  require(*fabric_, memory::copy_between(destination, to, peer.direct + offset, host_owner(), bytes),
          {operation, peer.world, offset, bytes, true});
}

void Core::put_staged(int rank, std::uint64_t offset, const void* source, std::size_t bytes) {
  const memory::Owner from = memory::known_owner_of(source);
  std::vector<std::byte> stage(std::min(bytes, piece_bytes));
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t now = std::min(bytes - done, stage.size());
    require(*fabric_,
            memory::copy_between(stage.data(), host_owner(), static_cast<const std::byte*>(source) + done, from, now),
            {"put", world_rank(rank), offset + done, now, true});
    put(rank, offset + done, stage.data(), now);
    done += now;
  }
}

void Core::get_staged(int rank, std::uint64_t offset, void* destination, std::size_t bytes) {
  const memory::Owner to = memory::known_owner_of(destination);
  std::vector<std::byte> stage(std::min(bytes, piece_bytes));
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t now = std::min(bytes - done, stage.size());
    get(rank, offset + done, stage.data(), now);
    require(*fabric_,
            memory::copy_between(static_cast<std::byte*>(destination) + done, to, stage.data(), host_owner(), now),
            {"get", world_rank(rank), offset + done, now, true});
    done += now;
  }
}

}  // namespace hmc::window
