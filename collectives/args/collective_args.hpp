// CollectiveArgs: the checked arguments of one collective call, the input of the engines.
#pragma once

#include <cstdint>

#include "collectives/args/signature.hpp"
#include "collectives/reduce/reduce.hpp"
#include "collectives/schedule/schedule.hpp"

namespace hmc::collectives {

struct CollectiveArgs {
  schedule::Call call;
  const void* input = nullptr;
  void* output = nullptr;
  Signature signature;
  const char* operation = "";
  int compares_as = -1;  ///< this rank in an alltoallv that compares all counts before data moves; -1 in other calls
  Reducer reducer;

  /// Bytes of a vector, or of one rank's block.
  std::uint64_t bytes() const noexcept { return call.count * call.element_bytes; }
};

constexpr CollectiveArgs barrier_args() {
  CollectiveArgs args;
  args.operation = "barrier";
  args.signature = Signature::make(CollectiveKind::barrier, 0);
  return args;
}

}  // namespace hmc::collectives
