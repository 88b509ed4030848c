// The description of shared device memory, which may come from a process that isn't of a job.
#include <algorithm>

#include <hmc/error.hpp>

#include "runtime/memory/device_sharing.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace hmc::fuzz {

using memory::ShareTicket;
using memory::SharingKind;

void run(base::ByteView input) {
  try {
    require(std::ranges::equal(ShareTicket::decode(input).encode(), input));
  } catch (const Error& error) {
    require(error.code() == Code::invalid_argument);
  }
}

void add_seeds(const std::function<void(base::ByteView)>& add) {
  for (const SharingKind kind : memory::sharing_kinds) {
    ShareTicket ticket;
    ticket.kind = kind;
    ticket.type = MemoryType::NVIDIA_GPU;
    ticket.process = {1, 2};
    ticket.serial = 3;
    ticket.bytes = 4;
    ticket.mapped = std::uint64_t{2} << 20;
    ticket.handle.bytes[63] = std::byte{5};
    add(ticket.encode());
  }
}

}  // namespace hmc::fuzz
