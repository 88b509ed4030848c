// The two kinds of gates, which block a stream until the host opens them: FunctionGates and WordGates.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "runtime/memory/vendor.hpp"

namespace hmc::memory {

/// Blocks a stream in a host function that the stream calls. Most vendors support that.
/// A thread of the library blocks in the function. If one thread serves all streams, gates of two streams in two
/// processes can deadlock. DeviceProvider::why_no_gates tests for this.
class FunctionGates final : public GateCalls {
 public:
  using Launch = int(void* stream, void (*function)(void*), void* data);
  explicit FunctionGates(const Symbol<Launch>& launch) : launch_(launch) {}
  std::string why_not() const override;
  DriverResult stop(std::unique_ptr<Gate>& gate, void* stream) const override;

 private:
  const Symbol<Launch>& launch_;
};

/// Blocks a stream until the host writes a word that the stream waits for. Words are reused: their number is the
/// maximum number of gates that were closed at the same time.
class WordGates : public GateCalls {
 public:
  struct Word {
    std::uint64_t* written = nullptr;  ///< host address; the word is initially 0
    void* seen = nullptr;              ///< device address
    int device = 0;                    ///< the device of the streams that wait for it
    std::uint64_t value = 0;           ///< value of its last gate
  };
  DriverResult stop(std::unique_ptr<Gate>& gate, void* stream) const override;

  /// Called when a gate was opened. Another gate may reuse its word with a higher value.
  void give_back(Word& word) const noexcept;

 protected:
  ~WordGates() override = default;
  /// The entered device if words are per device, otherwise 0.
  virtual DriverResult device(int& device) const noexcept = 0;
  /// Adds one or more words for the entered device.
  virtual DriverResult make(std::vector<Word>& words) const = 0;
  /// The stream waits until the word reaches or passes `value`. At least the lower 32 bits are compared.
  virtual DriverResult wait(void* stream, const Word& word, std::uint64_t value) const noexcept = 0;

 private:
  DriverResult take(Word*& word) const;

  mutable std::mutex mutex_;
  mutable std::deque<Word> words_;
  mutable std::vector<Word*> idle_;
};

}  // namespace hmc::memory
