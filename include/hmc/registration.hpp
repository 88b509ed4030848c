// Registration: memory of the program that is registered with this rank's wires once, for many transfers.
#pragma once

#include <cstddef>
#include <memory>

#include <hmc/types.hpp>

namespace hmc {

class Team;
namespace rma {
class LocalRegistration;
}

/// Without a Registration, an RDMA device's put or get of other memory copies it or registers it for the call. Memory
/// of windows is registered already. If no wire of this rank needs registration (shared memory, TCP, UCX), is_used() is
/// false and the object has no effect. Local, not collective. Movable, not copyable.
///
/// The program keeps the ownership of the memory. The memory must be readable and writable, and must stay mapped until
/// release(). Registration pins its pages.
///
/// THREADS. The thread of the Runtime.
class HMC_API Registration {
 public:
  /// Registers [address, address + bytes) with all wires of this rank in the job of `team`. Throws
  /// Error{invalid_argument}, or Error{unavailable} if a device can't register the memory (limit of locked memory).
  static Registration create(Team& team, void* address, std::size_t bytes);

  Registration() noexcept;  ///< empty
  Registration(Registration&&) noexcept;
  /// Calls release() first.
  Registration& operator=(Registration&&) noexcept;
  ~Registration();
  /// Waits for this rank's transfers in flight, at most half a second; if some are left, the pages stay pinned until
  /// the job ends. Then the object is empty. Called by the destructor.
  void release() noexcept;

  /// True if at least one wire uses the registration.
  bool is_used() const noexcept;

 private:
  std::unique_ptr<rma::LocalRegistration> core_;
};

}  // namespace hmc
