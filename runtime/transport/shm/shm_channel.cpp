#include "runtime/transport/shm/shm_channel.hpp"

#include <atomic>
#include <cstring>

#include "runtime/transport/cpu_atomics.hpp"

namespace hmc::transport {

base::Status ShmChannel::put(std::uint64_t offset, const void* source, std::size_t bytes, Ticket& ticket) noexcept {
  if (bytes > 0) std::memcpy(base_ + offset, source, bytes);
  waiter_.ring(peer_index_);
  ticket = done;
  return {};
}

base::Status ShmChannel::get(std::uint64_t offset, void* destination, std::size_t bytes, Ticket& ticket) noexcept {
  if (bytes > 0) std::memcpy(destination, base_ + offset, bytes);
  ticket = done;
  return {};
}

base::Status ShmChannel::put_signal(std::uint64_t offset, const void* source, std::size_t bytes,
                                    std::uint64_t signal_offset, std::uint64_t value, Ticket& ticket) noexcept {
  if (bytes > 0) std::memcpy(base_ + offset, source, bytes);
  // Release: pairs with the acquire load in wait_until and test_until, which then also see the bytes.
  std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(base_ + signal_offset))
      .store(value, std::memory_order_release);
  waiter_.ring(peer_index_);
  ticket = done;
  return {};
}

base::Status ShmChannel::atomic(const Atomic& atomic, std::uint64_t offset, std::uint64_t* result,
                                Ticket& ticket) noexcept {
  const std::uint64_t old = apply_atomic(atomic, base_ + offset);
  if (result != nullptr) *result = old;
  if (atomic.op != AtomicOp::fetch) waiter_.ring(peer_index_);
  ticket = done;
  return {};
}

}  // namespace hmc::transport
