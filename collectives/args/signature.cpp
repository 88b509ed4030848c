#include "collectives/args/signature.hpp"

#include <fmt/format.h>

namespace hmc::collectives {

std::string Signature::text() const {
  const std::uint64_t count = word_ & 0xffffffffU;
  const auto root = (word_ >> 32) & root_mask;
  const auto op = static_cast<unsigned>(word_ >> 49) & 31U;
  const auto type = static_cast<DType>((word_ >> 54) & 31U);
  const bool irregular = (word_ & irregular_bit) != 0;
  if (is_setup()) {
    const bool of_window = setup() == base::SetupCall::window_close || setup() == base::SetupCall::context;
    return of_window ? fmt::format("{} of window {}", base::name_of(setup()), count) : base::name_of(setup());
  }
  if (kind() == start_of_plan)
    return fmt::format("Plan::start of plan {} ({}{})", count, name_of(static_cast<CollectiveKind>(op)),
                       irregular ? "v" : "");
  if (!is_collective()) return word_ == 0 ? "nothing" : "unknown";

  const std::string name =
      fmt::format("{}{}{}", (word_ & non_blocking_bit) != 0 ? "i" : "", name_of(collective()), irregular ? "v" : "");
  const std::string amount = irregular ? fmt::format("counts with hash {:08x}", count) : fmt::format("{} bytes", count);
  switch (collective()) {
    case CollectiveKind::barrier: return name;
    case CollectiveKind::alltoall:
      if (irregular) {  // see alltoallv()
        const std::uint64_t element = root | ((word_ >> 54) & 31U) << 13 | static_cast<std::uint64_t>(op) << 18;
        return fmt::format("{}(elements of {} bytes)", name, element);
      }
      [[fallthrough]];
    case CollectiveKind::allgather: return fmt::format("{}({})", name, amount);
    case CollectiveKind::broadcast:
    case CollectiveKind::gather:
    case CollectiveKind::scatter: return fmt::format("{}({}, root {})", name, amount, root);
    case CollectiveKind::reduce:
    case CollectiveKind::allreduce:
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::scan:
    case CollectiveKind::exscan: break;
  }
  const std::string how = fmt::format("{}{}{}", (word_ & deterministic_bit) != 0 ? "deterministic " : "",
                                      op == user_op ? "user's function" : hmc::name_of(static_cast<Op>(op)),
                                      (word_ & ordered_bit) != 0 ? " in rank order" : "");
  const std::string what = irregular ? fmt::format("{}({} of {}, {}", name, amount, hmc::name_of(type), how)
                                     : fmt::format("{}({} x {}, {}", name, count, hmc::name_of(type), how);
  return collective() == CollectiveKind::reduce ? fmt::format("{}, root {})", what, root) : what + ")";
}

}  // namespace hmc::collectives
