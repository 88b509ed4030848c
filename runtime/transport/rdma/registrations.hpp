// Registrations: the registered regions, which peers access, and registered local memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/transport/rdma/device.hpp"
#include "runtime/transport/wire.hpp"

namespace hmc::transport::rdma {

/// A registration pins the pages of the region. Under the wire's lock.
class Registrations {
 public:
  explicit Registrations(const Device& device) noexcept : device_(device) {}

  /// The key for the peers. Throws Error{unsupported, unavailable}.
  base::Bytes add(const Region& region);
  void remove(const Region& region) noexcept;
  /// As remove(), but the memory stays registered and pinned: an access with an invalid key would fail the peer's
  /// connection.
  void retire(const Region& region) noexcept;
  /// The caller's memory, which peers can't access. Throws Error{unavailable}.
  void add_local(const std::byte* memory, std::size_t bytes);
  /// `deregisters`: no transfer is in flight; otherwise the pages stay pinned.
  void remove_local(const std::byte* memory, std::size_t bytes, bool deregisters) noexcept;
  /// The registration that contains the memory; null if none does.
  const ibv_mr* find(const std::byte* memory, std::size_t bytes) const noexcept;

 private:
  struct Registered {
    const std::byte* base = nullptr;
    std::size_t bytes = 0;
    Owned<ibv_mr> registration;
  };
  std::vector<Registered>::iterator find(const Region& region) noexcept;

  const Device& device_;
  std::vector<Registered> regions_;
  std::vector<Registered> locals_;
  std::vector<Owned<ibv_mr>> retired_;
};

}  // namespace hmc::transport::rdma
