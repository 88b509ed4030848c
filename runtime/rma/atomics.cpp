// The public atomics: typed functions over WindowCore::atomic.
#include <hmc/window.hpp>

#include <type_traits>

#include "runtime/rma/window_core.hpp"

namespace hmc {

using transport::Atomic;
using transport::AtomicOp;

namespace {

/// Operands are sent as 64 bits. The target uses the low `width` bytes.
template <typename T> std::uint64_t widen(T value) noexcept {
  return static_cast<std::uint64_t>(static_cast<std::make_unsigned_t<T>>(value));
}

template <typename T>
T run(const std::shared_ptr<rma::WindowCore>& core, const char* operation, AtomicOp op, int rank, std::uint64_t offset,
      T operand, T compare = 0) {
  if (core == nullptr) [[unlikely]]
    throw Error(Code::closed, operation, "the window was never created, or was moved from");
  const Atomic atomic{op, sizeof(T), widen(operand), widen(compare)};
  return static_cast<T>(core->atomic(operation, atomic, rank, offset));
}

}  // namespace

template <typename T> T Window::fetch_add(int rank, std::uint64_t offset, Word<T> value) {
  return run(core_, "fetch_add", AtomicOp::fetch_add, rank, offset, value);
}
template <typename T> T Window::swap(int rank, std::uint64_t offset, Word<T> value) {
  return run(core_, "swap", AtomicOp::swap, rank, offset, value);
}
template <typename T> T Window::compare_swap(int rank, std::uint64_t offset, Word<T> expected, Word<T> desired) {
  return run(core_, "compare_swap", AtomicOp::compare_swap, rank, offset, desired, expected);
}
template <typename T> Window::Word<T> Window::fetch(int rank, std::uint64_t offset) {
  return run(core_, "fetch", AtomicOp::fetch, rank, offset, T{0});
}
template <typename T> T Window::fetch_and(int rank, std::uint64_t offset, Word<T> value) {
  return run(core_, "fetch_and", AtomicOp::fetch_and, rank, offset, value);
}
template <typename T> T Window::fetch_or(int rank, std::uint64_t offset, Word<T> value) {
  return run(core_, "fetch_or", AtomicOp::fetch_or, rank, offset, value);
}
template <typename T> T Window::fetch_xor(int rank, std::uint64_t offset, Word<T> value) {
  return run(core_, "fetch_xor", AtomicOp::fetch_xor, rank, offset, value);
}
template <typename T> void Window::add(int rank, std::uint64_t offset, Word<T> value) {
  run(core_, "add", AtomicOp::add, rank, offset, value);
}
template <typename T> void Window::set(int rank, std::uint64_t offset, Word<T> value) {
  run(core_, "set", AtomicOp::set, rank, offset, value);
}
template <typename T> void Window::atomic_and(int rank, std::uint64_t offset, Word<T> value) {
  run(core_, "atomic_and", AtomicOp::band, rank, offset, value);
}
template <typename T> void Window::atomic_or(int rank, std::uint64_t offset, Word<T> value) {
  run(core_, "atomic_or", AtomicOp::bor, rank, offset, value);
}
template <typename T> void Window::atomic_xor(int rank, std::uint64_t offset, Word<T> value) {
  run(core_, "atomic_xor", AtomicOp::bxor, rank, offset, value);
}

#define HMC_ATOMICS(T)                                                  \
  template HMC_API T Window::fetch_add<T>(int, std::uint64_t, T);       \
  template HMC_API T Window::swap<T>(int, std::uint64_t, T);            \
  template HMC_API T Window::compare_swap<T>(int, std::uint64_t, T, T); \
  template HMC_API T Window::fetch<T>(int, std::uint64_t);              \
  template HMC_API T Window::fetch_and<T>(int, std::uint64_t, T);       \
  template HMC_API T Window::fetch_or<T>(int, std::uint64_t, T);        \
  template HMC_API T Window::fetch_xor<T>(int, std::uint64_t, T);       \
  template HMC_API void Window::add<T>(int, std::uint64_t, T);          \
  template HMC_API void Window::set<T>(int, std::uint64_t, T);          \
  template HMC_API void Window::atomic_and<T>(int, std::uint64_t, T);   \
  template HMC_API void Window::atomic_or<T>(int, std::uint64_t, T);    \
  template HMC_API void Window::atomic_xor<T>(int, std::uint64_t, T);
HMC_ATOMICS(int)
HMC_ATOMICS(unsigned)
HMC_ATOMICS(long)
HMC_ATOMICS(unsigned long)
HMC_ATOMICS(long long)
HMC_ATOMICS(unsigned long long)
#undef HMC_ATOMICS

}  // namespace hmc
