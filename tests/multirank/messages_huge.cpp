// A message of more than 4 GiB. Both ends map few pages again and again.
#include <sys/mman.h>

#include <cstring>
#include <vector>

#include <hmc/hmc.hpp>

#include "tests/support/pattern.hpp"
#include "tests/support/spmd.hpp"

namespace {

constexpr std::size_t piece = std::size_t{64} << 20, bytes = (std::size_t{4} << 30) + piece + 4096;

/// Address space of `bytes`, of which all pieces are the same memory, except the last page.
struct Alias {
  std::byte* base;
  Alias() : base(static_cast<std::byte*>(::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    const int file = ::memfd_create("alias", MFD_CLOEXEC);
    HMC_CHECK(base != MAP_FAILED && file >= 0 && ::ftruncate(file, static_cast<off_t>(piece + 4096)) == 0);
    for (std::size_t at = 0; at + piece < bytes; at += piece)
      HMC_CHECK(::mmap(base + at, piece, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED);
    HMC_CHECK(::mmap(base + bytes - 4096, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
                     static_cast<off_t>(piece)) != MAP_FAILED);
    ::close(file);
  }
  ~Alias() { ::munmap(base, bytes); }
};

}  // namespace

HMC_SPMD_TEST(MessagesHuge, more_than_32_bits_of_bytes) {
  hmc::Team& world = me.runtime->world();
  const Alias alias;
  const std::span last(alias.base + bytes - 4096, 4096), first(alias.base, piece);
  const hmc::spmd::Pattern pattern{0, 1}, end{0, 2};
  if (me.rank == 0) {
    pattern.fill(first);
    end.fill(last);
    world.send_bytes(alias.base, bytes, 1, 0);
  } else if (me.rank == 1) {
    const hmc::MessageStatus probed = world.probe(0, 0);
    HMC_CHECK_EQ(probed.bytes, bytes);
    HMC_CHECK_EQ(world.recv_bytes(alias.base, bytes, 0, 0).bytes, bytes);
    HMC_CHECK_CLEAN(pattern.verify(first));
    HMC_CHECK_CLEAN(end.verify(last));
  }
  world.barrier();
}
