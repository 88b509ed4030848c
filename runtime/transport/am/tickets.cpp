#include "runtime/transport/am/tickets.hpp"

#include <new>

namespace hmc::transport::am {

Ticket Tickets::open(const Transfer& transfer) noexcept {
  if (free_.empty()) {
    try {
      // Reserve first, so that neither the push below nor release() allocates.
      if (free_.capacity() < slots_.size() + 1) free_.reserve(2 * slots_.size() + 16);
      slots_.add();
    } catch (const std::bad_alloc&) {
      return done;
    }
    free_.push_back(static_cast<std::uint32_t>(slots_.size() - 1));
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  Slot& slot = slots_[index];
  slot.open = true;
  slot.transfer = transfer;
  // relaxed: only written under the lock, which the caller holds
  return (Ticket{slot.generation.load(std::memory_order_relaxed)} << 32) | index;
}

Tickets::Transfer* Tickets::known(Ticket ticket) noexcept {
  if (ticket == done || index_of(ticket) >= slots_.size()) return nullptr;
  Slot& slot = slots_[index_of(ticket)];
  const bool current = slot.generation.load(std::memory_order_relaxed) == generation_of(ticket);  // under the lock
  return current && slot.open ? &slot.transfer : nullptr;
}

Tickets::Transfer* Tickets::find(Ticket ticket) noexcept {
  Transfer* const transfer = known(ticket);
  if (transfer == nullptr) return nullptr;
  return slots_[index_of(ticket)].failed.load(std::memory_order_relaxed) ? nullptr : transfer;  // under the lock
}

Ticket Tickets::next_of(const void* channel, std::size_t& index) const noexcept {
  while (index < slots_.size()) {
    const Slot& slot = slots_[index++];
    if (slot.open && slot.transfer.channel == channel)
      return (Ticket{slot.generation.load(std::memory_order_relaxed)} << 32) | (index - 1);  // under the lock
  }
  return done;
}

void Tickets::advance(Ticket ticket, std::uint64_t amount) noexcept {
  Transfer* const transfer = find(ticket);
  if (transfer == nullptr) return;
  transfer->left -= amount < transfer->left ? amount : transfer->left;
  if (transfer->left == 0) release(index_of(ticket));
}

void Tickets::fail(Ticket ticket, base::Status status) noexcept {
  if (find(ticket) == nullptr) return;
  Slot& slot = slots_[index_of(ticket)];
  slot.status = status;
  slot.failed.store(true, std::memory_order_release);
}

void Tickets::drop(Ticket ticket) noexcept {
  if (known(ticket) != nullptr) release(index_of(ticket));
}

void Tickets::fail_peer(int peer, base::Status status) noexcept {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (!slot.open || (slot.transfer.peer >= 0 && slot.transfer.peer != peer)) continue;
    if (slot.transfer.sending > 0) continue;  // failed when the link releases the last of its messages
    fail((Ticket{slot.generation.load(std::memory_order_relaxed)} << 32) | i, status);  // under the lock
  }
}

base::Status Tickets::test(Ticket ticket, std::mutex& lock) noexcept {
  if (ticket == done || index_of(ticket) >= slots_.size()) return {};
  Slot& slot = slots_[index_of(ticket)];
  if (slot.generation.load(std::memory_order_acquire) != generation_of(ticket)) return {};
  if (!slot.failed.load(std::memory_order_acquire)) return base::Status::in_progress();
  const base::Status status = slot.status;
  const std::lock_guard guard(lock);
  release(index_of(ticket));
  return status;
}

void Tickets::release(std::uint32_t index) noexcept {
  Slot& slot = slots_[index];
  slot.open = false;
  slot.failed.store(false, std::memory_order_relaxed);  // ordered by the generation's release below
  std::uint32_t next = slot.generation.load(std::memory_order_relaxed) + 1;
  if (next == 0) next = 1;  // generation 0 with index 0 would read as `done`
  slot.generation.store(next, std::memory_order_release);
  free_.push_back(index);
}

}  // namespace hmc::transport::am
