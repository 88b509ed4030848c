// FunctionGates: blocks a stream in a host function that the stream calls. Most vendors support that.
#pragma once

#include "runtime/memory/library.hpp"
#include "runtime/memory/vendor.hpp"

namespace hmc::memory {

/// A thread of the library blocks in the function. If one thread serves all streams, gates of two streams in two
/// processes can deadlock. DeviceProvider::why_no_gates tests for this.
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
