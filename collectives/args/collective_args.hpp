// CollectiveArgs: the arguments of one collective call, checked and resolved.
#pragma once

#include "collectives/args/reduce_call.hpp"
#include "collectives/args/signature.hpp"
#include "collectives/schedule/call.hpp"

namespace hmc::collectives {

struct CollectiveArgs {
  schedule::Call call;
  const void* input = nullptr;
  void* output = nullptr;
  Signature signature;
  const char* operation = "";
  int compares_as = -1;  ///< this rank, in an alltoallv that compares all counts before data moves; else -1
  ReduceCall reduction;  ///< type, kernel or user function; its buffers aren't used

  std::uint64_t bytes() const noexcept { return call.count * call.element_bytes; }
};

}  // namespace hmc::collectives
