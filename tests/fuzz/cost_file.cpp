// Files with measured parameters of the cost model.
#include "collectives/select/parameters.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace hmc::fuzz {

using namespace hmc::collectives;

namespace {
const MachineKey key{"a machine", "tcp", false};
}

void run(base::ByteView input) {
  schedule::CostParameters parameters;
  std::string why_not;
  if (!read_parameters(base::as_text(input), &key, parameters, why_not)) return require(!why_not.empty());
  // Written and read again, they have the same text.
  const std::string text = text_of(parameters, key);
  require(read_parameters(text, &key, parameters, why_not) && text_of(parameters, key) == text);
}

void add_seeds(const std::function<void(base::ByteView)>& add) {
  add(base::as_bytes(text_of(builtin_parameters(true), key)));
  add(base::as_bytes(text_of(builtin_parameters(false), key)));
}

}  // namespace hmc::fuzz
