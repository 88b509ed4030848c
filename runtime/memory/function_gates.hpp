// FunctionGates: streams that stop in a function of the host's, as most vendors have it.
#pragma once

#include "runtime/memory/library.hpp"
#include "runtime/memory/vendor.hpp"

namespace hmc::memory {

/// A thread of the library's waits in the function. Where it is the only one for all streams, gates of two streams of
/// two processes can wait for each other: see DeviceProvider::why_no_gates.
class FunctionGates final : public GateCalls {
 public:
  using Launch = int(void* stream, void (*function)(void*), void* data);
  explicit FunctionGates(const Symbol<Launch>& launch) : launch_(launch) {}
  std::string why_not() const override;
  Answer stop(std::unique_ptr<Gate>& gate, void* stream) const override;

 private:
  const Symbol<Launch>& launch_;
};

}  // namespace hmc::memory
