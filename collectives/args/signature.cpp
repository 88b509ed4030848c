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
  const std::string at_root = has_root(collective()) ? fmt::format(", root {}", root) : "";
  if (collective() == CollectiveKind::barrier) return name;
  if (collective() == CollectiveKind::alltoall && irregular) {  // see alltoallv()
    const std::uint64_t element = root | ((word_ >> 54) & 31U) << 13 | static_cast<std::uint64_t>(op) << 18;
    return fmt::format("{}(elements of {} bytes)", name, element);
  }
  if (!reduces(collective())) return fmt::format("{}({}{})", name, amount, at_root);
  const std::string how = fmt::format("{}{}{}", (word_ & deterministic_bit) != 0 ? "deterministic " : "",
                                      op == user_op ? "user's function" : hmc::name_of(static_cast<Op>(op)),
                                      (word_ & ordered_bit) != 0 ? " in rank order" : "");
  return irregular ? fmt::format("{}({} of {}, {}{})", name, amount, hmc::name_of(type), how, at_root)
                   : fmt::format("{}({} x {}, {}{})", name, count, hmc::name_of(type), how, at_root);
}

}  // namespace hmc::collectives
