// ShmChannel: access to one peer's region through a mapping.
#pragma once

#include <memory>

#include "runtime/base/segment.hpp"
#include "runtime/transport/wire.hpp"

namespace hmc::transport {

class ShmChannel final : public Channel {
 public:
  ShmChannel(std::shared_ptr<base::Segment> segment, std::byte* base, const base::Waiter& waiter, int peer_index)
      : segment_(std::move(segment)), base_(base), waiter_(waiter), peer_index_(peer_index) {}

  std::byte* direct() const noexcept override { return base_; }
  base::Status put(std::uint64_t offset, const void* source, std::size_t bytes, Ticket& ticket) noexcept override;
  base::Status get(std::uint64_t offset, void* destination, std::size_t bytes, Ticket& ticket) noexcept override;
  base::Status put_signal(std::uint64_t offset, const void* source, std::size_t bytes, std::uint64_t signal_offset,
                          std::uint64_t value, Ticket& ticket) noexcept override;
  base::Status atomic(const Atomic& atomic, std::uint64_t offset, std::uint64_t* result,
                      Ticket& ticket) noexcept override;

 private:
  std::shared_ptr<base::Segment> segment_;  // keeps the mapping
  std::byte* base_;
  const base::Waiter& waiter_;
  int peer_index_;
};

}  // namespace hmc::transport
