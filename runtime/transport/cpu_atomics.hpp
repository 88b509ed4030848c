// Atomics by this CPU on mapped words: for the shm wire, and for the target of a wire whose network has no atomics.
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/transport/wire.hpp"

namespace hmc::transport {

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
