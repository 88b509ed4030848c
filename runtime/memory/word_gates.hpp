// WordGates: streams that wait for words which the host writes.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "runtime/memory/library.hpp"
#include "runtime/memory/vendor.hpp"

namespace hmc::memory {

/// Words are kept for the next gate: as many as were ever closed at once.
class WordGates : public GateCalls {
 public:
  struct Word {
    std::uint64_t* written = nullptr;  ///< 0 at first
    void* seen = nullptr;              ///< as a device addresses it
    int device = 0;                    ///< whose streams wait for it
    std::uint64_t value = 0;           ///< of its last gate
  };
  Answer stop(std::unique_ptr<Gate>& gate, void* stream) const override;

  /// A gate was opened: its word serves another, of a higher value.
  void give_back(Word& word) const noexcept;

 protected:
  ~WordGates() override = default;
  /// The entered device, where words are one device's; else 0.
  virtual Answer device(int& device) const noexcept = 0;
  /// One or more for the entered device.
  virtual Answer make(std::vector<Word>& words) const = 0;
  /// Until the word has come to `value` or past it, in its lower half at least.
  virtual Answer wait(void* stream, const Word& word, std::uint64_t value) const noexcept = 0;

 private:
  Answer take(Word*& word) const;

  mutable std::mutex mutex_;
  mutable std::deque<Word> words_;
  mutable std::vector<Word*> idle_;
};

}  // namespace hmc::memory
