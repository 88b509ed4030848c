// Messages from and to device memory.
#include <vector>

#include <hmc/hmc.hpp>

#include "tests/support/pattern.hpp"
#include "tests/support/spmd.hpp"

namespace {

using hmc::spmd::Pattern;

void copy(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) hmc::copy(to, from, bytes);
}

}  // namespace

HMC_SPMD_TEST(MessagesDevice, every_pair_of_memories) {
  hmc::Team& world = me.runtime->world();
  constexpr std::size_t most = 300000;
  hmc::ConnBuffer out(0, most, hmc::MemoryType::NVIDIA_GPU), in(0, most, hmc::MemoryType::NVIDIA_GPU);
  std::vector<std::byte> host_out(most), host_in(most), seen(most);
  std::uint64_t call = 0;
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{9}, std::size_t{5000}, most - 1}) {
    for (int kind = 0; kind < 4; ++kind, ++call) {
      Pattern{me.rank, call}.fill(host_out);
      copy(out.ptr, host_out.data(), most);
      std::fill(host_in.begin(), host_in.end(), std::byte{0x33});
      copy(in.ptr, host_in.data(), most);
      const void* const from = (kind & 1) != 0 ? out.ptr : host_out.data();
      void* const to = (kind & 2) != 0 ? in.ptr : host_in.data();
      hmc::MessageStatus status;
      hmc::Request requests[] = {world.irecv_bytes(to, bytes + 1, me.previous(), 1, &status),
                                 world.isend_bytes(from, bytes, me.next(), 1)};
      hmc::Request::wait_all(requests);
      HMC_CHECK_EQ(status.bytes, bytes);
      copy(seen.data(), to, most);
      HMC_CHECK_CLEAN((Pattern{me.previous(), call}.verify(std::span(seen).first(bytes))));
      HMC_CHECK(seen[bytes] == std::byte{0x33});
      if (me.rank % 2 == 0 && me.size > 1) world.send_bytes(from, bytes, me.rank + 1 < me.size ? me.rank + 1 : 0, 2);
      if (me.rank % 2 == 1) HMC_CHECK_EQ(world.recv_bytes(to, bytes, me.rank - 1, 2).bytes, bytes);
      if (me.size % 2 == 1 && me.size > 1 && me.rank == 0)
        HMC_CHECK_EQ(world.recv_bytes(to, bytes, me.size - 1, 2).bytes, bytes);
      world.barrier();
    }
  }
}
