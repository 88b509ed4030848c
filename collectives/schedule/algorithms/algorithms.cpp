#include "collectives/schedule/algorithms/algorithms.hpp"

#include <algorithm>

namespace hmc::collectives::schedule {

std::span<const Algorithm> algorithms() {
  // Copied at the first call. The rows are constant-initialized, so any static initializer may call this.
  static const Algorithm table[] = {
#define HMC_ROW(algorithm) algorithm,
      HMC_FOR_EACH_ALGORITHM(HMC_ROW)
#undef HMC_ROW
  };
  return table;
}

const Algorithm* find(CollectiveKind collective, std::string_view name) {
  const auto all = algorithms();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Algorithm& algorithm) {
    return algorithm.collective == collective && algorithm.name == name;
  });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace hmc::collectives::schedule
