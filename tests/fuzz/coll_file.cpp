// HMC_COLL_FILE: rows that select algorithms.
#include <hmc/error.hpp>

#include "collectives/select/overrides.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace hmc::fuzz {

using namespace hmc::collectives;

void run(base::ByteView input) {
  const std::string_view text = base::as_text(input);
  std::uint64_t bytes = 0;
  (void)parse_bytes(text, bytes);
  try {
    for (const Override& row : read_overrides(text, "file")) {
      require(row.algorithm == nullptr || row.algorithm->collective == row.collective);
      require(row.ranks_up_to > 0 && row.per_node >= 0);
    }
  } catch (const Error& error) {
    require(error.code() == Code::invalid_config);
  }
}

void add_seeds(const std::function<void(base::ByteView)>& add) {
  for (const char* text : {R"([])", R"([{"collective": "barrier", "algorithm": "direct"}])",
                           R"([{"collective": "allreduce", "bytes_up_to": "64K", "ranks_up_to": 64, "per_node": 8,
                               "algorithm": "ring", "segment": "32K"}])",
                           R"([{"collective": "broadcast", "bytes_up_to": 100, "algorithm": "binomial"}, {}])"})
    add(base::as_bytes(text));
}

}  // namespace hmc::fuzz
