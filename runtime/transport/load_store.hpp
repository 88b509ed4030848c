// put, get, signals and atomics by load and store on mapped memory. Windows inline these functions for peers on the
// node. The shm wire and the target of active messages call them too, so the conformance suite tests what windows run.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "runtime/transport/wire.hpp"

namespace hmc::transport {

/// An aligned 8-byte word in a window is copied by one atomic access, so a polling reader never sees a torn value.
/// Relaxed: put and get of a word promise no order.
inline bool is_word(const void* in_window, std::size_t bytes) noexcept {
  return bytes == 8 && reinterpret_cast<std::uintptr_t>(in_window) % 8 == 0;
}

/// put. Source and destination of a put to self may overlap.
inline void store_bytes(std::byte* destination, const void* source, std::size_t bytes) noexcept {
  if (is_word(destination, bytes)) {
    std::uint64_t word;
    std::memcpy(&word, source, 8);
    std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(destination))
        .store(word, std::memory_order_relaxed);
  } else if (bytes > 0) {
    std::memmove(destination, source, bytes);
  }
}

/// get. Source and destination may overlap, as in store_bytes().
inline void load_bytes(void* destination, std::byte* source, std::size_t bytes) noexcept {
  if (is_word(source, bytes)) {
    const std::uint64_t word =
        std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(source)).load(std::memory_order_relaxed);
    std::memcpy(destination, &word, 8);
  } else if (bytes > 0) {
    std::memmove(destination, source, bytes);
  }
}

/// The signal of put_signal. Release: pairs with load_signal. A rank that loads this value also sees the bytes that
/// this thread stored before.
inline void store_signal(std::byte* word, std::uint64_t value) noexcept {
  std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(word)).store(value, std::memory_order_release);
}

/// The poll of wait_until and test_until. Acquire: pairs with store_signal.
inline std::uint64_t load_signal(std::byte* word) noexcept {
  return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(word)).load(std::memory_order_acquire);
}

template <typename Word> Word apply_atomic(const Atomic& atomic, Word& target) noexcept {
  // seq_cst throughout: users build locks and counters of all kinds on remote atomics, and on x86 every
  // read-modify-write is a full barrier anyway.
  std::atomic_ref<Word> word(target);
  const auto operand = static_cast<Word>(atomic.operand);
  switch (atomic.op) {
    case AtomicOp::fetch_add:
    case AtomicOp::add: return word.fetch_add(operand);
    case AtomicOp::swap: return word.exchange(operand);
    case AtomicOp::compare_swap: {
      auto seen = static_cast<Word>(atomic.compare);
      word.compare_exchange_strong(seen, operand);
      return seen;  // the old value, whether or not it was replaced
    }
    case AtomicOp::fetch: return word.load();
    case AtomicOp::set: word.store(operand); return 0;
    case AtomicOp::band:
    case AtomicOp::fetch_and: return word.fetch_and(operand);
    case AtomicOp::bor:
    case AtomicOp::fetch_or: return word.fetch_or(operand);
    case AtomicOp::bxor:
    case AtomicOp::fetch_xor: return word.fetch_xor(operand);
  }
  return 0;
}

/// `address` is aligned to atomic.width. Returns the old value.
inline std::uint64_t apply_atomic(const Atomic& atomic, std::byte* address) noexcept {
  if (atomic.width == 4) return apply_atomic(atomic, *reinterpret_cast<std::uint32_t*>(address));
  return apply_atomic(atomic, *reinterpret_cast<std::uint64_t*>(address));
}

}  // namespace hmc::transport
