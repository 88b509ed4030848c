#include "runtime/memory/function_gates.hpp"

#include <atomic>
#include <utility>

namespace hmc::memory {

namespace {

/// Owned by the gate and the function together, because either may end first.
class Latch {
 public:
  // Release in open() pairs with acquire in pass(): the library's thread sees the host's writes that precede open().
  // The library orders the device's later work after the function.
  void open() noexcept {
    is_open_.store(1, std::memory_order_release);
    is_open_.notify_all();
  }
  void pass() const noexcept { is_open_.wait(0, std::memory_order_acquire); }

 private:
  std::atomic<int> is_open_{0};
};

class FunctionGate final : public Gate {
 public:
  explicit FunctionGate(std::shared_ptr<Latch> latch) : latch_(std::move(latch)) {}
  ~FunctionGate() override { latch_->open(); }
  void open() noexcept override { latch_->open(); }

 private:
  std::shared_ptr<Latch> latch_;
};

void wait_in(void* data) {
  const std::unique_ptr<std::shared_ptr<Latch>> latch(static_cast<std::shared_ptr<Latch>*>(data));
  (*latch)->pass();
}

}  // namespace

std::string FunctionGates::why_not() const {
  return launch_ ? "" : std::string("the library has no ") + launch_.name();
}

Answer FunctionGates::stop(std::unique_ptr<Gate>& gate, void* stream) const {
  const auto latch = std::make_shared<Latch>();
  auto made = std::make_unique<FunctionGate>(latch);
  auto data = std::make_unique<std::shared_ptr<Latch>>(latch);
  const Answer answer = launch_(stream, wait_in, data.get());
  if (!answer.ok()) return answer;
  static_cast<void>(data.release());  // wait_in() frees it
  gate = std::move(made);
  return answer;
}

}  // namespace hmc::memory
