#include "compat/memfabric/numa.hpp"

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "compat/memfabric/layer.hpp"

namespace hmc::memfabric {
namespace {

[[noreturn]] void fail(const char* call, std::int32_t code) {
  throw Failure(code, fmt::format("{}: {}", call, std::strerror(errno)));
}

}  // namespace

int current_numa_node() {
  unsigned node = 0;
  if (::getcpu(nullptr, &node) != 0) fail("getcpu", SMEM_ERROR);
  return static_cast<int>(node);
}

void bind_to_node(int descriptor, std::uint64_t bytes, int node) {
  void* const pages = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
  if (pages == MAP_FAILED) fail("mmap", SMEM_INVALID_PARAM);
  std::array<unsigned long, 2> nodes{};  // the policy of shared memory belongs to its pages, not to this mapping
  constexpr int word_bits = 8 * static_cast<int>(sizeof nodes[0]);
  nodes[static_cast<std::size_t>(node / word_bits)] = 1UL << (node % word_bits);
  const long result = ::syscall(SYS_mbind, pages, bytes, MPOL_BIND, nodes.data(), sizeof nodes * 8 + 1, 0U);
  const int error = errno;
  ::munmap(pages, bytes);
  errno = error;
  if (result != 0) fail(fmt::format("mbind to NUMA node {}", node).c_str(), SMEM_INVALID_PARAM);
}

}  // namespace hmc::memfabric
