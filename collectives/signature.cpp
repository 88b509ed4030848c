#include "collectives/signature.hpp"

#include <fmt/format.h>

namespace hmc::collectives {

const char* name_of(Kind kind) noexcept {
  switch (kind) {
    case Kind::none: return "nothing";
    case Kind::barrier: return "barrier";
    case Kind::broadcast: return "broadcast";
    case Kind::allgather: return "allgather";
    case Kind::allreduce: return "allreduce";
  }
  return "unknown";
}

std::string Signature::text() const {
  const std::uint64_t count = word_ & 0xffffffffU;
  const auto root = (word_ >> 32) & 0xffffU;
  const auto op = static_cast<unsigned>(word_ >> 52) & 15U;
  const auto type = static_cast<DType>((word_ >> 56) & 15U);
  switch (kind()) {
    case Kind::broadcast: return fmt::format("broadcast({} bytes, root {})", count, root);
    case Kind::allgather: return fmt::format("allgather({} bytes)", count);
    case Kind::allreduce:
      return fmt::format("allreduce({} x {}, {})", count, hmc::name_of(type),
                         op == user_op ? "user's function" : hmc::name_of(static_cast<Op>(op)));
    default: return name_of(kind());
  }
}

}  // namespace hmc::collectives
