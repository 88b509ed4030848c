#include "collectives/args/signature.hpp"

#include <fmt/format.h>

namespace hmc::collectives {

const char* name_of(Kind kind) noexcept {
  switch (kind) {
    case Kind::none: return "nothing";
    case Kind::barrier: return "barrier";
    case Kind::broadcast: return "broadcast";
    case Kind::allgather: return "allgather";
    case Kind::allreduce: return "allreduce";
    case Kind::reduce: return "reduce";
    case Kind::gather: return "gather";
    case Kind::scatter: return "scatter";
    case Kind::alltoall: return "alltoall";
    case Kind::reduce_scatter: return "reduce_scatter";
    case Kind::scan: return "scan";
    case Kind::exscan: return "exscan";
    case Kind::setup: return base::name_of(base::SetupCall::other);
    case Kind::plan: return "Plan::start";
  }
  return "unknown";
}

std::string Signature::text_of_elements() const {
  const std::uint64_t element = ((word_ >> 32) & root_mask) | ((word_ >> 54) & 31U) << 13 | ((word_ >> 49) & 31U) << 18;
  return fmt::format("elements of {} bytes", element);
}

std::string Signature::text() const {
  const std::uint64_t count = word_ & 0xffffffffU;
  const auto root = (word_ >> 32) & root_mask;
  const auto op = static_cast<unsigned>(word_ >> 49) & 31U;
  const auto type = static_cast<DType>((word_ >> 54) & 31U);
  const bool irregular = (word_ & irregular_bit) != 0;
  const std::string name =
      fmt::format("{}{}{}", (word_ & non_blocking_bit) != 0 ? "i" : "", name_of(kind()), irregular ? "v" : "");
  const auto amount = [&](const char* unit) {
    return irregular ? fmt::format("counts with hash {:08x}", count) : fmt::format("{}{}", count, unit);
  };
  switch (kind()) {
    case Kind::setup:
      if (setup() == base::SetupCall::window_close || setup() == base::SetupCall::context)
        return fmt::format("{} of window {}", base::name_of(setup()), count);
      return base::name_of(setup());
    case Kind::plan:
      return fmt::format("{} of plan {} ({}{})", name_of(kind()), count, name_of(static_cast<Kind>(op)),
                         irregular ? "v" : "");
    case Kind::none:
    case Kind::barrier: return name;
    case Kind::alltoall:
      if (irregular) return fmt::format("{}({})", name, text_of_elements());
      [[fallthrough]];
    case Kind::allgather: return fmt::format("{}({})", name, amount(" bytes"));
    case Kind::broadcast:
    case Kind::gather:
    case Kind::scatter: return fmt::format("{}({}, root {})", name, amount(" bytes"), root);
    default: break;
  }
  const std::string how = fmt::format("{}{}{}", (word_ & deterministic_bit) != 0 ? "deterministic " : "",
                                      op == user_op ? "user's function" : hmc::name_of(static_cast<Op>(op)),
                                      (word_ & ordered_bit) != 0 ? " in rank order" : "");
  const std::string what =
      fmt::format("{}({}{}{}, {}", name, amount(""), irregular ? " of " : " x ", hmc::name_of(type), how);
  return kind() == Kind::reduce ? fmt::format("{}, root {})", what, root) : what + ")";
}

}  // namespace hmc::collectives
