#include "runtime/memory/gates.hpp"

#include <algorithm>
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

DriverResult FunctionGates::stop(std::unique_ptr<Gate>& gate, void* stream) const {
  const auto latch = std::make_shared<Latch>();
  auto made = std::make_unique<FunctionGate>(latch);
  auto data = std::make_unique<std::shared_ptr<Latch>>(latch);
  const DriverResult result = launch_(stream, wait_in, data.get());
  if (!result.ok()) return result;
  static_cast<void>(data.release());  // wait_in() frees it
  gate = std::move(made);
  return result;
}

namespace {

class WordGate final : public Gate {
 public:
  explicit WordGate(const WordGates& gates) noexcept : gates_(gates) {}
  ~WordGate() override { open(); }
  void take(WordGates::Word& word) noexcept {
    word_ = &word;
    value_ = ++word.value;
  }
  void open() noexcept override {
    // Relaxed: it only determines which call is the first.
    if (word_ == nullptr || is_open_.exchange(true, std::memory_order_relaxed)) return;
    // Release: pairs with the stream's wait. Work of the stream after the wait sees the host's earlier writes.
    std::atomic_ref(*word_->written).store(value_, std::memory_order_release);
    gates_.give_back(*word_);
  }

 private:
  const WordGates& gates_;
  WordGates::Word* word_ = nullptr;
  std::uint64_t value_ = 0;
  std::atomic<bool> is_open_{false};
};

}  // namespace

DriverResult WordGates::take(Word*& word) const {
  int here = 0;
  DriverResult result = device(here);
  if (!result.ok()) return result;
  const std::scoped_lock lock(mutex_);
  const auto of_device = [&](const Word* each) { return each->device == here; };
  auto found = std::find_if(idle_.begin(), idle_.end(), of_device);
  if (found == idle_.end()) {
    std::vector<Word> made;
    result = make(made);
    if (!result.ok()) return result;
    idle_.reserve(words_.size() + made.size());  // so that give_back() doesn't allocate
    for (const Word& each : made) idle_.push_back(&words_.emplace_back(each));
    found = idle_.end() - 1;
  }
  word = *found;
  idle_.erase(found);
  return result;
}

void WordGates::give_back(Word& word) const noexcept {
  const std::scoped_lock lock(mutex_);
  idle_.push_back(&word);
}

DriverResult WordGates::stop(std::unique_ptr<Gate>& gate, void* stream) const {
  auto made = std::make_unique<WordGate>(*this);
  Word* word = nullptr;
  if (const DriverResult result = take(word); !result.ok()) return result;
  made->take(*word);
  const DriverResult result = wait(stream, *word, word->value);
  if (result.ok()) gate = std::move(made);
  return result;
}

}  // namespace hmc::memory
